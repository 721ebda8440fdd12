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
            "target.table_privilege",
            "target.table",
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

/// What a table that is there already may be, and what of it `check` has to name.
#[test]
fn every_way_in_which_a_table_does_not_fit() {
    run(async {
        let fixture = fixture("check_shapes").await?;
        let schema = &fixture.source;
        fixture.target(&format!("CREATE SCHEMA {schema} AUTHORIZATION {TARGET_ROLE}")).await?;
        let plain = "(id integer PRIMARY KEY, note varchar(10))";
        let cases = [
            (format!("CREATE TABLE t {plain}"), ""),
            (format!("CREATE UNLOGGED TABLE t {plain}"), "permanent"),
            (format!("CREATE TABLE t {plain} PARTITION BY RANGE (id)"), "not an ordinary table"),
            ("CREATE VIEW t AS SELECT 1 AS id, 'a'::varchar(10) AS note".to_owned(), "not an ordinary table"),
            (
                "CREATE TABLE t (id bigint PRIMARY KEY, note varchar(10))".to_owned(),
                "bigint instead of integer",
            ),
            (
                "CREATE TABLE t (id integer PRIMARY KEY, note varchar(9))".to_owned(),
                "character varying(9) instead",
            ),
            ("CREATE TABLE t (id integer PRIMARY KEY, note text)".to_owned(), "text instead"),
            ("CREATE TABLE t (id integer PRIMARY KEY, note varchar(10) NOT NULL)".to_owned(), "is NOT NULL"),
            ("CREATE TABLE t (id integer PRIMARY KEY)".to_owned(), "\"note\" is missing"),
            ("CREATE TABLE t (id integer, note varchar(10))".to_owned(), "no primary key"),
            (
                "CREATE TABLE t (id integer PRIMARY KEY DEFERRABLE, note varchar(10))".to_owned(),
                "is deferrable",
            ),
            (
                "CREATE TABLE t (id integer PRIMARY KEY, note varchar(10) UNIQUE)".to_owned(),
                "not that of the source's key",
            ),
            (
                "CREATE TABLE t (id integer PRIMARY KEY, note varchar(10) GENERATED ALWAYS AS ('a') STORED)"
                    .to_owned(),
                "generated by the target",
            ),
            (
                "CREATE TABLE t (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note varchar(10))"
                    .to_owned(),
                "BY DEFAULT",
            ),
            (
                format!("CREATE TABLE t {plain}; ALTER TABLE t ADD COLUMN more integer NOT NULL"),
                "without a default",
            ),
            (
                format!(
                    "CREATE TABLE t {plain}; CREATE RULE loud AS ON INSERT TO t DO ALSO NOTHING;
                     ALTER TABLE t ENABLE ALWAYS RULE loud"
                ),
                "also fires",
            ),
        ];
        let table = Table::new(schema, "t", &[("id", false), ("note", true)], &[0]);
        let models = [table.model];
        for (create, named) in cases {
            fixture
                .target(&format!("SET ROLE {TARGET_ROLE}; {create}"))
                .await
                .with_context(|| create.clone())?;
            let findings = check(&config(&fixture), PIPELINE, &models).await?;
            let problems: Vec<_> = findings.iter().map(|finding| finding.problem.as_str()).collect();
            let told = problems.iter().any(|problem| problem.contains(named));
            assert!(if named.is_empty() { problems.is_empty() } else { told }, "{create}: {findings:#?}");
            let kind = if create.starts_with("CREATE VIEW") { "VIEW" } else { "TABLE" };
            fixture.target(&format!("DROP {kind} t")).await?;
        }
        let limit =
            format!("ALTER ROLE {TARGET_ROLE} IN DATABASE {} SET temp_file_limit = '1GB'", fixture.target);
        fixture.target(&limit).await?;
        let findings = check(&config(&fixture), PIPELINE, &models).await?;
        assert_eq!(findings[0].name, "target.temp_file_limit", "{findings:#?}");
        fixture.target(&findings[0].fix).await?;
        assert!(names(&config(&fixture), &models).await?.is_empty());
        Ok(())
    });
}
