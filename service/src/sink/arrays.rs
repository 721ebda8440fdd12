//! Rows turned into one array for each column: the parameters of set-based statements.

use bytes::{BufMut, Bytes, BytesMut};
use tokio_postgres::types::{Kind, Type};

use super::params::Params;
use crate::schema::TargetType;

/// Dimensions, flags, element type, length and lower bound (PostgreSQL server source
/// `src/backend/utils/adt/arrayfuncs.c`, `array_recv`).
const HEADER_BYTES: usize = 20;

/// The array type whose elements a column's fields are. `None` for a column that is an array itself:
/// unnesting goes through all dimensions at once.
pub(super) const fn array_type(target: TargetType) -> Option<Type> {
    Some(match target {
        TargetType::Boolean => Type::BOOL_ARRAY,
        TargetType::SmallInt => Type::INT2_ARRAY,
        TargetType::Integer => Type::INT4_ARRAY,
        TargetType::BigInt => Type::INT8_ARRAY,
        TargetType::Numeric { .. } => Type::NUMERIC_ARRAY,
        TargetType::Real => Type::FLOAT4_ARRAY,
        TargetType::DoublePrecision => Type::FLOAT8_ARRAY,
        TargetType::Varchar { .. } => Type::VARCHAR_ARRAY,
        TargetType::Text => Type::TEXT_ARRAY,
        TargetType::Bytea => Type::BYTEA_ARRAY,
        TargetType::Bit { .. } => Type::BIT_ARRAY,
        TargetType::Date => Type::DATE_ARRAY,
        TargetType::Timestamp { .. } => Type::TIMESTAMP_ARRAY,
        TargetType::TimestampTz { .. } => Type::TIMESTAMPTZ_ARRAY,
        TargetType::Interval { .. } => Type::INTERVAL_ARRAY,
        TargetType::Jsonb => Type::JSONB_ARRAY,
        TargetType::RealArray => return None,
        // Extended well-known binary either way, which PostGIS's cast takes without being asked.
        TargetType::Geometry { .. } => Type::BYTEA_ARRAY,
    })
}

/// One array parameter for each column of the rows. A row is its columns' fields, which are also
/// what an array's elements are.
///
/// `None` when a row has other columns or the arrays are larger than a message can be.
pub(super) fn transpose(rows: &[&[u8]], columns: &[Type]) -> Option<Params> {
    let count = i32::try_from(rows.len()).ok()?;
    let bytes: usize = rows.iter().map(|row| row.len()).sum();
    let mut out = BytesMut::with_capacity(bytes + columns.len() * (HEADER_BYTES + 4));
    let mut rests: Vec<&[u8]> = rows.to_vec();
    for array in columns {
        let Kind::Array(element) = array.kind() else { return None };
        let start = out.len();
        out.put_i32(0);
        out.put_i32(1);
        out.put_i32(0);
        out.put_u32(element.oid());
        out.put_i32(count);
        out.put_i32(1);
        let mut nulls = false;
        for rest in &mut rests {
            let (length, _) = rest.split_first_chunk::<4>()?;
            let length = i32::from_be_bytes(*length);
            nulls |= length == -1;
            let value = if length == -1 { 0 } else { usize::try_from(length).ok()? };
            let (field, after) = rest.split_at_checked(4 + value)?;
            out.extend_from_slice(field);
            *rest = after;
        }
        let length = i32::try_from(out.len() - start - 4).ok()?;
        out.get_mut(start..start + 4)?.copy_from_slice(&length.to_be_bytes());
        out.get_mut(start + 8..start + 12)?.copy_from_slice(&i32::from(nulls).to_be_bytes());
    }
    let complete = rests.iter().all(|rest| rest.is_empty());
    complete.then(|| Params::new(Bytes::from(out), columns.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::params::Field;

    #[test]
    fn columns_become_arrays() {
        let rows: [&[u8]; 2] =
            [&[0, 0, 0, 2, 0, 7, 0, 0, 0, 1, b'a'], &[0, 0, 0, 2, 0, 8, 0xff, 0xff, 0xff, 0xff]];
        let params = transpose(&rows, &[Type::INT2_ARRAY, Type::TEXT_ARRAY]).expect("well-formed rows");
        let header = |nulls: u8, oid: u8| {
            [[0, 0, 0, 1], [0, 0, 0, nulls], [0, 0, 0, oid], [0, 0, 0, 2], [0, 0, 0, 1]].concat()
        };
        let numbers = [header(0, 21), vec![0, 0, 0, 2, 0, 7, 0, 0, 0, 2, 0, 8]].concat();
        let texts = [header(1, 25), vec![0, 0, 0, 1, b'a', 0xff, 0xff, 0xff, 0xff]].concat();
        assert!(params.iter().eq([Field::Value(&numbers), Field::Value(&texts)]));
    }

    #[test]
    fn rows_of_other_columns_are_refused() {
        let field: &[u8] = &[0, 0, 0, 1, 7];
        assert!(transpose(&[field], &[Type::BOOL_ARRAY]).is_some());
        assert!(transpose(&[field], &[Type::BOOL_ARRAY, Type::BOOL_ARRAY]).is_none());
        assert!(transpose(&[&[field, field].concat()], &[Type::BOOL_ARRAY]).is_none());
        assert!(transpose(&[&field[..4]], &[Type::BOOL_ARRAY]).is_none());
        assert!(transpose(&[field], &[Type::BOOL]).is_none());
        assert!(transpose(&[&[0xff, 0xff, 0xff, 0xfe]], &[Type::BOOL_ARRAY]).is_none());
    }
}
