//! Spatial columns: what MySQL says of one, and what PostGIS makes of it.
//!
//! Where the target's database has the extension `postgis`, a spatial column becomes its `geometry`
//! with the subtype and the reference system that the source's column is restricted to; else it becomes
//! `bytea`. The choice is made when the target's column is, and kept with the model: a table that has
//! spatial columns keeps their kind whatever is installed or configured later.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ddl::{DataType, TypeName};
use super::overrides::TypeChoice;
use super::{Column, MysqlType, TableModel, TargetType};

/// The greatest id of a spatial reference system that PostGIS keeps: it makes another one of those beyond
/// and tells so in a notice (PostGIS source `liblwgeom/liblwgeom.h.in`, `SRID_MAXIMUM`). MySQL's have 32
/// bits.
pub const SRID_MAX: u32 = 999_999;

/// What a column's values may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeometryKind {
    /// Any of the others.
    Geometry,
    Point,
    LineString,
    Polygon,
    MultiPoint,
    MultiLineString,
    MultiPolygon,
    /// To MySQL the three before are collections as well.
    GeometryCollection,
}

impl GeometryKind {
    /// By `information_schema.COLUMNS.DATA_TYPE`.
    #[must_use]
    pub fn from_data_type(name: &str) -> Option<Self> {
        Some(match name {
            "geometry" => Self::Geometry,
            "point" => Self::Point,
            "linestring" => Self::LineString,
            "polygon" => Self::Polygon,
            "multipoint" => Self::MultiPoint,
            "multilinestring" => Self::MultiLineString,
            "multipolygon" => Self::MultiPolygon,
            "geomcollection" => Self::GeometryCollection,
            _ => return None,
        })
    }

    /// The name in a type modifier, as PostGIS prints it.
    const fn modifier(self) -> &'static str {
        match self {
            Self::Geometry => "Geometry",
            Self::Point => "Point",
            Self::LineString => "LineString",
            Self::Polygon => "Polygon",
            Self::MultiPoint => "MultiPoint",
            Self::MultiLineString => "MultiLineString",
            Self::MultiPolygon => "MultiPolygon",
            Self::GeometryCollection => "GeometryCollection",
        }
    }
}

/// A spatial column's type on the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    pub kind: GeometryKind,
    /// The one reference system of the column's values; `None` where each may have its own.
    pub srid: Option<u32>,
}

impl Shape {
    /// As a column definition has it; `None` for what is not spatial.
    #[must_use]
    pub fn of_definition(data_type: &DataType) -> Option<Self> {
        let TypeName::Spatial(kind) = data_type.name else { return None };
        // The server takes none that has more bits.
        Some(Self { kind, srid: data_type.srid.and_then(|srid| u32::try_from(srid).ok()) })
    }
}

/// Why a column can't be a geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoGeometryType {
    #[error("is to be geometry by configuration, and the target's database has no extension postgis")]
    NotInstalled,
    #[error(
        "has SRID {0}, and PostGIS keeps none above {SRID_MAX}: set its type to bytea in the configuration"
    )]
    Srid(u32),
}

/// The target's type of a spatial column that is to be made.
///
/// # Errors
/// Where that type can't be had, or would not hold the column's values.
pub fn target(
    shape: Shape,
    choice: Option<TypeChoice>,
    postgis: Option<&str>,
) -> Result<TargetType, NoGeometryType> {
    match (choice, postgis) {
        (Some(TypeChoice::Geometry), None) => Err(NoGeometryType::NotInstalled),
        (Some(TypeChoice::Geometry) | None, Some(_)) => geometry(shape),
        _ => Ok(TargetType::Bytea),
    }
}

/// The geometry that holds every value of the source's column. A type modifier without a reference
/// system admits any, so that PostGIS has none for MySQL's 0.
///
/// # Errors
/// For a reference system that PostGIS would change.
pub const fn geometry(shape: Shape) -> Result<TargetType, NoGeometryType> {
    let srid = match shape.srid {
        None => 0,
        Some(srid) if srid <= SRID_MAX => srid,
        Some(srid) => return Err(NoGeometryType::Srid(srid)),
    };
    let kind = match shape.kind {
        // PostGIS's modifier admits no MULTIPOINT and the like.
        GeometryKind::GeometryCollection => GeometryKind::Geometry,
        kind => kind,
    };
    Ok(TargetType::Geometry { kind, srid })
}

/// Keeps the recorded choice between geometry and bytea for columns to come, where the table has made
/// one.
pub fn keep_choice(present: &mut TableModel, recorded: &TableModel) {
    if recorded.columns.iter().any(|column| column.mysql == MysqlType::Geometry) {
        present.details.postgis.clone_from(&recorded.details.postgis);
    }
}

/// Whether both have the same spatial columns as geometries: a copy that is not complete is begun again
/// where the configuration, or what is installed, has changed that.
#[must_use]
pub fn same_choice(recorded: &TableModel, present: &TableModel) -> bool {
    let is_geometry = |column: &Column| matches!(column.target, TargetType::Geometry { .. });
    recorded.columns.iter().map(is_geometry).eq(present.columns.iter().map(is_geometry))
}

/// The type with its modifier, as `format_type` prints it but for the schema.
pub(super) fn fmt_type(kind: GeometryKind, srid: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (kind, srid) {
        (GeometryKind::Geometry, 0) => f.write_str("geometry"),
        (kind, 0) => write!(f, "geometry({})", kind.modifier()),
        (kind, srid) => write!(f, "geometry({},{srid})", kind.modifier()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::TableName;
    use crate::schema::details::{TableDetails, example_column};

    const KINDS: [(&str, GeometryKind); 8] = [
        ("geometry", GeometryKind::Geometry),
        ("point", GeometryKind::Point),
        ("linestring", GeometryKind::LineString),
        ("polygon", GeometryKind::Polygon),
        ("multipoint", GeometryKind::MultiPoint),
        ("multilinestring", GeometryKind::MultiLineString),
        ("multipolygon", GeometryKind::MultiPolygon),
        ("geomcollection", GeometryKind::GeometryCollection),
    ];

    fn shown(kind: GeometryKind, srid: Option<u32>) -> String {
        geometry(Shape { kind, srid }).unwrap().to_string()
    }

    #[test]
    fn a_type_modifier_says_what_the_source_restricts() {
        assert_eq!(shown(GeometryKind::Geometry, None), "geometry");
        assert_eq!(shown(GeometryKind::Geometry, Some(0)), "geometry");
        assert_eq!(shown(GeometryKind::Geometry, Some(3857)), "geometry(Geometry,3857)");
        assert_eq!(shown(GeometryKind::Point, None), "geometry(Point)");
        assert_eq!(shown(GeometryKind::MultiPolygon, Some(4326)), "geometry(MultiPolygon,4326)");
    }

    /// A GEOMETRYCOLLECTION column of MySQL takes MULTIPOINT, and one of PostGIS does not.
    #[test]
    fn a_collection_is_not_restricted() {
        assert_eq!(shown(GeometryKind::GeometryCollection, None), "geometry");
        assert_eq!(shown(GeometryKind::GeometryCollection, Some(4326)), "geometry(Geometry,4326)");
    }

    #[test]
    fn every_spatial_type_of_the_source_has_a_kind() {
        for (name, kind) in KINDS {
            assert_eq!(GeometryKind::from_data_type(name), Some(kind));
        }
        assert_eq!(GeometryKind::from_data_type("blob"), None);
    }

    #[test]
    fn the_configuration_comes_before_what_is_installed() {
        let shape = Shape { kind: GeometryKind::Point, srid: Some(4326) };
        let geometry = Ok(TargetType::Geometry { kind: GeometryKind::Point, srid: 4326 });
        let postgis = Some("public");
        assert_eq!(target(shape, None, None), Ok(TargetType::Bytea));
        assert_eq!(target(shape, None, postgis), geometry);
        assert_eq!(target(shape, Some(TypeChoice::Geometry), postgis), geometry);
        assert_eq!(target(shape, Some(TypeChoice::Bytea), postgis), Ok(TargetType::Bytea));
        assert_eq!(target(shape, Some(TypeChoice::Geometry), None), Err(NoGeometryType::NotInstalled));
    }

    #[test]
    fn a_reference_system_beyond_those_of_postgis_is_refused() {
        let of = |srid| geometry(Shape { kind: GeometryKind::Point, srid: Some(srid) });
        assert!(of(SRID_MAX).is_ok());
        assert_eq!(of(SRID_MAX + 1), Err(NoGeometryType::Srid(1_000_000)));
        assert!(of(u32::MAX).unwrap_err().to_string().contains("SRID 4294967295"));
    }

    #[test]
    fn what_was_recorded_decides_only_where_there_is_a_spatial_column() {
        let column = example_column("g", MysqlType::Geometry, TargetType::Bytea);
        let model = |columns, postgis: Option<&str>| TableModel {
            name: TableName { database: "d".to_owned(), table: "t".to_owned() },
            columns,
            key: Vec::new(),
            key_is_primary: false,
            engine: String::new(),
            default_charset: None,
            details: TableDetails { postgis: postgis.map(str::to_owned), ..TableDetails::default() },
        };
        let mut present = model(Vec::new(), Some("gis"));
        keep_choice(&mut present, &model(Vec::new(), None));
        assert_eq!(present.details.postgis.as_deref(), Some("gis"));
        keep_choice(&mut present, &model(vec![column.clone()], None));
        assert_eq!(present.details.postgis, None);
        let geometry = Column {
            target: TargetType::Geometry { kind: GeometryKind::Geometry, srid: 0 },
            ..column.clone()
        };
        let (bytea, geometry) = (model(vec![column], None), model(vec![geometry], None));
        assert!(same_choice(&bytea, &bytea) && !same_choice(&bytea, &geometry));
    }

    /// As releases without geometries recorded it.
    #[test]
    fn an_earlier_release_s_column_is_one_without_a_shape() {
        let recorded = r#"{"name":"g","mysql":{"type":"geometry"},"target":"bytea","nullable":true,
            "auto_increment":false,"generated":false,"details":{"overridden":false}}"#;
        let column: Column = serde_json::from_str(recorded).unwrap();
        assert_eq!((column.target, column.details.shape), (TargetType::Bytea, None));
        let details: TableDetails = serde_json::from_str("{}").unwrap();
        assert_eq!(details.postgis, None);
    }

    /// The names are those of recorded models.
    #[test]
    fn a_type_is_recorded_with_its_modifier() {
        let target = TargetType::Geometry { kind: GeometryKind::MultiPoint, srid: 4326 };
        let json = serde_json::to_string(&target).unwrap();
        assert_eq!(json, r#"{"geometry":{"kind":"multi_point","srid":4326}}"#);
        assert_eq!(serde_json::from_str::<TargetType>(&json).unwrap(), target);
    }
}
