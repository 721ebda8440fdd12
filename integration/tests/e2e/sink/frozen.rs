//! A server that keeps its connections and answers nothing: no reply is waited for without bound, and
//! what became of the work shows afterwards.

use serde_json::json;
use tidegate::sink::copy::{ChunkHeader, ChunkWriter};
use tidegate_integration::postgres::Postgres;
use tidegate_integration::run;

use super::source_rows::{Int, Table, transaction};
use super::*;

/// Far below the wait for anything else that could end the calls.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

struct Frozen {
    postgres: Postgres,
    config: TargetConfig,
}

impl Frozen {
    async fn start() -> Result<Self> {
        let postgres = Postgres::start_new(&["fsync=off"]).await?;
        postgres.exec("postgres", &format!("CREATE DATABASE frozen OWNER {TARGET_ROLE}")).await?;
        let config = TargetConfig { reply_timeout: REPLY_TIMEOUT, ..config_at(postgres.addr(), "frozen") };
        Ok(Self { postgres, config })
    }

    /// What the call says while the server is frozen.
    async fn while_frozen<T: std::fmt::Debug>(
        &self,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<String> {
        self.postgres.pause().await?;
        let result = tokio::time::timeout(PATIENCE, call).await;
        self.postgres.unpause().await?;
        retry(result.context("the call does not end")?)
    }

    async fn rows(&self) -> Result<Option<String>> {
        self.postgres.scalar("frozen", "SELECT count(*) FROM app.t").await
    }
}

#[test]
fn no_reply_is_waited_for_without_bound() {
    run(async {
        let frozen = Frozen::start().await?;
        let table = Table::new("app", "t", &[("id", false)], &[0]);
        let mut applier = streaming(&frozen.config, std::slice::from_ref(&table.model)).await?;
        // What is in the server's hands when it freezes may be committed later, or not.
        let first = units([transaction(11, vec![table.insert(&[&[Int(1)]])])]);
        let message = frozen.while_frozen(async { applier.apply(&first).await }).await?;
        assert!(message.contains("target.reply_timeout"), "{message}");
        drop(applier);

        let client = connect(&frozen.config).await?;
        let taking = async { Writer::take_over(client, PIPELINE, MAX_IN_FLIGHT, || ()).await.map(drop) };
        let message = frozen.while_frozen(taking).await?;
        assert!(message.contains("target.reply_timeout"), "{message}");

        let mut applier = resume(&frozen.config).await?;
        if applier.position().processed == set("1-10")? {
            assert_eq!(frozen.rows().await?.as_deref(), Some("0"));
            applier.apply(&first).await?;
        }
        assert_eq!(frozen.rows().await?.as_deref(), Some("1"));
        drop(applier);

        let writer = take_over(&frozen.config, PIPELINE).await?;
        let mut chunks = ChunkWriter::new(connect(&frozen.config).await?, writer.fence().clone());
        let copying = async {
            let mut copy = chunks.start(&table.model, &[]).await?;
            let (row, _) = copy.row();
            row.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 2]);
            copy.finish(&ChunkHeader { model: &table.model, chunk: 0, bounds: &json!({}) }).await
        };
        let message = frozen.while_frozen(copying).await?;
        assert!(message.contains("target.reply_timeout"), "{message}");
        drop(writer);
        // The server ends what has lost its client, and nothing of it stays.
        drop(take_over(&frozen.config, PIPELINE).await?);
        assert_eq!(frozen.rows().await?.as_deref(), Some("1"));
        Ok(())
    });
}
