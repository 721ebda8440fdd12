use super::*;

fn grants(lines: &[&str]) -> Grants {
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    Grants::parse("repl@%", &lines, false)
}

fn table(database: &str, table: &str) -> TableFacts {
    TableFacts::example(database, table, "InnoDB")
}

fn names(grants: &Grants, tables: &[TableFacts]) -> Vec<&'static str> {
    check(grants, tables).iter().map(|finding| finding.name).collect()
}

const GLOBAL: &str = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `repl`@`%`";
const LOCKS: &str = "GRANT SELECT ON `performance_schema`.`metadata_locks` TO `repl`@`%`";
const BACKUP: &str = "GRANT BACKUP_ADMIN,XA_RECOVER_ADMIN ON *.* TO `repl`@`%`";

#[test]
fn what_is_granted_is_not_missed() {
    let tables = [table("app", "t")];
    let enough = grants(&[
        GLOBAL,
        BACKUP,
        LOCKS,
        "GRANT SELECT, LOCK TABLES ON `app`.* TO `repl`@`%` WITH GRANT OPTION",
    ]);
    assert_eq!(names(&enough, &tables), [""; 0]);
    let all = grants(&["GRANT ALL PRIVILEGES ON *.* TO `repl`@`%` WITH GRANT OPTION"]);
    assert_eq!(names(&all, &tables), [""; 0]);
    let by_table = grants(&[
        GLOBAL,
        BACKUP,
        LOCKS,
        "GRANT LOCK TABLES ON `app`.* TO `repl`@`%`",
        "GRANT INSERT, SELECT, UPDATE (`a`, `b`) ON `app`.`t` TO `repl`@`%`",
    ]);
    assert_eq!(names(&by_table, &tables), [""; 0]);
}

#[test]
fn every_missing_privilege_is_reported_at_once() {
    let none = grants(&["GRANT USAGE ON *.* TO `repl`@`%`"]);
    assert_eq!(
        names(&none, &[table("app", "t"), table("log", "u")]),
        [
            "source.privilege.replication_slave",
            "source.privilege.replication_client",
            "source.privilege.select",
            "source.privilege.lock_tables",
            "source.privilege.backup_admin",
            "source.privilege.metadata_locks",
        ]
    );
    let fix = &check(&none, &[table("app", "t"), table("log", "u")])[2].fix;
    assert_eq!(fix, "GRANT SELECT ON `app`.* TO `repl`@`%`; GRANT SELECT ON `log`.* TO `repl`@`%`;");
}

#[test]
fn privileges_on_columns_routines_and_roles_are_not_privileges_on_the_table() {
    let grants = grants(&[
        GLOBAL,
        BACKUP,
        LOCKS,
        "GRANT SELECT (`a`, `b ON c`), LOCK TABLES ON `app`.`t` TO `repl`@`%`",
        "GRANT SELECT ON PROCEDURE `app`.`t` TO `repl`@`%`",
        "GRANT `SELECT ON`@`%`,`r`@`%` TO `repl`@`%`",
        "GRANT PROXY ON ``@`` TO `repl`@`%` WITH GRANT OPTION",
        "nonsense",
    ]);
    assert_eq!(
        names(&grants, &[table("app", "t")]),
        ["source.privilege.select", "source.privilege.lock_tables"]
    );
}

#[test]
fn partial_revokes_take_away() {
    let lines = [
        GLOBAL.to_owned(),
        BACKUP.to_owned(),
        LOCKS.to_owned(),
        "GRANT SELECT, LOCK TABLES ON *.* TO `repl`@`%`".to_owned(),
        "REVOKE SELECT ON `app`.* FROM `repl`@`%`".to_owned(),
    ];
    let grants = Grants::parse("repl@%", &lines, true);
    assert_eq!(names(&grants, &[table("log", "t")]), [""; 0]);
    assert_eq!(names(&grants, &[table("app", "t")]), ["source.privilege.select"]);
}

#[test]
fn database_names_are_patterns_unless_partial_revokes_are_on() {
    let line = "GRANT SELECT, LOCK TABLES ON `app\\_%`.* TO `repl`@`%`".to_owned();
    let patterns = Grants::parse("repl@%", std::slice::from_ref(&line), false);
    assert!(patterns.has_on_database("SELECT", "app_x"));
    assert!(!patterns.has_on_database("SELECT", "appsx"));
    let literal = Grants::parse("repl@%", &[line], true);
    assert!(!literal.has_on_database("SELECT", "app_x"));
}

#[test]
fn patterns_match_as_like_does() {
    for (pattern, name, expected) in [
        ("app", "app", true),
        ("app", "apps", false),
        ("a%", "a", true),
        ("%p_", "apps", true),
        ("a\\%b", "a%b", true),
        ("a\\%b", "axb", false),
        ("_", "é", true),
        ("%é%", "caféx", true),
        ("", "", true),
    ] {
        assert_eq!(is_like(pattern, name), expected, "{pattern} {name}");
    }
}

#[test]
fn names_are_quoted_and_unquoted() {
    let grants =
        Grants::parse("o`x@h@10.0.0.%", &["GRANT SELECT ON `a``b.c`.`d` TO `x`@`%`".to_owned()], false);
    assert!(grants.has_on_table("SELECT", "a`b.c", "d"));
    assert_eq!(grants.account, "`o``x@h`@`10.0.0.%`");
}
