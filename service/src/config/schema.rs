//! `[schema]`: for all columns by the table of keys, and for single columns by tables named after
//! them.

use toml::Value as Toml;

use super::Problems;
use super::settings::Settings;
use crate::schema::collation::CollationChoice;
use crate::schema::overrides::Overrides;

/// The section's name.
pub(super) const SECTION: &str = "schema";

const COLLATION: &str = "collation";

/// How the texts of one column are compared, as the file has it.
pub(super) type ColumnCollation = (String, CollationChoice);

/// Reads the tables of single columns; whether the columns are there is for the source to say.
pub(super) fn of_columns(section: &toml::Table, problems: &mut Problems) -> Vec<ColumnCollation> {
    let mut collations = Vec::new();
    for (column, content) in section {
        let Toml::Table(content) = content else { continue };
        if column.split('.').count() < 3 || column.split('.').any(str::is_empty) {
            let message = "is no column: write [schema.\"database.table.column\"], in quotes";
            problems.add(format!("{SECTION}.{column:?}"), message);
            continue;
        }
        for (key, value) in content {
            let path = format!("{SECTION}.{column:?}.{key}");
            if key != COLLATION {
                problems.add(path, format!("is no setting of a column: there is {COLLATION}"));
                continue;
            }
            match value.as_str().and_then(CollationChoice::from_name) {
                Some(choice) => collations.push((column.clone(), choice)),
                None => problems.add(path, format!("must be one of {}", CollationChoice::NAMES.join(", "))),
            }
        }
    }
    collations
}

/// Puts the section's choices where those of `[types]` are.
pub(super) fn set(settings: &Settings<'_>, overrides: &mut Overrides) {
    if let Some(choice) = settings.text("schema.collation").and_then(CollationChoice::from_name) {
        overrides.set_collation(None, choice);
    }
    for (column, choice) in &settings.column_collations {
        overrides.set_collation(Some(column), *choice);
    }
}
