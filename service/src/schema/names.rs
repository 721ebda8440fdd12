//! Names of indexes, constraints and sequences on the target.
//!
//! MySQL names an index within its table, PostgreSQL within the schema, beside its tables and
//! sequences. An index is therefore named after its table. What is too long for an identifier, or
//! taken, is cut and ends in a hash of what it stands for: the same on every run, and never the name
//! of something else.

use std::collections::HashSet;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::TableName;
use super::render::MAX_IDENTIFIER_BYTES;

/// Bytes of a hash in a name: a collision among a schema's cut names is out of the question.
const HASH_BYTES: usize = 5;

/// The relations of one schema, whose names no new one can have.
#[derive(Debug, Clone, Default)]
pub struct Names {
    taken: HashSet<String>,
}

impl Names {
    #[must_use]
    pub fn new(taken: impl IntoIterator<Item = String>) -> Self {
        Self { taken: taken.into_iter().collect() }
    }

    /// The first of the candidates that is free, which it then no longer is.
    pub fn take(&mut self, candidates: &Candidates) -> String {
        let name =
            if self.taken.contains(&candidates.plain) { &candidates.hashed } else { &candidates.plain };
        self.taken.insert(name.clone());
        name.clone()
    }

    /// The name is one that something else is about to have.
    pub fn reserve(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// The name is free again, or belongs to what is asked for.
    pub fn release(&mut self, name: &str) {
        self.taken.remove(name);
    }
}

/// The names that an object can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates {
    /// What it is called unless that is taken.
    pub plain: String,
    /// What it is called otherwise.
    pub hashed: String,
}

impl Candidates {
    /// `wanted` where it fits, for the object that `identity` tells from all others.
    fn new(wanted: &str, identity: &[&str]) -> Self {
        let hashed = hashed(wanted, identity);
        let fits = wanted.len() <= MAX_IDENTIFIER_BYTES && !wanted.is_empty();
        Self { plain: if fits { wanted.to_owned() } else { hashed.clone() }, hashed }
    }

    /// Of an index.
    #[must_use]
    pub fn of_index(table: &TableName, index: &str) -> Self {
        let prefix = format!("{}_", table.table);
        let wanted = if index.starts_with(&prefix) { index.to_owned() } else { prefix + index };
        Self::new(&wanted, &["index", &table.database, &table.table, index])
    }

    /// Of a foreign key or a CHECK, which PostgreSQL names within its table.
    #[must_use]
    pub fn of_constraint(table: &TableName, constraint: &str) -> Self {
        Self::new(constraint, &["constraint", &table.database, &table.table, constraint])
    }

    /// Of the sequence of a column that numbers itself.
    #[must_use]
    pub fn of_sequence(table: &TableName, column: &str) -> Self {
        let wanted = format!("{}_{column}_seq", table.table);
        Self::new(&wanted, &["sequence", &table.database, &table.table, column])
    }

    /// Of a partition.
    #[must_use]
    pub fn of_partition(table: &TableName, partition: &str) -> Self {
        let wanted = format!("{}_{partition}", table.table);
        Self::new(&wanted, &["partition", &table.database, &table.table, partition])
    }

    /// Of the partition that takes what no other does.
    #[must_use]
    pub fn of_default_partition(table: &TableName) -> Self {
        let wanted = format!("{}_default", table.table);
        Self::new(&wanted, &["default partition", &table.database, &table.table])
    }

    /// Of a table that is to be kept beside the one that takes its name.
    #[must_use]
    pub fn of_kept(table: &TableName) -> Self {
        Self::new(&format!("{}_before", table.table), &["kept", &table.database, &table.table])
    }

    /// Of a relation that can't keep its name, by its number on the target.
    #[must_use]
    pub fn of_relation(name: &str, oid: u32) -> Self {
        Self::new(name, &["relation", &oid.to_string()])
    }

    #[must_use]
    pub fn contain(&self, name: &str) -> bool {
        self.plain == name || self.hashed == name
    }
}

fn hashed(wanted: &str, identity: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in identity {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let mut suffix = String::from("_");
    for byte in hash.finalize().iter().take(HASH_BYTES) {
        write!(suffix, "{byte:02x}").unwrap_or_default();
    }
    let mut end = wanted.len().min(MAX_IDENTIFIER_BYTES - suffix.len());
    while !wanted.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", wanted.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> TableName {
        TableName { database: "app".to_owned(), table: name.to_owned() }
    }

    #[test]
    fn an_index_is_named_after_its_table_once() {
        assert_eq!(Candidates::of_index(&table("orders"), "by_user").plain, "orders_by_user");
        assert_eq!(Candidates::of_index(&table("orders"), "orders_by_user").plain, "orders_by_user");
    }

    #[test]
    fn names_that_are_cut_fit_and_stay_apart() {
        for letter in ["i", "ж", "😀"] {
            let long = letter.repeat(64);
            let first = Candidates::of_index(&table("t"), &format!("{long}1"));
            let second = Candidates::of_index(&table("t"), &format!("{long}2"));
            assert_ne!(first.plain, second.plain);
            assert!(first.plain.len() <= MAX_IDENTIFIER_BYTES && first.plain.len() > 50, "{first:?}");
            assert_eq!(first, Candidates::of_index(&table("t"), &format!("{long}1")));
        }
    }

    #[test]
    fn a_taken_name_gives_way_to_the_hashed_one() {
        let mut names = Names::new(["a_b_c".to_owned()]);
        let candidates = Candidates::of_index(&table("a_b"), "c");
        assert_eq!(names.take(&candidates), candidates.hashed);
        let other = Candidates::of_index(&table("a"), "b_c");
        assert_eq!(names.take(&other), other.hashed);
        assert_ne!(candidates.hashed, other.hashed);
        names.release("a_b_c");
        assert_eq!(names.take(&other), "a_b_c");
    }
}
