//! Geometries as extended well-known binary.
//!
//! MySQL stores a spatial reference system's id in four bytes, little-endian, and then well-known
//! binary (MySQL manual, "Internal Geometry Storage Format"). Coordinates are stored in the order x,
//! y, which for a geographic system is longitude, latitude, as PostGIS has them; only MySQL's
//! functions swap them. EWKB sets a flag in the type and puts the id behind it (PostGIS source
//! `liblwgeom/lwin_wkb.c`, `WKBSRIDFLAG`); id 0, no system, is left out. The geometries inside of a
//! collection have none of their own.

use super::{ConvertError, field};

/// Byte order of well-known binary: little-endian.
const LITTLE_ENDIAN: u8 = 1;

const HAS_SRID: u32 = 0x2000_0000;

/// Kinds of geometry: POINT to GEOMETRYCOLLECTION.
const KINDS: std::ops::RangeInclusive<u32> = 1..=7;

pub(super) fn write_ewkb(stored: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    if stored.is_empty() {
        return Err(ConvertError::NoGeometry);
    }
    let (srid, wkb) = stored.split_first_chunk::<4>().ok_or(ConvertError::Malformed)?;
    let (&order, wkb) = wkb.split_first().ok_or(ConvertError::Malformed)?;
    let (kind, shape) = wkb.split_first_chunk::<4>().ok_or(ConvertError::Malformed)?;
    let kind = u32::from_le_bytes(*kind);
    if order != LITTLE_ENDIAN || !KINDS.contains(&kind) {
        return Err(ConvertError::Malformed);
    }
    field::put_with(out, |out| {
        out.push(order);
        if *srid == [0; 4] {
            out.extend_from_slice(&kind.to_le_bytes());
        } else {
            out.extend_from_slice(&(kind | HAS_SRID).to_le_bytes());
            out.extend_from_slice(srid);
        }
        out.extend_from_slice(shape);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: [u8; 21] = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0xbf, 0, 0, 0, 0, 0, 0xc0, 0x49, 0x40];

    fn ewkb(stored: &[u8]) -> Result<Vec<u8>, ConvertError> {
        let mut out = Vec::new();
        write_ewkb(stored, &mut out).map(|()| out.split_off(4))
    }

    #[test]
    fn the_reference_system_stands_behind_the_type() {
        let stored = [&4326_u32.to_le_bytes()[..], &POINT].concat();
        let expected = [&[1, 1, 0, 0, 0x20, 0xe6, 0x10, 0, 0][..], &POINT[5..]].concat();
        assert_eq!(ewkb(&stored), Ok(expected));
        assert_eq!(ewkb(&[&[0; 4][..], &POINT].concat()), Ok(POINT.to_vec()));
    }

    #[test]
    fn what_is_no_geometry_is_refused() {
        assert_eq!(ewkb(&[]), Err(ConvertError::NoGeometry));
        let stored = [&[0; 4][..], &POINT].concat();
        for length in 1..9 {
            assert_eq!(ewkb(&stored[..length]), Err(ConvertError::Malformed), "{length}");
        }
        for (at, byte) in [(4, 0), (4, 2), (5, 0), (5, 8), (8, 0x20)] {
            let mut damaged = stored.clone();
            damaged[at] = byte;
            assert_eq!(ewkb(&damaged), Err(ConvertError::Malformed), "{at}");
        }
    }
}
