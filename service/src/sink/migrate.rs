//! The control schema's migrations.

use std::error::Error as _;
use std::time::Duration;

use refinery::error::Kind;
use sha2::{Digest, Sha256};

use super::client::Client;
use super::error::{driver_failure, while_doing};
use crate::halt::{Failure, Halt, Reason, Side};

/// The embedded SQL files.
mod embedded {
    refinery::embed_migrations!("../migrations");
}

/// Where refinery keeps what it has run.
const HISTORY: &str = "tidegate.schema_history";

/// How often a lock held by another process is asked for again.
pub(super) const LOCK_POLL: Duration = Duration::from_secs(1);

/// Brings the control schema to this release's version.
///
/// A migration runs while no writer of any pipeline in the database does: it waits for the schema
/// lock that every writer holds shared, calling `on_wait` before each pause. Nothing is locked
/// when the schema is current.
///
/// # Errors
/// A halt `checkpoint_invalid` when a newer release has migrated the schema or its history is
/// not this release's, `target_preflight` without the privilege to create it.
pub async fn run(client: &mut Client, mut on_wait: impl FnMut()) -> Result<(), Failure> {
    if is_current(client).await? {
        return Ok(());
    }
    while !try_lock(client, "SELECT pg_try_advisory_lock($1)", schema_lock_key()).await? {
        on_wait();
        tokio::time::sleep(LOCK_POLL).await;
    }
    let migrated = migrate(client).await;
    let unlock = client.execute("SELECT pg_advisory_unlock($1)", &[&schema_lock_key()]).await;
    migrated?;
    unlock.map_err(while_doing("releasing the schema lock"))?;
    Ok(())
}

/// Takes the schema lock shared for the session's life, then checks that the schema is still
/// this release's.
pub(super) async fn hold_current(client: &Client) -> Result<(), Failure> {
    if !try_lock(client, "SELECT pg_try_advisory_lock_shared($1)", schema_lock_key()).await? {
        return Err(Failure::retry(Side::Target, "the control schema is being migrated by another process"));
    }
    if is_current(client).await? {
        Ok(())
    } else {
        Err(Failure::retry(Side::Target, "the control schema was changed while taking over"))
    }
}

/// An advisory lock's key for a name: the first eight bytes of a hash, so that distinct pipelines
/// don't share one by an unlucky name.
pub(super) fn lock_key(name: &str) -> i64 {
    let digest: [u8; 32] = Sha256::digest(format!("tidegate/{name}")).into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

pub(super) async fn try_lock(client: &Client, sql: &str, key: i64) -> Result<bool, Failure> {
    let row = client.query_one(sql, &[&key]).await.map_err(while_doing("taking an advisory lock"))?;
    row.try_get(0).map_err(while_doing("taking an advisory lock"))
}

fn schema_lock_key() -> i64 {
    lock_key("schema")
}

/// Whether the history ends with this release's newest migration.
pub(super) async fn is_current(client: &Client) -> Result<bool, Failure> {
    let newest =
        embedded::migrations::runner().get_migrations().iter().map(refinery::Migration::version).max();
    let applied = applied_version(client).await?;
    match (applied, newest) {
        (Some(applied), Some(newest)) if applied > newest => Err(newer_release(applied, newest)),
        (applied, newest) => Ok(applied == newest),
    }
}

fn newer_release(applied: i32, newest: i32) -> Failure {
    let detail =
        format!("schema tidegate has version {applied}, and this release knows versions up to {newest}");
    Halt::new(Reason::CheckpointInvalid, detail).into()
}

/// The highest migration applied; `None` before the first one.
async fn applied_version(client: &Client) -> Result<Option<i32>, Failure> {
    let doing = "reading the control schema's version";
    let exists = client
        .query_one("SELECT to_regclass($1) IS NOT NULL", &[&HISTORY])
        .await
        .map_err(while_doing(doing))?
        .try_get::<_, bool>(0)
        .map_err(while_doing(doing))?;
    if !exists {
        return Ok(None);
    }
    client
        .query_one(&format!("SELECT max(version) FROM {HISTORY}"), &[])
        .await
        .map_err(while_doing(doing))?
        .try_get(0)
        .map_err(while_doing(doing))
}

async fn migrate(client: &mut Client) -> Result<(), Failure> {
    client
        .batch_execute("CREATE SCHEMA IF NOT EXISTS tidegate")
        .await
        .map_err(while_doing("creating schema tidegate"))?;
    let mut runner = embedded::migrations::runner().set_abort_divergent(true).set_abort_missing(true);
    runner.set_migration_table_name(HISTORY);
    runner.run_async(client.untimed_mut()).await.map(|_| ()).map_err(|error| migration_failure(&error))
}

fn migration_failure(error: &refinery::Error) -> Failure {
    let driver = error.kind().source().and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>());
    if let Some(driver) = driver {
        return match driver_failure("migrating the control schema", driver) {
            // What is there is not what the migrations left behind.
            Failure::Halt(halt) if halt.reason != Reason::TargetPreflight => {
                Halt::new(Reason::CheckpointInvalid, halt.detail).into()
            }
            other => other,
        };
    }
    let detail = match error.kind() {
        Kind::DivergentVersion(applied, _) => {
            format!("migration {} differs from this release's", applied.version())
        }
        Kind::MissingVersion(migration) => format!("migration {} is missing", migration.version()),
        _ => "the migrations can't be run".to_owned(),
    };
    Halt::new(Reason::CheckpointInvalid, detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_keys_differ_by_name_and_stay_the_same_between_releases() {
        assert_ne!(lock_key("pipeline/a"), lock_key("pipeline/b"));
        // A release with other keys would not exclude one that runs.
        assert_eq!(lock_key("schema"), -607_562_949_529_080_446);
    }
}
