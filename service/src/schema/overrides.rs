//! Target types and collations that the configuration sets, per column or for all of a kind.
//!
//! Only conversions that lose nothing: a value that the chosen type does not have halts as any other
//! does. DATETIME and TIMESTAMP may be exchanged with UTC as the zone of the wall clock.

use std::collections::BTreeMap;
use std::mem::discriminant;

use super::collation::{CollationChoice, TargetCollation, of_column};
use super::partitions::PartitionChoice;
use super::spatial::GeometryKind;
use super::{Column, MysqlType, TableName, TargetType};

/// A type as the configuration names it; lengths and digits are the source's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeChoice {
    Boolean,
    SmallInt,
    Integer,
    BigInt,
    DoublePrecision,
    Text,
    Bit,
    Timestamp,
    TimestampTz,
    Bytea,
    Geometry,
}

impl TypeChoice {
    const ALL: [(&'static str, Self); 11] = [
        ("boolean", Self::Boolean),
        ("smallint", Self::SmallInt),
        ("integer", Self::Integer),
        ("bigint", Self::BigInt),
        ("double precision", Self::DoublePrecision),
        ("text", Self::Text),
        ("bit", Self::Bit),
        ("timestamp", Self::Timestamp),
        ("timestamptz", Self::TimestampTz),
        ("bytea", Self::Bytea),
        ("geometry", Self::Geometry),
    ];

    /// The names, for messages.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|(name, _)| *name).collect()
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
    }

    /// The target's type for a column of this type; `None` where no exact conversion is defined. Of
    /// geometries it is the widest.
    #[must_use]
    pub const fn target(self, mysql: &MysqlType) -> Option<TargetType> {
        let is_integer = matches!(
            mysql,
            MysqlType::TinyInt { .. }
                | MysqlType::SmallInt { .. }
                | MysqlType::MediumInt { .. }
                | MysqlType::Int { .. }
                | MysqlType::BigInt { .. }
                | MysqlType::Year
        );
        Some(match (self, mysql) {
            (Self::Boolean, MysqlType::TinyInt { unsigned: false, .. } | MysqlType::Bit { width: 1 }) => {
                TargetType::Boolean
            }
            (Self::SmallInt, _) if is_integer => TargetType::SmallInt,
            (Self::Integer, _) if is_integer => TargetType::Integer,
            (Self::BigInt, _) if is_integer => TargetType::BigInt,
            (Self::DoublePrecision, MysqlType::Float { .. } | MysqlType::Double { .. }) => {
                TargetType::DoublePrecision
            }
            (
                Self::Text,
                MysqlType::Char { .. }
                | MysqlType::Varchar { .. }
                | MysqlType::Text { .. }
                | MysqlType::Enum { .. }
                | MysqlType::Set { .. },
            ) => TargetType::Text,
            (Self::Bit, MysqlType::Bit { width }) => TargetType::Bit { width: *width },
            (Self::Timestamp, MysqlType::DateTime { digits } | MysqlType::Timestamp { digits }) => {
                TargetType::Timestamp { digits: *digits }
            }
            (Self::TimestampTz, MysqlType::DateTime { digits } | MysqlType::Timestamp { digits }) => {
                TargetType::TimestampTz { digits: *digits }
            }
            (Self::Bytea, MysqlType::Geometry) => TargetType::Bytea,
            (Self::Geometry, MysqlType::Geometry) => {
                TargetType::Geometry { kind: GeometryKind::Geometry, srid: 0 }
            }
            _ => return None,
        })
    }

    /// Whether it makes this target of this source type.
    fn makes(self, mysql: &MysqlType, target: TargetType) -> bool {
        match self.target(mysql) {
            Some(TargetType::Geometry { .. }) => matches!(target, TargetType::Geometry { .. }),
            chosen => chosen == Some(target),
        }
    }
}

/// Whether some choice makes this target of this source type.
#[must_use]
pub fn converts(mysql: &MysqlType, target: TargetType) -> bool {
    TypeChoice::ALL.iter().any(|(_, choice)| choice.makes(mysql, target))
}

/// What the sections `[types]` and `[schema]` say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// By `database.table.column`.
    columns: BTreeMap<String, TypeChoice>,
    /// By `COLUMN_TYPE` such as `tinyint(1)`, or `DATA_TYPE` such as `datetime`.
    types: BTreeMap<String, TypeChoice>,
    collation: CollationChoice,
    /// By `database.table.column`.
    collations: BTreeMap<String, CollationChoice>,
    partitions: PartitionChoice,
    /// By `database.table`.
    table_partitions: BTreeMap<String, PartitionChoice>,
    /// The schema of PostGIS in the target's database, where it is installed.
    postgis: Option<String>,
}

/// Data types that some choice applies to, each with the forms that it must apply to.
fn forms(data_type: &str) -> Option<MysqlType> {
    let charset = || "utf8mb4".to_owned();
    Some(match data_type {
        "tinyint" => MysqlType::TinyInt { unsigned: false, display_width_one: true },
        "smallint" => MysqlType::SmallInt { unsigned: false },
        "mediumint" => MysqlType::MediumInt { unsigned: false },
        "int" => MysqlType::Int { unsigned: false },
        "bigint" => MysqlType::BigInt { unsigned: false },
        "year" => MysqlType::Year,
        "float" => MysqlType::Float { unsigned: false },
        "double" => MysqlType::Double { unsigned: false },
        "char" => MysqlType::Char { length: 1, charset: charset() },
        "varchar" => MysqlType::Varchar { length: 1, charset: charset() },
        "tinytext" | "text" | "mediumtext" | "longtext" => MysqlType::Text { charset: charset() },
        "enum" => MysqlType::Enum { labels: Vec::new() },
        "set" => MysqlType::Set { labels: Vec::new() },
        "bit" => MysqlType::Bit { width: 1 },
        "datetime" => MysqlType::DateTime { digits: 0 },
        "timestamp" => MysqlType::Timestamp { digits: 0 },
        name => GeometryKind::from_data_type(name).map(|_| MysqlType::Geometry)?,
    })
}

impl Overrides {
    /// Adds `key = "type"`.
    ///
    /// # Errors
    /// What is wrong with the key or the type, as the end of a sentence that starts with the key.
    pub fn add(&mut self, key: &str, name: &str) -> Result<(), String> {
        let choice = TypeChoice::from_name(name)
            .ok_or_else(|| format!("must be one of {}", TypeChoice::names().join(", ")))?;
        let data_type: String = key.chars().take_while(char::is_ascii_alphabetic).collect();
        if key.matches('.').count() >= 2 {
            self.columns.insert(key.to_owned(), choice);
        } else if let Some(form) = forms(&data_type) {
            if choice.target(&form).is_none() {
                return Err(format!("can't be {name}: no exact conversion of {data_type} is defined"));
            }
            self.types.insert(key.to_owned(), choice);
        } else {
            return Err("is neither a column as database.table.column nor a MySQL type that can be \
                 another one, as \"tinyint(1)\" or datetime"
                .to_owned());
        }
        Ok(())
    }

    /// The same for a target whose database has PostGIS in this schema, or does not have it.
    #[must_use]
    pub fn with_postgis(&self, schema: Option<String>) -> Self {
        Self { postgis: schema, ..self.clone() }
    }

    /// Whether some column is to be PostGIS's geometry, wherever it is not by default.
    #[must_use]
    pub fn names_geometry(&self) -> bool {
        self.columns.values().chain(self.types.values()).any(|choice| *choice == TypeChoice::Geometry)
    }

    /// The schema of the target's PostGIS.
    #[must_use]
    pub fn postgis(&self) -> Option<&str> {
        self.postgis.as_deref()
    }

    /// Sets how texts are compared, of one column or, without a name, of all that have no entry.
    pub fn set_collation(&mut self, column: Option<&str>, choice: CollationChoice) {
        match column {
            Some(column) => {
                self.collations.insert(column.to_owned(), choice);
            }
            None => self.collation = choice,
        }
    }

    /// Whether texts of some column may be compared otherwise than by bytes.
    #[must_use]
    pub fn has_collations(&self) -> bool {
        let mut choices = self.collations.values().chain([&self.collation]);
        choices.any(|choice| *choice == CollationChoice::Mysql)
    }

    /// The target's collation of a column with this collation on the source.
    #[must_use]
    pub fn target_collation(
        &self,
        table: &TableName,
        column: &str,
        mysql: &MysqlType,
        collation: Option<&str>,
    ) -> Option<TargetCollation> {
        of_column(self.collation_choice(table, column), mysql, collation)
    }

    /// How the texts of a column are to be compared.
    #[must_use]
    pub fn collation_choice(&self, table: &TableName, column: &str) -> CollationChoice {
        let by_column = if self.collations.is_empty() {
            None
        } else {
            self.collations.get(&format!("{}.{}.{column}", table.database, table.table))
        };
        by_column.copied().unwrap_or(self.collation)
    }

    /// Sets what partitioned tables become, one of them or, without a name, all that have no entry.
    pub fn set_partitions(&mut self, table: Option<&str>, choice: PartitionChoice) {
        match table {
            Some(table) => {
                self.table_partitions.insert(table.to_owned(), choice);
            }
            None => self.partitions = choice,
        }
    }

    /// What the table becomes if it is partitioned on the source.
    #[must_use]
    pub fn partition_choice(&self, table: &TableName) -> PartitionChoice {
        let by_table = if self.table_partitions.is_empty() {
            None
        } else {
            self.table_partitions.get(&format!("{}.{}", table.database, table.table))
        };
        by_table.copied().unwrap_or(self.partitions)
    }

    /// The choice for a column, the more exact entry first.
    #[must_use]
    pub fn choice(
        &self,
        table: &TableName,
        column: &str,
        data_type: &str,
        column_type: &str,
    ) -> Option<TypeChoice> {
        let by_type = || self.types.get(column_type).or_else(|| self.types.get(data_type));
        let by_column = if self.columns.is_empty() {
            None
        } else {
            self.columns.get(&format!("{}.{}.{column}", table.database, table.table))
        };
        by_column.or_else(by_type).copied()
    }

    /// Whether an entry may ask for another target of the column than it has. Only the source tells
    /// the type in the words that entries use.
    #[must_use]
    pub fn may_change(&self, table: &TableName, column: &Column) -> bool {
        let name = format!("{}.{}.{}", table.database, table.table, column.name);
        let is_of_type = |key: &str| {
            let data_type: String = key.chars().take_while(char::is_ascii_alphabetic).collect();
            forms(&data_type).is_some_and(|form| discriminant(&form) == discriminant(&column.mysql))
        };
        let by_type = self.types.iter().filter(|(key, _)| is_of_type(key)).map(|(_, choice)| choice);
        let mut choices = self.columns.get(&name).into_iter().chain(by_type);
        choices.any(|choice| !choice.makes(&column.mysql, column.target))
    }

    /// The columns named that are none of these.
    #[must_use]
    pub fn unmatched<'a>(&self, columns: impl Iterator<Item = (&'a TableName, &'a str)>) -> Vec<&str> {
        let named = self.columns.keys().chain(self.collations.keys());
        let mut left: BTreeMap<&str, ()> = named.map(|key| (key.as_str(), ())).collect();
        if !left.is_empty() {
            for (table, column) in columns {
                left.remove(format!("{}.{}.{column}", table.database, table.table).as_str());
            }
        }
        left.into_keys().collect()
    }

    /// The tables named that are none of these.
    #[must_use]
    pub fn unmatched_tables<'a>(&self, tables: impl Iterator<Item = &'a TableName>) -> Vec<&str> {
        let mut left: Vec<&str> = self.table_partitions.keys().map(String::as_str).collect();
        if !left.is_empty() {
            for TableName { database, table } in tables {
                let name = format!("{database}.{table}");
                left.retain(|known| *known != name);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableName {
        TableName { database: "app".to_owned(), table: "t".to_owned() }
    }

    #[test]
    fn the_more_exact_entry_decides() {
        let mut overrides = Overrides::default();
        overrides.add("app.t.c", "boolean").unwrap();
        overrides.add("tinyint(1)", "integer").unwrap();
        overrides.add("tinyint", "bigint").unwrap();
        let choice = |column, column_type| overrides.choice(&table(), column, "tinyint", column_type);
        assert_eq!(choice("c", "tinyint(1)"), Some(TypeChoice::Boolean));
        assert_eq!(choice("d", "tinyint(1)"), Some(TypeChoice::Integer));
        assert_eq!(choice("d", "tinyint"), Some(TypeChoice::BigInt));
        assert_eq!(overrides.choice(&table(), "d", "int", "int"), None);
        let name = table();
        assert_eq!(overrides.unmatched([(&name, "c")].into_iter()), [""; 0]);
        assert_eq!(overrides.unmatched([(&name, "d")].into_iter()), ["app.t.c"]);
    }

    #[test]
    fn what_has_no_exact_conversion_is_refused() {
        let mut overrides = Overrides::default();
        for (key, name) in [
            ("datetime", "boolean"),
            ("json", "text"),
            ("blob", "geometry"),
            ("point", "text"),
            ("decimal", "bigint"),
            ("app.t", "text"),
            ("int", "uuid"),
        ] {
            assert!(overrides.add(key, name).is_err(), "{key} = {name}");
        }
        assert_eq!(overrides, Overrides::default());
        overrides.add("geomcollection", "bytea").unwrap();
        overrides.add("app.t.g", "geometry").unwrap();
        let unsigned = MysqlType::TinyInt { unsigned: true, display_width_one: false };
        assert_eq!(TypeChoice::Boolean.target(&unsigned), None);
        assert!(converts(&MysqlType::DateTime { digits: 3 }, TargetType::TimestampTz { digits: 3 }));
        assert!(!converts(&MysqlType::DateTime { digits: 3 }, TargetType::TimestampTz { digits: 0 }));
    }
}
