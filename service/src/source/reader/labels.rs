//! The stored labels of an ENUM or SET.
//!
//! The server shows them in utf8mb3 only. Their bytes come from values of the column's own type,
//! which a recursive common table expression makes without a row of the table: the types of its
//! columns are those of its first part (MySQL manual, "WITH (Common Table Expressions)"), and a
//! number stored in such a column is an index or a mask.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::{field, quote, quote_table, table_failure};
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::TableName;

/// The bytes of the first `count` labels, in index order.
pub(super) async fn stored(
    conn: &mut Conn,
    table: &TableName,
    column: &str,
    count: usize,
    is_set: bool,
) -> Result<Vec<Vec<u8>>, Failure> {
    let rows: Vec<Row> = conn
        .query(statement(table, column, count, is_set))
        .await
        .map_err(|error| table_failure("read a column's labels", &error))?;
    let mut labels = Vec::with_capacity(count);
    for mut row in rows {
        let missing =
            || Halt::new(Reason::SchemaDrift, "a column has other labels than it was described with");
        labels.push(field::<Vec<u8>>(&mut row, 0)?.ok_or_else(missing)?);
    }
    if labels.len() == count {
        Ok(labels)
    } else {
        Err(Failure::retry(Side::Source, "the source's tables changed while their definitions were read"))
    }
}

fn statement(table: &TableName, column: &str, count: usize, is_set: bool) -> String {
    let numbers: Vec<String> = if is_set {
        (0..count.min(64)).map(|member| (1_u64 << member).to_string()).collect()
    } else {
        (1..=count).map(|index| index.to_string()).collect()
    };
    format!(
        "WITH RECURSIVE labels (number, label) AS (
             SELECT CAST(0 AS UNSIGNED), described.{column} FROM (SELECT 1) AS one LEFT JOIN {table} AS described ON FALSE
             UNION ALL
             SELECT numbers.number, numbers.number
             FROM labels JOIN JSON_TABLE('[{numbers}]', '$[*]' COLUMNS (number BIGINT UNSIGNED PATH '$')) AS numbers
             WHERE labels.number = 0)
         SELECT CAST(label AS BINARY) FROM labels WHERE number > 0 ORDER BY number",
        column = quote(column),
        table = quote_table(table),
        numbers = numbers.join(","),
    )
}
