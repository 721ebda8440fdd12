//! VECTOR as an array of real.
//!
//! MySQL stores the numbers in four bytes each, little-endian (MySQL manual, "The VECTOR Type"). An
//! array is its number of dimensions, a flag for NULLs, its elements' type, then length and lower
//! bound of each dimension, then the elements as fields; an empty one has no dimension (server
//! source `src/backend/utils/adt/arrayfuncs.c`, `array_recv`).

use super::{ConvertError, field};

/// The type real, in `pg_type`.
const FLOAT4_OID: i32 = 700;

pub(super) fn write(stored: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    let (numbers, rest) = stored.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(ConvertError::Malformed);
    }
    let count = i32::try_from(numbers.len()).map_err(|_| ConvertError::OutOfRange)?;
    field::put_with(out, |out| {
        let [dimensions, has_nulls] = [i32::from(count > 0), 0];
        out.extend([dimensions, has_nulls, FLOAT4_OID].iter().flat_map(|word| word.to_be_bytes()));
        if count > 0 {
            let lower_bound = 1_i32;
            out.extend([count, lower_bound].iter().flat_map(|word| word.to_be_bytes()));
        }
        for number in numbers {
            field::put(f32::from_le_bytes(*number).to_be_bytes(), out);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_elements() {
        let mut out = Vec::new();
        let stored = [1.5_f32, -0.0].map(f32::to_le_bytes).concat();
        write(&stored, &mut out).unwrap();
        let header = [36, 1, 0, 700, 2, 1].map(i32::to_be_bytes).concat();
        let elements =
            [4_i32.to_be_bytes(), 1.5_f32.to_be_bytes(), 4_i32.to_be_bytes(), (-0.0_f32).to_be_bytes()];
        assert_eq!(out, [header, elements.concat()].concat());
    }

    #[test]
    fn an_empty_vector_has_no_dimension_and_a_cut_number_is_refused() {
        let mut out = Vec::new();
        write(&[], &mut out).unwrap();
        assert_eq!(out, [12, 0, 0, 700].map(i32::to_be_bytes).concat());
        assert_eq!(write(&[0; 7], &mut Vec::new()), Err(ConvertError::Malformed));
    }
}
