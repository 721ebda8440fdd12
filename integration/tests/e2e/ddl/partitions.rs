//! Changes of partitions of tables that the target partitions too.

use super::*;

const SCENARIO: Scenario = Scenario {
    name: "ddl_native",
    setup: "CREATE TABLE pt (id INT, created DATE NOT NULL, v INT, PRIMARY KEY (id, created), KEY by_v (v)) PARTITION BY RANGE (YEAR(created))
                (PARTITION p2022 VALUES LESS THAN (2023), PARTITION p2023 VALUES LESS THAN (2024), PARTITION pmax VALUES LESS THAN MAXVALUE);
            INSERT INTO pt VALUES (1, '2022-05-05', 1), (2, '2023-05-05', 2), (3, '2024-05-05', 3), (4, '2022-06-06', 4);
            CREATE TABLE pl (id INT PRIMARY KEY, v INT) PARTITION BY LIST (id) (PARTITION a VALUES IN (1, 2), PARTITION b VALUES IN (3));
            INSERT INTO pl VALUES (1, 1), (3, 3);
            CREATE TABLE ph (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4; INSERT INTO ph VALUES (1, 1), (2, 2), (5, 5), (8, 8);
            CREATE TABLE plain (id INT PRIMARY KEY, v INT); INSERT INTO plain VALUES (4, 44), (12, 12);
            CREATE TABLE pr (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20));
            INSERT INTO pr VALUES (1, 1), (11, 11)",
    changes: &[
        "ALTER TABLE pt DROP PARTITION p2022; INSERT INTO pt VALUES (5, '2022-07-07', 5); ALTER TABLE pl ADD PARTITION (PARTITION c VALUES IN (7, 8)); INSERT INTO pl VALUES (7, 7)",
        "ALTER TABLE pt TRUNCATE PARTITION pmax; INSERT INTO pt VALUES (7, '2030-01-01', 7); ALTER TABLE pl DROP PARTITION b; INSERT INTO pl VALUES (8, 8), (2, 2)",
        "ALTER TABLE pt REORGANIZE PARTITION pmax INTO (PARTITION p2024 VALUES LESS THAN (2025), PARTITION pmax VALUES LESS THAN MAXVALUE);
         INSERT INTO pt VALUES (6, '2024-08-08', 6)",
        "INSERT INTO plain VALUES (16, 16); ALTER TABLE ph EXCHANGE PARTITION p0 WITH TABLE plain; UPDATE plain SET v = v + 1; UPDATE ph SET v = v + 1;
         ALTER TABLE ph REBUILD PARTITION p1; ALTER TABLE ph ADD COLUMN w INT DEFAULT 7; UPDATE ph SET w = id",
        "ALTER TABLE ph COALESCE PARTITION 1; INSERT INTO ph VALUES (9, 9, 9); ALTER TABLE pl REMOVE PARTITIONING; INSERT INTO pl VALUES (100, 1);
         ALTER TABLE plain PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (1000)); INSERT INTO plain VALUES (500, 5)",
        "CREATE TABLE born LIKE pr; INSERT INTO born VALUES (1, 1), (19, 9); ALTER TABLE born ADD PARTITION (PARTITION p2 VALUES LESS THAN (30)); INSERT INTO born VALUES (29, 9);
         ALTER TABLE pr MODIFY id BIGINT NOT NULL; INSERT INTO pr VALUES (2, 2); RENAME TABLE pr TO moved; CREATE TABLE moved_p0 (id INT PRIMARY KEY);
         CREATE TABLE pr_p0 (id INT PRIMARY KEY); INSERT INTO pr_p0 VALUES (1); INSERT INTO moved VALUES (12, 2); CREATE TABLE pr LIKE born; INSERT INTO pr VALUES (3, 3)",
        "TRUNCATE TABLE moved; INSERT INTO moved VALUES (13, 3), (4, 4); DELETE FROM moved WHERE id = 4; DROP TABLE pr; DROP TABLE born",
    ],
};

#[test]
fn partitions_change_with_those_of_the_source() {
    run(async {
        let fixture = Servers::shared().await?.fixture(SCENARIO.name).await?;
        fixture.source(SCENARIO.setup).await?;
        let tidegate = Tidegate::start(fixture.config().set("schema.partitions", "native")).await?;
        tidegate.wait_state("streaming").await?;
        change(&fixture, &tidegate, &SCENARIO, Way::Killed).await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let sql = "SELECT concat_ws(' ', c.relname, pg_get_partkeydef(c.oid), (SELECT string_agg(pg_get_expr(p.relpartbound, p.oid), ' ' ORDER BY p.oid)
                    FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid WHERE i.inhparent = c.oid))
                FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'p' ORDER BY c.relname COLLATE \"C\"";
        let found: Vec<String> = fixture.target_rows(sql).await?.into_iter().flatten().flatten().collect();
        let expected = [
            "moved RANGE (id) FOR VALUES FROM (MINVALUE) TO ('10') FOR VALUES FROM ('10') TO ('20') DEFAULT",
            "ph HASH (id) FOR VALUES WITH (modulus 3, remainder 0) FOR VALUES WITH (modulus 3, remainder 1) \
                 FOR VALUES WITH (modulus 3, remainder 2)",
            "plain RANGE (id) FOR VALUES FROM (MINVALUE) TO (10) FOR VALUES FROM (10) TO (1000) DEFAULT",
            "pt RANGE (created) FOR VALUES FROM (MINVALUE) TO ('2024-01-01') FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') \
                 FOR VALUES FROM ('2025-01-01') TO (MAXVALUE) DEFAULT",
        ];
        ensure!(found == expected, "{found:?}");
        // Only rows of no partition of the source's are there, and it has none.
        let left =
            "SELECT count(*) FROM (SELECT id FROM pt_default UNION ALL SELECT id FROM plain_default) d";
        ensure!(fixture.target_scalar(left).await?.as_deref() == Some("0"), "rows in a default partition");
        Ok(())
    });
}
