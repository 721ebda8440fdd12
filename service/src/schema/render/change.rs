//! The target's DDL for what an ALTER TABLE of the source changes.

use super::collation::{clause, create_collations};
use super::{column_definition, has_identity, has_sequence, labels_check, qualified, quote_ident, type_sql};
use crate::halt::{Halt, Reason};
use crate::schema::alter::{Altered, TargetChange};
use crate::schema::{Column, TableModel, TargetType};

/// What the statements need to be told of the target.
pub trait Target {
    /// The value that the rows that exist get in a new column, as an SQL literal; `None` is NULL.
    fn fill(&self, column: &str) -> Option<&str>;

    /// The constraints that keep a column to its present labels.
    fn label_checks(&self, column: &str) -> &[String];
}

/// The statements that carry the changes out, in order. Each kind of change that allows it goes
/// into one statement with its like, so that the target rewrites and scans a table once.
///
/// # Errors
/// `unsupported_name`.
pub fn alter_table(altered: &Altered, target: &impl Target) -> Result<Vec<String>, Halt> {
    let model = &altered.model;
    let table = qualified(&model.name)?;
    let (mut drops, mut renames, mut after) = (Vec::new(), Vec::new(), Vec::new());
    let (mut defaults, mut actions) = (Vec::new(), Vec::new());
    for change in &altered.changes {
        match change {
            TargetChange::DropColumn { name } => drops.push(format!("DROP COLUMN {}", quote_ident(name)?)),
            TargetChange::RenameColumn { from, to } => {
                let (from, to) = (quote_ident(from)?, quote_ident(to)?);
                renames.push(format!("ALTER TABLE {table} RENAME COLUMN {from} TO {to}"));
            }
            TargetChange::SetType { column, to, .. } => {
                let found = find(model, column)?;
                // A default need not fit the new type. One that takes numbers from a sequence does.
                if !has_identity(found) && !has_sequence(found) {
                    defaults.push(format!("ALTER COLUMN {} DROP DEFAULT", quote_ident(column)?));
                }
                actions.push(set_type(model, column, *to)?);
            }
            TargetChange::DropNotNull { column } => {
                actions.push(format!("ALTER COLUMN {} DROP NOT NULL", quote_ident(column)?));
            }
            TargetChange::SetNotNull { column } => {
                actions.push(format!("ALTER COLUMN {} SET NOT NULL", quote_ident(column)?));
            }
            TargetChange::AddColumn { column, .. } => {
                let fill = target.fill(&column.name);
                actions.push(add_column(model, column, fill)?);
                if fill.is_some() {
                    after.push(format!("ALTER COLUMN {} DROP DEFAULT", quote_ident(&column.name)?));
                }
            }
            TargetChange::SetLabels { column } => {
                for check in target.label_checks(column) {
                    drops.push(format!("DROP CONSTRAINT {}", quote_ident(check)?));
                }
                let check = labels_check(find(model, column)?)?;
                actions.extend(check.map(|check| format!("ADD {check}")));
            }
            _ => {}
        }
    }
    let joined = |actions: Vec<String>| {
        (!actions.is_empty()).then(|| format!("ALTER TABLE {table} {}", actions.join(", ")))
    };
    let mut statements: Vec<String> = Vec::new();
    if !actions.is_empty() {
        statements.extend(create_collations(model)?);
    }
    statements.extend(joined(drops));
    statements.append(&mut renames);
    statements.extend(joined(defaults));
    statements.extend(joined(actions));
    statements.extend(joined(after));
    Ok(statements)
}

fn find<'a>(model: &'a TableModel, column: &str) -> Result<&'a Column, Halt> {
    let missing = || Halt::new(Reason::Internal, "a change is of a column that the table does not have");
    model.columns.iter().find(|candidate| candidate.name == column).ok_or_else(missing)
}

fn set_type(model: &TableModel, column: &str, to: TargetType) -> Result<String, Halt> {
    let name = quote_ident(column)?;
    let collation = clause(model, find(model, column)?)?;
    let to = type_sql(model, to)?;
    Ok(format!("ALTER COLUMN {name} TYPE {to}{collation} USING {name}::{to}"))
}

/// The default is there for the rows that exist: the target stores it once and rewrites nothing.
fn add_column(model: &TableModel, column: &Column, fill: Option<&str>) -> Result<String, Halt> {
    let definition = column_definition(model, column, None)?;
    let target = type_sql(model, column.target)?;
    let default = fill.map(|literal| format!(" DEFAULT {literal}::{target}")).unwrap_or_default();
    Ok(format!("ADD COLUMN {definition}{default}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::alter::Fill;
    use crate::schema::details::example_column;
    use crate::schema::renaming::Renaming;
    use crate::schema::{MysqlType, TableName};

    struct Told;

    impl Target for Told {
        fn fill(&self, column: &str) -> Option<&str> {
            (column == "added").then_some("'7'")
        }

        fn label_checks(&self, _: &str) -> &[String] {
            &[]
        }
    }

    fn column(name: &str, target: TargetType) -> Column {
        let mysql = MysqlType::Int { unsigned: false };
        Column { nullable: false, ..example_column(name, mysql, target) }
    }

    #[test]
    fn what_can_goes_into_one_statement() {
        let columns = vec![column("k", TargetType::Text), column("added", TargetType::Integer)];
        let name = TableName { database: "app".to_owned(), table: "t".to_owned() };
        let renaming = Renaming::of(&name);
        let model = TableModel {
            name,
            columns,
            key: vec![0],
            key_is_primary: true,
            engine: "InnoDB".to_owned(),
            default_charset: None,
            details: Default::default(),
        };
        let (from, to) = (TargetType::Varchar { length: 3 }, TargetType::Text);
        let changes = vec![
            TargetChange::DropColumn { name: "gone".to_owned() },
            TargetChange::RenameColumn { from: "old".to_owned(), to: "k".to_owned() },
            TargetChange::SetType { column: "k".to_owned(), from, to },
            TargetChange::AddColumn { column: model.columns[1].clone(), fill: Fill::Int(7), default: None },
            TargetChange::NotCarried("a comment"),
        ];
        let statements = alter_table(&Altered { model, changes, renaming }, &Told).unwrap();
        assert_eq!(
            statements,
            [
                r#"ALTER TABLE "app"."t" DROP COLUMN "gone""#,
                r#"ALTER TABLE "app"."t" RENAME COLUMN "old" TO "k""#,
                r#"ALTER TABLE "app"."t" ALTER COLUMN "k" DROP DEFAULT"#,
                r#"ALTER TABLE "app"."t" ALTER COLUMN "k" TYPE text COLLATE "C" USING "k"::text, ADD COLUMN "added" integer NOT NULL DEFAULT '7'::integer"#,
                r#"ALTER TABLE "app"."t" ALTER COLUMN "added" DROP DEFAULT"#,
            ]
        );
    }
}
