//! `[schema]`: for all columns and tables by the table of keys, and for single ones by tables named
//! after them.

use toml::Value as Toml;

use super::Problems;
use super::settings::Settings;
use crate::schema::collation::CollationChoice;
use crate::schema::overrides::Overrides;
use crate::schema::partitions::PartitionChoice;

/// The section's name.
pub(super) const SECTION: &str = "schema";

const COLLATION: &str = "collation";
const PARTITIONS: &str = "partitions";

/// What the file has of single columns and tables.
#[derive(Debug, Default)]
pub(super) struct Single {
    collations: Vec<(String, CollationChoice)>,
    partitions: Vec<(String, PartitionChoice)>,
}

/// Reads the tables of single columns and tables; whether they are there is for the source to say.
pub(super) fn of_single(section: &toml::Table, problems: &mut Problems) -> Single {
    let mut single = Single::default();
    for (name, content) in section {
        let Toml::Table(content) = content else { continue };
        let parts = name.split('.').count();
        if parts < 2 || name.split('.').any(str::is_empty) {
            let message = "is no column and no table: write [schema.\"database.table.column\"] or \
                [schema.\"database.table\"], in quotes";
            problems.add(format!("{SECTION}.{name:?}"), message);
            continue;
        }
        for (key, value) in content {
            let path = format!("{SECTION}.{name:?}.{key}");
            let text = value.as_str();
            match key.as_str() {
                COLLATION if parts >= 3 => match text.and_then(CollationChoice::from_name) {
                    Some(choice) => single.collations.push((name.clone(), choice)),
                    None => problems.add(path, one_of(CollationChoice::NAMES)),
                },
                // A name may hold a dot.
                PARTITIONS => match text.and_then(PartitionChoice::from_name) {
                    Some(choice) => single.partitions.push((name.clone(), choice)),
                    None => problems.add(path, one_of(PartitionChoice::NAMES)),
                },
                _ if parts >= 3 => {
                    problems.add(path, format!("is no setting of a column: there is {COLLATION}"));
                }
                _ => problems.add(path, format!("is no setting of a table: there is {PARTITIONS}")),
            }
        }
    }
    single
}

fn one_of(names: &[&str]) -> String {
    format!("must be one of {}", names.join(", "))
}

/// Puts the section's choices where those of `[types]` are.
pub(super) fn set(settings: &Settings<'_>, overrides: &mut Overrides) {
    if let Some(choice) = settings.text("schema.collation").and_then(CollationChoice::from_name) {
        overrides.set_collation(None, choice);
    }
    if let Some(choice) = settings.text("schema.partitions").and_then(PartitionChoice::from_name) {
        overrides.set_partitions(None, choice);
    }
    for (column, choice) in &settings.single.collations {
        overrides.set_collation(Some(column), *choice);
    }
    for (table, choice) in &settings.single.partitions {
        overrides.set_partitions(Some(table), *choice);
    }
}
