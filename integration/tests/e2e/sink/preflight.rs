//! What `tidegate check` finds on the target.

use tidegate::sink::preflight::check;
use tidegate_integration::run;

use super::source_rows::Table;
use super::*;

async fn names(config: &TargetConfig, models: &[TableModel]) -> Result<Vec<&'static str>> {
    Ok(check(config, PIPELINE, models).await?.iter().map(|finding| finding.name).collect())
}

#[test]
fn a_target_as_documented_has_no_finding() {
    run(async {
        let fixture = fixture("check").await?;
        let table = Table::new(&fixture.source, "t", &[("id", false)], &[0]);
        let models = [table.model];
        assert!(names(&config(&fixture), &models).await?.is_empty());
        let _applier = streaming(&config(&fixture), &models).await?;
        fixture.target("INSERT INTO t VALUES (1)").await?;
        assert!(names(&config(&fixture), &models).await?.is_empty(), "its own table may have rows");
        let for_another = check(&config(&fixture), "another", &models).await?;
        let found: Vec<_> = for_another.iter().map(|finding| finding.name).collect();
        assert_eq!(found, ["target.table_owner"], "{for_another:#?}");
        assert!(for_another[0].problem.contains(PIPELINE), "{for_another:#?}");
        assert!(!for_another[0].fix.contains("TRUNCATE"), "{for_another:#?}");
        Ok(())
    });
}

#[test]
fn every_problem_is_found_and_its_sql_mends_it() {
    run(async {
        let fixture = fixture("check_all").await?;
        let schema = &fixture.source;
        let (fit, unfit) = (
            Table::new(schema, "fit", &[("id", false)], &[0]),
            Table::new(schema, "unfit", &[("id", false)], &[0]),
        );
        let role = format!("{schema}_role");
        fixture
            .target(&format!(
                "CREATE ROLE {role} LOGIN PASSWORD 'canary-postgres-password'; \
                 ALTER ROLE {role} SET default_transaction_read_only = on; \
                 CREATE SCHEMA {schema}; \
                 CREATE TABLE {schema}.fit (id integer PRIMARY KEY); INSERT INTO {schema}.fit VALUES (1); \
                 CREATE TABLE {schema}.unfit (id bigint PRIMARY KEY)"
            ))
            .await?;
        let config = TargetConfig { user: role, ..config(&fixture) };
        let models = [fit.model, unfit.model];
        let findings = check(&config, PIPELINE, &models).await?;
        let found: Vec<_> = findings.iter().map(|finding| finding.name).collect();
        let expected = [
            "target.read_only",
            "target.session_replication_role",
            "target.schema_privilege",
            "target.database_privilege",
            "target.table_privilege",
            "target.table",
            "target.table_privilege",
        ];
        assert_eq!(found, expected, "{findings:#?}");
        for finding in &findings {
            let altered = format!("ALTER TABLE {schema}.unfit ALTER COLUMN id TYPE integer");
            let fix = if finding.name == "target.table" { &altered } else { &finding.fix };
            fixture.target(fix).await.with_context(|| fix.clone())?;
        }
        let findings = check(&config, PIPELINE, &models).await?;
        let found: Vec<_> = findings.iter().map(|finding| finding.name).collect();
        assert_eq!(found, ["target.table_rows"], "{findings:#?}");
        fixture.target(&findings[0].fix).await?;
        assert!(names(&config, &models).await?.is_empty());
        Ok(())
    });
}
