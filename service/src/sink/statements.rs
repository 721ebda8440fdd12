//! The SQL text of the statements that write rows. Pure.
//!
//! Parameters carry no casts: a cast such as `$1::varchar(3)` would cut or round in silence, and
//! without one the server infers the column's type, which is compared with the model's.

use crate::halt::{Halt, Reason};
use crate::schema::render::collation::by_bytes;
use crate::schema::render::{qualified, quote_ident};
use crate::schema::{Column, TableModel, TableName, TargetType};

/// Inserts a row, or replaces the one with the same key. Parameters: every column in order.
pub(super) fn upsert(model: &TableModel) -> Result<String, Halt> {
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
    Ok(format!("{} ON CONFLICT ({key}) DO {action}", insert(model)?))
}

/// Inserts a row. Parameters: every column in order.
pub(super) fn insert(model: &TableModel) -> Result<String, Halt> {
    let values: Vec<_> = (1..=model.columns.len()).map(|n| format!("${n}")).collect();
    let columns = names(model.columns.iter())?;
    Ok(format!("INSERT INTO {} ({columns}) VALUES ({})", qualified(&model.name)?, values.join(", ")))
}

/// Deletes the row with a key. Parameters: the key columns in key order.
pub(super) fn delete(model: &TableModel) -> Result<String, Halt> {
    let mut conditions = Vec::new();
    for (column, n) in key_columns(model)?.into_iter().zip(1..) {
        conditions.push(format!("{} = ${n}", by_bytes(column)?));
    }
    Ok(format!("DELETE FROM ONLY {} WHERE {}", qualified(&model.name)?, conditions.join(" AND ")))
}

/// Deletes one of the rows that equal the parameters, every column in order.
pub(super) fn delete_matching(model: &TableModel) -> Result<String, Halt> {
    Ok(format!("DELETE FROM ONLY {} WHERE ctid = ({})", qualified(&model.name)?, first_match(model, 1)?))
}

/// Updates one of the rows that equal the second half of the parameters to the first half.
pub(super) fn update_matching(model: &TableModel) -> Result<String, Halt> {
    let mut assignments = Vec::new();
    for (column, n) in model.columns.iter().zip(1..) {
        assignments.push(format!("{} = ${n}", quote_ident(&column.name)?));
    }
    let table = qualified(&model.name)?;
    let first_match = first_match(model, model.columns.len() + 1)?;
    Ok(format!("UPDATE ONLY {table} SET {} WHERE ctid = ({first_match})", assignments.join(", ")))
}

/// Takes the lock of a write: no change of the table's definition goes with it.
pub(super) fn lock(model: &TableModel) -> Result<String, Halt> {
    Ok(format!("LOCK TABLE ONLY {} IN ROW EXCLUSIVE MODE", qualified(&model.name)?))
}

/// Takes the lock of a change of the table's definition: nobody else uses the table then.
pub(super) fn lock_whole(name: &TableName) -> Result<String, Halt> {
    Ok(format!("LOCK TABLE ONLY {} IN ACCESS EXCLUSIVE MODE", qualified(name)?))
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
        conditions.push(same(column, n)?);
    }
    Ok(format!(
        "SELECT ctid FROM ONLY {} WHERE {} LIMIT 1",
        qualified(&model.name)?,
        conditions.join(" AND ")
    ))
}

/// Whether a column holds exactly the parameter's value. Where `=` takes values for equal that
/// print differently (0 and -0, 1 and 1.0 in JSON, a collation's equals), bytes are compared.
fn same(column: &Column, n: usize) -> Result<String, Halt> {
    let name = quote_ident(&column.name)?;
    Ok(match column.target {
        TargetType::Real => format!("float4send({name}) IS NOT DISTINCT FROM float4send(${n})"),
        TargetType::DoublePrecision => format!("float8send({name}) IS NOT DISTINCT FROM float8send(${n})"),
        TargetType::Jsonb => format!("jsonb_send({name}) IS NOT DISTINCT FROM jsonb_send(${n})"),
        TargetType::RealArray => {
            format!("array_send({name}) IS NOT DISTINCT FROM array_send(${n}::real[])")
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
            "INSERT INTO \"app\".\"a\"\"b\" (\"a\", \"b\", \"c\") VALUES ($1, $2, $3) \
             ON CONFLICT (\"c\", \"a\") DO UPDATE SET \"b\" = EXCLUDED.\"b\""
        );
        assert_eq!(
            delete(&model).unwrap(),
            "DELETE FROM ONLY \"app\".\"a\"\"b\" WHERE \"c\" = $1 AND \"a\" = $2"
        );
    }

    #[test]
    fn an_upsert_of_nothing_but_a_key_does_nothing() {
        let model = model(&[0], &[("a", TargetType::Integer)]);
        assert!(upsert(&model).unwrap().ends_with("ON CONFLICT (\"a\") DO NOTHING"));
    }

    #[test]
    fn keyless_rows_are_matched_whole_and_once() {
        let model = model(&[], &[("a", TargetType::Integer), ("j", TargetType::Jsonb)]);
        assert_eq!(
            update_matching(&model).unwrap(),
            "UPDATE ONLY \"app\".\"a\"\"b\" SET \"a\" = $1, \"j\" = $2 WHERE ctid = (\
             SELECT ctid FROM ONLY \"app\".\"a\"\"b\" WHERE \"a\" IS NOT DISTINCT FROM $3 \
             AND jsonb_send(\"j\") IS NOT DISTINCT FROM jsonb_send($4) LIMIT 1)"
        );
        assert!(upsert(&model).is_err());
        assert!(delete(&model).is_err());
    }
}
