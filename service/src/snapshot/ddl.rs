//! Whether the source has changed a table's definition between two points of its history.

use std::sync::Arc;

use crate::config::Config;
use crate::fold::unit::Unit;
use crate::fold::{Cascades, Fold, FoldPolicy, Step, XaPolicy};
use crate::gtid::{Gtid, GtidSet, Uuid};
use crate::halt::{Failure, Halt, Reason};
use crate::schema::TableName;
use crate::schema::filter::Filter;
use crate::source::dump::Dump;
use crate::spill::SpillDirectory;

/// The first DDL statement on the table that is in `until` and not in `from`, if there is one.
/// Read from the binlog, since a table looks the same after TRUNCATE, and after another one has
/// been renamed to it.
///
/// `replica_uuid` must not be that of another dump, which would be evicted.
///
/// # Errors
/// `data_gap` when the source has purged what lies between, and whatever else would halt the
/// stream, which reads the same part of the binlog later.
pub(super) async fn on_table_between(
    config: &Config,
    replica_uuid: &Uuid,
    from: &GtidSet,
    until: &GtidSet,
    table: &TableName,
) -> Result<Option<Gtid>, Failure> {
    if from.includes(until) {
        return Ok(None);
    }
    let policy = FoldPolicy {
        filter: Arc::new(only(table)?),
        xa: XaPolicy::PassOver,
        cascades: Cascades::NONE,
        max_buffer_bytes: config.fold.max_buffer_bytes,
        spill: Arc::new(SpillDirectory::of(&config.fold)),
    };
    let mut fold = Fold::new(from.clone(), None, policy);
    let mut dump = Dump::open_to_end(&config.source, &replica_uuid.to_string(), from).await?;
    let found = find(&mut dump, &mut fold, until).await;
    dump.close().await;
    found
}

async fn find(dump: &mut Dump, fold: &mut Fold, until: &GtidSet) -> Result<Option<Gtid>, Failure> {
    while let Some(event) = dump.receive().await? {
        let Step::Unit(unit) = fold.step(event)? else { continue };
        if let Unit::SchemaChange(change) = unit {
            return Ok(Some(change.gtid).filter(|gtid| until.contains(gtid)));
        }
        if fold.position().includes(until) {
            return Ok(None);
        }
    }
    Ok(None)
}

/// The filter that matches one table, whatever its name.
fn only(table: &TableName) -> Result<Filter, Halt> {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let pattern = format!("{}.{}", quoted(&table.database), quoted(&table.table));
    Filter::new(&[pattern], &[])
        .map_err(|_| Halt::new(Reason::Internal, "a table's name can't be written as a filter"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_matches_the_one_table() {
        let name = |database: &str, table: &str| TableName {
            database: database.to_owned(),
            table: table.to_owned(),
        };
        for table in [name("app", "t"), name("a.b", "c`d"), name("*", "x y")] {
            let filter = only(&table).unwrap();
            assert!(filter.matches(&table.database, &table.table), "{table:?}");
            assert!(!filter.matches("app", "other"));
        }
    }
}
