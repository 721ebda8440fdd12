//! What becomes of the objects on record when a schema change makes other tables of theirs.
//!
//! Decided from the models before and after, in the change's own transaction. An object that the
//! new models want as the old ones did, new names aside, stays and takes the new names. Any other
//! is dropped before the tables are changed: it may be what PostgreSQL would refuse the change, or a
//! later row, for. What the new models want beyond is built afterwards, as for a table just copied.

use std::collections::{BTreeMap, HashMap};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::super::catalog;
use super::super::client::{Client, Error};
use super::super::error::while_doing;
use super::super::table_state::TableState;
use super::{DOING, Outcome};
use crate::halt::{Failure, Halt};
use crate::schema::objects::{Object, ObjectKind, objects};
use crate::schema::phase::TablePhase;
use crate::schema::renaming::{Renaming, new_name, new_table, renamed};
use crate::schema::render::{qualified, quote_ident};
use crate::schema::{TableModel, TableName};

const LOAD: &str = "\
    SELECT source_database, source_table, kind, name, target_name, outcome, statement \
    FROM tidegate.schema_object WHERE pipeline = $1::text ORDER BY source_database, source_table, kind, name";

const FORGET: &str = "\
    DELETE FROM tidegate.schema_object WHERE pipeline = $1::text AND source_database = $2::text \
    AND source_table = $3::text AND kind = $4::text AND name = $5::text";

/// Under its new names, so that no row is in another's place meanwhile.
const TAKE: &str = "\
    DELETE FROM tidegate.schema_object WHERE pipeline = $1::text AND source_database = $2::text \
    AND source_table = $3::text AND kind = $4::text AND name = $5::text RETURNING detail";

const PUT: &str = "\
    INSERT INTO tidegate.schema_object (pipeline, source_database, source_table, kind, name, target_name, \
        outcome, detail, statement) \
    VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text)";

/// A row of `tidegate.schema_object`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Recorded {
    table: TableName,
    kind: String,
    name: String,
    target_name: String,
    outcome: String,
    /// Empty where the object is somebody else's.
    statement: String,
}

impl Recorded {
    fn is_own(&self) -> bool {
        !self.statement.is_empty() && self.outcome != Outcome::Failed.name()
    }
}

/// What is done about an object on record.
#[derive(Debug, Clone, PartialEq)]
enum Fate {
    /// It goes, if it is there and this pipeline's.
    Drop,
    /// It goes with its table, or was never there.
    Forget,
    /// It stays, under these names; `None` for a table that waits for its copy, which takes all of
    /// its objects.
    Keep { table: TableName, name: String, object: Option<Box<Object>> },
}

/// What a schema change means for the objects on record.
#[derive(Debug, Default)]
pub(in super::super) struct Following {
    fates: Vec<(Recorded, Fate)>,
}

/// The tables by name.
pub(in super::super) type States<'a> = BTreeMap<&'a TableName, &'a TableState>;

/// Decides what becomes of the objects when the states before become those after. A table that goes
/// is not among those before.
///
/// # Errors
/// Failures of the target, and `unsupported_name`.
pub(in super::super) async fn follow(
    client: &Client,
    pipeline: &str,
    before: &States<'_>,
    after: &States<'_>,
    renamings: &[Renaming],
) -> Result<Following, Failure> {
    let rows = client.query(LOAD, &[&pipeline]).await.map_err(while_doing(DOING))?;
    let recorded: Vec<Recorded> =
        rows.iter().map(read).collect::<Result<_, _>>().map_err(while_doing(DOING))?;
    let mut wanted: HashMap<TableName, Wanted> = HashMap::new();
    let mut fates = Vec::new();
    for record in recorded {
        let table = new_table(renamings, &record.table);
        if !wanted.contains_key(&record.table) {
            wanted.insert(record.table.clone(), Wanted::of(&record.table, before, after, renamings)?);
        }
        let fate = match wanted.get(&record.table) {
            Some(wanted) => wanted.fate(&record, table, renamings),
            None => continue,
        };
        fates.push((record, fate));
    }
    Ok(Following { fates })
}

fn read(row: &Row) -> Result<Recorded, tokio_postgres::Error> {
    Ok(Recorded {
        table: TableName { database: row.try_get(0)?, table: row.try_get(1)? },
        kind: row.try_get(2)?,
        name: row.try_get(3)?,
        target_name: row.try_get(4)?,
        outcome: row.try_get(5)?,
        statement: row.try_get(6)?,
    })
}

/// What the models want of a table's objects.
#[derive(Debug)]
enum Wanted {
    /// The table is gone.
    Nothing,
    /// The table is left as it is, or is copied anew: foreign keys to tables that go excepted.
    AsItIs { parents_gone: Vec<String> },
    /// Old ones under their new names, and new ones.
    Objects { old: Vec<Object>, new: Vec<Object> },
}

impl Wanted {
    fn of(
        table: &TableName,
        before: &States<'_>,
        after: &States<'_>,
        renamings: &[Renaming],
    ) -> Result<Self, Halt> {
        let model = |name: &TableName| -> Option<&TableModel> {
            after.get(name).filter(|state| state.phase != TablePhase::Detached).map(|state| &state.model)
        };
        let (Some(old), Some(new)) = (before.get(table), after.get(new_table(renamings, table))) else {
            return Ok(Self::Nothing);
        };
        if !super::is_copied(new) {
            let gone = new.model.details.foreign_keys.iter().filter(|key| model(&key.parent).is_none());
            return Ok(Self::AsItIs { parents_gone: gone.map(|key| key.name.clone()).collect() });
        }
        let (old, _) = objects(&renamed(&old.model, renamings), &model)?;
        let (new, _) = objects(&new.model, &model)?;
        Ok(Self::Objects { old, new })
    }

    fn fate(&self, record: &Recorded, table: &TableName, renamings: &[Renaming]) -> Fate {
        let indexes = renamings.iter().find(|renaming| renaming.from == record.table);
        let is_index = record.kind == ObjectKind::Index.name();
        let pairs = indexes.filter(|_| is_index).map_or(&[][..], |renaming| &renaming.indexes);
        let name = new_name(pairs, &record.name);
        let keep = |object| Fate::Keep { table: table.clone(), name: name.to_owned(), object };
        let find = |objects: &[Object]| {
            objects.iter().find(|object| object.kind().name() == record.kind && object.name == name).cloned()
        };
        let is_foreign_key = record.kind == ObjectKind::ForeignKey.name();
        match self {
            // A foreign key would keep its parent from being dropped before its table.
            Self::Nothing if is_foreign_key => Fate::Drop,
            Self::Nothing => Fate::Forget,
            Self::AsItIs { parents_gone } => {
                let drops = is_foreign_key && parents_gone.contains(&record.name);
                if drops { Fate::Drop } else { keep(None) }
            }
            Self::Objects { old, new } => match (find(old), find(new)) {
                (Some(old), Some(new)) if old == new => keep(Some(Box::new(new))),
                _ => Fate::Drop,
            },
        }
    }
}

impl Following {
    /// Drops what goes, before the tables are changed. A lock that others hold is reported with
    /// the table.
    ///
    /// # Errors
    /// PostgreSQL's refusal.
    pub(in super::super) async fn drop_objects(
        &self,
        client: &Client,
        pipeline: &str,
    ) -> Result<(), (TableName, Error)> {
        for (record, fate) in &self.fates {
            let on_table = |error| (record.table.clone(), error);
            match fate {
                Fate::Drop if record.is_own() => {
                    if let Some(sql) = drop_statement(record) {
                        client.alter(&sql).await.map_err(on_table)?;
                    }
                }
                Fate::Drop | Fate::Forget => {}
                Fate::Keep { .. } => continue,
            }
            client.execute(FORGET, &key(&pipeline, record)).await.map_err(on_table)?;
        }
        Ok(())
    }

    /// Gives what stays its new names, once the tables have theirs. Returns the statements run, by
    /// the table's old name.
    ///
    /// # Errors
    /// Failures of the target.
    pub(in super::super) async fn rename(
        &self,
        client: &Client,
        pipeline: &str,
    ) -> Result<Vec<(TableName, String)>, Failure> {
        let doing = "renaming what was built for a table";
        let (mut run, mut put) = (Vec::new(), Vec::new());
        for (record, fate) in &self.fates {
            let Fate::Keep { table, name, object } = fate else { continue };
            let mut new = Recorded { table: table.clone(), name: name.clone(), ..record.clone() };
            if let Some(object) = object.as_ref().filter(|_| !record.statement.is_empty()) {
                if let Some((target_name, sql)) = renamed_index(client, object, record).await? {
                    client.alter(&sql).await.map_err(while_doing(doing))?;
                    run.push((record.table.clone(), sql));
                    new.target_name = target_name;
                }
                new.statement = statement(object, &new)?;
            }
            if new != *record {
                let row =
                    client.query_opt(TAKE, &key(&pipeline, record)).await.map_err(while_doing(doing))?;
                let detail = row.map(|row| row.try_get::<_, Option<String>>(0)).transpose();
                put.push((new, detail.map_err(while_doing(doing))?.flatten()));
            }
        }
        for (Recorded { table, kind, name, target_name, outcome, statement }, detail) in &put {
            let TableName { database, table } = table;
            let params: [&(dyn ToSql + Sync); 9] =
                [&pipeline, database, table, kind, name, target_name, outcome, detail, statement];
            client.execute(PUT, &params).await.map_err(while_doing(doing))?;
        }
        Ok(run)
    }
}

fn key<'a>(pipeline: &'a &str, record: &'a Recorded) -> [&'a (dyn ToSql + Sync); 5] {
    [pipeline, &record.table.database, &record.table.table, &record.kind, &record.name]
}

/// `None` for a name that was never the target's.
fn drop_statement(record: &Recorded) -> Option<String> {
    let target = quote_ident(&record.target_name).ok()?;
    Some(if record.kind == ObjectKind::Index.name() {
        format!("DROP INDEX IF EXISTS {}.{target}", quote_ident(&record.table.database).ok()?)
    } else {
        format!("ALTER TABLE IF EXISTS {} DROP CONSTRAINT IF EXISTS {target}", qualified(&record.table).ok()?)
    })
}

fn statement(object: &Object, record: &Recorded) -> Result<String, Halt> {
    let partly =
        [Outcome::NotValidated, Outcome::Waiting].iter().any(|outcome| outcome.name() == record.outcome);
    let unvalidated = if partly { object.unvalidated_statement(&record.target_name)? } else { None };
    unvalidated.map_or_else(|| object.statement(&record.target_name), Ok)
}

/// The name that an index has to take with its table's or its own new name, and the statement that
/// gives it. PostgreSQL names indexes within the schema: the old name is one that a new table's
/// index may ask for.
async fn renamed_index(
    client: &Client,
    object: &Object,
    record: &Recorded,
) -> Result<Option<(String, String)>, Failure> {
    let names_fit = object.candidates().contain(&record.target_name);
    if !object.kind().is_relation() || names_fit || !record.is_own() {
        return Ok(None);
    }
    let schema = &object.table.database;
    let target_name = object.target_name(&mut catalog::relations(client, schema).await?);
    let (old, new) = (quote_ident(&record.target_name)?, quote_ident(&target_name)?);
    let sql = format!("ALTER INDEX IF EXISTS {}.{old} RENAME TO {new}", quote_ident(schema)?);
    Ok(Some((target_name, sql)))
}

#[cfg(test)]
mod tests;
