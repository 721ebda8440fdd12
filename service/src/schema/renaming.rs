//! New names for what is there: how a table's own definition, and those of tables whose foreign keys
//! point to it, follow.

use super::details::{ForeignKey, TableDetails};
use super::{TableModel, TableName};

/// What a statement has renamed of one table. Pairs are of an old and a new name, and hold at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renaming {
    pub from: TableName,
    pub to: TableName,
    pub columns: Vec<(String, String)>,
    pub indexes: Vec<(String, String)>,
}

impl Renaming {
    /// Nothing but what is renamed of the table itself.
    #[must_use]
    pub fn of(table: &TableName) -> Self {
        Self { from: table.clone(), to: table.clone(), columns: Vec::new(), indexes: Vec::new() }
    }
}

/// The new name.
#[must_use]
pub fn new_name<'a>(pairs: &'a [(String, String)], name: &'a str) -> &'a str {
    pairs.iter().find(|(old, _)| old == name).map_or(name, |(_, new)| new)
}

/// The table's name afterwards.
#[must_use]
pub fn new_table<'a>(renamings: &'a [Renaming], table: &'a TableName) -> &'a TableName {
    renamings.iter().find(|renaming| renaming.from == *table).map_or(table, |renaming| &renaming.to)
}

/// The parents' names in foreign keys. Answers whether any has changed.
pub fn follow_parents(details: &mut TableDetails, renamings: &[Renaming]) -> bool {
    let mut changed = false;
    for key in &mut details.foreign_keys {
        changed |= follow_parent(key, renamings);
    }
    changed
}

fn follow_parent(key: &mut ForeignKey, renamings: &[Renaming]) -> bool {
    let Some(renaming) = renamings.iter().find(|renaming| renaming.from == key.parent) else { return false };
    let before = key.clone();
    key.parent = renaming.to.clone();
    rename(&mut key.parent_columns, &renaming.columns);
    *key != before
}

fn rename(names: &mut [String], pairs: &[(String, String)]) {
    for name in names {
        *name = new_name(pairs, name).to_owned();
    }
}

/// The model with nothing but its names changed.
#[must_use]
pub fn renamed(model: &TableModel, renamings: &[Renaming]) -> TableModel {
    let mut model = model.clone();
    follow_parents(&mut model.details, renamings);
    let Some(renaming) = renamings.iter().find(|renaming| renaming.from == model.name) else { return model };
    model.name = renaming.to.clone();
    for column in &mut model.columns {
        column.name = new_name(&renaming.columns, &column.name).to_owned();
    }
    for index in &mut model.details.indexes {
        index.name = new_name(&renaming.indexes, &index.name).to_owned();
        for name in index.parts.iter_mut().filter_map(|part| part.column.as_mut()) {
            *name = new_name(&renaming.columns, name).to_owned();
        }
    }
    for key in &mut model.details.foreign_keys {
        rename(&mut key.columns, &renaming.columns);
    }
    model
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::details::{Action, Index, IndexKind, IndexPart, example_column};
    use crate::schema::{MysqlType, TargetType};

    fn name(table: &str) -> TableName {
        TableName { database: "app".to_owned(), table: table.to_owned() }
    }

    fn pair(old: &str, new: &str) -> (String, String) {
        (old.to_owned(), new.to_owned())
    }

    #[test]
    fn names_change_places_in_everything_that_has_them() {
        let int = || MysqlType::Int { unsigned: false };
        let columns = ["a", "b"].map(|column| example_column(column, int(), TargetType::Integer));
        let part = |column: &str| IndexPart {
            column: Some(column.to_owned()),
            prefix: None,
            descending: false,
            expression: None,
        };
        let index = Index {
            name: "i".to_owned(),
            unique: false,
            kind: IndexKind::Ordered,
            visible: true,
            parts: vec![part("a"), part("b")],
        };
        let key = ForeignKey {
            name: "f".to_owned(),
            columns: vec!["b".to_owned()],
            parent: name("t"),
            parent_columns: vec!["a".to_owned()],
            on_update: Action::NoAction,
            on_delete: Action::Cascade,
        };
        let details =
            TableDetails { indexes: vec![index], foreign_keys: vec![key], ..TableDetails::default() };
        let model = TableModel {
            name: name("t"),
            columns: columns.to_vec(),
            key: vec![0],
            key_is_primary: true,
            engine: "InnoDB".to_owned(),
            default_charset: None,
            details,
        };
        let renaming = Renaming {
            to: name("u"),
            columns: vec![pair("a", "b"), pair("b", "a")],
            indexes: vec![pair("i", "j")],
            ..Renaming::of(&name("t"))
        };
        let new = renamed(&model, std::slice::from_ref(&renaming));
        assert_eq!(new.name, name("u"));
        assert_eq!(new.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(new.details.indexes[0].name, "j");
        assert_eq!(new.details.indexes[0].parts, [part("b"), part("a")]);
        let key = &new.details.foreign_keys[0];
        assert_eq!(
            (&key.columns, &key.parent, &key.parent_columns),
            (&vec!["a".to_owned()], &name("u"), &vec!["b".to_owned()])
        );
        let back = Renaming {
            from: name("u"),
            to: name("t"),
            columns: renaming.columns,
            indexes: vec![pair("j", "i")],
        };
        assert_eq!(renamed(&new, &[back]), model);
    }
}
