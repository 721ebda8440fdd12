//! What schema changes of the source do to the target (`ddl.*`).

use std::slice;
use std::time::Duration;

use crate::fold::statement::DdlKind;
use crate::schema::TableName;
use crate::schema::filter::Filter;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DdlConfig {
    pub policy: DdlPolicy,
    /// What the target does not follow.
    pub ignore: Vec<Ignored>,
    /// How long one attempt waits for the target's table.
    pub lock_wait_timeout: Duration,
    /// How long attempts go on.
    pub lock_deadline: Duration,
}

/// What becomes of a schema change of a replicated table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DdlPolicy {
    /// Carried out where its effect is known, else the table is copied again.
    Mirror,
    /// Names are followed; all else copies the table again.
    Resync,
    Halt,
}

/// An entry of `ddl.ignore`: a kind and a table pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    kinds: &'static [DdlKind],
    tables: Filter,
}

/// Kinds that leave a table's columns alone: of any other the rows to come would not fit.
const KINDS: &[(&str, &[DdlKind])] = &[
    ("drop_table", &[DdlKind::DropTable, DdlKind::DropDatabase]),
    ("truncate_table", &[DdlKind::TruncateTable]),
    ("drop_partition", &[DdlKind::AlterTable]),
];

impl Ignored {
    pub(crate) fn parse(entry: &str) -> Result<Self, String> {
        let (kind, pattern) = entry.split_once(' ').unwrap_or((entry, ""));
        let Some((_, kinds)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            return Err(
                "takes entries of drop_table, truncate_table or drop_partition, a blank and a table pattern"
                    .to_owned(),
            );
        };
        let pattern = pattern.trim().to_owned();
        let tables = Filter::new(slice::from_ref(&pattern), &[]).map_err(|error| error.to_string())?;
        Ok(Self { kinds, tables })
    }
}

impl DdlConfig {
    /// Whether the target does not follow a statement of this kind on the table. Of ALTER TABLE
    /// only what removes partitions can be meant.
    #[must_use]
    pub fn ignores(&self, kind: DdlKind, table: &TableName) -> bool {
        let matches = |entry: &Ignored| {
            entry.kinds.contains(&kind) && entry.tables.matches(&table.database, &table.table)
        };
        self.ignore.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_a_kind_and_a_pattern() {
        let parse = |entry: &str| Ignored::parse(entry);
        let ignore =
            vec![parse("drop_table app.archive_*").unwrap(), parse("truncate_table  `a b`.t").unwrap()];
        let (lock_wait_timeout, lock_deadline) = (Duration::from_secs(1), Duration::from_secs(2));
        let config = DdlConfig { policy: DdlPolicy::Mirror, ignore, lock_wait_timeout, lock_deadline };
        let name = |database: &str, table: &str| TableName { database: database.into(), table: table.into() };
        assert!(config.ignores(DdlKind::DropTable, &name("app", "archive_1")));
        assert!(config.ignores(DdlKind::DropDatabase, &name("app", "archive_1")));
        assert!(!config.ignores(DdlKind::TruncateTable, &name("app", "archive_1")));
        assert!(!config.ignores(DdlKind::DropTable, &name("app", "live")));
        assert!(config.ignores(DdlKind::TruncateTable, &name("a b", "t")));
        for malformed in ["", "drop_table", "drop_table app", "add_column app.*", "alter_table app.*"] {
            assert!(parse(malformed).is_err(), "{malformed}");
        }
    }
}
