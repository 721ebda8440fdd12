//! The harness itself, against real servers: a comparison that finds nothing proves nothing until it
//! has been seen to find each kind of difference.

mod comparison;
mod proxy;
mod servers;
