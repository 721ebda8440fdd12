//! What ALTER TABLE makes of the collations of columns.

use super::{Altered, Resync, TargetChange};
use crate::schema::collation::CollationChoice;
use crate::schema::ddl::{AlterOperation, CharsetClause, DataType};
use crate::schema::overrides::Overrides;
use crate::schema::renaming::renamed;
use crate::schema::{Column, TableModel};

/// The collation that a column's definition gives it on the source; `None` where only the server knows:
/// which one is a character set's default is up to a variable.
pub(super) fn of_definition(
    data_type: &DataType,
    model: &TableModel,
    operations: &[AlterOperation],
) -> Option<String> {
    if data_type.charset == CharsetClause::default() {
        let is_kept = !operations.iter().any(|operation| clause(operation).is_some());
        return model.details.collation.clone().filter(|_| is_kept);
    }
    data_type.charset.collation.clone()
}

/// The collation of a table's new columns, or of a column, after the operations.
pub(super) fn after(operations: &[AlterOperation], before: Option<&String>, all: bool) -> Option<String> {
    let mut collation = before.cloned();
    for operation in operations {
        let concerns = all || matches!(operation, AlterOperation::ConvertToCharset(_));
        if let Some(clause) = clause(operation).filter(|_| concerns) {
            collation = clause.and_then(|clause| clause.collation.clone());
        }
    }
    collation
}

/// What the operation says of character sets; the inner `None` is DEFAULT.
const fn clause(operation: &AlterOperation) -> Option<Option<&CharsetClause>> {
    match operation {
        AlterOperation::ConvertToCharset(clause) => Some(clause.as_ref()),
        AlterOperation::DefaultCharset(clause) => Some(Some(clause)),
        _ => None,
    }
}

/// Gives new columns the target's collation. One that is there keeps its own.
///
/// # Errors
/// [`Resync`] for a column that would have another one if it were created, or might.
pub fn choose(altered: &mut Altered, before: &TableModel, types: &Overrides) -> Result<(), Resync> {
    let before = renamed(before, std::slice::from_ref(&altered.renaming));
    let table = &altered.model.name;
    for column in &mut altered.model.columns {
        let old = before.columns.iter().find(|old| old.name == column.name);
        let collation = column.details.collation.as_deref();
        if old.is_some_and(|old| old.mysql == column.mysql && old.details.collation.as_deref() == collation) {
            continue;
        }
        let wanted = types.target_collation(table, &column.name, &column.mysql, collation);
        let may_be_any = column.is_text()
            && collation.is_none()
            && types.collation_choice(table, &column.name) == CollationChoice::Mysql;
        let has = old.and_then(|old| old.details.target_collation.as_ref());
        if may_be_any || (old.is_some() && has != wanted.as_ref()) {
            return Err(Resync { why: "another collation of a column, or one that only the source knows" });
        }
        column.details.target_collation = wanted;
    }
    for change in &mut altered.changes {
        if let TargetChange::AddColumn { column, .. } = change {
            let chosen = altered.model.columns.iter().find(|chosen| chosen.name == column.name);
            column.details.target_collation =
                chosen.and_then(|chosen: &Column| chosen.details.target_collation.clone());
        }
    }
    Ok(())
}
