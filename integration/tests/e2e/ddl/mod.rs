//! Schema changes in the stream, each kind of them: followed while it streams, with a kill in
//! between, and with all of it waiting for a pipeline that was stopped. Whole tables are compared,
//! after writes that follow the change.

mod alter;
mod kinds;
mod mirror;
mod online;
mod partitions;
mod policy;
mod rename;
mod resync;

use anyhow::{Context, Result, ensure};
use tidegate_integration::{Config, Fixture, Servers, Tidegate, run};

/// What happens to a source's tables.
struct Scenario {
    name: &'static str,
    setup: &'static str,
    /// Groups of statements, each in one session.
    changes: &'static [&'static str],
}

/// Follows the scenario in each of the ways, and leaves the last one to `check`.
async fn follow<F>(
    scenario: &Scenario,
    config: impl Fn(Config) -> Config,
    check: impl Fn(Fixture<'static>, Tidegate) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let servers = Servers::shared().await?;
    for way in [Way::Live, Way::Killed, Way::Late] {
        let followed = async {
            let fixture = servers.fixture(scenario.name).await?;
            fixture.source(scenario.setup).await?;
            let tidegate = Tidegate::start(config(fixture.config())).await?;
            tidegate.wait_state("streaming").await?;
            change(&fixture, &tidegate, scenario, way).await?;
            tidegate.caught_up(&fixture).await?;
            fixture.assert_same().await?;
            check(fixture, tidegate).await
        };
        followed.await.with_context(|| format!("{}, {way:?}", scenario.name))?;
    }
    Ok(())
}

/// How the changes meet the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One after the other as they come.
    Live,
    /// It is killed somewhere in each of them.
    Killed,
    /// All of them are in the binlog before it reads the first.
    Late,
}

async fn change(fixture: &Fixture<'_>, tidegate: &Tidegate, scenario: &Scenario, way: Way) -> Result<()> {
    if way == Way::Late {
        ensure!(tidegate.stop().await? == Some(0), "SIGTERM ends with 0");
    }
    for group in scenario.changes {
        fixture.source(group).await.with_context(|| format!("source: {group}"))?;
        match way {
            Way::Live => tidegate.caught_up(fixture).await?,
            Way::Killed => {
                tidegate.kill().await?;
                tidegate.launch(&[]).await?;
            }
            Way::Late => {}
        }
    }
    if way == Way::Late {
        tidegate.launch(&[]).await?;
    }
    Ok(())
}

/// Follows scenarios of which nothing else is to be looked at.
fn follow_all(scenarios: &'static [Scenario]) {
    run(async {
        for scenario in scenarios {
            follow(scenario, |config| config, |_, _| async { Ok(()) }).await?;
        }
        Ok(())
    });
}

/// Kinds and tables of the recorded schema changes, in order.
async fn recorded(fixture: &Fixture<'_>) -> Result<Vec<String>> {
    let rows = fixture
        .target_rows(
            "SELECT kind || ' ' || source_table FROM tidegate.schema_change ORDER BY id, source_table",
        )
        .await?;
    Ok(rows.into_iter().flatten().flatten().collect())
}

/// How often a table has been sent back to be copied, by the log.
fn copies(tidegate: &Tidegate) -> Result<usize> {
    Ok(tidegate.log()?.matches("schema change: to be copied anew").count())
}
