//! Whether the target has room for the locks of partitioned tables.
//!
//! A change of many rows, a change of the definition and the removal of a partitioned table lock each of
//! its partitions and their indexes, and keep them until the transaction ends, which can be one for all
//! tables. The server has one table of locks for all sessions, for `max_locks_per_transaction` ×
//! (`max_connections` + `max_prepared_transactions`) of them (PostgreSQL manual, "Lock Management").

use super::client::Client;
use super::error::{LOCKS_SETTING, while_doing};
use crate::halt::{Failure, Halt, Reason};
use crate::preflight::Finding;
use crate::schema::TableModel;

/// A table is locked together with its TOAST table and that one's index where it goes.
const BESIDE_INDEXES: u64 = 3;

const READ_ROOM: &str = "\
    SELECT current_setting('max_locks_per_transaction')::int8, \
        current_setting('max_connections')::int8 + current_setting('max_prepared_transactions')::int8";

/// Of the partitioned tables that pipelines have made, all but one.
const READ_OTHERS: &str = "\
    WITH RECURSIVE member (oid) AS ( \
        SELECT c.oid FROM tidegate.table_state s JOIN pg_namespace n ON n.nspname = s.target_schema \
            JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.target_table AND c.relkind = 'p' \
        WHERE s.state <> 'detached' AND (s.target_schema, s.target_table) <> ($1::text, $2::text) \
        UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN member m ON i.inhparent = m.oid) \
    SELECT 3 * (SELECT count(*) FROM member) \
        + (SELECT count(*) FROM pg_index x JOIN member m ON m.oid = x.indrelid)";

/// The most locks that one transaction takes on the model's table; 0 for one that is not partitioned.
fn needed(model: &TableModel) -> u64 {
    let Some(native) = model.details.target_partitions.native() else { return 0 };
    let indexes = model.details.indexes.len() as u64 + 1;
    // The table itself, and a default partition.
    (native.partitions.len() as u64 + 2) * (indexes + BESIDE_INDEXES)
}

/// The server's room for locks.
struct Room {
    per_transaction: u64,
    sessions: u64,
}

impl Room {
    async fn read(client: &Client) -> Result<Self, Failure> {
        let doing = "reading the target's room for locks";
        let row = client.query_one(READ_ROOM, &[]).await.map_err(while_doing(doing))?;
        let setting = |at| {
            let value: i64 = row.try_get(at).map_err(while_doing(doing))?;
            Ok::<_, Failure>(u64::try_from(value).unwrap_or_default())
        };
        Ok(Self { per_transaction: setting(0)?, sessions: setting(1)? })
    }

    /// What is wrong with it for so many locks, and the value that the setting needs.
    fn problem(&self, needed: u64) -> Option<(String, u64)> {
        let room = self.per_transaction.saturating_mul(self.sessions);
        if needed <= room {
            return None;
        }
        let wanted = needed.div_ceil(self.sessions.max(1));
        let text = format!(
            "partitions and their indexes can take {needed} locks in one transaction, and the server has room for \
             {room}: {LOCKS_SETTING} is {} and has to be {wanted} at least",
            self.per_transaction
        );
        Some((text, wanted))
    }
}

/// What `tidegate check` says of all tables together.
///
/// # Errors
/// Only what keeps the check from being made.
pub(super) async fn check(client: &Client, tables: &[TableModel]) -> Result<Option<Finding>, Failure> {
    let needed = tables.iter().map(needed).sum();
    if needed == 0 {
        return Ok(None);
    }
    Ok(Room::read(client).await?.problem(needed).map(|(problem, wanted)| {
        Finding::error(
            "target.max_locks_per_transaction",
            problem,
            "a statement that the server has no room for fails, however often it is tried",
            format!(
                "ALTER SYSTEM SET {LOCKS_SETTING} = {wanted}, and restart the server; or set partitions = \"plain\" in \
                 [schema.\"database.table\"] for tables of many partitions"
            ),
        )
    }))
}

/// Refuses to make a table whose locks would not fit beside those of the others.
///
/// # Errors
/// `target_preflight`.
pub(super) async fn refuse_too_many(client: &Client, model: &TableModel) -> Result<(), Failure> {
    let own = needed(model);
    if own == 0 {
        return Ok(());
    }
    let doing = "counting the locks of partitioned tables";
    let name = &model.name;
    let row = client.query_one(READ_OTHERS, &[&name.database, &name.table]).await;
    let others: i64 = row.and_then(|row| Ok(row.try_get(0)?)).map_err(while_doing(doing))?;
    let needed = own + u64::try_from(others).unwrap_or_default();
    match Room::read(client).await?.problem(needed) {
        Some((problem, _)) => {
            Err(Halt::new(Reason::TargetPreflight, problem).on_table(&name.database, &name.table).into())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_is_needed_is_named() {
        let room = Room { per_transaction: 64, sessions: 100 };
        assert_eq!(room.problem(6_400), None);
        let (problem, wanted) = room.problem(6_401).unwrap();
        assert_eq!(wanted, 65);
        assert!(problem.contains("max_locks_per_transaction is 64 and has to be 65"), "{problem}");
        assert!(Room { per_transaction: 65, sessions: 100 }.problem(6_401).is_none());
    }
}
