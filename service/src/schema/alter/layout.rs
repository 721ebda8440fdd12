//! The columns of the altered table: which stay, which are new, and their order.

use super::Resync;
use crate::schema::TableModel;
use crate::schema::ddl::{AlterOperation, ColumnDefinition, Position};

/// A column of the altered table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slot<'a> {
    pub(super) name: &'a str,
    /// Index of the column before; `None` for a new one.
    pub(super) origin: Option<usize>,
    /// What the statement defines it as; `None` for one that stays as it is, a name excepted.
    pub(super) definition: Option<&'a ColumnDefinition>,
}

/// The table's columns in their new order.
///
/// The server resolves all operations against the table as it was, and positions against the list
/// that results (server source `sql/sql_table.cc`, `prepare_fields_and_keys`): first the old
/// columns in their order, without those dropped or moved; then, in the statement's order, what is
/// new or moved.
pub(super) fn layout<'a>(
    model: &'a TableModel,
    operations: &'a [AlterOperation],
) -> Result<Vec<Slot<'a>>, Resync> {
    check_named(model, operations)?;
    let mut slots: Vec<Slot<'a>> = Vec::with_capacity(model.columns.len());
    for (index, column) in model.columns.iter().enumerate() {
        let mut slot = Slot { name: &column.name, origin: Some(index), definition: None };
        let mut stays = true;
        for operation in operations {
            match operation {
                AlterOperation::DropColumn { name } if same(name, &column.name) => stays = false,
                AlterOperation::ChangeColumn { old, definition, position } if same(old, &column.name) => {
                    slot = Slot { name: &definition.name, definition: Some(definition), ..slot };
                    stays &= *position == Position::Unstated;
                }
                AlterOperation::RenameColumn { from, to } if same(from, &column.name) => slot.name = to,
                _ => {}
            }
        }
        if stays {
            slots.push(slot);
        }
    }
    for operation in operations {
        let (definition, position, origin) = match operation {
            AlterOperation::AddColumn { definition, position } => (definition, position, None),
            AlterOperation::ChangeColumn { old, definition, position } if *position != Position::Unstated => {
                (definition, position, index_of(model, old))
            }
            _ => continue,
        };
        let slot = Slot { name: &definition.name, origin, definition: Some(definition) };
        let at = match position {
            Position::Unstated => slots.len(),
            Position::First => 0,
            Position::After(name) => {
                let found = slots.iter().position(|slot| same(slot.name, name));
                found.ok_or(Resync { why: "the position of a column" })? + 1
            }
        };
        slots.insert(at, slot);
    }
    check_unique(&slots)?;
    Ok(slots)
}

/// Every column that the statement names was there, and once.
fn check_named(model: &TableModel, operations: &[AlterOperation]) -> Result<(), Resync> {
    let mut named = Vec::new();
    for operation in operations {
        match operation {
            AlterOperation::DropColumn { name } => named.push(name),
            AlterOperation::ChangeColumn { old, .. } => named.push(old),
            AlterOperation::RenameColumn { from, .. } => named.push(from),
            AlterOperation::AlterColumn { name, .. } if index_of(model, name).is_none() => {
                return Err(Resync { why: "a column that the model does not have" });
            }
            _ => {}
        }
    }
    let twice = |(at, name): (usize, &&String)| named.iter().take(at).any(|other| same(other, name));
    if named.iter().any(|name| index_of(model, name).is_none()) || named.iter().enumerate().any(twice) {
        return Err(Resync { why: "a column that the model does not have" });
    }
    Ok(())
}

fn check_unique(slots: &[Slot<'_>]) -> Result<(), Resync> {
    let twice =
        |(at, slot): (usize, &Slot<'_>)| slots.iter().take(at).any(|other| same(other.name, slot.name));
    if slots.is_empty() || slots.iter().enumerate().any(twice) {
        return Err(Resync { why: "columns that no table can have" });
    }
    Ok(())
}

/// Index of a column by a name that a statement gives.
pub(super) fn index_of(model: &TableModel, name: &str) -> Option<usize> {
    model.columns.iter().position(|column| same(&column.name, name))
}

/// Names of columns are the same in any case (MySQL manual, "Identifier Case Sensitivity").
pub(super) fn same(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}
