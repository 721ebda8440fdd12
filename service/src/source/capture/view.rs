//! A read view: one REPEATABLE READ transaction.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::{Terms, open, quoted, wait_seconds};
use crate::config::SourceConfig;
use crate::gtid::Uuid;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::TableName;
use crate::source::connect::failure;

/// A connection whose transaction shows one state of the source.
pub struct View {
    conn: Conn,
}

impl View {
    pub(super) async fn open(config: &SourceConfig, server: &Uuid, terms: &Terms) -> Result<Self, Failure> {
        let mut conn = open(config, server).await?;
        // Reads wait for whoever has the whole table; the server's default is a year.
        let settings = format!("SET SESSION lock_wait_timeout={}", wait_seconds(terms.lock_deadline));
        conn.query_drop(settings).await.map_err(|error| failure("set up the session", &error))?;
        Ok(Self { conn })
    }

    /// Fixes what the view shows. Below REPEATABLE READ the server ignores the clause and says so
    /// in a warning only.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
        self.conn.query_drop(begin).await.map_err(|error| failure("open a read view", &error))?;
        if self.conn.get_warnings() > 0 {
            let detail = "the source opened a transaction without the consistent snapshot asked for";
            return Err(Halt::new(Reason::Internal, detail).into());
        }
        // What comes after it can be let go of without losing the view: see `unpin`.
        self.conn.query_drop("SAVEPOINT opened").await.map_err(|error| failure("open a read view", &error))
    }

    /// Takes the table's metadata lock, so that the table can't be changed under the view.
    pub async fn pin(&mut self, table: &TableName) -> Result<(), Failure> {
        let pin = format!("SELECT 1 FROM {} LIMIT 0", quoted(table));
        self.conn.query_drop(pin).await.map_err(|error| failure("pin a table", &error))
    }

    /// Lets go of the metadata locks that reading has taken and keeps the view. A DDL statement
    /// that waits for such a lock would make every writer of the table wait behind it.
    pub async fn unpin(&mut self) -> Result<(), Failure> {
        let rollback = "ROLLBACK TO SAVEPOINT opened";
        self.conn.query_drop(rollback).await.map_err(|error| failure("unpin a table", &error))
    }

    /// The connection, for reads inside the view.
    pub const fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }
}
