//! A connection of this pipeline: the client, its control statements, and the fence.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Statement;

use super::client::Client;
use super::params::{Params, ParamsBuilder};
use super::transaction::{Expect, FencedTransaction, OpError, Origin};

/// Proof of having taken over a pipeline: transactions that carry another epoch can't commit.
#[derive(Debug, Clone)]
pub struct Fence {
    pub(super) pipeline: Arc<str>,
    pub(super) epoch: Arc<str>,
}

impl Fence {
    /// The pipeline's name.
    #[must_use]
    pub fn pipeline(&self) -> &str {
        &self.pipeline
    }
}

/// Triggers, foreign keys and rules of the target stay silent: the source has run its own, and
/// what they did is in the stream.
const SILENCE_TRIGGERS: &str = "SET LOCAL session_replication_role = replica";

/// A row lock that parallel writers share and a take-over's UPDATE waits for. Fails where the row
/// has another epoch.
const LOCK_EPOCH: &str = "\
    SELECT tidegate.expect_rows(count(*), 1) FROM (\
        SELECT FROM tidegate.pipeline WHERE name = $1::text AND epoch = $2::text::uuid FOR SHARE) held";

/// A connection that opens fenced transactions.
pub struct Session {
    client: Client,
    control: HashMap<&'static str, Statement>,
    max_in_flight: usize,
}

impl Session {
    /// `max_in_flight` bounds the statements sent and not yet answered.
    #[must_use]
    pub fn new(client: Client, max_in_flight: usize) -> Self {
        Self { client, control: HashMap::new(), max_in_flight }
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    /// Opens a transaction that holds the pipeline's epoch row. Nothing is awaited but the
    /// statements' first preparation: a lost fence shows when replies are read, at the latest at
    /// the commit.
    pub(super) async fn begin(&mut self, fence: &Fence) -> Result<FencedTransaction<'_>, OpError> {
        let mut tx =
            FencedTransaction::new(&self.client, &mut self.control, fence.clone(), self.max_in_flight);
        let epoch = ParamsBuilder::default().text(&fence.pipeline).text(&fence.epoch).build();
        let opening = [
            ("BEGIN ISOLATION LEVEL READ COMMITTED", Params::none()),
            (SILENCE_TRIGGERS, Params::none()),
            (LOCK_EPOCH, epoch),
        ];
        for (sql, params) in opening {
            tx.control(Origin::Control("opening a transaction"), sql, params, Expect::Any).await?;
        }
        Ok(tx)
    }
}
