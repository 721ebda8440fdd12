//! Chance that can be replayed.

use anyhow::{Context, Result};

/// A small generator with a printed seed: what it decides replays.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn from_environment() -> Result<Self> {
        let seed = match std::env::var("TIDEGATE_TEST_SEED") {
            Ok(seed) => seed.parse().context("TIDEGATE_TEST_SEED is a number")?,
            Err(_) => u64::from(std::process::id()),
        };
        println!("TIDEGATE_TEST_SEED={seed}");
        Ok(Self(seed))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub(crate) fn shuffled<T: Copy>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).expect("an index");
            items.swap(last, other);
        }
        items
    }
}
