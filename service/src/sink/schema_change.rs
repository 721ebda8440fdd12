//! What a schema change of the source means for the target. Pure.

use crate::fold::statement::{Ddl, DdlKind};
use crate::fold::unit::SchemaChange;
use crate::gtid::Gtid;
use crate::halt::{Halt, Reason};
use crate::schema::TableName;
use crate::schema::filter::Filter;

use super::table_state::TableState;
use crate::schema::phase::TablePhase;

/// A schema change applied to the target, as recorded in `tidegate.schema_change`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AppliedChange {
    pub(super) table: TableName,
    pub(super) gtid: Gtid,
    pub(super) kind: DdlKind,
    /// The Postgres statements run.
    pub(super) statement: String,
}

/// What to do about a schema change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision<'a> {
    /// It concerns no replicated table that the copy does not show already.
    Nothing,
    /// A new table of the filter.
    Create(&'a TableName),
    Refuse(Halt),
}

/// Decides by kind, filter and the known tables.
///
/// A table that is neither known nor created here has no rows on the target that the change
/// could make wrong; should its rows arrive, they halt as those of an unknown table.
pub(super) fn decide<'a>(
    change: &'a SchemaChange,
    filter: &Filter,
    known: &impl Fn(&TableName) -> Option<&'a TableState>,
    in_database: &impl Fn(&str) -> Vec<&'a TableState>,
) -> Decision<'a> {
    let Ddl { kind, tables, databases, .. } = &change.statement;
    let changes = |state: &&TableState| concerns(state, &change.gtid);
    let refused = match kind {
        DdlKind::Administrative | DdlKind::CreateDatabase | DdlKind::AlterDatabase => None,
        DdlKind::CreateTable => {
            return tables.first().map_or(Decision::Nothing, |t| create(t, filter, known, change));
        }
        DdlKind::DropDatabase => {
            databases.iter().flat_map(|database| in_database(database)).find(changes).map(TableState::name)
        }
        DdlKind::RenameTable => tables.iter().find(|table| match known(table) {
            Some(state) => concerns(state, &change.gtid),
            None => filter.matches(&table.database, &table.table),
        }),
        DdlKind::AlterTable
        | DdlKind::DropTable
        | DdlKind::TruncateTable
        | DdlKind::CreateIndex
        | DdlKind::DropIndex => tables.iter().find(|table| known(table).is_some_and(|state| changes(&state))),
    };
    refused.map_or(Decision::Nothing, |table| Decision::Refuse(unsupported(change, table)))
}

/// Whether a change at this GTID is one that the table's copy does not show yet.
fn concerns(state: &TableState, gtid: &Gtid) -> bool {
    state.phase != TablePhase::Detached && !state.snapshot_set.as_ref().is_some_and(|set| set.contains(gtid))
}

fn create<'a>(
    table: &'a TableName,
    filter: &Filter,
    known: &impl Fn(&TableName) -> Option<&'a TableState>,
    change: &SchemaChange,
) -> Decision<'a> {
    if !filter.matches(&table.database, &table.table) {
        return Decision::Nothing;
    }
    match known(table) {
        None => Decision::Create(table),
        // Its rows on the target are of another time: coming back takes a new copy.
        Some(state) if state.phase == TablePhase::Detached => Decision::Refuse(unsupported(change, table)),
        // The server would have refused to create a table that exists: IF NOT EXISTS did nothing.
        Some(_) => Decision::Nothing,
    }
}

fn unsupported(change: &SchemaChange, table: &TableName) -> Halt {
    Halt::new(Reason::DdlUnsupported, format!("the source ran {} on the table", change.statement.kind.name()))
        .at_gtid(&change.gtid)
        .on_table(&table.database, &table.table)
}
