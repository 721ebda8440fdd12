//! Collations of the target, and the index that finds rows by bytes beside them.

use super::{key_columns, qualified, quote_ident, quote_literal, quote_schema};
use crate::halt::Halt;
use crate::schema::collation::{TargetCollation, has_collated_key};
use crate::schema::{Column, TableModel, TargetType};

/// The statements that create what the table's columns are compared by, each once.
///
/// # Errors
/// `unsupported_name`.
pub fn create_collations(model: &TableModel) -> Result<Vec<String>, Halt> {
    let mut statements = Vec::new();
    for collation in model.columns.iter().filter_map(|column| column.details.target_collation.as_ref()) {
        let statement = format!(
            "CREATE COLLATION IF NOT EXISTS {} (provider = icu, locale = {}, deterministic = false)",
            qualified_collation(&model.name.database, collation)?,
            quote_literal(&collation.locale)
        );
        if !statements.contains(&statement) {
            statements.push(statement);
        }
    }
    Ok(statements)
}

fn qualified_collation(schema: &str, collation: &TargetCollation) -> Result<String, Halt> {
    Ok(format!("{}.{}", quote_schema(schema)?, quote_ident(&collation.name)?))
}

/// The clause of a column's definition, with a leading blank; empty for the database's collation.
pub(in crate::schema) fn clause(model: &TableModel, column: &Column) -> Result<String, Halt> {
    if !matches!(column.target, TargetType::Varchar { .. } | TargetType::Text) {
        return Ok(String::new());
    }
    if let Some(collation) = &column.details.target_collation {
        return Ok(format!(" COLLATE {}", qualified_collation(&model.name.database, collation)?));
    }
    // Bytes decide whether two texts are the same key, as they do in the row images.
    let mut key = model.key.iter().filter_map(|&at| model.columns.get(at));
    Ok(if key.any(|other| other.name == column.name) { " COLLATE \"C\"" } else { "" }.to_owned())
}

/// The column in comparisons by bytes, whatever its collation.
///
/// # Errors
/// `unsupported_name`.
pub fn by_bytes(column: &Column) -> Result<String, Halt> {
    let name = quote_ident(&column.name)?;
    let is_collated = column.details.target_collation.is_some();
    Ok(if is_collated { format!("{name} COLLATE \"C\"") } else { name })
}

/// The index that rows are found by where the key's own would take different keys for one.
pub(super) fn key_index(model: &TableModel) -> Result<Option<String>, Halt> {
    if !has_collated_key(model) {
        return Ok(None);
    }
    let columns = key_columns(model)?.map(by_bytes).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(format!("CREATE UNIQUE INDEX ON {} ({})", qualified(&model.name)?, columns.join(", "))))
}
