//! How wide a row of the target can become.
//!
//! A row has to fit into a page once its long values are moved out (server source
//! `src/include/access/htup_details.h`, `MaxHeapTupleSize`; `src/backend/access/heap/heaptoast.c`).
//! Values of fixed width stay where they are; of the others what is longer than a pointer is moved.

use super::render::max_key_width;
use super::{Column, TableModel, TargetType};

/// The widest row: a page of 8 kB less its header and the row's line pointer.
pub const ROW_BYTES_MAX: u64 = 8_160;

/// A row's own header, before the bits that tell which columns are NULL.
const HEADER_BYTES: u64 = 23;

/// Alignment of a row and of its widest values.
const ALIGNMENT: u64 = 8;

/// A value of variable width that is not longer is not moved out.
const STAYS_BYTES: u64 = 24;

/// The widths, in bytes, that rows of a table can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowWidth {
    /// With NULL wherever the table allows it and nothing in the other columns of variable width.
    pub least: u64,
    /// With values as long as they are before they are moved out, and a NULL where the bits that it
    /// takes in the header are more than what it saves.
    pub greatest: u64,
}

/// The widths of the table's rows on the target.
#[must_use]
pub fn row_width(model: &TableModel) -> RowWidth {
    let may_be_null = |column: &Column| column.nullable || column.not_null_dropped;
    let columns = &model.columns;
    let bits = (columns.len() as u64).div_ceil(8);
    let needed = columns.iter().filter(|column| !may_be_null(column));
    let has_null = columns.iter().any(may_be_null);
    let least = width(if has_null { bits } else { 0 }, needed.map(|column| fixed(column).unwrap_or((1, 1))));

    let longest: Vec<(u64, u64)> =
        columns.iter().map(|column| fixed(column).unwrap_or((longest(column), 1))).collect();
    let nullable = columns.iter().zip(&longest).enumerate().filter(|(_, (column, _))| may_be_null(column));
    let smallest = nullable.min_by_key(|(_, (_, (size, _)))| *size).map(|(index, _)| index);
    let whole = width(0, longest.iter().copied());
    let with_one_null = smallest.map(|null| {
        let others = longest.iter().enumerate().filter(|(index, _)| *index != null);
        width(bits, others.map(|(_, value)| *value))
    });
    RowWidth { least, greatest: whole.max(with_one_null.unwrap_or_default()) }
}

/// The row of these values, each a size and an alignment, and so many bytes for what is NULL.
fn width(null_bytes: u64, values: impl Iterator<Item = (u64, u64)>) -> u64 {
    let header = (HEADER_BYTES + null_bytes).next_multiple_of(ALIGNMENT);
    values
        .fold(header, |row, (size, alignment)| row.next_multiple_of(alignment) + size)
        .next_multiple_of(ALIGNMENT)
}

/// Size and alignment of a value of fixed width; `None` for a type of variable width.
const fn fixed(column: &Column) -> Option<(u64, u64)> {
    Some(match column.target {
        TargetType::Boolean => (1, 1),
        TargetType::SmallInt => (2, 2),
        TargetType::Integer | TargetType::Real | TargetType::Date => (4, 4),
        TargetType::BigInt
        | TargetType::DoublePrecision
        | TargetType::Timestamp { .. }
        | TargetType::TimestampTz { .. } => (8, 8),
        TargetType::Interval { .. } => (16, 8),
        TargetType::Numeric { .. }
        | TargetType::Varchar { .. }
        | TargetType::Text
        | TargetType::Bytea
        | TargetType::Bit { .. }
        | TargetType::Jsonb
        | TargetType::RealArray
        | TargetType::Geometry { .. } => return None,
    })
}

/// The most that a value of variable width takes in its row.
fn longest(column: &Column) -> u64 {
    max_key_width(&column.mysql).map_or(STAYS_BYTES, |bytes| bytes.min(STAYS_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{MysqlType, TableName};

    fn column(mysql: MysqlType, target: TargetType, nullable: bool) -> Column {
        Column {
            name: "c".to_owned(),
            mysql,
            target,
            nullable,
            not_null_dropped: false,
            auto_increment: false,
            generated: false,
            details: Default::default(),
        }
    }

    fn row(columns: Vec<Column>) -> RowWidth {
        row_width(&TableModel {
            name: TableName { database: "app".to_owned(), table: "t".to_owned() },
            columns,
            key: vec![0],
            key_is_primary: true,
            engine: "InnoDB".to_owned(),
            default_charset: None,
            details: Default::default(),
        })
    }

    fn id() -> Column {
        column(MysqlType::Int { unsigned: false }, TargetType::Integer, false)
    }

    fn times(number: usize, nullable: bool) -> RowWidth {
        let time = column(MysqlType::Time { digits: 0 }, TargetType::Interval { digits: 0 }, nullable);
        row([vec![id()], vec![time; number]].concat())
    }

    /// PostgreSQL 15 stores 508 intervals beside an integer and refuses 509; of a table with that many
    /// nullable ones it stores 504 beside a NULL.
    #[test]
    fn the_last_row_that_fits() {
        assert_eq!(times(508, false), RowWidth { least: ROW_BYTES_MAX, greatest: ROW_BYTES_MAX });
        assert_eq!(times(509, false).least, 8_176);
        assert_eq!(times(505, true).greatest, ROW_BYTES_MAX);
        assert_eq!(times(506, true).greatest, 8_176);
        assert!(times(506, true).least < 100);
    }

    #[test]
    fn long_values_count_as_far_as_they_stay() {
        let blob = column(MysqlType::Blob, TargetType::Bytea, true);
        let utf8 = "utf8mb4".to_owned();
        let short = MysqlType::Char { length: 1, charset: utf8.clone() };
        let short = column(short, TargetType::Varchar { length: 1 }, true);
        let long = MysqlType::Varchar { length: 10_000, charset: utf8 };
        let long = column(long, TargetType::Varchar { length: 10_000 }, true);
        assert_eq!(row(vec![id()]), RowWidth { least: 32, greatest: 32 });
        assert_eq!(row(vec![id(), blob]).greatest, row(vec![id(), long]).greatest);
        assert!(row(vec![id(), short]).greatest <= 40);
    }
}
