//! A table's statements, prepared on one connection and checked against its model.

use tokio_postgres::Statement;
use tokio_postgres::types::Type;

use super::client::Client;
use super::error::failure;
use super::{arrays, statements};
use crate::halt::{Failure, Halt, Reason};
use crate::schema::{Column, TableModel, TargetType};

/// How a table's changes are written. A statement that must touch one row fails when it does not.
pub(super) enum Prepared {
    Keyed {
        upsert: Statement,
        delete: Statement,
        /// For many rows at once: prepared when there are many for the first time, where a column's
        /// values can be an array.
        many: Option<Many>,
    },
    /// A change finds its row by all of its columns.
    Keyless { insert: Statement, update: Statement, delete: Statement },
}

/// Statements that take an array for each column.
pub(super) struct Many {
    pub(super) upsert: Statement,
    /// Whether every row is one that the upsert counts.
    pub(super) upserts_all: bool,
    pub(super) delete: Statement,
}

impl Prepared {
    /// Sees to it that the statements for many rows are there, where there can be any.
    pub(super) async fn prepare_many(&mut self, client: &Client, model: &TableModel) -> Result<(), Failure> {
        let Self::Keyed { many: many @ None, .. } = self else { return Ok(()) };
        let arrays = model.columns.iter().map(|column| arrays::array_type(column.target));
        let Some(columns) = arrays.collect::<Option<Vec<Type>>>() else { return Ok(()) };
        let key: Vec<Type> = model.key.iter().filter_map(|&index| columns.get(index)).cloned().collect();
        *many = Some(Many {
            upsert: typed(client, &statements::upsert_many(model)?, &columns).await?,
            upserts_all: statements::replaces(model),
            delete: typed(client, &statements::delete_many(model)?, &key).await?,
        });
        Ok(())
    }
}

/// Parameters of arrays have their types given: unnest takes any.
async fn typed(client: &Client, sql: &str, types: &[Type]) -> Result<Statement, Failure> {
    client.prepare(sql, types).await.map_err(|error| failure("preparing a table's statements", &error))
}

/// Prepares a table's statements. A relation or column that is missing or of another type is a
/// halt `target_drift`.
pub(super) async fn prepare(client: &Client, model: &TableModel) -> Result<Prepared, Failure> {
    let columns: Vec<&Column> = model.columns.iter().collect();
    if model.key.is_empty() {
        let both: Vec<&Column> = columns.iter().chain(&columns).copied().collect();
        return Ok(Prepared::Keyless {
            insert: one(client, &statements::insert(model)?, &columns).await?,
            update: one(client, &statements::update_matching(model)?, &both).await?,
            delete: one(client, &statements::delete_matching(model)?, &columns).await?,
        });
    }
    let key: Vec<&Column> = model.key.iter().filter_map(|&index| model.columns.get(index)).collect();
    Ok(Prepared::Keyed {
        upsert: one(client, &statements::upsert(model)?, &columns).await?,
        delete: one(client, &statements::delete(model)?, &key).await?,
        many: None,
    })
}

async fn one(client: &Client, sql: &str, columns: &[&Column]) -> Result<Statement, Failure> {
    let statement =
        client.prepare(sql, &[]).await.map_err(|error| failure("preparing a table's statements", &error))?;
    check_parameters(statement.params(), columns)?;
    Ok(statement)
}

fn check_parameters(inferred: &[Type], columns: &[&Column]) -> Result<(), Halt> {
    if inferred.len() != columns.len() {
        return Err(Halt::new(Reason::Internal, "a table's statement has another number of parameters"));
    }
    for (inferred, column) in inferred.iter().zip(columns) {
        if !takes(inferred, column.target) {
            let detail = format!("column {:?} is {inferred} on the target", column.name);
            return Err(Halt::new(Reason::TargetDrift, detail));
        }
    }
    Ok(())
}

/// Whether a parameter of the inferred type takes the binary form of the column's type.
fn takes(inferred: &Type, target: TargetType) -> bool {
    match target {
        TargetType::Boolean => *inferred == Type::BOOL,
        TargetType::SmallInt => *inferred == Type::INT2,
        TargetType::Integer => *inferred == Type::INT4,
        TargetType::BigInt => *inferred == Type::INT8,
        TargetType::Numeric { .. } => *inferred == Type::NUMERIC,
        TargetType::Real => *inferred == Type::FLOAT4,
        TargetType::DoublePrecision => *inferred == Type::FLOAT8,
        // Comparisons of varchar take text, and both have one binary form.
        TargetType::Varchar { .. } | TargetType::Text => {
            *inferred == Type::TEXT || *inferred == Type::VARCHAR
        }
        TargetType::Bytea => *inferred == Type::BYTEA,
        TargetType::Bit { .. } => *inferred == Type::BIT,
        TargetType::Date => *inferred == Type::DATE,
        TargetType::Timestamp { .. } => *inferred == Type::TIMESTAMP,
        TargetType::TimestampTz { .. } => *inferred == Type::TIMESTAMPTZ,
        TargetType::Interval { .. } => *inferred == Type::INTERVAL,
        TargetType::Jsonb => *inferred == Type::JSONB,
        TargetType::RealArray => *inferred == Type::FLOAT4_ARRAY,
        // The table's check has seen that the column's type is that of PostGIS.
        TargetType::Geometry { .. } => inferred.name() == "geometry",
    }
}
