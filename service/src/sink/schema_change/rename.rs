//! RENAME TABLE: the net effect of its list.
//!
//! The server carries the list out from left to right, so that names of the middle may be used
//! twice or lie outside the filter. What counts is which table has which name in the end.

use std::collections::BTreeMap;

use super::{Action, Known, Rules, Standing, copy};
use crate::schema::TableName;
use crate::sink::table_state::Ownership;

/// Which table, by its name before the statement, has each name afterwards; `None` for a name that
/// no table has any more. Names that keep their table are left out.
fn net(pairs: &[(TableName, TableName)]) -> BTreeMap<TableName, Option<TableName>> {
    let mut occupants: BTreeMap<TableName, Option<TableName>> = BTreeMap::new();
    for (from, to) in pairs {
        let moving = occupants.insert(from.clone(), None).unwrap_or_else(|| Some(from.clone()));
        occupants.insert(to.clone(), moving);
    }
    occupants.retain(|name, occupant| occupant.as_ref() != Some(name));
    occupants
}

/// What a name's new table means for the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// The target's table moves with it.
    Moves,
    /// The target has no table with its rows.
    Copied,
    /// The name is not replicated, or what it stands for is shown already.
    Ignored,
}

/// Names and what arrives at them, with the table that does.
type Arrivals<'n> = BTreeMap<&'n TableName, (Arrival, &'n TableName)>;

impl<K: Known> Rules<'_, K> {
    /// The actions for a list of old and new names.
    pub(super) fn rename(&self, pairs: &[(TableName, TableName)]) -> Vec<Action> {
        let net = net(pairs);
        let arrivals = self.arrivals(&net);
        let (mut actions, mut moves, mut copies) = (Vec::new(), Vec::new(), Vec::new());
        for name in net.keys() {
            let arrival = arrivals.get(name).map_or(Arrival::Ignored, |(arrival, _)| *arrival);
            match destination(&arrivals, name) {
                Some((to, Arrival::Moves)) => {
                    moves.push(Action::Move { from: name.clone(), to: to.clone() });
                }
                _ if arrival == Arrival::Copied => {}
                other => actions.extend(self.left_behind(name, other.map(|(to, _)| to), arrival)),
            }
            if arrival == Arrival::Copied {
                copies.push(copy(name, "its rows were not replicated under the old name"));
            }
        }
        actions.append(&mut moves);
        actions.append(&mut copies);
        actions
    }

    fn arrivals<'n>(&self, net: &'n BTreeMap<TableName, Option<TableName>>) -> Arrivals<'n> {
        let mut arrivals: Arrivals<'n> = BTreeMap::new();
        for (name, occupant) in net {
            if let Some(from) = occupant {
                arrivals.insert(name, (self.arrival(name, from), from));
            }
        }
        // A table that is not the pipeline's keeps its place unless it moves itself. Each round
        // turns one move into a copy, so this ends.
        let blocked = |arrivals: &Arrivals<'n>| {
            let stays = |name: &TableName| {
                self.standing(name) == Standing::Concerned(Ownership::Adopted)
                    && !matches!(destination(arrivals, name), Some((_, Arrival::Moves)))
            };
            arrivals
                .iter()
                .find(|(name, (arrival, _))| *arrival == Arrival::Moves && stays(name))
                .map(|(name, _)| *name)
        };
        while let Some(name) = blocked(&arrivals) {
            if let Some((arrival, _)) = arrivals.get_mut(name) {
                *arrival = Arrival::Copied;
            }
        }
        arrivals
    }

    fn arrival(&self, name: &TableName, from: &TableName) -> Arrival {
        match (self.standing(from), self.standing(name)) {
            _ if !self.is_included(name) => Arrival::Ignored,
            (_, Standing::Shown) => Arrival::Ignored,
            (Standing::Concerned(_), Standing::Detached(Ownership::Adopted)) => Arrival::Copied,
            (Standing::Concerned(_), _) => Arrival::Moves,
            _ => Arrival::Copied,
        }
    }

    /// What becomes of the target's table of a name that its own table has left for `to`, and that
    /// does not go with it.
    fn left_behind(&self, name: &TableName, to: Option<&TableName>, arrival: Arrival) -> Option<Action> {
        let makes_way = arrival == Arrival::Moves;
        let is_replicated = to.is_some_and(|to| self.is_included(to));
        match self.standing(name) {
            Standing::Unknown | Standing::Shown => None,
            Standing::Concerned(Ownership::Created) if makes_way || is_replicated => {
                Some(Action::Drop(name.clone()))
            }
            Standing::Concerned(_) => Some(Action::Detach(name.clone())),
            Standing::Detached(_) if !self.is_included(name) => None,
            Standing::Detached(Ownership::Created) => Some(Action::Drop(name.clone())),
            Standing::Detached(Ownership::Unclaimed) => Some(Action::Forget(name.clone())),
            Standing::Detached(Ownership::Adopted) => None,
        }
    }
}

/// Where the table of a name goes, and what it means there.
fn destination<'n>(arrivals: &Arrivals<'n>, from: &TableName) -> Option<(&'n TableName, Arrival)> {
    arrivals.iter().find(|(_, (_, moving))| *moving == from).map(|(name, (arrival, _))| (*name, *arrival))
}
