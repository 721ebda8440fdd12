//! Rows whose texts the target may find equal, or not, otherwise than the source does: those in unique
//! keys with a collation of the target's.

use std::collections::BTreeSet;

use super::{Condition, Outcome};
use crate::schema::collation::{Likeness, TargetCollation};
use crate::schema::details::IndexKind;
use crate::schema::{Column, TableModel};
use crate::source::reader::{quote, quote_table};

/// Characters of a text that are looked at: as many as an index of MySQL's can hold, so that the time
/// which the server gives a regular expression is enough.
const KEY_CHARS_MAX: u32 = 3_072;

/// Characters of which MySQL and ICU have the same idea: those that came with Unicode 9 or before, but
/// for five whose weights have changed since.
const OF_UNICODE_9: &str = "[[:age=9.0:]-[\u{0f82}\u{1de3}\u{a9b5}\u{101fd}\u{111c9}]]";

/// What to count in the table, a condition for each column and kind.
pub(super) fn conditions(model: &TableModel) -> Vec<Condition> {
    let unique = unique_columns(model);
    let columns = model.columns.iter().filter(|column| unique.contains(column.name.as_str()));
    columns.flat_map(|column| of_column(model, column)).collect()
}

fn unique_columns(model: &TableModel) -> BTreeSet<&str> {
    let key = model.key.iter().filter_map(|&at| model.columns.get(at)).map(|column| column.name.as_str());
    let unique = |index: &&crate::schema::details::Index| index.unique && index.kind == IndexKind::Ordered;
    let indexes = model.details.indexes.iter().filter(unique);
    key.chain(indexes.flat_map(|index| index.parts.iter().filter_map(|part| part.column.as_deref())))
        .collect()
}

fn of_column(model: &TableModel, column: &Column) -> Vec<Condition> {
    let Some(collation) = &column.details.target_collation else { return Vec::new() };
    let name = format!("{}.{}", quote_table(&model.name), quote(&column.name));
    let Likeness { pads, .. } = collation.likeness();
    let condition = |kind, sql| Condition {
        subject: column.name.clone(),
        kind,
        outcome: Outcome::ComparedOtherwise,
        sql,
        rows: 0,
    };
    let mut conditions = vec![condition("other_characters", other_characters(&name, collation))];
    if pads {
        conditions.push(condition("trailing_blanks", format!("{name} LIKE '% '")));
    }
    conditions
}

/// Holds for texts with characters in which the two collations may differ. The server's regular
/// expressions are ICU's (MySQL manual, "Regular Expressions"), which know the version of Unicode that
/// a character came with.
fn other_characters(name: &str, collation: &TargetCollation) -> String {
    let agreed = if collation.likeness().follows_unicode { OF_UNICODE_9 } else { "[ -~]" };
    format!("CONVERT(LEFT({name}, {KEY_CHARS_MAX}) USING utf8mb4) COLLATE utf8mb4_bin REGEXP '[^{agreed}]'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::details::example_column;
    use crate::schema::{MysqlType, TableName, TargetType};

    #[test]
    fn columns_of_unique_keys_are_counted() {
        let column = |name: &str, collation: &str| {
            let mysql = MysqlType::Varchar { length: 9, charset: "utf8mb4".to_owned() };
            let mut column = example_column(name, mysql, TargetType::Varchar { length: 9 });
            column.details.target_collation = TargetCollation::of(collation);
            column
        };
        let model = TableModel {
            name: TableName { database: "app".to_owned(), table: "t".to_owned() },
            columns: vec![
                column("k", "utf8mb4_0900_ai_ci"),
                column("u", "utf8mb4_general_ci"),
                column("free", "utf8mb4_general_ci"),
                column("bytes", "utf8mb4_bin"),
            ],
            key: vec![0, 3],
            key_is_primary: true,
            engine: "InnoDB".to_owned(),
            default_charset: None,
            details: serde_json::from_str(
                r#"{"indexes": [{"name": "u", "unique": true, "kind": "ordered", "visible": true,
                    "parts": [{"column": "u", "prefix": null, "descending": false}]}]}"#,
            )
            .unwrap(),
        };
        let found: Vec<String> = conditions(&model)
            .into_iter()
            .map(|Condition { subject, kind, sql, .. }| format!("{subject} {kind} {sql}"))
            .collect();
        assert_eq!(
            found,
            [
                "k other_characters CONVERT(LEFT(`app`.`t`.`k`, 3072) USING utf8mb4) COLLATE utf8mb4_bin REGEXP \
                    '[^[[:age=9.0:]-[\u{0f82}\u{1de3}\u{a9b5}\u{101fd}\u{111c9}]]]'",
                "u other_characters CONVERT(LEFT(`app`.`t`.`u`, 3072) USING utf8mb4) COLLATE utf8mb4_bin REGEXP '[^[ -~]]'",
                "u trailing_blanks `app`.`t`.`u` LIKE '% '",
            ]
        );
    }
}
