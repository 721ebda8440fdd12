//! Spatial columns on a target that has PostGIS, in a schema that no session looks into by itself.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tidegate_integration::postgres::TARGET_ROLE;
use tidegate_integration::{Config, Fixture, Servers, Tidegate, run};

const INSTALL: &str = "CREATE SCHEMA gis; CREATE EXTENSION postgis SCHEMA gis";

/// Every subtype, each with the reference systems that a column can be restricted to.
const SHAPES: &str = "
    CREATE TABLE shapes (id INT PRIMARY KEY, g GEOMETRY, p POINT NOT NULL SRID 4326, l LINESTRING SRID 3857,
        pl POLYGON SRID 0, mp MULTIPOINT, ml MULTILINESTRING SRID 4326, mpl MULTIPOLYGON, gc GEOMETRYCOLLECTION,
        made POINT GENERATED ALWAYS AS (POINT(id, -id)) STORED, note TEXT, SPATIAL KEY by_p (p));
    CREATE TABLE loose (p POINT, g GEOMETRY);
    CREATE TABLE plain (id INT PRIMARY KEY, v INT)";

/// What each column takes, of which every row has one.
fn row(id: usize) -> String {
    let n = id % 7;
    let any = [
        format!("POINT({n} 1)"),
        format!("LINESTRING({n} 0,1 1,1 1)"),
        format!("POLYGON((0 0,{n} 9,9 9,0 0),(1 1,2 2,2 1,1 1))"),
        "GEOMETRYCOLLECTION EMPTY".to_owned(),
        "MULTIPOINT(1 1,2 2)".to_owned(),
        format!(
            "GEOMETRYCOLLECTION(GEOMETRYCOLLECTION EMPTY,POINT({n} 4),GEOMETRYCOLLECTION(MULTIPOINT(3 4,5 6)))"
        ),
        "GEOMETRYCOLLECTION(MULTIPOLYGON(((0 0,0 1,1 1,0 0))))".to_owned(),
    ];
    let collections = [
        "MULTIPOINT(1 2)",
        "MULTILINESTRING((0 0,1 1))",
        "GEOMETRYCOLLECTION EMPTY",
        "GEOMETRYCOLLECTION(POINT(7 8))",
    ];
    let text = |wkt: &str, srid: u32| format!("ST_GeomFromText('{wkt}', {srid})");
    let or_null = |value: String, nth: usize| if id % 5 == nth { "NULL".to_owned() } else { value };
    let values = [
        or_null(text(&any[n], [0, 4326, 3857][id % 3]), 0),
        text(&format!("POINT({n}.5 -0.25)"), 4326),
        or_null(text(&format!("LINESTRING({n} 2,-3 4)"), 3857), 1),
        or_null(text(&format!("POLYGON((0 0,0 {},1 1,0 0))", n + 1), 0), 2),
        or_null(text(&format!("MULTIPOINT({n} 2,3 4)"), 4326), 3),
        or_null(text("MULTILINESTRING((1 2,3 4),(5 6,7 8))", 4326), 4),
        or_null(text(&format!("MULTIPOLYGON(((0 0,0 1,1 1,0 0)),(({n} 5,9 9,7 5,{n} 5)))"), 0), 0),
        or_null(text(collections[id % 4], [4326, 0][id % 2]), 1),
    ];
    format!("({id}, {}, 'note')", values.join(", "))
}

fn insert(ids: std::ops::Range<usize>) -> String {
    let rows: Vec<String> = ids.map(row).collect();
    format!("INSERT INTO shapes (id, g, p, l, pl, mp, ml, mpl, gc, note) VALUES {}", rows.join(","))
}

/// The types of the columns of the mirrored schema that are PostGIS's or bytea, as "table.column type".
const TYPES: &str = "
    SELECT concat(c.relname, '.', a.attname, ' ', format_type(a.atttypid, a.atttypmod)) FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
        AND a.attnum > 0 AND NOT a.attisdropped AND (a.atttypid = 'bytea'::regtype
            OR format_type(a.atttypid, NULL) LIKE '%geometry') ORDER BY 1";

const GIST: &str = "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND indexdef LIKE '%gist%' ORDER BY 1";

async fn lines(fixture: &Fixture<'_>, sql: &str) -> Result<Vec<String>> {
    Ok(fixture.target_rows(sql).await?.into_iter().flatten().flatten().collect())
}

async fn expect_type(fixture: &Fixture<'_>, line: &str) -> Result<()> {
    let found = lines(fixture, TYPES).await?;
    ensure!(found.iter().any(|found| found == line), "{line} is not among {found:?}");
    Ok(())
}

/// What both servers' own functions print of a column. MySQL puts the points of a MULTIPOINT in parentheses.
async fn same_text(fixture: &Fixture<'_>, table: &str, column: &str) -> Result<()> {
    let source = format!(
        "SELECT CONCAT(ST_SRID({column}), ';', ST_AsText({column}, 'axis-order=long-lat')) AS t FROM {table} ORDER BY t"
    );
    let target = format!(
        "SELECT concat(gis.ST_SRID({column}), ';', gis.ST_AsText({column})) AS t FROM {table} WHERE {column} IS NOT NULL"
    );
    let bare = |text: String| text.replace(['(', ')', ' '], "");
    let source: Vec<String> =
        fixture.source_rows(&source).await?.into_iter().flatten().flatten().map(bare).collect();
    let target: Vec<String> = lines(fixture, &target).await?.into_iter().map(bare).collect();
    let (source, target): (BTreeSet<_>, BTreeSet<_>) =
        (source.into_iter().collect(), target.into_iter().collect());
    ensure!(!source.is_empty() && source == target, "{table}.{column}: {source:?}\nand {target:?}");
    Ok(())
}

fn types(config: Config, entries: &[(&str, &str)]) -> Config {
    entries.iter().fold(config, |config, (key, choice)| config.set(&format!("types.{key}"), *choice))
}

#[test]
fn columns_are_geometries_that_both_servers_read_alike() {
    run(async {
        let servers = Servers::with_postgis().await?;
        let fixture = servers.fixture("spatial").await?;
        fixture.target(INSTALL).await?;
        fixture.source(SHAPES).await?;
        fixture.source(&insert(0..60)).await?;
        fixture.source("INSERT INTO loose VALUES (POINT(1,-1), POINT(2,2)), (POINT(1,-1), POINT(2,2)), (NULL, ST_GeomFromText('GEOMETRYCOLLECTION EMPTY', 4326)), (POINT(0,0), NULL)").await?;
        let tidegate = Tidegate::prepare(fixture.config())?;
        plan_and_check(&fixture, &tidegate).await?;

        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        stream(&fixture, &tidegate).await?;
        for column in ["g", "p", "l", "pl", "mp", "ml", "mpl", "gc", "made"] {
            same_text(&fixture, "shapes", column).await?;
        }
        same_text(&fixture, "loose", "g").await?;
        ddl(&fixture, &tidegate).await?;
        let status = tidegate.status().await?;
        ensure!(status["objects"].as_array().is_none_or(Vec::is_empty), "{status}");
        Ok(())
    });
}

async fn plan_and_check(fixture: &Fixture<'_>, tidegate: &Tidegate) -> Result<()> {
    let check = tidegate.cli(&["check"]).await?;
    let grant = format!("GRANT USAGE ON SCHEMA \"gis\" TO {TARGET_ROLE}");
    ensure!(check.code == Some(4) && check.stdout.contains(&grant), "{:?} {}", check.code, check.stdout);
    fixture.target(&grant).await?;
    let check = tidegate.cli(&["check", "--data"]).await?;
    ensure!(check.code == Some(0), "{:?} {}", check.code, check.stdout);
    let plan = tidegate.cli(&["plan"]).await?;
    for told in [
        r#""g" "gis".geometry,"#,
        r#""p" "gis".geometry(Point,4326) NOT NULL"#,
        r#""l" "gis".geometry(LineString,3857),"#,
        r#""pl" "gis".geometry(Polygon),"#,
        r#""gc" "gis".geometry,"#,
        r#"USING gist ("p")"#,
        "column `g`: geometry of PostGIS",
    ] {
        ensure!(plan.stdout.contains(told), "{told} is missing in {}", plan.stdout);
    }
    Ok(())
}

/// Single rows, many rows, NULL, rows without a key, with a restart in between.
async fn stream(fixture: &Fixture<'_>, tidegate: &Tidegate) -> Result<()> {
    fixture.source(&insert(60..70)).await?;
    fixture
        .source("UPDATE shapes SET g = gc, mp = NULL WHERE id < 20; DELETE FROM shapes WHERE id = 3")
        .await?;
    fixture.source(&insert(100..900)).await?;
    fixture.source("UPDATE shapes SET p = ST_GeomFromText('POINT(80 170)', 4326), l = NULL WHERE id >= 100; DELETE FROM shapes WHERE id >= 850").await?;
    tidegate.caught_up(fixture).await?;
    fixture.assert_same().await?;
    ensure!(tidegate.stop().await? == Some(0));
    // One of two rows that are alike, and 0 is not -0 there.
    fixture.source("DELETE FROM loose WHERE p = POINT(1,-1) LIMIT 1; UPDATE loose SET g = ST_GeomFromText('MULTIPOINT(1 1,2 2)') WHERE p IS NULL; INSERT INTO loose VALUES (UNHEX('00000000010100000000000000000000800000000000000000'), POINT(5,5)), (POINT(0,0), POINT(5,5)); DELETE FROM loose WHERE HEX(p) LIKE '%0000000080%' LIMIT 1").await?;
    tidegate.launch(&[]).await?;
    tidegate.wait_state("streaming").await?;
    tidegate.caught_up(fixture).await?;
    fixture.assert_same().await
}

async fn ddl(fixture: &Fixture<'_>, tidegate: &Tidegate) -> Result<()> {
    fixture.source("ALTER TABLE shapes ADD q POINT SRID 4326, ADD SPATIAL INDEX by_nothing (p)").await?;
    fixture.source("UPDATE shapes SET q = p WHERE id % 2; ALTER TABLE loose MODIFY p GEOMETRY; INSERT INTO loose VALUES (ST_GeomFromText('LINESTRING(0 0,1 1)', 3857), NULL)").await?;
    fixture.source("ALTER TABLE plain ADD at POINT NOT NULL SRID 4326; INSERT INTO plain VALUES (1, 1, ST_GeomFromText('POINT(1 2)', 4326)); ALTER TABLE plain ADD SPATIAL INDEX by_at (at)").await?;
    fixture.source("CREATE TABLE later (id INT PRIMARY KEY, a POLYGON, b MULTIPOINT NOT NULL SRID 4326, SPATIAL KEY (b)); INSERT INTO later VALUES (1, NULL, ST_GeomFromText('MULTIPOINT(1 2)', 4326))").await?;
    fixture.source("ALTER TABLE shapes DROP ml, MODIFY l LINESTRING, RENAME COLUMN pl TO area, DROP INDEX by_nothing").await?;
    fixture.source("INSERT INTO shapes (id, p, l) VALUES (5000, ST_GeomFromText('POINT(1 2)', 4326), ST_GeomFromText('LINESTRING(0 0,1 1)'))").await?;
    tidegate.caught_up(fixture).await?;
    fixture.assert_same().await?;
    for line in [
        "shapes.q gis.geometry(Point,4326)",
        "shapes.l gis.geometry(LineString)",
        "shapes.area gis.geometry(Polygon)",
        "loose.p gis.geometry",
        "plain.at gis.geometry(Point,4326)",
        "later.a gis.geometry(Polygon)",
        "later.b gis.geometry(MultiPoint,4326)",
    ] {
        expect_type(fixture, line).await?;
    }
    let indexes = lines(fixture, GIST).await?.join("\n");
    for on in ["shapes USING gist (p)", "plain USING gist (at)", "later USING gist (b)"] {
        ensure!(indexes.matches(on).count() == 1, "{on}: {indexes}");
    }
    Ok(())
}

/// Raw bytes, for what MySQL's functions would refuse to make.
const OPEN_RING: &str = "UNHEX('000000000103000000010000000400000000000000000000000000000000000000000000000000F03F0000000000000000000000000000F03F000000000000F03F0000000000000000000000000000F03F')";
const NO_NUMBERS: &str = "UNHEX('000000000101000000000000000000F87F000000000000F87F')";

/// Reference systems are one's own beyond those that come with the server.
const HUGE: &str = "CREATE SPATIAL REFERENCE SYSTEM IF NOT EXISTS 4294967295 NAME 'huge' DEFINITION 'GEOGCS[\"WGS 84\",DATUM[\"World Geodetic System 1984\",SPHEROID[\"WGS 84\",6378137,298.257223563]],PRIMEM[\"Greenwich\",0],UNIT[\"degree\",0.017453292519943278],AXIS[\"Lat\",NORTH],AXIS[\"Lon\",EAST]]'";

#[test]
fn what_postgis_would_refuse_or_change_halts_and_bytea_keeps_it() {
    run(async {
        let servers = Servers::with_postgis().await?;
        let fixture = servers.fixture("spatial_odd").await?;
        fixture.target(&format!("{INSTALL}; GRANT USAGE ON SCHEMA gis TO {TARGET_ROLE}")).await?;
        let create =
            format!("CREATE TABLE t (id INT PRIMARY KEY, g GEOMETRY); INSERT INTO t VALUES (1, {OPEN_RING})");
        fixture.source(&create).await?;
        let tidegate = Tidegate::prepare(fixture.config())?;
        tidegate.launch(&[]).await?;
        halted(&tidegate, "is not closed").await?;
        ensure!(tidegate.stop().await? == Some(3));

        // As the halt says: bytea for this column.
        let mine = format!("{}.t.g", fixture.source);
        let as_bytea = Tidegate::prepare(types(fixture.config(), &[(&mine, "bytea")]))?;
        as_bytea.launch(&[]).await?;
        as_bytea.wait_state("streaming").await?;
        fixture.source(HUGE).await?;
        fixture.source(&format!("INSERT INTO t VALUES (2, {NO_NUMBERS}), (3, ST_GeomFromText('POINT(1 2)', 4294967295)); CREATE TABLE u (id INT PRIMARY KEY, g POINT)")).await?;
        as_bytea.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        expect_type(&fixture, "t.g bytea").await?;
        expect_type(&fixture, "u.g gis.geometry(Point)").await?;

        fixture.source("INSERT INTO u VALUES (1, ST_GeomFromText('POINT(1 2)', 4294967295))").await?;
        let halt = halted(&as_bytea, "SRID above 999999").await?;
        ensure!(!halt.to_string().contains("4294967295"), "{halt}");
        ensure!(fixture.target_scalar("SELECT count(*) FROM u").await?.as_deref() == Some("0"));
        Ok(())
    });
}

async fn halted(tidegate: &Tidegate, told: &str) -> Result<Value> {
    let halt = tidegate.wait_halt().await?;
    let detail = halt["detail"].as_str().context("a halt without a detail")?;
    ensure!(halt["reason"] == "value_invalid" && detail.contains(told) && detail.contains("bytea"), "{halt}");
    Ok(halt)
}

#[test]
fn a_column_of_a_reference_system_that_postgis_does_not_keep_is_refused() {
    run(async {
        let servers = Servers::with_postgis().await?;
        let fixture = servers.fixture("spatial_huge").await?;
        fixture.target(INSTALL).await?;
        fixture.source(HUGE).await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY, g POINT SRID 4294967295)").await?;
        let check = Tidegate::prepare(fixture.config())?.cli(&["check"]).await?;
        ensure!(check.code == Some(4) && check.stdout.contains("SRID 4294967295"), "{}", check.stdout);
        let bytea = types(fixture.config(), &[("point", "bytea")]);
        let plan = Tidegate::prepare(bytea)?.cli(&["plan"]).await?;
        ensure!(plan.code == Some(0) && plan.stdout.contains("\"g\" bytea"), "{}", plan.stdout);
        Ok(())
    });
}

#[test]
fn what_was_chosen_stays_and_what_is_gone_is_named() {
    run(async {
        let servers = Servers::with_postgis().await?;
        let fixture = servers.fixture("spatial_later").await?;
        fixture.source("CREATE TABLE old (id INT PRIMARY KEY, g POINT NOT NULL SRID 4326, SPATIAL KEY (g)); CREATE TABLE plain (id INT PRIMARY KEY); INSERT INTO old VALUES (1, ST_GeomFromText('POINT(1 2)', 4326))").await?;
        let asked = types(fixture.config(), &[("geometry", "geometry"), ("point", "geometry")]);
        let check = Tidegate::prepare(asked)?.cli(&["check"]).await?;
        ensure!(check.code == Some(4) && check.stdout.contains("no extension postgis"), "{}", check.stdout);
        let tidegate = Tidegate::prepare(fixture.config())?;
        let check = tidegate.cli(&["check"]).await?;
        let told =
            check.stdout.contains("target.postgis") && check.stdout.contains("CREATE EXTENSION postgis");
        ensure!(check.code == Some(0) && told, "{:?} {}", check.code, check.stdout);
        let plan = tidegate.cli(&["plan"]).await?;
        ensure!(
            plan.stdout.contains("has no extension postgis") && plan.stdout.contains("has no spatial index"),
            "{}",
            plan.stdout
        );
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        expect_type(&fixture, "old.g bytea").await?;

        ensure!(tidegate.stop().await? == Some(0));
        fixture.target(&format!("{INSTALL}; GRANT USAGE ON SCHEMA gis TO {TARGET_ROLE}")).await?;
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(0), "{:?} {}", check.code, check.stdout);
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("ALTER TABLE old ADD h POINT; INSERT INTO old VALUES (2, ST_GeomFromText('POINT(3 4)', 4326), POINT(5,6)); ALTER TABLE plain ADD g POINT; INSERT INTO plain VALUES (1, POINT(7,8)); CREATE TABLE new (id INT PRIMARY KEY, g LINESTRING)").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        for line in
            ["old.g bytea", "old.h bytea", "plain.g gis.geometry(Point)", "new.g gis.geometry(LineString)"]
        {
            expect_type(&fixture, line).await?;
        }
        ensure!(tidegate.stop().await? == Some(0));
        fixture.target("ALTER TABLE new ALTER g TYPE gis.geometry(LineString,4326) USING NULL").await?;
        drifted(&tidegate, "is geometry(LineString,4326) instead of geometry(LineString)").await?;
        fixture.target("DROP EXTENSION postgis CASCADE").await?;
        drifted(&tidegate, "is missing").await?;
        Ok(())
    });
}

async fn drifted(tidegate: &Tidegate, told: &str) -> Result<()> {
    tidegate.launch(&[]).await?;
    let halt = tidegate.wait_halt().await?;
    ensure!(halt["reason"] == "target_drift" && halt.to_string().contains(told), "{halt}");
    ensure!(tidegate.stop().await? == Some(3));
    Ok(())
}
