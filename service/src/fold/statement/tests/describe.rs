//! Operations as text, literals and all: for tests only.

use crate::schema::ddl::{
    AlterOperation, CharsetClause, ColumnAction, ColumnDefinition, DataType, DefaultValue,
    ForeignKeyDefinition, Generated, IndexDefinition, KeyPart, Literal, Position,
};

pub(super) fn operation(operation: &AlterOperation) -> String {
    match operation {
        AlterOperation::AddColumn { definition, position } => {
            format!("add {}{}", column(definition), self::position(position))
        }
        AlterOperation::DropColumn { name } => format!("drop {name}"),
        AlterOperation::ChangeColumn { old, definition, position } => {
            format!("change {old} {}{}", column(definition), self::position(position))
        }
        AlterOperation::RenameColumn { from, to } => format!("rename {from} {to}"),
        AlterOperation::AlterColumn { name, action } => match action {
            ColumnAction::SetDefault(value) => format!("alter {name} {}", default(value)),
            ColumnAction::DropDefault => format!("alter {name} drop default"),
            ColumnAction::SetVisible(visible) => format!("alter {name} visible={visible}"),
        },
        AlterOperation::AddIndex(definition) => index(definition),
        AlterOperation::DropIndex { name } => format!("drop index {name}"),
        AlterOperation::DropPrimaryKey => "drop primary".to_owned(),
        AlterOperation::RenameIndex { from, to } => format!("rename index {from} {to}"),
        AlterOperation::AlterIndex { name, visible } => format!("alter index {name} visible={visible}"),
        AlterOperation::AddForeignKey(key) => format!("foreign key {}", foreign_key(key)),
        AlterOperation::DropForeignKey { name } => format!("drop foreign key {name}"),
        AlterOperation::AddCheck { name, enforced } => format!("check {} {enforced}", optional(name)),
        AlterOperation::DropCheck { name } => format!("drop check {name}"),
        AlterOperation::AlterCheck { name, enforced } => format!("alter check {name} {enforced}"),
        AlterOperation::DropConstraint { name } => format!("drop constraint {name}"),
        AlterOperation::RenameTo(name) => format!("rename to {}.{}", name.database, name.table),
        AlterOperation::ConvertToCharset(clause) => {
            format!("convert{}", clause.as_ref().map_or_else(String::new, charset))
        }
        AlterOperation::DefaultCharset(clause) => format!("default{}", charset(clause)),
        AlterOperation::Engine(name) => format!("engine {name}"),
        AlterOperation::Comment(text) => format!("comment {}", literal(text)),
        AlterOperation::AutoIncrement(value) => format!("auto_increment {value}"),
        AlterOperation::Option(name) => format!("option {name}"),
        AlterOperation::Partition(operation) => format!("partition {operation:?}"),
        AlterOperation::Execution(what) => format!("execution {what}"),
        AlterOperation::Unknown { label } => format!("unknown {label}"),
        other => format!("{other:?}"),
    }
}

fn optional(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("-")
}

fn position(position: &Position) -> String {
    match position {
        Position::Unstated => String::new(),
        Position::First => " first".to_owned(),
        Position::After(name) => format!(" after {name}"),
    }
}

fn column(column: &ColumnDefinition) -> String {
    let mut words = vec![column.name.clone(), data_type(&column.data_type)];
    words.extend(column.nullable.map(|nullable| if nullable { "null" } else { "not null" }.to_owned()));
    words.extend(column.default.as_ref().map(default));
    words.extend(column.on_update_now.map(|digits| format!("on update now({digits})")));
    let flags = [
        (column.auto_increment, "auto_increment"),
        (column.key.primary, "primary"),
        (column.key.unique, "unique"),
        (!column.visible, "invisible"),
        (column.generated == Some(Generated::Virtual), "virtual"),
        (column.generated == Some(Generated::Stored), "stored"),
    ];
    words.extend(flags.iter().filter(|(set, _)| *set).map(|(_, word)| (*word).to_owned()));
    words.extend(column.comment.as_ref().map(|text| format!("comment {}", literal(text))));
    words.extend(column.references.as_ref().map(foreign_key));
    words.extend(column.checks.iter().map(|(name, enforced)| format!("check {} {enforced}", optional(name))));
    words.join(" ")
}

fn data_type(data_type: &DataType) -> String {
    let mut text = format!("{:?}", data_type.name).to_lowercase();
    match (data_type.length, data_type.scale) {
        (Some(length), Some(scale)) => text += &format!("({length},{scale})"),
        (Some(length), None) => text += &format!("({length})"),
        _ => {}
    }
    if data_type.unsigned {
        text += " unsigned";
    }
    text += &charset(&data_type.charset);
    if !data_type.labels.is_empty() {
        let labels: Vec<String> = data_type.labels.iter().map(literal).collect();
        text += &format!(" [{}]", labels.join("|"));
    }
    if let Some(srid) = data_type.srid {
        text += &format!(" srid {srid}");
    }
    text
}

fn charset(clause: &CharsetClause) -> String {
    let mut text = String::new();
    if let Some(name) = &clause.charset {
        text += &format!(" charset {name}");
    }
    if let Some(name) = &clause.collation {
        text += &format!(" collate {name}");
    }
    if clause.binary {
        text += " binary";
    }
    text
}

fn default(value: &DefaultValue) -> String {
    match value {
        DefaultValue::Literal(value) => format!("default {}", literal(value)),
        DefaultValue::Now(digits) => format!("default now({digits})"),
        DefaultValue::Expression => "default (…)".to_owned(),
    }
}

fn literal(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) => format!("<{text}>"),
        Literal::Number(text) => text.clone(),
        Literal::Bytes(bytes) => format!("bytes {bytes:02x?}"),
        Literal::Bits(bytes) => format!("bits {bytes:02x?}"),
        Literal::Boolean(value) => value.to_string(),
        Literal::Temporal(text) => format!("temporal <{text}>"),
        Literal::Null => "null".to_owned(),
        Literal::Opaque => "opaque".to_owned(),
    }
}

fn index(index: &IndexDefinition) -> String {
    let parts: Vec<String> = index
        .parts
        .iter()
        .map(|part| match part {
            KeyPart::Column { name, prefix, descending } => {
                let prefix = prefix.map_or_else(String::new, |prefix| format!("({prefix})"));
                format!("{name}{prefix}{}", if *descending { " desc" } else { "" })
            }
            KeyPart::Expression => "(…)".to_owned(),
        })
        .collect();
    let hidden = if index.visible { "" } else { " invisible" };
    format!("index {:?} {} [{}]{hidden}", index.kind, optional(&index.name), parts.join(","))
}

fn foreign_key(key: &ForeignKeyDefinition) -> String {
    format!(
        "{} [{}] {}.{} [{}] {:?}/{:?}",
        optional(&key.name),
        key.columns.join(","),
        key.referenced.database,
        key.referenced.table,
        key.referenced_columns.join(","),
        key.on_delete,
        key.on_update
    )
}
