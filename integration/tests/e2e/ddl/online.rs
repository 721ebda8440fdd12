//! gh-ost and pt-online-schema-change, as these tools do it: a shadow table, its rows copied in
//! pieces while the application writes, and the cutover by RENAME.

use super::*;

const GH_OST: Scenario = Scenario {
    name: "ddl_ghost",
    setup: "CREATE TABLE go (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20)); INSERT INTO go (name) VALUES ('one'), ('two'), ('three')",
    changes: &[
        "CREATE TABLE _go_ghc (id BIGINT AUTO_INCREMENT PRIMARY KEY, hint VARCHAR(64) NOT NULL, UNIQUE KEY (hint)) COMMENT 'changelog';
         CREATE TABLE _go_gho LIKE go;
         ALTER TABLE _go_gho ADD COLUMN extra INT NOT NULL DEFAULT 5, MODIFY name VARCHAR(200) NOT NULL;
         INSERT INTO _go_ghc (hint) VALUES ('heartbeat')",
        "INSERT IGNORE INTO _go_gho (id, name) SELECT id, name FROM go WHERE id <= 2; UPDATE go SET name = 'two!' WHERE id = 2;
         REPLACE INTO _go_gho (id, name) VALUES (2, 'two!'); INSERT IGNORE INTO _go_gho (id, name) SELECT id, name FROM go WHERE id > 2;
         INSERT INTO go (name) VALUES ('four'); REPLACE INTO _go_gho (id, name) VALUES (4, 'four')",
        "CREATE TABLE _go_del (id INT PRIMARY KEY) COMMENT 'ghost-cut-over-sentry'; DROP TABLE _go_del;
         RENAME TABLE go TO _go_del, _go_gho TO go; INSERT INTO go (name, extra) VALUES ('five', 9)",
        "UPDATE go SET extra = 1 WHERE id = 1; DROP TABLE IF EXISTS _go_ghc; DROP TABLE IF EXISTS _go_del",
    ],
};

const PT_OSC: Scenario = Scenario {
    name: "ddl_ptosc",
    setup: "CREATE TABLE po (id INT PRIMARY KEY, v INT); INSERT INTO po VALUES (1, 1), (2, 2), (3, 3)",
    changes: &[
        "CREATE TABLE _po_new LIKE po; ALTER TABLE _po_new ADD COLUMN w INT DEFAULT 4;
         CREATE TRIGGER pt_osc_del AFTER DELETE ON po FOR EACH ROW DELETE IGNORE FROM _po_new WHERE _po_new.id <=> OLD.id;
         CREATE TRIGGER pt_osc_upd AFTER UPDATE ON po FOR EACH ROW REPLACE INTO _po_new (id, v) VALUES (NEW.id, NEW.v);
         CREATE TRIGGER pt_osc_ins AFTER INSERT ON po FOR EACH ROW REPLACE INTO _po_new (id, v) VALUES (NEW.id, NEW.v)",
        "INSERT INTO po VALUES (4, 4); INSERT LOW_PRIORITY IGNORE INTO _po_new (id, v) SELECT id, v FROM po WHERE id <= 2;
         DELETE FROM po WHERE id = 1; UPDATE po SET v = 33 WHERE id = 3; INSERT IGNORE INTO _po_new (id, v) SELECT id, v FROM po WHERE id > 2",
        "RENAME TABLE po TO _po_old, _po_new TO po; INSERT INTO po VALUES (5, 5, 5)",
        "DROP TABLE IF EXISTS _po_old; DROP TRIGGER IF EXISTS pt_osc_del; DROP TRIGGER IF EXISTS pt_osc_upd; DROP TRIGGER IF EXISTS pt_osc_ins;
         UPDATE po SET w = 6 WHERE id = 2",
    ],
};

#[test]
fn with_the_shadow_tables_in_the_filter() {
    run(async {
        for scenario in [&GH_OST, &PT_OSC] {
            follow(scenario, |config| config, |_, _| async { Ok(()) }).await?;
        }
        Ok(())
    });
}

#[test]
fn with_the_shadow_tables_outside_the_filter() {
    run(async {
        for scenario in [&GH_OST, &PT_OSC] {
            let config = |config: Config| config.set("tables.exclude", vec!["*._*".to_owned()]);
            follow(scenario, config, |_, _| async { Ok(()) }).await?;
        }
        Ok(())
    });
}
