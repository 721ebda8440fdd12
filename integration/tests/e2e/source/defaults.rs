//! What a server gives every session by default must not change what ours mean.

use tidegate_integration::{Servers, Tidegate, run};

const HOSTILE: &[&str] = &[
    "--autocommit=0",
    "--completion-type=CHAIN",
    "--transaction-isolation=READ-UNCOMMITTED",
    "--sql-mode=ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH",
    "--default-time-zone=+09:00",
    "--max-execution-time=1",
    "--interactive-timeout=5",
    "--wait-timeout=5",
];

#[test]
fn of_the_server_are_overridden() {
    run(async {
        let servers = Servers::own(HOSTILE, &[]).await?;
        let fixture = servers.fixture("defaults").await?;
        let set = "SET SESSION autocommit = 1";
        let table = "id INT PRIMARY KEY, c CHAR(10), at TIMESTAMP(6) NULL, note VARCHAR(20)";
        let rows = "(1, 'a', '2020-02-02 03:04:05.678901', 'back\\slash'), (2, '', NULL, NULL)";
        fixture.source(&format!("{set}; CREATE TABLE t ({table}); INSERT INTO t VALUES {rows}")).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        // The definitions of later tables are read on a connection that has been used before.
        for name in ["u", "v"] {
            fixture
                .source(&format!("{set}; CREATE TABLE {name} ({table}); INSERT INTO {name} VALUES {rows}"))
                .await?;
            tidegate.caught_up(&fixture).await?;
        }
        fixture.assert_same().await
    });
}
