//! A target whose host answers and whose server does not.

use tidegate_integration::postgres::{Postgres, TARGET_ROLE, identifier};
use tidegate_integration::wait::{Look, until};
use tidegate_integration::{Servers, Tidegate, run};

#[test]
fn a_frozen_target_is_given_up_by_name_and_gone_on_with_later() {
    run(async {
        let fixture = Servers::shared().await?.fixture("frozen").await?;
        let postgres = Postgres::start_new(&["fsync=off"]).await?;
        let create = format!("CREATE DATABASE {} OWNER {TARGET_ROLE}", identifier(&fixture.target));
        postgres.exec("postgres", &create).await?;
        // Rows without a key: one that came twice would show.
        fixture.source("CREATE TABLE k (a INT); INSERT INTO k VALUES (0)").await?;
        let config = fixture.config().target_at(postgres.addr()).set("target.reply_timeout", "1s");
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;

        postgres.pause().await?;
        for number in 1..=20 {
            fixture.source(&format!("INSERT INTO k VALUES ({number})")).await?;
        }
        let status = tidegate
            .wait_status("the frozen target in last_error", |status| {
                let message = status["last_error"]["message"].as_str().unwrap_or_default();
                message.contains("target.reply_timeout")
            })
            .await?;
        assert_eq!(status["last_error"]["side"], "target");
        assert!(tidegate.log()?.contains("the target does not reply"), "{}", tidegate.log()?);

        postgres.unpause().await?;
        let rows =
            format!("SELECT string_agg(a::text, ',' ORDER BY a) FROM {}.k", identifier(&fixture.source));
        let expected: Vec<String> = (0..=20).map(|number: u32| number.to_string()).collect();
        let expected = Some(expected.join(","));
        until("the rows", || async {
            let found = postgres.scalar(&fixture.target, &rows).await?;
            Ok(if found == expected { Look::Done(()) } else { Look::NotYet(format!("{found:?}")) })
        })
        .await?;
        tidegate.wait_gtid(&fixture.servers.mysql, &fixture.servers.mysql.gtid_executed().await?).await?;
        assert_eq!(postgres.scalar(&fixture.target, &rows).await?, expected);
        Ok(())
    });
}
