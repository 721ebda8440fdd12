//! What ALTER TABLE makes of a table: the new model, and what the target's table needs for it.
//!
//! Only what gives the same rows on both sides is carried over as a change. Anything else asks for
//! the table to be copied again, which is always right.

pub mod collation;
mod conversion;
mod data_type;
mod default;
mod details;
pub mod fill;
mod layout;
mod table;

pub use fill::Fill;

use conversion::Modes;
use layout::{Slot, layout};

use super::ddl::{
    AlterOperation, ColumnDefinition, DefaultValue, ForeignKeyDefinition, IndexDefinition, IndexKind,
    KeyPart, Literal, TypeName,
};
use super::details::ColumnDetails;
use super::renaming::Renaming;
use super::spatial::Shape;
use super::types::{TypeContext, target_type};
use super::{Column, MysqlType, TableModel, TableName, TargetType, spatial};

/// What gives an ALTER TABLE its meaning besides its text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatementFacts {
    /// The statement's time in microseconds since 1970, UTC.
    pub timestamp_micros: u64,
    /// `time_zone` of the session, where the server says it.
    pub time_zone: Option<String>,
    /// What a `time_zone` of `SYSTEM` is on the source; `None` if nobody asked.
    pub system_time_zone: Option<String>,
    /// `sql_mode` of the session.
    pub sql_mode: Option<u64>,
    /// `explicit_defaults_for_timestamp`, where the server says it.
    pub explicit_defaults_for_timestamp: Option<bool>,
}

/// A table after ALTER TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct Altered {
    pub model: TableModel,
    /// In the order in which the target carries them out.
    pub changes: Vec<TargetChange>,
    /// What has another name; the table itself keeps its own here.
    pub renaming: Renaming,
}

/// The change's effect on rows can't be computed here: the table has to be copied again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resync {
    /// What of the statement asks for it; no text of the statement.
    pub why: &'static str,
}

/// One change of the target's table. Columns go by the names that they have at that moment:
/// dropping comes first, then renaming, then all that names columns as the new model does.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetChange {
    DropColumn {
        name: String,
    },
    /// In an order in which no name is taken twice; a ring of names goes over one that is free.
    RenameColumn {
        from: String,
        to: String,
    },
    /// A cast of the target gives the rows that MySQL's conversion gives.
    SetType {
        column: String,
        from: TargetType,
        to: TargetType,
    },
    DropNotNull {
        column: String,
    },
    /// No row of the source holds NULL. The target's may, where NULL stands for a zero date.
    SetNotNull {
        column: String,
    },
    AddColumn {
        column: Column,
        /// What the rows that exist get.
        fill: Fill,
        default: Option<DefaultValue>,
    },
    /// For rows to come; `None` is no default.
    SetDefault {
        column: String,
        default: Option<DefaultValue>,
    },
    SetColumnComment {
        column: String,
        comment: Option<Literal>,
    },
    /// The target's enum labels, where it checks them.
    SetLabels {
        column: String,
    },
    AddIndex(IndexDefinition),
    DropIndex {
        name: String,
    },
    RenameIndex {
        from: String,
        to: String,
    },
    AddForeignKey(ForeignKeyDefinition),
    DropForeignKey {
        name: String,
    },
    /// DROP CONSTRAINT of something that is not the primary key.
    DropConstraint {
        name: String,
    },
    SetTableComment(Literal),
    RenameTable {
        to: TableName,
    },
    /// Of no consequence for rows, and not carried to the target: what it is.
    NotCarried(&'static str),
}

/// The table after these operations.
///
/// # Errors
/// [`Resync`] where the rows that MySQL leaves behind can't be computed from those that are there.
pub fn alter(
    model: &TableModel,
    operations: &[AlterOperation],
    facts: &StatementFacts,
) -> Result<Altered, Resync> {
    for operation in operations {
        table::check(model, operation)?;
    }
    let slots = layout(model, operations)?;
    let altered = Alteration {
        model,
        operations,
        facts,
        modes: Modes::new(facts.sql_mode, &model.engine),
        charset: table::default_charset(model, operations)?,
        slots,
    };
    altered.carry_out()
}

/// A statement on a table, with what its parts have in common.
struct Alteration<'a> {
    model: &'a TableModel,
    operations: &'a [AlterOperation],
    facts: &'a StatementFacts,
    modes: Modes,
    /// The table's default character set after the statement.
    charset: Option<String>,
    slots: Vec<Slot<'a>>,
}

impl Alteration<'_> {
    fn carry_out(&self) -> Result<Altered, Resync> {
        let mut changes = self.drops();
        changes.extend(self.renames());
        let mut columns = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            let column = match (slot.origin, slot.definition) {
                (None, Some(definition)) => self.added(definition, &mut changes)?,
                (Some(origin), definition) => self.kept(slot.name, origin, definition, &mut changes)?,
                (None, None) => return Err(Resync { why: "a column without a definition" }),
            };
            columns.push(column);
        }
        let key = self.key()?;
        let renaming = details::renaming(self.model, &self.slots, self.operations);
        let mut details = details::remaining(self.model, &self.slots, self.operations, &renaming);
        details.collation = collation::after(self.operations, details.collation.as_ref(), true);
        let default_charset = self.charset.clone();
        let mut model = TableModel { columns, key, default_charset, details, ..self.model.clone() };
        for operation in self.operations {
            table::carry_over(operation, &mut model, &mut changes)?;
        }
        table::check_key(self.model, &model, self.operations)?;
        Ok(Altered { model, changes, renaming })
    }

    fn drops(&self) -> Vec<TargetChange> {
        let stays = |index: usize| self.slots.iter().any(|slot| slot.origin == Some(index));
        let dropped = self.model.columns.iter().enumerate().filter(|(index, _)| !stays(*index));
        dropped.map(|(_, column)| TargetChange::DropColumn { name: column.name.clone() }).collect()
    }

    /// In an order in which every new name is free when it is taken.
    fn renames(&self) -> Vec<TargetChange> {
        let old_name =
            |slot: &Slot<'_>| self.model.columns.get(slot.origin?).map(|column| column.name.clone());
        let kept: Vec<(String, String)> =
            self.slots.iter().filter_map(|slot| Some((old_name(slot)?, slot.name.to_owned()))).collect();
        let mut taken: Vec<String> = kept.iter().map(|(old, _)| old.clone()).collect();
        let mut open: Vec<(String, String)> = kept.into_iter().filter(|(old, new)| old != new).collect();
        let mut changes = Vec::new();
        while !open.is_empty() {
            let free = open.iter().position(|(_, to)| !taken.contains(to));
            let (from, to) = if let Some(at) = free {
                open.swap_remove(at)
            } else {
                // A ring: its first name steps aside.
                let (from, _) = open[0].clone();
                let aside = free_name(&taken);
                open[0].0.clone_from(&aside);
                (from, aside)
            };
            taken.retain(|name| *name != from);
            taken.push(to.clone());
            changes.push(TargetChange::RenameColumn { from, to });
        }
        changes
    }

    fn added(
        &self,
        definition: &ColumnDefinition,
        changes: &mut Vec<TargetChange>,
    ) -> Result<Column, Resync> {
        self.check_definition(definition)?;
        if definition.auto_increment {
            return Err(Resync { why: "AUTO_INCREMENT for rows that exist" });
        }
        if definition.generated.is_some() {
            return Err(Resync { why: "a generated column" });
        }
        let mysql = data_type::resolve(&definition.data_type, self.charset.as_deref())?;
        let nullable = definition.nullable.unwrap_or(true);
        let collation = self.collation(definition, &mysql);
        let column = Column {
            name: definition.name.clone(),
            target: self.new_target(definition, &mysql)?,
            mysql,
            nullable,
            auto_increment: false,
            generated: false,
            not_null_dropped: false,
            details: ColumnDetails {
                collation,
                shape: Shape::of_definition(&definition.data_type),
                ..ColumnDetails::default()
            },
        };
        let fill = default::fill(definition, &column.mysql, nullable, self.facts)?;
        let default = definition.default.clone();
        changes.push(TargetChange::AddColumn { column: column.clone(), fill, default });
        if let Some(comment) = &definition.comment {
            let comment = Some(comment.clone());
            changes.push(TargetChange::SetColumnComment { column: column.name.clone(), comment });
        }
        self.inline(definition, changes);
        Ok(column)
    }

    /// A column that was there before.
    fn kept(
        &self,
        name: &str,
        origin: usize,
        definition: Option<&ColumnDefinition>,
        changes: &mut Vec<TargetChange>,
    ) -> Result<Column, Resync> {
        let missing = Resync { why: "a column that the model does not have" };
        let old = self.model.columns.get(origin).ok_or(missing)?;
        let column = match definition {
            Some(definition) => self.changed(old, origin, definition)?,
            None => Column {
                name: name.to_owned(),
                mysql: table::converted(self.operations, &old.mysql)?,
                details: ColumnDetails {
                    collation: collation::after(self.operations, old.details.collation.as_ref(), false)
                        .filter(|_| old.details.collation.is_some()),
                    ..old.details.clone()
                },
                ..old.clone()
            },
        };
        if column.mysql != old.mysql && self.model.columns.iter().any(|column| column.generated) {
            return Err(Resync { why: "a change of a type in a table with generated columns" });
        }
        let column_name = || column.name.clone();
        if column.target != old.target {
            changes.push(TargetChange::SetType {
                column: column_name(),
                from: old.target,
                to: column.target,
            });
        }
        if labels(&column.mysql) != labels(&old.mysql) {
            changes.push(TargetChange::SetLabels { column: column_name() });
        }
        match (old.nullable, column.nullable) {
            (false, true) => changes.push(TargetChange::DropNotNull { column: column_name() }),
            (true, false) if !self.modes.strict => {
                return Err(Resync { why: "NOT NULL, which replaces NULL in a mode that is not strict" });
            }
            (true, false) => changes.push(TargetChange::SetNotNull { column: column_name() }),
            _ => {}
        }
        if let Some(definition) = definition {
            let (column, default) = (column_name(), definition.default.clone());
            changes.push(TargetChange::SetDefault { column, default });
            let (column, comment) = (column_name(), definition.comment.clone());
            changes.push(TargetChange::SetColumnComment { column, comment });
            self.inline(definition, changes);
        }
        Ok(column)
    }

    /// What CHANGE or MODIFY makes of a column: what they do not state ends.
    fn changed(&self, old: &Column, origin: usize, definition: &ColumnDefinition) -> Result<Column, Resync> {
        self.check_definition(definition)?;
        if old.generated || definition.generated.is_some() {
            return Err(Resync { why: "a generated column" });
        }
        if definition.auto_increment && !old.auto_increment {
            return Err(Resync { why: "AUTO_INCREMENT for rows that exist" });
        }
        let mysql = data_type::resolve(&definition.data_type, self.charset.as_deref())?;
        conversion::check(&old.mysql, &mysql, definition.data_type.name, self.modes)?;
        // The primary key's columns and numbered ones are NOT NULL without a word.
        let in_primary_key = self.model.key_is_primary && self.model.key.contains(&origin);
        let nullable = definition.nullable.unwrap_or(!in_primary_key && !definition.auto_increment);
        let zero_one = old.target == TargetType::Boolean;
        let shape = Shape::of_definition(&definition.data_type);
        let target = match (shape, old.target, old.details.overridden) {
            (Some(shape), TargetType::Geometry { .. }, _) => geometry(shape)?,
            (_, _, true) if mysql == old.mysql => old.target,
            (_, _, true) => {
                return Err(Resync { why: "another type for a column whose type is configured" });
            }
            (_, _, false) => self.target(&definition.name, &mysql, zero_one, definition.auto_increment)?,
        };
        let collation = self.collation(definition, &mysql);
        let ColumnDetails { joined, overridden, ref target_collation, .. } = old.details;
        Ok(Column {
            name: definition.name.clone(),
            target,
            mysql,
            nullable,
            auto_increment: definition.auto_increment,
            generated: false,
            not_null_dropped: old.not_null_dropped && !nullable,
            details: ColumnDetails {
                joined,
                overridden,
                collation,
                target_collation: target_collation.clone(),
                shape,
                ..ColumnDetails::default()
            },
        })
    }

    /// What a definition may not hold, whatever the column was before.
    fn check_definition(&self, definition: &ColumnDefinition) -> Result<(), Resync> {
        if definition.key.primary {
            return Err(Resync { why: table::KEY_CHANGES });
        }
        // Without that setting the server gives such columns a default, and NOT NULL.
        let implicit = definition.data_type.name == TypeName::Timestamp && definition.nullable.is_none();
        if implicit && self.facts.explicit_defaults_for_timestamp != Some(true) {
            return Err(Resync { why: "a TIMESTAMP without NULL or NOT NULL" });
        }
        let converts = |operation: &AlterOperation| matches!(operation, AlterOperation::ConvertToCharset(_));
        if self.operations.iter().any(converts) {
            return Err(Resync { why: "CONVERT TO CHARACTER SET together with a column's definition" });
        }
        Ok(())
    }

    /// The source's collation of a text column, where it is known.
    fn collation(&self, definition: &ColumnDefinition, mysql: &MysqlType) -> Option<String> {
        let collation = collation::of_definition(&definition.data_type, self.model, self.operations);
        collation.filter(|_| mysql.is_text())
    }

    /// Of a column that was not there before.
    fn new_target(&self, definition: &ColumnDefinition, mysql: &MysqlType) -> Result<TargetType, Resync> {
        match (Shape::of_definition(&definition.data_type), &self.model.details.postgis) {
            (Some(shape), Some(_)) => geometry(shape),
            _ => self.target(&definition.name, mysql, false, false),
        }
    }

    fn target(
        &self,
        column: &str,
        mysql: &MysqlType,
        only_zero_one: bool,
        auto_increment: bool,
    ) -> Result<TargetType, Resync> {
        let context = TypeContext { table: &self.model.name, column, only_zero_one, auto_increment };
        target_type(mysql, context).map_err(|_| Resync { why: "a column's type that is not converted" })
    }

    /// Indexes, foreign keys and checks that a definition declares.
    fn inline(&self, definition: &ColumnDefinition, changes: &mut Vec<TargetChange>) {
        if definition.key.unique {
            let name = definition.name.clone();
            let part = KeyPart::Column { name, prefix: None, descending: false };
            let (kind, parts) = (IndexKind::Unique, vec![part]);
            changes.push(TargetChange::AddIndex(IndexDefinition { kind, name: None, parts, visible: true }));
        }
        if let Some(key) = &definition.references {
            changes.push(TargetChange::AddForeignKey(key.clone()));
        }
        if !definition.checks.is_empty() {
            changes.push(TargetChange::NotCarried("CHECK"));
        }
    }

    /// The key's columns in their new places.
    fn key(&self) -> Result<Vec<usize>, Resync> {
        let place = |old: &usize| self.slots.iter().position(|slot| slot.origin == Some(*old));
        let key: Option<Vec<usize>> = self.model.key.iter().map(place).collect();
        key.ok_or(Resync { why: table::KEY_CHANGES })
    }
}

fn geometry(shape: Shape) -> Result<TargetType, Resync> {
    spatial::geometry(shape).map_err(|_| Resync { why: "a column with a SRID that PostGIS does not keep" })
}

fn labels(mysql: &MysqlType) -> Option<&[String]> {
    match mysql {
        MysqlType::Enum { labels } | MysqlType::Set { labels } => Some(labels),
        _ => None,
    }
}

/// A name that no column has.
fn free_name(taken: &[String]) -> String {
    let mut number = 0u32;
    loop {
        let name = format!("aside_{number}");
        if !taken.contains(&name) {
            return name;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests;
