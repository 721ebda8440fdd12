//! The ledger of converted values: counted while rows are encoded, written in their commit.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::client::Client;
use super::error::{control_schema_invalid, while_doing};
use super::params::Params;
use super::table_state::{TableState, name_params};
use crate::convert::{Use, Uses};
use crate::gtid::Gtid;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::policy::{ChangeForm, Policy, TargetChange, ValueKind};
use crate::schema::renaming::{Renaming, new_name};
use crate::schema::{TableModel, TableName};

/// Stands for a GTID where the value came with the copy.
const COPY: &str = "copy";

/// An entry of the ledger: as it is stored, or what one commit adds to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    pub table: TableName,
    pub column: String,
    pub kind: ValueKind,
    pub policy: Policy,
    /// Values stored by the policy; for `widen`, changes of the column's type.
    pub uses: u64,
    /// Rows stored with such a value less rows that gave one up.
    pub keys: i64,
    /// `copy` or a GTID.
    pub first_use: Option<String>,
    pub last_use: Option<String>,
    /// The change of the target's column that the first use needed.
    pub statement: Option<String>,
}

/// Adds to an entry; two chunks of a copy may do so at once, each waiting for the other's commit.
/// Entries are written in one order, so that none waits for one that waits for it.
pub(super) const RECORD: &str = "\
    INSERT INTO tidegate.conversion AS c (pipeline, source_database, source_table, source_column, kind, policy, \
        uses, keys, first_use, last_use, statement) \
    VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::int8, $8::int8, $9::text, $10::text, \
        $11::text) \
    ON CONFLICT (pipeline, source_database, source_table, source_column, kind, policy) DO UPDATE SET \
        uses = c.uses + EXCLUDED.uses, keys = c.keys + EXCLUDED.keys, \
        first_use = coalesce(c.first_use, EXCLUDED.first_use), \
        last_use = coalesce(EXCLUDED.last_use, c.last_use), \
        statement = coalesce(c.statement, EXCLUDED.statement), updated_at = clock_timestamp()";

pub(super) const FORGET: &str = "\
    DELETE FROM tidegate.conversion \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text";

/// The entries of a table, so that none is in another's place while they get new names.
const TAKE: &str = "\
    DELETE FROM tidegate.conversion \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text \
    RETURNING source_database, source_table, source_column, kind, policy, uses, keys, first_use, last_use, statement";

/// No row is left.
pub(super) const EMPTIED: &str = "\
    UPDATE tidegate.conversion SET keys = 0, updated_at = clock_timestamp() \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text";

const LOAD: &str = "\
    SELECT source_database, source_table, source_column, kind, policy, uses, keys, first_use, last_use, statement \
    FROM tidegate.conversion WHERE pipeline = $1::text \
    ORDER BY source_database, source_table, source_column, kind, policy";

/// Parameters of [`RECORD`].
pub(super) fn record_params(pipeline: &str, entry: &Conversion) -> Result<Params, Halt> {
    let uses = stored_uses(entry)?;
    Ok(name_params(pipeline, &entry.table)
        .text(&entry.column)
        .text(entry.kind.name())
        .text(entry.policy.name())
        .int8(uses)
        .int8(entry.keys)
        .optional_text(entry.first_use.as_deref())
        .optional_text(entry.last_use.as_deref())
        .optional_text(entry.statement.as_deref())
        .build())
}

fn stored_uses(entry: &Conversion) -> Result<i64, Halt> {
    let beyond = |_| Halt::new(Reason::Internal, "a batch's conversions are beyond 2^63");
    i64::try_from(entry.uses).map_err(beyond)
}

/// Every entry of the pipeline, in order of name.
pub async fn load(client: &Client, pipeline: &str) -> Result<Vec<Conversion>, Failure> {
    let rows = client.query(LOAD, &[&pipeline]).await.map_err(while_doing(READING))?;
    rows.iter().map(entry).collect()
}

const READING: &str = "reading the ledger of conversions";

fn entry(row: &Row) -> Result<Conversion, Failure> {
    match read(row) {
        Ok(Some(entry)) => Ok(entry),
        Ok(None) => Err(control_schema_invalid("an entry of the ledger of conversions").into()),
        Err(error) => Err(while_doing(READING)(error)),
    }
}

/// Follows a schema change: entries go with their tables and columns, or take their new names.
/// `saved` has the tables as of the change.
pub(super) async fn follow(
    client: &Client,
    pipeline: &str,
    removed: &[TableName],
    renamings: &[Renaming],
    saved: &[TableState],
) -> Result<(), Failure> {
    let mut put = Vec::new();
    let renamed = renamings.iter().map(|renaming| &renaming.from);
    let mut tables: Vec<&TableName> = removed.iter().chain(renamed).collect();
    tables.sort_unstable();
    tables.dedup();
    for table in tables {
        let rows = client.query(TAKE, &[&pipeline, &table.database, &table.table]).await;
        let Some(renaming) = renamings.iter().find(|renaming| renaming.from == *table) else {
            rows.map_err(while_doing(READING))?;
            continue;
        };
        let after = saved.iter().find(|state| *state.name() == renaming.to);
        for row in rows.map_err(while_doing(READING))? {
            let mut entry = entry(&row)?;
            entry.table = renaming.to.clone();
            entry.column = new_name(&renaming.columns, &entry.column).to_owned();
            let stays = after.is_none_or(|state| state.model.columns.iter().any(|c| c.name == entry.column));
            put.extend(stays.then_some(entry));
        }
    }
    for entry in &put {
        let uses = stored_uses(entry)?;
        let TableName { database, table } = &entry.table;
        let (kind, policy) = (entry.kind.name(), entry.policy.name());
        let params: [&(dyn ToSql + Sync); 11] = [
            &pipeline,
            database,
            table,
            &entry.column,
            &kind,
            &policy,
            &uses,
            &entry.keys,
            &entry.first_use,
            &entry.last_use,
            &entry.statement,
        ];
        client.execute(RECORD, &params).await.map_err(while_doing("recording conversions"))?;
    }
    Ok(())
}

/// `None` when a column holds what was never written.
fn read(row: &Row) -> Result<Option<Conversion>, tokio_postgres::Error> {
    let (kind, policy) = (ValueKind::from_name(row.try_get(3)?), Policy::from_name(row.try_get(4)?));
    let uses = u64::try_from(row.try_get::<_, i64>(5)?).ok();
    let (Some(kind), Some(policy), Some(uses)) = (kind, policy, uses) else { return Ok(None) };
    Ok(Some(Conversion {
        table: TableName { database: row.try_get(0)?, table: row.try_get(1)? },
        column: row.try_get(2)?,
        kind,
        policy,
        uses,
        keys: row.try_get(6)?,
        first_use: row.try_get(7)?,
        last_use: row.try_get(8)?,
        statement: row.try_get(9)?,
    }))
}

/// What one transaction of the target adds to the ledger. It holds one entry per column, kind and
/// policy, however many rows there are.
#[derive(Default)]
pub(super) struct Ledger(BTreeMap<(usize, usize, ValueKind, Policy), Counted>);

#[derive(Default)]
struct Counted {
    uses: u64,
    keys: i64,
    first: Option<String>,
    last: Option<String>,
    statement: Option<String>,
}

impl Ledger {
    /// Values that rows of a table now hold, written by the transaction, or by the copy.
    pub(super) fn stored(&mut self, table: usize, uses: &mut Uses, gtid: Option<&Gtid>) {
        for used in uses.drain() {
            let counted = self.entry(table, &used);
            counted.uses = counted.uses.saturating_add(used.count);
            counted.keys = counted.keys.saturating_add_unsigned(used.count);
            counted.used(gtid);
        }
    }

    /// Values that rows of a table held until now.
    pub(super) fn removed(&mut self, table: usize, uses: &mut Uses) {
        for used in uses.drain() {
            let counted = self.entry(table, &used);
            counted.keys = counted.keys.saturating_sub_unsigned(used.count);
        }
    }

    /// A change of the target that a value needed.
    pub(super) fn changed(
        &mut self,
        table: usize,
        change: TargetChange,
        statement: &str,
        gtid: Option<&Gtid>,
    ) {
        let used = Use { column: change.column, kind: change.kind, policy: change.policy(), count: 0 };
        let counted = self.entry(table, &used);
        counted.statement.get_or_insert_with(|| statement.to_owned());
        // What needed the wider type is stored as it is: the change is all that is counted.
        if change.form == ChangeForm::Widen {
            counted.uses = counted.uses.saturating_add(1);
            counted.used(gtid);
        }
    }

    /// The entries, in the order in which all writers take them.
    pub(super) fn entries<'a>(self, model: impl Fn(usize) -> Option<&'a TableModel>) -> Vec<Conversion> {
        let entry = |((table, column, kind, policy), counted): (_, Counted)| {
            let model = model(table)?;
            Some(Conversion {
                table: model.name.clone(),
                column: model.columns.get::<usize>(column)?.name.clone(),
                kind,
                policy,
                uses: counted.uses,
                keys: counted.keys,
                first_use: counted.first,
                last_use: counted.last,
                statement: counted.statement,
            })
        };
        let mut entries: Vec<Conversion> = self.0.into_iter().filter_map(entry).collect();
        entries.sort_by(|a, b| key(a).cmp(&key(b)));
        entries
    }

    fn entry(&mut self, table: usize, used: &Use) -> &mut Counted {
        self.0.entry((table, used.column, used.kind, used.policy)).or_default()
    }
}

impl Counted {
    fn used(&mut self, gtid: Option<&Gtid>) {
        let place = gtid.map_or_else(|| COPY.to_owned(), ToString::to_string);
        self.first.get_or_insert_with(|| place.clone());
        self.last = Some(place);
    }
}

fn key(entry: &Conversion) -> (&TableName, &str, &'static str, &'static str) {
    (&entry.table, &entry.column, entry.kind.name(), entry.policy.name())
}
