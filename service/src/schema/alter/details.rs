//! What ALTER TABLE leaves of a table's indexes and constraints. What it adds, and defaults and
//! comments, are read from the source afterwards.

use super::layout::{Slot, same};
use crate::schema::TableModel;
use crate::schema::ddl::AlterOperation;
use crate::schema::details::{Index, TableDetails};
use crate::schema::renaming::{Renaming, new_name};

/// What the operations rename.
pub(super) fn renaming(model: &TableModel, slots: &[Slot<'_>], operations: &[AlterOperation]) -> Renaming {
    let old = |slot: &Slot<'_>| model.columns.get(slot.origin?).map(|column| column.name.clone());
    let columns = slots.iter().filter_map(|slot| Some((old(slot)?, slot.name.to_owned())));
    let indexes = operations.iter().filter_map(|operation| match operation {
        AlterOperation::RenameIndex { from, to } => {
            let index = model.details.indexes.iter().find(|index| same(&index.name, from))?;
            Some((index.name.clone(), to.clone()))
        }
        _ => None,
    });
    Renaming {
        columns: columns.filter(|(old, new)| old != new).collect(),
        indexes: indexes.collect(),
        ..Renaming::of(&model.name)
    }
}

/// Indexes lose the columns that are dropped, and end with their last one.
pub(super) fn remaining(
    model: &TableModel,
    slots: &[Slot<'_>],
    operations: &[AlterOperation],
    renaming: &Renaming,
) -> TableDetails {
    let stays = |name: &str| {
        let origin = model.columns.iter().position(|column| same(&column.name, name));
        slots.iter().any(|slot| slot.origin.is_some() && slot.origin == origin)
    };
    let mut details = model.details.clone();
    details.indexes.retain(|index| !operations.iter().any(|operation| drops_index(operation, &index.name)));
    for index in &mut details.indexes {
        follow(index, operations, renaming, stays);
    }
    details.indexes.retain(|index| !index.parts.is_empty());
    details.checks.retain(|check| !operations.iter().any(|operation| drops_check(operation, &check.name)));
    for check in &mut details.checks {
        for operation in operations {
            if let AlterOperation::AlterCheck { name, enforced } = operation
                && same(name, &check.name)
            {
                check.enforced = *enforced;
            }
        }
    }
    details.foreign_keys.retain(|key| !operations.iter().any(|operation| drops_key(operation, &key.name)));
    for key in &mut details.foreign_keys {
        for column in &mut key.columns {
            *column = new_name(&renaming.columns, column).to_owned();
        }
    }
    details
}

fn follow(
    index: &mut Index,
    operations: &[AlterOperation],
    renaming: &Renaming,
    stays: impl Fn(&str) -> bool,
) {
    index.parts.retain(|part| part.column.as_deref().is_none_or(&stays));
    for name in index.parts.iter_mut().filter_map(|part| part.column.as_mut()) {
        *name = new_name(&renaming.columns, name).to_owned();
    }
    for operation in operations {
        if let AlterOperation::AlterIndex { name, visible } = operation
            && same(name, &index.name)
        {
            index.visible = *visible;
        }
    }
    index.name = new_name(&renaming.indexes, &index.name).to_owned();
}

fn drops_index(operation: &AlterOperation, index: &str) -> bool {
    matches!(operation, AlterOperation::DropIndex { name } | AlterOperation::DropConstraint { name } if same(name, index))
}

fn drops_check(operation: &AlterOperation, check: &str) -> bool {
    matches!(operation, AlterOperation::DropCheck { name } | AlterOperation::DropConstraint { name } if same(name, check))
}

fn drops_key(operation: &AlterOperation, key: &str) -> bool {
    matches!(operation, AlterOperation::DropForeignKey { name } | AlterOperation::DropConstraint { name } if same(name, key))
}
