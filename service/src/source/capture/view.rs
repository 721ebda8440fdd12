//! A read view: one REPEATABLE READ transaction.

use super::{Terms, other_server, quoted, wait_seconds};
use crate::config::SourceConfig;
use crate::gtid::Uuid;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::TableName;
use crate::source::connect::{session, session_failure};
use crate::source::session::Session;

/// A connection whose transaction shows one state of the source.
pub struct View {
    session: Session,
}

impl View {
    pub(super) async fn open(config: &SourceConfig, server: &Uuid, terms: &Terms) -> Result<Self, Failure> {
        let mut session = session(config).await?;
        let uuid = session.value("SELECT @@server_uuid").await;
        let uuid = uuid.map_err(|error| session_failure("read its identity", &error))?;
        if !uuid.is_some_and(|uuid| uuid.parse() == Ok(*server)) {
            return Err(other_server());
        }
        // Reads wait for whoever has the whole table; the server's default is a year.
        let settings = format!("SET SESSION lock_wait_timeout={}", wait_seconds(terms.lock_deadline));
        session.execute(&settings).await.map_err(|error| session_failure("set up the session", &error))?;
        Ok(Self { session })
    }

    /// Fixes what the view shows. Below REPEATABLE READ the server ignores the clause and says so
    /// in a warning only.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
        if self.run("open a read view", begin).await? > 0 {
            let detail = "the source opened a transaction without the consistent snapshot asked for";
            return Err(Halt::new(Reason::Internal, detail).into());
        }
        // What comes after it can be let go of without losing the view: see `unpin`.
        self.run("open a read view", "SAVEPOINT opened").await.map(drop)
    }

    /// Takes the table's metadata lock, so that the table can't be changed under the view.
    pub async fn pin(&mut self, table: &TableName) -> Result<(), Failure> {
        let pin = format!("SELECT 1 FROM {} LIMIT 0", quoted(table));
        let pinned = self.session.value(&pin).await.map(drop);
        pinned.map_err(|error| session_failure("pin a table", &error))
    }

    /// Lets go of the metadata locks that reading has taken and keeps the view. A DDL statement
    /// that waits for such a lock would make every writer of the table wait behind it.
    pub async fn unpin(&mut self) -> Result<(), Failure> {
        self.run("unpin a table", "ROLLBACK TO SAVEPOINT opened").await.map(drop)
    }

    /// Gives the view up.
    pub async fn close(self) {
        self.session.close().await;
    }

    async fn run(&mut self, doing: &str, statement: &str) -> Result<u16, Failure> {
        self.session.execute(statement).await.map_err(|error| session_failure(doing, &error))
    }

    /// The session, for reads inside the view.
    pub const fn session(&mut self) -> &mut Session {
        &mut self.session
    }
}
