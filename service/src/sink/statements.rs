//! The SQL text of the statements that write rows. Pure.
//!
//! Parameters carry no casts: a cast such as `$1::varchar(3)` would cut or round in silence, and
//! without one the server infers the column's type, which is compared with the model's.

use crate::halt::{Halt, Reason};
use crate::schema::render::collation::by_bytes;
use crate::schema::render::{only, postgis_schema, qualified, quote_ident};
use crate::schema::{Column, TableModel, TableName, TargetType};

/// Makes a statement fail unless it touches exactly one row, so that nothing has to be read
/// before the commit is sent.
fn touching_one(statement: &str) -> String {
    format!("WITH written AS ({statement} RETURNING 1) SELECT tidegate.expect_rows(count(*), 1) FROM written")
}

/// Inserts a row, or replaces the one with the same key. Parameters: every column in order.
///
/// Fails unless the row is written; a row that is nothing but a key may be there.
pub(super) fn upsert(model: &TableModel) -> Result<String, Halt> {
    let statement = format!("{} {}", insert_values(model)?, on_conflict(model)?);
    Ok(if replaces(model) { touching_one(&statement) } else { statement })
}

/// Whether an upsert writes a row in any case: there is a column besides the key.
pub(super) fn replaces(model: &TableModel) -> bool {
    model.columns.len() > model.key.len()
}

/// [`upsert`] of many rows. Parameters: an array for every column in order.
pub(super) fn upsert_many(model: &TableModel) -> Result<String, Halt> {
    let columns = names(model.columns.iter())?;
    let arrays = placeholders(model.columns.len());
    Ok(format!(
        "INSERT INTO {} ({columns}) SELECT * FROM unnest({arrays}) {}",
        qualified(&model.name)?,
        on_conflict(model)?
    ))
}

fn on_conflict(model: &TableModel) -> Result<String, Halt> {
    let key = key_columns(model)?;
    let mut assignments = Vec::new();
    for (index, column) in model.columns.iter().enumerate() {
        if !model.key.contains(&index) {
            let name = quote_ident(&column.name)?;
            assignments.push(format!("{name} = EXCLUDED.{name}"));
        }
    }
    let action = if assignments.is_empty() {
        "NOTHING".to_owned()
    } else {
        format!("UPDATE SET {}", assignments.join(", "))
    };
    let key = key.into_iter().map(by_bytes).collect::<Result<Vec<_>, _>>()?.join(", ");
    Ok(format!("ON CONFLICT ({key}) DO {action}"))
}

/// Inserts a row, or fails. Parameters: every column in order.
pub(super) fn insert(model: &TableModel) -> Result<String, Halt> {
    Ok(touching_one(&insert_values(model)?))
}

fn insert_values(model: &TableModel) -> Result<String, Halt> {
    let columns = names(model.columns.iter())?;
    let values = placeholders(model.columns.len());
    Ok(format!("INSERT INTO {} ({columns}) VALUES ({values})", qualified(&model.name)?))
}

/// Deletes the row with a key. Parameters: the key columns in key order.
pub(super) fn delete(model: &TableModel) -> Result<String, Halt> {
    let mut conditions = Vec::new();
    for (column, n) in key_columns(model)?.into_iter().zip(1..) {
        conditions.push(format!("{} = ${n}", by_bytes(column)?));
    }
    let table = qualified(&model.name)?;
    Ok(format!("DELETE FROM {}{table} WHERE {}", only(model), conditions.join(" AND ")))
}

/// [`delete`] of many keys. Parameters: an array for every key column in key order.
pub(super) fn delete_many(model: &TableModel) -> Result<String, Halt> {
    let key = key_columns(model)?;
    let mut conditions = Vec::new();
    for (column, n) in key.iter().zip(1..) {
        conditions.push(format!("t.{} = k.c{n}", by_bytes(column)?));
    }
    let aliases: Vec<_> = (1..=key.len()).map(|n| format!("c{n}")).collect();
    Ok(format!(
        "DELETE FROM {}{} t USING unnest({}) k ({}) WHERE {}",
        only(model),
        qualified(&model.name)?,
        placeholders(key.len()),
        aliases.join(", "),
        conditions.join(" AND ")
    ))
}

/// Deletes one of the rows that equal the parameters, every column in order, or fails. Such a table is
/// not partitioned: a place within it names one row.
pub(super) fn delete_matching(model: &TableModel) -> Result<String, Halt> {
    let table = qualified(&model.name)?;
    Ok(touching_one(&format!("DELETE FROM ONLY {table} WHERE ctid = ({})", first_match(model, 1)?)))
}

/// Updates one of the rows that equal the second half of the parameters to the first half, or
/// fails.
pub(super) fn update_matching(model: &TableModel) -> Result<String, Halt> {
    let mut assignments = Vec::new();
    for (column, n) in model.columns.iter().zip(1..) {
        assignments.push(format!("{} = ${n}", quote_ident(&column.name)?));
    }
    let table = qualified(&model.name)?;
    let first_match = first_match(model, model.columns.len() + 1)?;
    let assignments = assignments.join(", ");
    Ok(touching_one(&format!("UPDATE ONLY {table} SET {assignments} WHERE ctid = ({first_match})")))
}

/// Takes the lock of a write: no change of the table's definition goes with it.
pub(super) fn lock(model: &TableModel) -> Result<String, Halt> {
    Ok(format!("LOCK TABLE ONLY {} IN ROW EXCLUSIVE MODE", qualified(&model.name)?))
}

/// Takes the lock of a change of the table's definition: nobody else uses the table then, nor a
/// partition of it.
pub(super) fn lock_whole(name: &TableName) -> Result<String, Halt> {
    Ok(format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", qualified(name)?))
}

/// Whether the table holds any row.
pub(super) fn has_rows(model: &TableModel) -> Result<String, Halt> {
    Ok(format!("SELECT EXISTS (SELECT FROM {})", qualified(&model.name)?))
}

/// COPY of rows in the binary format, every column in order.
pub(super) fn copy_in(model: &TableModel) -> Result<String, Halt> {
    let columns = names(model.columns.iter())?;
    Ok(format!("COPY {} ({columns}) FROM STDIN (FORMAT binary)", qualified(&model.name)?))
}

fn first_match(model: &TableModel, first_parameter: usize) -> Result<String, Halt> {
    let mut conditions = Vec::new();
    for (column, n) in model.columns.iter().zip(first_parameter..) {
        conditions.push(same(model, column, n)?);
    }
    Ok(format!(
        "SELECT ctid FROM ONLY {} WHERE {} LIMIT 1",
        qualified(&model.name)?,
        conditions.join(" AND ")
    ))
}

/// Whether a column holds exactly the parameter's value. Where `=` takes values for equal that
/// print differently (0 and -0, 1 and 1.0 in JSON, a collation's equals), bytes are compared. So they are
/// where a type's operators are in a schema that the session does not look into.
fn same(model: &TableModel, column: &Column, n: usize) -> Result<String, Halt> {
    let name = quote_ident(&column.name)?;
    Ok(match column.target {
        TargetType::Real => format!("float4send({name}) IS NOT DISTINCT FROM float4send(${n})"),
        TargetType::DoublePrecision => format!("float8send({name}) IS NOT DISTINCT FROM float8send(${n})"),
        TargetType::Jsonb => format!("jsonb_send({name}) IS NOT DISTINCT FROM jsonb_send(${n})"),
        TargetType::RealArray => {
            format!("array_send({name}) IS NOT DISTINCT FROM array_send(${n}::real[])")
        }
        TargetType::Geometry { .. } => {
            let schema = postgis_schema(model)?;
            format!("{name}::bytea IS NOT DISTINCT FROM ${n}::{schema}.geometry::bytea")
        }
        TargetType::Varchar { .. } | TargetType::Text => {
            format!("{name} COLLATE \"C\" IS NOT DISTINCT FROM ${n}")
        }
        _ => format!("{name} IS NOT DISTINCT FROM ${n}"),
    })
}

fn key_columns(model: &TableModel) -> Result<Vec<&Column>, Halt> {
    let missing = || Halt::new(Reason::Internal, "a table model's key names a column that it does not have");
    let columns: Option<Vec<_>> = model.key.iter().map(|&index| model.columns.get(index)).collect();
    columns.filter(|columns| !columns.is_empty()).ok_or_else(missing)
}

fn placeholders(count: usize) -> String {
    (1..=count).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ")
}

fn names<'a>(columns: impl Iterator<Item = &'a Column>) -> Result<String, Halt> {
    Ok(columns.map(|column| quote_ident(&column.name)).collect::<Result<Vec<_>, _>>()?.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::MysqlType;

    fn model(key: &[usize], columns: &[(&str, TargetType)]) -> TableModel {
        let column = |&(name, target): &(&str, TargetType)| Column {
            name: name.to_owned(),
            mysql: MysqlType::Json,
            target,
            nullable: true,
            not_null_dropped: false,
            auto_increment: false,
            generated: false,
            details: Default::default(),
        };
        TableModel {
            name: TableName { database: "app".to_owned(), table: "a\"b".to_owned() },
            columns: columns.iter().map(column).collect(),
            key: key.to_vec(),
            key_is_primary: true,
            engine: "InnoDB".to_owned(),
            default_charset: None,
            details: Default::default(),
        }
    }

    #[test]
    fn an_upsert_replaces_all_but_the_key() {
        let model =
            model(&[2, 0], &[("a", TargetType::Integer), ("b", TargetType::Text), ("c", TargetType::Text)]);
        assert_eq!(
            upsert(&model).unwrap(),
            "WITH written AS (\
             INSERT INTO \"app\".\"a\"\"b\" (\"a\", \"b\", \"c\") VALUES ($1, $2, $3) \
             ON CONFLICT (\"c\", \"a\") DO UPDATE SET \"b\" = EXCLUDED.\"b\" RETURNING 1) \
             SELECT tidegate.expect_rows(count(*), 1) FROM written"
        );
        assert_eq!(
            delete(&model).unwrap(),
            "DELETE FROM ONLY \"app\".\"a\"\"b\" WHERE \"c\" = $1 AND \"a\" = $2"
        );
    }

    #[test]
    fn many_rows_are_written_from_arrays() {
        let model = model(&[1, 0], &[("a", TargetType::Integer), ("b", TargetType::Text)]);
        assert_eq!(
            upsert_many(&model).unwrap(),
            "INSERT INTO \"app\".\"a\"\"b\" (\"a\", \"b\") SELECT * FROM unnest($1, $2) \
             ON CONFLICT (\"b\", \"a\") DO NOTHING"
        );
        assert_eq!(
            delete_many(&model).unwrap(),
            "DELETE FROM ONLY \"app\".\"a\"\"b\" t USING unnest($1, $2) k (c1, c2) \
             WHERE t.\"b\" = k.c1 AND t.\"a\" = k.c2"
        );
    }

    #[test]
    fn an_upsert_of_nothing_but_a_key_does_nothing() {
        let model = model(&[0], &[("a", TargetType::Integer)]);
        assert!(upsert(&model).unwrap().ends_with("ON CONFLICT (\"a\") DO NOTHING"));
    }

    #[test]
    fn geometries_are_matched_by_their_bytes() {
        let shape = TargetType::Geometry { kind: crate::schema::spatial::GeometryKind::Geometry, srid: 0 };
        let mut model = model(&[], &[("g", shape)]);
        assert!(delete_matching(&model).is_err());
        model.details.postgis = Some("gis".to_owned());
        let sql = delete_matching(&model).unwrap();
        let expected = r#"WHERE "g"::bytea IS NOT DISTINCT FROM $1::"gis".geometry::bytea LIMIT 1"#;
        assert!(sql.contains(expected), "{sql}");
    }

    #[test]
    fn keyless_rows_are_matched_whole_and_once() {
        let model = model(&[], &[("a", TargetType::Integer), ("j", TargetType::Jsonb)]);
        assert_eq!(
            update_matching(&model).unwrap(),
            "WITH written AS (UPDATE ONLY \"app\".\"a\"\"b\" SET \"a\" = $1, \"j\" = $2 WHERE ctid = (\
             SELECT ctid FROM ONLY \"app\".\"a\"\"b\" WHERE \"a\" IS NOT DISTINCT FROM $3 \
             AND jsonb_send(\"j\") IS NOT DISTINCT FROM jsonb_send($4) LIMIT 1) \
             RETURNING 1) SELECT tidegate.expect_rows(count(*), 1) FROM written"
        );
        assert!(upsert(&model).is_err());
        assert!(delete(&model).is_err());
    }
}
