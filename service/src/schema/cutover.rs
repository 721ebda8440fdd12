//! What the target needs once the application moves, and a replica must not have: numbers that go on,
//! columns that compute and update themselves. For a person to look at and run; nothing of it is run
//! here.

use super::expression;
use super::names::Candidates;
use super::render::collation::clause;
use super::render::{has_identity, has_sequence, qualified, quote_ident, quote_literal};
use super::{Column, TableModel, TargetType};
use crate::halt::Halt;

/// Statements, and comments where there is none, in the order in which they are run. `counter` is the
/// next number that the source would give.
///
/// # Errors
/// `unsupported_name`.
pub(super) fn statements(model: &TableModel, counter: Option<u64>) -> Result<Vec<String>, Halt> {
    let mut statements = Vec::new();
    for column in &model.columns {
        if has_identity(column) || has_sequence(column) {
            statements.push(next_number(model, column, counter)?);
        }
        if column.generated {
            statements.push(generated(model, column)?);
        }
    }
    statements.extend(update_trigger(model)?);
    Ok(statements)
}

/// Numbers of rows that the source has deleted are not given again: the counter is beyond them. One that
/// is beyond bigint has given its last number.
fn next_number(model: &TableModel, column: &Column, counter: Option<u64>) -> Result<String, Halt> {
    let (table, name) = (qualified(&model.name)?, quote_ident(&column.name)?);
    let greatest = format!("(SELECT coalesce(max({name}), 0)::bigint + 1 FROM {table})");
    let next = match counter.and_then(|counter| i64::try_from(counter).ok()) {
        Some(counter) => format!("greatest({greatest}, {counter})"),
        None => greatest,
    };
    Ok(format!(
        "SELECT setval(pg_get_serial_sequence({}, {}), {next}, false)",
        quote_literal(&table),
        quote_literal(&column.name)
    ))
}

/// The column is the last one then, and what was built on it has to be built again.
fn generated(model: &TableModel, column: &Column) -> Result<String, Halt> {
    let (table, name) = (qualified(&model.name)?, quote_ident(&column.name)?);
    let generation = column.details.generation.as_ref();
    let expression =
        generation.and_then(|generation| expression::translate(&generation.expression, model, false));
    let Some(expression) = expression else {
        return Ok(format!(
            "-- {table}.{name}: its expression has no exact counterpart, and is to be written by hand"
        ));
    };
    let null = if column.nullable { "" } else { " NOT NULL" };
    Ok(format!(
        "ALTER TABLE {table} DROP COLUMN {name}, ADD COLUMN {name} {}{} GENERATED ALWAYS AS ({}) STORED{null}",
        column.target,
        clause(model, column)?,
        expression.sql
    ))
}

/// The time at which the statement began, cut to the column's digits as MySQL cuts it; `None` for a
/// column that is set to something else by configuration.
fn now(column: &Column) -> Option<String> {
    let (digits, now) = match column.target {
        TargetType::Timestamp { digits } => (digits, "statement_timestamp()::timestamp"),
        TargetType::TimestampTz { digits } => (digits, "statement_timestamp()"),
        _ => return None,
    };
    Some(match digits {
        0 => format!("date_trunc('second', {now})"),
        3 => format!("date_trunc('milliseconds', {now})"),
        _ => now.to_owned(),
    })
}

/// MySQL sets such a column when another one changes and the statement does not set it itself. A trigger
/// can't tell a column that is set to what it was from one that is not set. Generated columns are NULL in
/// NEW before the update (PostgreSQL manual, "Generated Columns"), and change with others only.
fn update_trigger(model: &TableModel) -> Result<Vec<String>, Halt> {
    let mut assignments = Vec::new();
    for column in model.columns.iter().filter(|column| column.details.updates_itself) {
        let name = quote_ident(&column.name)?;
        let Some(now) = now(column) else { continue };
        assignments.push(format!(
            "IF NEW.{name} IS NOT DISTINCT FROM OLD.{name} THEN NEW.{name} := {now}; END IF; "
        ));
    }
    if assignments.is_empty() {
        return Ok(Vec::new());
    }
    let table = qualified(&model.name)?;
    let name = quote_ident(&Candidates::of_index(&model.name, "on_update").plain)?;
    let schema = quote_ident(&model.name.database)?;
    let of = |row: &str| -> Result<String, Halt> {
        let stored = model.columns.iter().filter(|column| !column.generated);
        let values = stored.map(|column| Ok(format!("{row}.{}", quote_ident(&column.name)?)));
        Ok(format!("ROW({})", values.collect::<Result<Vec<_>, Halt>>()?.join(", ")))
    };
    let body = format!(
        "BEGIN IF {} IS DISTINCT FROM {} THEN {}END IF; RETURN NEW; END",
        of("NEW")?,
        of("OLD")?,
        assignments.concat()
    );
    Ok(vec![
        format!(
            "CREATE FUNCTION {schema}.{name}() RETURNS trigger LANGUAGE plpgsql AS {}",
            quote_literal(&body)
        ),
        format!(
            "CREATE TRIGGER {name} BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {schema}.{name}()"
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::details::{Generation, example_column};
    use crate::schema::{MysqlType, TableName};

    #[test]
    fn what_a_replica_must_not_have_is_told() {
        let int = || MysqlType::Int { unsigned: false };
        let mut id = example_column("id", int(), TargetType::Integer);
        id.auto_increment = true;
        let generated = |name: &str, expression: &str| {
            let mut column = example_column(name, int(), TargetType::Integer);
            column.generated = true;
            column.nullable = name != "twice";
            column.details.generation = Some(Generation { expression: expression.to_owned(), stored: false });
            column
        };
        let mut seen =
            example_column("seen", MysqlType::DateTime { digits: 3 }, TargetType::Timestamp { digits: 3 });
        seen.details.updates_itself = true;
        let model = TableModel {
            name: TableName { database: "app".to_owned(), table: "it's".to_owned() },
            columns: vec![id, generated("twice", "(`id` * 2)"), generated("year", "year(`seen`)"), seen],
            key: vec![0],
            key_is_primary: true,
            engine: "InnoDB".to_owned(),
            default_charset: None,
            details: Default::default(),
        };
        assert_eq!(
            statements(&model, Some(7)).unwrap(),
            [
                r#"SELECT setval(pg_get_serial_sequence('"app"."it''s"', 'id'), greatest((SELECT coalesce(max("id"), 0)::bigint + 1 FROM "app"."it's"), 7), false)"#,
                r#"ALTER TABLE "app"."it's" DROP COLUMN "twice", ADD COLUMN "twice" integer GENERATED ALWAYS AS (("id"::numeric * 2)) STORED NOT NULL"#,
                r#"-- "app"."it's"."year": its expression has no exact counterpart, and is to be written by hand"#,
                r#"CREATE FUNCTION "app"."it's_on_update"() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF ROW(NEW."id", NEW."seen") IS DISTINCT FROM ROW(OLD."id", OLD."seen") THEN IF NEW."seen" IS NOT DISTINCT FROM OLD."seen" THEN NEW."seen" := date_trunc(''milliseconds'', statement_timestamp()::timestamp); END IF; END IF; RETURN NEW; END'"#,
                r#"CREATE TRIGGER "it's_on_update" BEFORE UPDATE ON "app"."it's" FOR EACH ROW EXECUTE FUNCTION "app"."it's_on_update"()"#,
            ]
        );
    }
}
