//! Reads from the source by SQL: where it is, what its tables are, and their rows.

pub mod cell;
pub mod chunk;
mod definition;
mod key;
mod labels;
mod objects;

use mysql_async::Conn;
use mysql_async::prelude::{FromValue, Queryable};

use super::connect::{failure, server_code};
use crate::gtid::GtidSet;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::TableName;

pub(super) use definition::{TableFacts, facts, models};
pub use definition::{describe, refuse_unreadable, table, tables};
pub use objects::{beside_tables, counters};

/// The GTIDs of everything that the source has committed and logged.
pub async fn gtid_executed(conn: &mut Conn) -> Result<GtidSet, Failure> {
    gtid_set(conn, "SELECT @@GLOBAL.gtid_executed").await
}

/// The GTIDs whose transactions are no longer in the source's binlog.
pub async fn gtid_purged(conn: &mut Conn) -> Result<GtidSet, Failure> {
    gtid_set(conn, "SELECT @@GLOBAL.gtid_purged").await
}

async fn gtid_set(conn: &mut Conn, sql: &str) -> Result<GtidSet, Failure> {
    let text: Option<String> = first(conn, "read its GTID sets", sql).await?;
    let unreadable = || Halt::new(Reason::SourcePreflight, "the source's GTID sets can't be read");
    text.ok_or_else(unreadable)?.parse().map_err(|_| unreadable().into())
}

/// How many RESET statements of any kind the source has begun since its start or its last FLUSH STATUS
/// (MySQL manual, "Server Status Variables", `Com_xxx`); `None` from a server that does not count them.
pub async fn resets(conn: &mut Conn) -> Result<Option<u64>, Failure> {
    let row: Option<mysql_async::Row> = conn
        .query_first("SHOW GLOBAL STATUS LIKE 'Com_reset'")
        .await
        .map_err(|error| failure("read its count of resets", &error))?;
    let count: Option<String> = row.map_or(Ok(None), |mut row| field(&mut row, 1))?;
    Ok(count.and_then(|count| count.parse().ok()))
}

/// The source's clock in microseconds since 1970.
pub async fn now_micros(conn: &mut Conn) -> Result<u64, Failure> {
    let sql = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED)";
    let micros: Option<u64> = first(conn, "read its clock", sql).await?;
    micros.ok_or_else(|| Halt::new(Reason::Internal, "the source gave no time").into())
}

/// Offset of the server's own time zone at one instant a week, over the weeks that a binlog can be
/// from and a process can live: nine years back and eight ahead. No zone leaves its offset for less
/// than a week. CONVERT_TZ gives back what it can't convert.
const SYSTEM_OFFSETS: &str = "\
    WITH RECURSIVE week (n) AS (SELECT -480 UNION ALL SELECT n + 1 FROM week WHERE n < 420) \
    SELECT /*+ SET_VAR(cte_max_recursion_depth = 1000) */ MIN(seconds), MAX(seconds) FROM (\
        SELECT TIMESTAMPDIFF(SECOND, utc, CONVERT_TZ(utc, '+00:00', 'SYSTEM')) AS seconds \
        FROM (SELECT UTC_TIMESTAMP() + INTERVAL n WEEK AS utc FROM week) instants) offsets";

/// What a `time_zone` of `SYSTEM` is on the source, as an offset from UTC such as `+02:00`; `None` for
/// a zone whose offset changes over the year or the years. The server's own word for it, such as
/// `CET` in `system_time_zone`, is what it was at its start and the same for many zones.
pub async fn system_time_zone(conn: &mut Conn) -> Result<Option<String>, Failure> {
    let doing = "tell its time zone";
    let row: Option<mysql_async::Row> =
        conn.query_first(SYSTEM_OFFSETS).await.map_err(|error| failure(doing, &error))?;
    let Some(mut row) = row else { return Ok(None) };
    let (least, greatest) = (field::<i64>(&mut row, 0)?, field::<i64>(&mut row, 1)?);
    Ok(least.filter(|_| least == greatest).and_then(offset))
}

/// An offset as MySQL writes it, which knows no seconds in one.
fn offset(seconds: i64) -> Option<String> {
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    (seconds % 60 == 0).then(|| format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
}

/// Whether the table has rows and each holds 0, 1 or NULL in this column.
pub async fn only_zero_one(conn: &mut Conn, table: &TableName, column: &str) -> Result<bool, Failure> {
    let sql = only_zero_one_statement(table, column);
    let answer: Option<Option<bool>> =
        conn.query_first(&sql).await.map_err(|error| table_failure("look at a table's values", &error))?;
    answer.flatten().ok_or_else(|| Halt::new(Reason::Internal, "the source gave no answer").into())
}

fn only_zero_one_statement(table: &TableName, column: &str) -> String {
    let (table, column) = (quote_table(table), quote(column));
    format!(
        "SELECT EXISTS(SELECT 1 FROM {table}) AND NOT EXISTS(SELECT 1 FROM {table} WHERE {column} NOT IN (0, 1))"
    )
}

/// The number of rows that the source's statistics estimate.
pub async fn rows_estimated(conn: &mut Conn, table: &TableName) -> Result<Option<u64>, Failure> {
    let sql = "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?";
    let rows: Option<Option<u64>> = conn
        .exec_first(sql, (&table.database, &table.table))
        .await
        .map_err(|error| failure("read its statistics", &error))?;
    Ok(rows.flatten())
}

/// The error of a statement that ran into MAX_EXECUTION_TIME, `ER_QUERY_TIMEOUT`.
const QUERY_TIMEOUT: u16 = 3024;

/// Whether the table has more than this many rows, as far as a second tells: it may be locked.
pub async fn has_more_rows(conn: &mut Conn, table: &TableName, rows: u64) -> Result<bool, Failure> {
    let table = quote_table(table);
    let sql = format!("SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1 FROM {table} LIMIT 1 OFFSET {rows}");
    match conn.query_first::<u8, _>(sql).await {
        Ok(row) => Ok(row.is_some()),
        Err(mysql_async::Error::Server(error)) if error.code == QUERY_TIMEOUT => Ok(true),
        Err(error) => Err(table_failure("count a table's first rows", &error)),
    }
}

/// The first column of a query's first row; `None` for no row and for NULL.
async fn first<T: FromValue + Send + 'static>(
    conn: &mut Conn,
    doing: &str,
    sql: &str,
) -> Result<Option<T>, Failure> {
    let row: Option<mysql_async::Row> =
        conn.query_first(sql).await.map_err(|error| failure(doing, &error))?;
    row.map_or(Ok(None), |mut row| field(&mut row, 0))
}

/// Why a statement about a table failed: one that is changed meanwhile is looked at anew.
fn table_failure(doing: &str, error: &mysql_async::Error) -> Failure {
    if server_code(error).is_some_and(|code| chunk::CHANGED_CODES.contains(&code)) {
        Failure::retry(Side::Source, format!("a table was changed while the source had to {doing}"))
    } else {
        failure(doing, error)
    }
}

/// A row's column; `None` for NULL.
pub(super) fn field<T: FromValue>(row: &mut mysql_async::Row, index: usize) -> Result<Option<T>, Failure> {
    let mistyped = || {
        Halt::new(Reason::Internal, format!("column {index} of an answer is not of the type it should be"))
    };
    let value: mysql_async::Value = row.take(index).ok_or_else(mistyped)?;
    mysql_async::from_value_opt(value).map_err(|_| mistyped().into())
}

/// A name as MySQL quotes it.
pub(super) fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

pub(super) fn quote_table(table: &TableName) -> String {
    format!("{}.{}", quote(&table.database), quote(&table.table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_written_as_mysql_does() {
        for (seconds, text) in [(0, "+00:00"), (7200, "+02:00"), (-12_600, "-03:30"), (20_700, "+05:45")] {
            assert_eq!(offset(seconds).as_deref(), Some(text));
        }
        assert_eq!(offset(-1172), None);
    }
}
