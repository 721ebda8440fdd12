//! RENAME TABLE and ALTER TABLE … RENAME.

use super::*;

#[test]
fn names_move_with_their_tables() {
    follow_all(&[
        Scenario {
            name: "ddl_swap",
            setup: "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(10)); CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(10), extra INT DEFAULT 1);
                    INSERT INTO a VALUES (1, 'from-a'); INSERT INTO b (id, v) VALUES (1, 'from-b')",
            changes: &[
                "RENAME TABLE a TO tmp, b TO a, tmp TO b; INSERT INTO a (id, v) VALUES (2, 'new-a'); INSERT INTO b VALUES (2, 'new-b')",
                "CREATE TABLE c (id INT PRIMARY KEY); INSERT INTO c VALUES (9)",
                "RENAME TABLE a TO x, b TO a, c TO b, x TO c; UPDATE c SET extra = 5; INSERT INTO b VALUES (10); DELETE FROM a WHERE id = 1",
            ],
        },
        Scenario {
            name: "ddl_rename_to",
            setup: "CREATE TABLE old (id INT AUTO_INCREMENT PRIMARY KEY, v INT); INSERT INTO old (v) VALUES (1), (2);
                    CREATE TABLE keyless (a INT); INSERT INTO keyless VALUES (1), (1)",
            changes: &[
                "ALTER TABLE old RENAME TO new, ADD COLUMN w INT DEFAULT 5; INSERT INTO new (v) VALUES (3)",
                "ALTER TABLE new RENAME AS last; INSERT INTO last (v) VALUES (4); CREATE TABLE old (id INT PRIMARY KEY, other VARCHAR(5)); INSERT INTO old VALUES (1, 'x')",
                "RENAME TABLE keyless TO `with.dot`; DELETE FROM `with.dot` LIMIT 1",
                "RENAME TABLE last TO a1; RENAME TABLE a1 TO a2; RENAME TABLE a2 TO last; DELETE FROM last WHERE id = 2",
            ],
        },
        // The names of what comes with tables of the target: `user_role` is an index, `user_id_seq` a sequence.
        Scenario {
            name: "ddl_taken",
            setup: "CREATE TABLE user (id INT AUTO_INCREMENT PRIMARY KEY, role INT, KEY role (role)); INSERT INTO user (role) VALUES (1);
                    CREATE TABLE user_id_seq (id INT PRIMARY KEY); INSERT INTO user_id_seq VALUES (1)",
            changes: &[
                "CREATE TABLE user_role (id INT PRIMARY KEY, KEY role (id)); INSERT INTO user_role VALUES (1); INSERT INTO user (role) VALUES (2)",
                "CREATE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (1); RENAME TABLE a TO user_pkey; INSERT INTO user_pkey VALUES (2)",
                "RENAME TABLE user TO person, user_role TO user_role_role; INSERT INTO person (role) VALUES (3); INSERT INTO user_role_role VALUES (3)",
                "ALTER TABLE person DROP INDEX role; INSERT INTO person (role) VALUES (4)",
            ],
        },
        Scenario {
            name: "ddl_rotation",
            setup: "CREATE TABLE log (id INT PRIMARY KEY, v INT); INSERT INTO log VALUES (1, 1)",
            changes: &[
                "CREATE TABLE log_new LIKE log; RENAME TABLE log TO log_1, log_new TO log; INSERT INTO log VALUES (1, 2); UPDATE log_1 SET v = 7",
                "CREATE TABLE log_new LIKE log; RENAME TABLE log TO log_2, log_new TO log; INSERT INTO log VALUES (1, 3); DROP TABLE log_1",
            ],
        },
    ]);
}

#[test]
fn a_mirrored_rename_copies_nothing() {
    run(async {
        let fixture = Servers::shared().await?.fixture("ddl_rename_once").await?;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY, v INT); INSERT INTO a VALUES (1)").await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("RENAME TABLE a TO t, b TO a, t TO b; RENAME TABLE b TO c; INSERT INTO c VALUES (2); INSERT INTO a VALUES (1, 1)").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        ensure!(copies(&tidegate)? == 0, "a table was copied");
        ensure!(recorded(&fixture).await? == ["rename_table a", "rename_table b", "rename_table b"]);
        let status = tidegate.status().await?;
        let mut tables: Vec<_> = status["tables"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|table| table["source"].as_str())
            .collect();
        tables.sort_unstable();
        ensure!(tables == [format!("{}.a", fixture.source), format!("{}.c", fixture.source)], "{tables:?}");
        Ok(())
    });
}

/// Names of the middle, unqualified names and other default databases.
#[test]
fn tables_move_between_schemas() {
    run(async {
        let fixture = Servers::shared().await?.fixture("ddl_schemas").await?;
        let (one, two) = (fixture.source.clone(), format!("{}_2", fixture.source));
        fixture
            .source(&format!(
                "CREATE DATABASE {two}; CREATE TABLE mv (id INT PRIMARY KEY, v INT); INSERT INTO mv VALUES (1, 1);
                 CREATE TABLE {two}.stay (id INT PRIMARY KEY); INSERT INTO {two}.stay VALUES (1);
                 CREATE TABLE stay (id INT PRIMARY KEY); INSERT INTO stay VALUES (7); CREATE TABLE kept (id INT PRIMARY KEY)"
            ))
            .await?;
        let include = vec![format!("{one}.*"), format!("{two}.*")];
        let tidegate = Tidegate::start(fixture.config().set("tables.include", include)).await?;
        tidegate.wait_state("streaming").await?;
        fixture
            .source(&format!(
                "RENAME TABLE mv TO {two}.mv2; INSERT INTO {two}.mv2 VALUES (2, 2); TRUNCATE TABLE {two}.stay; INSERT INTO {two}.stay VALUES (3);
                 USE {two}; RENAME TABLE {one}.stay TO stay2; ALTER TABLE mv2 ADD COLUMN w INT DEFAULT 4; INSERT INTO stay2 VALUES (8)"
            ))
            .await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        for (table, wanted) in [("mv2", "(1,1,4) (2,2,4)"), ("stay", "(3)"), ("stay2", "(7) (8)")] {
            let sql = format!("SELECT string_agg(t::text, ' ' ORDER BY t.id) FROM {two}.{table} t");
            let found = fixture.target_scalar(&sql).await?;
            ensure!(found.as_deref() == Some(wanted), "{table}: {found:?}");
        }
        fixture.source(&format!("DROP DATABASE {two}")).await
    });
}

#[test]
fn out_of_the_filter_and_into_it() {
    let scenario = &Scenario {
        name: "ddl_filter",
        setup: "CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE hidden_a (id INT PRIMARY KEY, w VARCHAR(5));
                INSERT INTO t VALUES (1, 1); INSERT INTO hidden_a VALUES (1, 'h')",
        changes: &[
            "INSERT INTO hidden_a VALUES (2, 'i'); RENAME TABLE hidden_a TO shown; INSERT INTO shown VALUES (3, 'j')",
            "RENAME TABLE t TO hidden_t; INSERT INTO hidden_t VALUES (2, 2)",
            "CREATE TABLE t (id INT PRIMARY KEY, other VARCHAR(9)); INSERT INTO t VALUES (5, 'new')",
            "RENAME TABLE t TO hidden_u, shown TO t; INSERT INTO t VALUES (4, 'k')",
            "DROP TABLE hidden_t, hidden_u",
        ],
    };
    run(async {
        let config = |config: Config| config.set("tables.exclude", vec!["*.hidden_*".to_owned()]);
        follow(scenario, config, |_, _| async { Ok(()) }).await
    });
}
