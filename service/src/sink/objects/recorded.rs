//! What earlier attempts have led to, beside what the catalog shows of it now.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;

use super::super::error::while_doing;
use super::super::writer::Writer;
use super::build::Attempt;
use super::{DOING, Outcome};
use crate::halt::Failure;
use crate::schema::TableName;
use crate::schema::objects::Object;

/// With whether it is there, and valid: NULL for one that is not. A table that is missing is not the
/// objects' own matter.
const LOAD: &str = "\
    SELECT o.source_database, o.source_table, o.kind, o.name, o.target_name, o.outcome, o.statement, \
        t.oid IS NOT NULL, coalesce( \
            (SELECT true FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid \
                WHERE o.kind = 'index' AND i.indrelid = t.oid AND x.relname = o.target_name), \
            (SELECT k.convalidated FROM pg_constraint k \
                WHERE o.kind <> 'index' AND k.conrelid = t.oid AND k.conname = o.target_name)) \
    FROM tidegate.schema_object o LEFT JOIN (pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace) \
        ON n.nspname = o.source_database AND t.relname = o.source_table \
    WHERE o.pipeline = $1::text";

/// Table, kind and the source's name.
pub(super) type Key = (TableName, String, String);

pub(super) fn key_of(object: &Object) -> Key {
    (object.table.clone(), object.kind().name().to_owned(), object.name.clone())
}

#[derive(Default)]
pub(super) struct Recorded {
    /// Nothing is to be done about them.
    pub(super) settled: HashSet<Key>,
    /// They hold for new rows only, or wait for a lock.
    pub(super) begun: HashMap<Key, Begun>,
    /// The catalog shows them otherwise than they were left.
    pub(super) seen: HashMap<Key, Seen>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) waits: bool,
    /// It is there, and was added by this pipeline.
    pub(super) is_added: bool,
}

/// What somebody has done to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// It was built, and is there no more.
    Gone { target_name: String, statement: String },
    /// It had been dropped, and is there again.
    Back { target_name: String, statement: String, valid: bool },
}

impl Recorded {
    pub(super) async fn load(writer: &Writer, attempt: Attempt) -> Result<Self, Failure> {
        let rows = writer.client().query(LOAD, &[&writer.fence().pipeline()]).await;
        let mut recorded = Self::default();
        for row in rows.map_err(while_doing(DOING))? {
            recorded.add(&row, attempt).map_err(while_doing(DOING))?;
        }
        Ok(recorded)
    }

    fn add(&mut self, row: &Row, attempt: Attempt) -> Result<(), tokio_postgres::Error> {
        let table = TableName { database: row.try_get(0)?, table: row.try_get(1)? };
        let key = (table, row.try_get(2)?, row.try_get(3)?);
        let (target_name, outcome): (String, &str) = (row.try_get(4)?, row.try_get(5)?);
        let (statement, has_table): (String, bool) = (row.try_get(6)?, row.try_get(7)?);
        let valid: Option<bool> = row.try_get(8)?;
        let is = |other: Outcome| outcome == other.name();
        if has_table && valid.is_none() && (is(Outcome::Built) || is(Outcome::NotValidated)) {
            self.seen.insert(key, Seen::Gone { target_name, statement });
        } else if let (true, Some(valid)) = (is(Outcome::Dropped), valid) {
            self.seen.insert(key, Seen::Back { target_name, statement, valid });
        } else if is(Outcome::Built)
            || is(Outcome::Dropped)
            || attempt == Attempt::New && !is(Outcome::Waiting)
        {
            self.settled.insert(key);
        } else if !is(Outcome::Failed) {
            let (waits, is_added) = (is(Outcome::Waiting), !statement.is_empty());
            self.begun.insert(key, Begun { waits, is_added });
        }
        Ok(())
    }
}
