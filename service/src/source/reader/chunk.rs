//! A table's rows, in chunks of its key.

use mysql_async::prelude::Queryable;
use mysql_async::{BinaryProtocol, Conn, Error, QueryResult, Row};

use super::cell::{cell, select_expression};
use super::key::orders_rows;
use super::{quote, quote_table};
use crate::binlog::cell::Cell;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::{Column, TableModel};
use crate::source::connect::{failure, server_code};

pub use super::key::KeyBound;

/// The table has another definition than when the view was opened (`ER_TABLE_DEF_CHANGED`), is
/// gone, or has lost a column.
pub(super) const CHANGED_CODES: &[u16] = &[1412, 1146, 1049, 1054];

/// Why rows could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// DDL under the view: the table has to be captured again.
    #[error("the table was changed while it was read")]
    TableChanged,
    #[error(transparent)]
    Failure(#[from] Failure),
}

/// For callers that start over either way.
impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TableChanged => Self::retry(Side::Source, error.to_string()),
            ReadError::Failure(failure) => failure,
        }
    }
}

impl From<Halt> for ReadError {
    fn from(halt: Halt) -> Self {
        Self::Failure(halt.into())
    }
}

fn read_error(error: &Error) -> ReadError {
    match server_code(error) {
        Some(code) if CHANGED_CODES.contains(&code) => ReadError::TableChanged,
        _ => failure("read a table", error).into(),
    }
}

/// Whether the table can be read in chunks: it has a key whose index orders its rows. A table that
/// can't is one chunk.
#[must_use]
pub fn is_divisible(model: &TableModel) -> bool {
    key(model).is_ok_and(|key| !key.is_empty() && key.iter().all(|column| orders_rows(&column.mysql)))
}

/// The key of the `rows`th row above `after`, up to `through` where given; `None` if there are
/// fewer. `rows` is at least 1.
pub async fn next_bound(
    conn: &mut Conn,
    model: &TableModel,
    after: Option<&KeyBound>,
    through: Option<&KeyBound>,
    rows: u64,
) -> Result<Option<KeyBound>, ReadError> {
    let sql = bound_statement(model, after, through, rows)?;
    let row: Option<Row> = conn.exec_first(sql, ()).await.map_err(|error| read_error(&error))?;
    let Some(row) = row else { return Ok(None) };
    let bound = KeyBound::from_row(&key(model)?, &row);
    bound.map(Some).ok_or_else(|| unreadable(model, "its key").into())
}

/// Begins to read the rows above `after`, up to and including `through`, in no particular order.
pub async fn read<'a>(
    conn: &'a mut Conn,
    model: &'a TableModel,
    after: Option<&KeyBound>,
    through: Option<&KeyBound>,
) -> Result<Rows<'a>, ReadError> {
    let sql = rows_statement(model, after, through)?;
    let result = conn.exec_iter(sql, ()).await.map_err(|error| read_error(&error))?;
    Ok(Rows { result, model })
}

/// Counts the rows above `after`, up to and including `through`, for which the condition holds.
pub async fn count_where(
    conn: &mut Conn,
    model: &TableModel,
    after: Option<&KeyBound>,
    through: Option<&KeyBound>,
    condition: &str,
) -> Result<u64, ReadError> {
    let range = range(model, after, through)?;
    let and = if range.is_empty() { "" } else { " AND " };
    let sql = format!("SELECT COUNT(*) FROM {} WHERE {condition}{and}{range}", quote_table(&model.name));
    let rows: Option<u64> = conn.exec_first(sql, ()).await.map_err(|error| read_error(&error))?;
    rows.ok_or_else(|| unreadable(model, "a count of its rows").into())
}

/// The rows of a chunk as they arrive: one at a time, the source waits while none is asked for.
pub struct Rows<'a> {
    result: QueryResult<'a, 'static, BinaryProtocol>,
    model: &'a TableModel,
}

impl<'a> Rows<'a> {
    /// The next row.
    pub async fn next(&mut self) -> Result<Option<SourceRow<'a>>, ReadError> {
        let row = self.result.next().await.map_err(|error| read_error(&error))?;
        Ok(row.map(|row| SourceRow { row, model: self.model }))
    }
}

/// A row of a table.
pub struct SourceRow<'a> {
    row: Row,
    model: &'a TableModel,
}

impl SourceRow<'_> {
    /// The values in the order of the model's columns.
    pub fn cells(&self) -> impl Iterator<Item = Result<Cell<'_>, Halt>> {
        self.model.columns.iter().enumerate().map(|(index, column)| {
            let value = self.row.as_ref(index);
            value
                .and_then(|value| cell(&column.mysql, value))
                .ok_or_else(|| unreadable(self.model, &format!("column `{}`", column.name)))
        })
    }
}

fn unreadable(model: &TableModel, what: &str) -> Halt {
    let detail = format!("{what} arrived as another type than it was described with");
    Halt::new(Reason::SchemaDrift, detail).on_table(&model.name.database, &model.name.table)
}

fn key(model: &TableModel) -> Result<Vec<&Column>, Halt> {
    let columns: Option<Vec<&Column>> = model.key.iter().map(|&index| model.columns.get(index)).collect();
    columns.ok_or_else(|| {
        Halt::new(Reason::CheckpointInvalid, "a recorded key names a column that its table does not have")
            .on_table(&model.name.database, &model.name.table)
    })
}

fn bound_statement(
    model: &TableModel,
    after: Option<&KeyBound>,
    through: Option<&KeyBound>,
    rows: u64,
) -> Result<String, Halt> {
    let key = key(model)?;
    let order = key.iter().map(|column| quote(&column.name)).collect::<Vec<_>>().join(", ");
    Ok(format!(
        "{} ORDER BY {order} LIMIT 1 OFFSET {}",
        select(model, key.iter().copied(), after, through)?,
        rows.saturating_sub(1)
    ))
}

fn rows_statement(
    model: &TableModel,
    after: Option<&KeyBound>,
    through: Option<&KeyBound>,
) -> Result<String, Halt> {
    select(model, model.columns.iter(), after, through)
}

fn select<'a>(
    model: &TableModel,
    columns: impl Iterator<Item = &'a Column>,
    after: Option<&KeyBound>,
    through: Option<&KeyBound>,
) -> Result<String, Halt> {
    let list: Vec<String> =
        columns.map(|column| select_expression(&column.mysql, &quote(&column.name))).collect();
    let mut sql = format!("SELECT {} FROM {}", list.join(", "), quote_table(&model.name));
    let condition = range(model, after, through)?;
    if !condition.is_empty() {
        if model.key_is_primary {
            sql.push_str(" FORCE INDEX (PRIMARY)");
        }
        sql.push_str(" WHERE ");
        sql.push_str(&condition);
    }
    Ok(sql)
}

fn range(model: &TableModel, after: Option<&KeyBound>, through: Option<&KeyBound>) -> Result<String, Halt> {
    let key = key(model)?;
    let above = after.map(|bound| bound.above(&key));
    let below = through.map(|bound| bound.through(&key));
    let conditions: Option<Vec<String>> = [above, below].into_iter().flatten().collect();
    let conditions = conditions.ok_or_else(|| {
        Halt::new(Reason::CheckpointInvalid, "a recorded chunk is not one of its table's key")
            .on_table(&model.name.database, &model.name.table)
    })?;
    Ok(conditions.join(" AND "))
}
