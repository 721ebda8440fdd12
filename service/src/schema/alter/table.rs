//! Operations on the table as a whole: its options, indexes, partitions and key.

use super::conversion::includes;
use super::data_type::charset_of;
use super::layout::same;
use super::{Resync, TargetChange};
use crate::schema::ddl::{
    AlterOperation, CharsetClause, ColumnAction, IndexDefinition, IndexKind, KeyPart, PartitionOperation,
};
use crate::schema::{MysqlType, TableModel};

pub(super) const KEY_CHANGES: &str = "the key that rows are found by";

/// Longest VARCHAR in bytes; a longer one becomes a TEXT.
const VARCHAR_BYTES_MAX: u64 = 65_535;

/// Whether the operation leaves rows alone that no column operation speaks of.
pub(super) fn check(model: &TableModel, operation: &AlterOperation) -> Result<(), Resync> {
    let why = match operation {
        AlterOperation::Unknown { .. } => "a clause that is not understood",
        AlterOperation::DropPrimaryKey => KEY_CHANGES,
        AlterOperation::AddIndex(index) if index.kind == IndexKind::Primary => KEY_CHANGES,
        // Which of them is the key depends on indexes that the model does not have.
        AlterOperation::DropIndex { .. } | AlterOperation::DropConstraint { .. }
            if !model.key_is_primary && !model.key.is_empty() =>
        {
            KEY_CHANGES
        }
        AlterOperation::DropColumn { .. } if !model.key_is_primary => KEY_CHANGES,
        AlterOperation::Engine(engine) if !engine.eq_ignore_ascii_case(&model.engine) => {
            "another storage engine"
        }
        AlterOperation::DiscardTablespace | AlterOperation::ImportTablespace => {
            "rows that come or go with a tablespace"
        }
        AlterOperation::Partition(partition) => match partition {
            PartitionOperation::Drop | PartitionOperation::Truncate => "rows that go with a partition",
            PartitionOperation::Exchange => "rows that change places with those of another table",
            PartitionOperation::DiscardTablespace | PartitionOperation::ImportTablespace => {
                "rows that come or go with a tablespace"
            }
            PartitionOperation::Repair => "rows that the repair of a partition may lose",
            PartitionOperation::By
            | PartitionOperation::Remove
            | PartitionOperation::Add
            | PartitionOperation::Coalesce
            | PartitionOperation::Reorganize
            | PartitionOperation::Rebuild
            | PartitionOperation::Optimize
            | PartitionOperation::Analyze
            | PartitionOperation::Check
            | PartitionOperation::Secondary => return Ok(()),
        },
        _ => return Ok(()),
    };
    Err(Resync { why })
}

/// The table's default character set after the statement.
pub(super) fn default_charset(
    model: &TableModel,
    operations: &[AlterOperation],
) -> Result<Option<String>, Resync> {
    let mut charset = model.default_charset.clone();
    for operation in operations {
        let clause = match operation {
            AlterOperation::ConvertToCharset(Some(clause)) | AlterOperation::DefaultCharset(clause) => clause,
            AlterOperation::ConvertToCharset(None) => {
                return Err(Resync { why: "the database's default character set, which is not known" });
            }
            _ => continue,
        };
        if clause == &CharsetClause::default() {
            return Err(Resync { why: "the database's default character set, which is not known" });
        }
        charset = charset_of(clause);
    }
    Ok(charset)
}

/// A column's type after CONVERT TO CHARACTER SET, if the statement holds one.
pub(super) fn converted(operations: &[AlterOperation], mysql: &MysqlType) -> Result<MysqlType, Resync> {
    let clause = operations.iter().find_map(|operation| match operation {
        AlterOperation::ConvertToCharset(Some(clause)) => charset_of(clause),
        _ => None,
    });
    let Some(new) = clause else { return Ok(mysql.clone()) };
    let refused = Resync { why: "a character set without all characters of the old one" };
    let charset = |old: &str| if includes(&new, old) { Ok(new.clone()) } else { Err(refused) };
    Ok(match mysql {
        MysqlType::Char { length, charset: old } => {
            MysqlType::Char { length: *length, charset: charset(old)? }
        }
        MysqlType::Varchar { length, charset: old } => {
            let charset = charset(old)?;
            let known = crate::schema::charset::Charset::from_name(&charset).ok_or(refused)?;
            if u64::from(*length) * u64::from(known.max_bytes()) > VARCHAR_BYTES_MAX {
                return Err(Resync { why: "a VARCHAR that becomes too long for one" });
            }
            MysqlType::Varchar { length: *length, charset }
        }
        // The server takes a longer TEXT where the old one could become too short.
        MysqlType::Text { charset: old } => MysqlType::Text { charset: charset(old)? },
        MysqlType::Enum { labels } | MysqlType::Set { labels } => {
            let unicode = includes(&new, "utf8mb3");
            let ascii = includes(&new, "ascii") && labels.iter().all(|label| label.is_ascii());
            if !unicode && !ascii {
                return Err(refused);
            }
            mysql.clone()
        }
        other => other.clone(),
    })
}

/// What the operation is to the target's table beside its columns.
pub(super) fn carry_over(
    operation: &AlterOperation,
    model: &mut TableModel,
    changes: &mut Vec<TargetChange>,
) -> Result<(), Resync> {
    changes.push(match operation {
        AlterOperation::AlterColumn { name, action } => {
            let column = model.columns.iter().find(|column| same(&column.name, name));
            let missing = Resync { why: "ALTER COLUMN of a column that the statement changes otherwise" };
            let column = column.ok_or(missing)?.name.clone();
            match action {
                ColumnAction::SetDefault(default) => {
                    TargetChange::SetDefault { column, default: Some(default.clone()) }
                }
                ColumnAction::DropDefault => TargetChange::SetDefault { column, default: None },
                ColumnAction::SetVisible(_) => TargetChange::NotCarried("VISIBLE"),
            }
        }
        AlterOperation::AddIndex(index) => TargetChange::AddIndex(index.clone()),
        AlterOperation::DropIndex { name } => TargetChange::DropIndex { name: name.clone() },
        AlterOperation::RenameIndex { from, to } => {
            TargetChange::RenameIndex { from: from.clone(), to: to.clone() }
        }
        AlterOperation::AddForeignKey(key) => TargetChange::AddForeignKey(key.clone()),
        AlterOperation::DropForeignKey { name } => TargetChange::DropForeignKey { name: name.clone() },
        AlterOperation::DropCheck { name } | AlterOperation::DropConstraint { name } => {
            TargetChange::DropConstraint { name: name.clone() }
        }
        AlterOperation::Comment(comment) => TargetChange::SetTableComment(comment.clone()),
        AlterOperation::RenameTo(name) => {
            model.name = name.clone();
            TargetChange::RenameTable { to: name.clone() }
        }
        AlterOperation::AddCheck { .. } | AlterOperation::AlterCheck { .. } => {
            TargetChange::NotCarried("CHECK")
        }
        AlterOperation::AlterIndex { .. } => TargetChange::NotCarried("INDEX VISIBLE"),
        AlterOperation::Partition(_) => TargetChange::NotCarried("PARTITION"),
        AlterOperation::Option(option) => TargetChange::NotCarried(option),
        _ => return Ok(()),
    });
    Ok(())
}

/// Without a primary key the server takes the first unique key of NOT NULL columns for one: that
/// must be the same as before.
pub(super) fn check_key(
    old: &TableModel,
    new: &TableModel,
    operations: &[AlterOperation],
) -> Result<(), Resync> {
    if old.key_is_primary {
        return Ok(());
    }
    let not_null = |name: &str| new.columns.iter().any(|column| same(&column.name, name) && !column.nullable);
    // A prefix may be the whole of its column.
    let may_be_key = |index: &IndexDefinition| {
        index.kind == IndexKind::Unique
            && index.parts.iter().all(|part| match part {
                KeyPart::Column { name, .. } => not_null(name),
                KeyPart::Expression => false,
            })
    };
    let changes_key = operations.iter().any(|operation| match operation {
        AlterOperation::AddIndex(index) => may_be_key(index),
        AlterOperation::AddColumn { definition, .. } => definition.key.unique && not_null(&definition.name),
        // A column of an index that we do not know, or of the key.
        AlterOperation::ChangeColumn { old: name, definition, .. } => {
            let before = old.columns.iter().find(|column| same(&column.name, name));
            let after = new.columns.iter().find(|column| column.name == definition.name);
            definition.key.unique
                || before.zip(after).is_none_or(|(before, after)| {
                    before.nullable != after.nullable || before.mysql != after.mysql
                })
        }
        _ => false,
    });
    if changes_key { Err(Resync { why: KEY_CHANGES }) } else { Ok(()) }
}
