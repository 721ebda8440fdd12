//! Geometries as extended well-known binary.
//!
//! MySQL stores a spatial reference system's id in four bytes, little-endian, and then well-known
//! binary (MySQL manual, "Internal Geometry Storage Format"). Coordinates are stored in the order x,
//! y, which for a geographic system is longitude, latitude, as PostGIS has them; only MySQL's
//! functions swap them. EWKB sets a flag in the type and puts the id behind it (PostGIS source
//! `liblwgeom/lwin_wkb.c`, `WKBSRIDFLAG`); id 0, no system, is left out. The geometries inside of a
//! collection have none of their own.
//!
//! As bytes, all that MySQL stores is kept. PostGIS's own type has rules that MySQL's does not have, and
//! for some values keeps other ones in silence: these are told apart here, before they are sent.

use super::{ConvertError, field};
use crate::schema::spatial::SRID_MAX;

/// Byte order of well-known binary: little-endian.
const LITTLE_ENDIAN: u8 = 1;

const HAS_SRID: u32 = 0x2000_0000;

/// Kinds of geometry: POINT to GEOMETRYCOLLECTION.
const KINDS: std::ops::RangeInclusive<u32> = 1..=7;

const POINT: u32 = 1;
const LINE_STRING: u32 = 2;
const POLYGON: u32 = 3;
const GEOMETRY_COLLECTION: u32 = 7;

/// What each of MULTIPOINT, MULTILINESTRING and MULTIPOLYGON is more than its parts.
const MULTI: u32 = 3;

/// Bytes of an x or a y.
const ORDINATE: usize = 8;

/// Geometries within each other that PostGIS reads (PostGIS source `liblwgeom/lwin_wkb.c`,
/// `LW_PARSER_MAX_DEPTH`, of which it is one less).
const DEPTH_MAX: usize = 199;

/// Fewest points of a polygon's ring and of a line.
const RING_POINTS_MIN: usize = 4;
const LINE_POINTS_MIN: usize = 2;

/// Why PostGIS's type does not hold a value that MySQL stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotInPostgis {
    #[error("has a SRID above {SRID_MAX}, which PostGIS would make another one")]
    Srid,
    #[error("has a polygon with a ring that is not closed, which PostGIS refuses")]
    OpenRing,
    #[error("has a line or a ring of fewer points than PostGIS takes")]
    FewPoints,
    #[error("has a point whose x and y are no numbers, which PostGIS takes for an empty point")]
    EmptyPoint,
    #[error("has geometries within each other more than {DEPTH_MAX} deep, which PostGIS refuses")]
    TooDeep,
}

/// As [`write_ewkb`], where PostGIS's type keeps the value as it is.
pub(super) fn write_geometry(stored: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    let (srid, wkb) = srid_of(stored)?;
    let rest = check(wkb, None, 1)?;
    if !rest.is_empty() {
        return Err(ConvertError::Malformed);
    }
    if srid > SRID_MAX {
        return Err(NotInPostgis::Srid.into());
    }
    write_ewkb(stored, out)
}

/// The id of the reference system, and what is behind it.
fn srid_of(stored: &[u8]) -> Result<(u32, &[u8]), ConvertError> {
    if stored.is_empty() { Err(ConvertError::NoGeometry) } else { number(stored) }
}

/// Looks through a geometry, which must be of this kind if one is given, and returns what is behind it.
fn check(wkb: &[u8], wanted: Option<u32>, depth: usize) -> Result<&[u8], ConvertError> {
    let (&order, wkb) = wkb.split_first().ok_or(ConvertError::Malformed)?;
    let (kind, wkb) = number(wkb)?;
    if order != LITTLE_ENDIAN || !KINDS.contains(&kind) || wanted.is_some_and(|wanted| wanted != kind) {
        return Err(ConvertError::Malformed);
    }
    if depth > DEPTH_MAX {
        return Err(NotInPostgis::TooDeep.into());
    }
    if kind == POINT {
        let (point, rest) = points(wkb, 1)?;
        let is_nan = |ordinate: &[u8; ORDINATE]| f64::from_le_bytes(*ordinate).is_nan();
        let (ordinates, _) = point.as_chunks();
        return if ordinates.iter().all(is_nan) { Err(NotInPostgis::EmptyPoint.into()) } else { Ok(rest) };
    }
    let (count, mut rest) = number(wkb)?;
    match kind {
        LINE_STRING => {
            (_, rest) = points(rest, count)?;
            let too_few = (1..LINE_POINTS_MIN).contains(&length(count)?);
            if too_few { Err(NotInPostgis::FewPoints.into()) } else { Ok(rest) }
        }
        POLYGON => {
            for _ in 0..count {
                rest = ring(rest)?;
            }
            Ok(rest)
        }
        _ => {
            let of_parts = (kind < GEOMETRY_COLLECTION).then(|| kind - MULTI);
            // Each takes bytes off the rest: a count that lies ends with them.
            for _ in 0..count {
                rest = check(rest, of_parts, depth + 1)?;
            }
            Ok(rest)
        }
    }
}

/// PostGIS compares the first point with the last by their bytes.
fn ring(wkb: &[u8]) -> Result<&[u8], ConvertError> {
    let (count, wkb) = number(wkb)?;
    let (points, rest) = points(wkb, count)?;
    let ends = points.first_chunk::<{ 2 * ORDINATE }>().zip(points.last_chunk::<{ 2 * ORDINATE }>());
    match ends {
        Some((first, last)) if first != last => Err(NotInPostgis::OpenRing.into()),
        Some(_) if length(count)? >= RING_POINTS_MIN => Ok(rest),
        _ => Err(NotInPostgis::FewPoints.into()),
    }
}

fn number(wkb: &[u8]) -> Result<(u32, &[u8]), ConvertError> {
    let (number, rest) = wkb.split_first_chunk::<4>().ok_or(ConvertError::Malformed)?;
    Ok((u32::from_le_bytes(*number), rest))
}

fn points(wkb: &[u8], count: u32) -> Result<(&[u8], &[u8]), ConvertError> {
    let bytes = length(count)?.checked_mul(2 * ORDINATE).ok_or(ConvertError::Malformed)?;
    wkb.split_at_checked(bytes).ok_or(ConvertError::Malformed)
}

fn length(count: u32) -> Result<usize, ConvertError> {
    usize::try_from(count).map_err(|_| ConvertError::Malformed)
}

pub(super) fn write_ewkb(stored: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    let (srid, wkb) = srid_of(stored)?;
    let (&order, wkb) = wkb.split_first().ok_or(ConvertError::Malformed)?;
    let (kind, shape) = number(wkb)?;
    if order != LITTLE_ENDIAN || !KINDS.contains(&kind) {
        return Err(ConvertError::Malformed);
    }
    field::put_with(out, |out| {
        out.push(order);
        if srid == 0 {
            out.extend_from_slice(&kind.to_le_bytes());
        } else {
            out.extend_from_slice(&(kind | HAS_SRID).to_le_bytes());
            out.extend_from_slice(&srid.to_le_bytes());
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

    fn geometry(srid: u32, wkb: &[u8]) -> Result<Vec<u8>, ConvertError> {
        let mut out = Vec::new();
        let stored = [&srid.to_le_bytes()[..], wkb].concat();
        let written = write_geometry(&stored, &mut out);
        assert!(written.is_ok() || out.is_empty());
        written.map(|()| out.split_off(4))
    }

    fn wkb(kind: u32, parts: &[Vec<u8>]) -> Vec<u8> {
        let count = u32::try_from(parts.len()).unwrap();
        [&[1][..], &kind.to_le_bytes(), &count.to_le_bytes(), &parts.concat()].concat()
    }

    fn xy(x: f64, y: f64) -> Vec<u8> {
        [x.to_le_bytes(), y.to_le_bytes()].concat()
    }

    fn ring(points: &[(f64, f64)]) -> Vec<u8> {
        let points: Vec<Vec<u8>> = points.iter().map(|(x, y)| xy(*x, *y)).collect();
        [u32::try_from(points.len()).unwrap().to_le_bytes().to_vec(), points.concat()].concat()
    }

    fn point(x: f64, y: f64) -> Vec<u8> {
        [&[1, 1, 0, 0, 0][..], &xy(x, y)].concat()
    }

    /// Point, line, polygon, their collections, and what collections may hold besides.
    fn taken() -> Vec<Vec<u8>> {
        let square = ring(&[(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0)]);
        let (line, polygon) =
            (wkb(2, &[xy(0.0, -0.0), xy(f64::NAN, 1.0)]), wkb(3, &[square.clone(), square]));
        vec![
            POINT.to_vec(),
            point(f64::NAN, 1.0),
            point(f64::INFINITY, -0.0),
            wkb(4, &[point(1.0, 2.0), point(1.0, 2.0)]),
            wkb(5, std::slice::from_ref(&line)),
            wkb(6, std::slice::from_ref(&polygon)),
            wkb(7, &[]),
            wkb(7, &[line.clone(), wkb(7, &[]), wkb(7, &[wkb(4, &[point(3.0, 4.0)]), polygon.clone()])]),
            line,
            polygon,
        ]
    }

    #[test]
    fn what_postgis_keeps_goes_as_it_is() {
        for wkb in taken() {
            assert_eq!(geometry(0, &wkb), Ok(wkb.clone()));
            let flagged = geometry(SRID_MAX, &wkb).unwrap();
            assert_eq!(flagged, ewkb(&[&SRID_MAX.to_le_bytes()[..], &wkb].concat()).unwrap());
        }
    }

    #[test]
    fn what_postgis_would_refuse_or_change_is_named() {
        let polygon = |points: &[(f64, f64)]| wkb(3, &[ring(points)]);
        let nested = |levels: usize| (1..levels).fold(POINT.to_vec(), |inner, _| wkb(7, &[inner]));
        let open = polygon(&[(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]);
        for (wkb, expected) in [
            (open.clone(), NotInPostgis::OpenRing),
            (wkb(7, &[wkb(6, &[open])]), NotInPostgis::OpenRing),
            // Equal, and not by their bytes.
            (polygon(&[(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (-0.0, 0.0)]), NotInPostgis::OpenRing),
            (polygon(&[(0.0, 0.0), (1.0, 0.0), (0.0, 0.0)]), NotInPostgis::FewPoints),
            (polygon(&[]), NotInPostgis::FewPoints),
            (wkb(2, &[xy(0.0, 0.0)]), NotInPostgis::FewPoints),
            (point(f64::NAN, -f64::NAN), NotInPostgis::EmptyPoint),
            (wkb(4, &[point(f64::NAN, f64::NAN)]), NotInPostgis::EmptyPoint),
            (nested(DEPTH_MAX + 1), NotInPostgis::TooDeep),
        ] {
            assert_eq!(geometry(4326, &wkb), Err(expected.into()), "{wkb:?}");
        }
        assert!(geometry(4326, &nested(DEPTH_MAX)).is_ok());
        for srid in [SRID_MAX + 1, u32::MAX] {
            assert_eq!(geometry(srid, &POINT), Err(NotInPostgis::Srid.into()));
        }
    }

    /// A count that lies, a part of another kind, and bytes that are missing or too many.
    #[test]
    fn a_geometry_that_contradicts_itself_is_malformed() {
        for whole in taken() {
            for length in 0..whole.len() {
                assert_eq!(geometry(0, &whole[..length]), Err(ConvertError::Malformed), "{whole:?} {length}");
            }
            assert_eq!(geometry(0, &[&whole[..], &[0]].concat()), Err(ConvertError::Malformed));
        }
        let count_lies = [&[1, 7, 0, 0, 0][..], &u32::MAX.to_le_bytes()].concat();
        for wkb in [count_lies, wkb(4, &[wkb(7, &[])]), wkb(6, &[POINT.to_vec()])] {
            assert_eq!(geometry(0, &wkb), Err(ConvertError::Malformed));
        }
        assert_eq!(write_geometry(&[], &mut Vec::new()), Err(ConvertError::NoGeometry));
        assert_eq!(write_geometry(&[0; 3], &mut Vec::new()), Err(ConvertError::Malformed));
    }
}
