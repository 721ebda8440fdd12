//! Changes of a target column that a policy asks for, inside the transaction whose rows need them.

use super::client::Client;
use super::connect::LOCK_WAIT_MAX;
use super::error::{failure, while_doing};
use super::params::Params;
use super::table_state::name_params;
use super::transaction::{FencedTransaction, OpError};
use crate::halt::{Failure, Halt, Reason};
use crate::schema::policy::{ChangeForm, TargetChange};
use crate::schema::{TableModel, render};

/// Saves a table's model and nothing else of its state.
pub(super) const SAVE_MODEL: &str = "\
    UPDATE tidegate.table_state SET model = $4::text::jsonb, updated_at = clock_timestamp() \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text";

/// How long the change waits for the table: everyone who wants it queues behind that wait. When it
/// is over the cycle starts anew, with the backoff of any other failure.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '2s'";

const READ_DEFAULT: &str = "\
    SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d \
    JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum \
    WHERE d.adrelid = $1::text::regclass AND a.attname = $2::text";

/// Makes the change. Must be the transaction's first touch of the table, or the change may wait for
/// a lock of those that wait for ours. Returns the statement run.
pub(super) async fn run(
    tx: &mut FencedTransaction<'_>,
    model: &TableModel,
    change: TargetChange,
) -> Result<String, Failure> {
    let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
    let statement = render::alter_column(model, change, default_of(client, model, change).await?.as_deref())?;
    let (database, table) = (&model.name.database, &model.name.table);
    let column = model.columns.get(change.column).map_or("?", |column| column.name.as_str());
    // Back to the session's own: DEFAULT would be that of the role.
    let session_timeout = format!("SET LOCAL lock_timeout = '{}ms'", LOCK_WAIT_MAX.as_millis());
    for sql in [LOCK_TIMEOUT, &statement, &session_timeout] {
        let run = client.alter(sql).await;
        run.map_err(|error| on_table(failure("changing a column for its policy", &error), model))?;
    }
    tracing::warn!(
        table = format!("{database}.{table}"),
        column,
        kind = change.kind.name(),
        policy = change.policy().name(),
        "{}",
        match change.form {
            ChangeForm::DropNotNull => "the target's column is no longer NOT NULL: a value is stored as NULL",
            ChangeForm::Widen => "the target's column is smallint from now on: a value is neither 0 nor 1",
        }
    );
    Ok(statement)
}

/// A default has to be taken off a column and put back to change its type.
async fn default_of(
    client: &Client,
    model: &TableModel,
    change: TargetChange,
) -> Result<Option<String>, Failure> {
    let Some(column) = model.columns.get(change.column).filter(|_| change.form == ChangeForm::Widen) else {
        return Ok(None);
    };
    let doing = "reading a column's default";
    let table = render::qualified(&model.name)?;
    let row = client.query_opt(READ_DEFAULT, &[&table, &column.name]).await.map_err(while_doing(doing))?;
    row.map(|row| row.try_get(0)).transpose().map_err(while_doing(doing))
}

fn on_table(failure: Failure, model: &TableModel) -> Failure {
    match failure {
        Failure::Halt(halt) => halt.on_table(&model.name.database, &model.name.table).into(),
        retry @ Failure::Retry { .. } => retry,
    }
}

/// Parameters of [`SAVE_MODEL`].
pub(super) fn save_params(pipeline: &str, model: &TableModel) -> Result<Params, Halt> {
    let text = serde_json::to_string(model)
        .map_err(|_| Halt::new(Reason::Internal, "a table model can't be written as JSON"))?;
    Ok(name_params(pipeline, &model.name).text(&text).build())
}
