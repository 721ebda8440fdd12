//! The facts of `information_schema` on one side and of the catalog on the other, for a schema of sixty
//! tables that has everything: copied, created by the stream, changed by it, and after a restart.

mod rules;
mod schema;

use anyhow::{Context as _, Result, ensure};
use tidegate_integration::wait::{Look, until};
use tidegate_integration::{Fixture, Servers, Tidegate, run};

/// As [`rules::expected`]; the last column of some is to be made [`rules::bare`].
const FACTS: &str = "
    WITH r AS (SELECT oid, relname, relkind FROM pg_class WHERE relnamespace = '%s'::regnamespace AND relkind IN ('r', 'p', 'v', 'm'))
    SELECT concat(relname, '.', attname, ' ', format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN ' NOT NULL' END,
        CASE WHEN attidentity = 'd' THEN ' numbers itself' ELSE pg_temp.shown(pg_get_expr(adbin, adrelid)) END,
        ' comment ' || col_description(r.oid, attnum)), NULL
    FROM r JOIN pg_attribute a ON attrelid = r.oid AND attnum > 0 AND NOT attisdropped LEFT JOIN pg_attrdef ON adrelid = r.oid AND adnum = attnum
    UNION ALL SELECT relname || ' index ', concat(CASE WHEN indisprimary THEN 'primary ' WHEN indisunique THEN 'unique ' END,
        CASE WHEN NOT indisvalid THEN 'invalid ' END, substring(pg_get_indexdef(indexrelid) from ' USING (.*)$'))
    FROM r JOIN pg_index ON indrelid = r.oid
    UNION ALL SELECT relname || ' check ', substring(pg_get_constraintdef(c.oid) from '^CHECK (.*)$') FROM r JOIN pg_constraint c ON conrelid = r.oid AND contype = 'c'
    UNION ALL SELECT concat_ws(' ', r.relname, 'foreign key', conname, pg_temp.names(conrelid, conkey), 'to', p.relnamespace::regnamespace::text || '.' || p.relname,
        pg_temp.names(confrelid, confkey), 'on update', pg_temp.action(confupdtype), 'on delete', pg_temp.action(confdeltype), CASE WHEN NOT convalidated THEN 'NOT VALID' END), NULL
    FROM r JOIN pg_constraint c ON conrelid = r.oid AND contype = 'f' JOIN pg_class p ON p.oid = confrelid
    UNION ALL SELECT concat(relname, ' ', CASE relkind WHEN 'r' THEN 'plain table' ELSE relkind::text END, ' comment ', obj_description(oid, 'pg_class')), NULL FROM r";

/// Functions that [`FACTS`] uses: the value of a default, the names of columns, and that of an action.
const FUNCTIONS: &str = "SET TimeZone = 'UTC';
    CREATE FUNCTION pg_temp.shown(default_expression text) RETURNS text LANGUAGE plpgsql AS $$ DECLARE shown text; BEGIN
        IF default_expression IS NULL THEN RETURN NULL; END IF;
        IF default_expression LIKE 'nextval(%' THEN RETURN ' numbers itself'; END IF;
        IF default_expression ~ 'LOCALTIMESTAMP|CURRENT_TIMESTAMP' THEN RETURN ' default now ' || coalesce(substring(default_expression from '\\((\\d)\\)'), '6'); END IF;
        IF default_expression = 'CURRENT_DATE' THEN RETURN ' default curdate()'; END IF;
        IF default_expression LIKE '%gen_random_uuid()%' THEN RETURN ' default uuid()'; END IF;
        EXECUTE format('SELECT (%s)::text', default_expression) INTO shown; RETURN ' default ' || shown; END $$;
    CREATE FUNCTION pg_temp.names(of oid, keys int2[]) RETURNS text LANGUAGE sql AS
        'SELECT string_agg(attname, '','' ORDER BY at) FROM unnest(keys) WITH ORDINALITY k(num, at) JOIN pg_attribute ON attrelid = of AND attnum = num';
    CREATE FUNCTION pg_temp.action(\"char\") RETURNS text LANGUAGE sql AS
        'SELECT CASE $1 WHEN ''a'' THEN ''NO ACTION'' WHEN ''r'' THEN ''RESTRICT'' WHEN ''c'' THEN ''CASCADE'' WHEN ''n'' THEN ''SET NULL'' ELSE $1::text END'";

/// The databases whose schemas are compared: what was copied, and what the stream created.
type Databases<'a> = [&'a str; 2];

/// What the source has and the target lacks (`-`), and the reverse.
async fn differences(fixture: &Fixture<'_>, databases: Databases<'_>) -> Result<String> {
    let target = fixture.target_session().await?;
    target.exec(FUNCTIONS).await?;
    let mut source = fixture.source_session().await?;
    let mut lines = String::new();
    for database in databases {
        let mut expected = rules::expected(&mut source, database).await?;
        for row in target.rows(&FACTS.replace("%s", database)).await? {
            let [Some(line), rest] = row.as_slice() else { anyhow::bail!("a fact without a name: {row:?}") };
            let line = format!("{line}{}", rest.as_deref().map(rules::bare).unwrap_or_default());
            match expected.iter().position(|expected| *expected == line) {
                Some(at) => drop(expected.remove(at)),
                None => lines.push_str(&format!("\n+ {database} {line}")),
            }
        }
        expected.iter().for_each(|line| lines.push_str(&format!("\n- {database} {line}")));
    }
    Ok(lines)
}

/// Indexes and constraints come after the commit that asks for them.
async fn come_to_agree(fixture: &Fixture<'_>, databases: Databases<'_>, when: &str) -> Result<()> {
    let compared = until(format!("the facts of both sides to agree {when}"), || async {
        let found = differences(fixture, databases).await?;
        Ok(if found.is_empty() { Look::Done(()) } else { Look::NotYet(found) })
    });
    compared.await
}

#[test]
fn the_facts_of_sixty_tables_are_the_same_by_copy_by_stream_and_after_a_restart() {
    run(async {
        let fixture = Servers::shared().await?.fixture("round_trip").await?;
        let streamed = format!("{}_streamed", fixture.source);
        let databases = [fixture.source.as_str(), streamed.as_str()];
        let sql = schema::create();
        fixture.source(&format!("{sql}{}; CREATE DATABASE {streamed}", schema::ROWS)).await?;
        // One pattern for both: one that matches nothing yet is refused.
        let include = vec![format!("{}*.*", fixture.source)];
        let config = fixture.config().set("tables.include", include).set("snapshot.parallelism", 1);
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()";
        let tables = fixture.target_scalar(tables).await?;
        ensure!(tables == Some(schema::TABLES.to_string()), "{tables:?} tables");
        fixture.source(&format!("USE {streamed}; {sql}{}", schema::ROWS)).await?;
        tidegate.caught_up(&fixture).await?;
        come_to_agree(&fixture, databases, "by copy and by stream").await?;
        fixture.assert_same().await?;

        for (change, database) in schema::CHANGES.iter().zip(databases.iter().cycle()) {
            let statements = format!("USE {database}; SET sql_mode = ''; {change}");
            fixture.source(&statements).await.with_context(|| (*change).to_owned())?;
        }
        // A foreign key from one database into the other.
        fixture
            .source(&format!(
                "ALTER TABLE {streamed}.no_key ADD CONSTRAINT across FOREIGN KEY (b) REFERENCES parent (id)"
            ))
            .await?;
        tidegate.caught_up(&fixture).await?;
        come_to_agree(&fixture, databases, "after the changes").await?;
        fixture.assert_same().await?;
        ensure!(tidegate.stop().await? == Some(0));
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        let after_restart = differences(&fixture, databases).await?;
        ensure!(after_restart.is_empty(), "after a restart:{after_restart}");
        Ok(())
    });
}
