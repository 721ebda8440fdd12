use super::*;
use crate::schema::details::{Action, ForeignKey, Index, IndexKind, IndexPart, example_column};
use crate::schema::{MysqlType, TargetType};

fn name(table: &str) -> TableName {
    TableName { database: "app".to_owned(), table: table.to_owned() }
}

fn index(name: &str, column: &str) -> Index {
    let part =
        IndexPart { column: Some(column.to_owned()), prefix: None, descending: false, expression: None };
    Index { name: name.to_owned(), unique: false, kind: IndexKind::Ordered, visible: true, parts: vec![part] }
}

/// A streaming table with an index `k` on `a`, and a foreign key `f` from `b` to `p`.
fn state(table: &str) -> TableState {
    let int = || MysqlType::Int { unsigned: false };
    let mut model = TableModel {
        name: name(table),
        columns: ["id", "a", "b"].map(|column| example_column(column, int(), TargetType::Integer)).to_vec(),
        key: vec![0],
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: Default::default(),
    };
    model.details.indexes.push(index("k", "a"));
    model.details.foreign_keys.push(ForeignKey {
        name: "f".to_owned(),
        columns: vec!["b".to_owned()],
        parent: name("p"),
        parent_columns: vec!["id".to_owned()],
        on_update: Action::NoAction,
        on_delete: Action::NoAction,
    });
    TableState::new(model, TablePhase::Streaming).unwrap()
}

fn recorded(kind: &str, object: &str) -> Recorded {
    Recorded {
        table: name("t"),
        kind: kind.to_owned(),
        name: object.to_owned(),
        target_name: format!("t_{object}"),
        outcome: Outcome::Built.name().to_owned(),
        statement: "CREATE …".to_owned(),
    }
}

/// What becomes of an object of `t`, whose parent is `p`, in one word with the names that it keeps.
fn fate(after: &[TableState], renamings: &[Renaming], kind: &str, object: &str) -> String {
    let (t, p) = (state("t"), state("p"));
    let before: States<'_> = [&t, &p].into_iter().map(|state| (state.name(), state)).collect();
    let after: States<'_> = after.iter().map(|state| (state.name(), state)).collect();
    let wanted = Wanted::of(&name("t"), &before, &after, renamings).unwrap();
    match wanted.fate(&recorded(kind, object), new_table(renamings, &name("t")), renamings) {
        Fate::Drop => "drop".to_owned(),
        Fate::Forget => "forget".to_owned(),
        Fate::Keep { table, name, object } => {
            let known = if object.is_some() { "known" } else { "unknown" };
            format!("keep {}.{name}, {known}", table.table)
        }
    }
}

#[test]
fn what_is_wanted_as_before_stays() {
    let after = [state("t"), state("p")];
    assert_eq!(fate(&after, &[], "index", "k"), "keep t.k, known");
    assert_eq!(fate(&after, &[], "foreign_key", "f"), "keep t.f, known");
    // What the model never wanted is not kept either.
    assert_eq!(fate(&after, &[], "index", "other"), "drop");
    assert_eq!(fate(&after, &[], "check", "k"), "drop");
}

#[test]
fn what_goes_with_its_table_is_forgotten_and_a_foreign_key_is_dropped_before() {
    let after = [state("p")];
    assert_eq!(fate(&after, &[], "index", "k"), "forget");
    assert_eq!(fate(&after, &[], "foreign_key", "f"), "drop");
}

#[test]
fn an_index_whose_columns_are_others_is_dropped() {
    let mut other = state("t");
    other.model.details.indexes = vec![index("k", "b")];
    assert_eq!(fate(&[other, state("p")], &[], "index", "k"), "drop");
    let mut gone = state("t");
    gone.model.details.indexes.clear();
    assert_eq!(fate(&[gone, state("p")], &[], "index", "k"), "drop");
}

#[test]
fn new_names_are_taken_and_change_nothing() {
    let mut new = state("u");
    new.model.columns[1].name = "z".to_owned();
    new.model.details.indexes = vec![index("kk", "z")];
    let renaming = Renaming {
        to: name("u"),
        columns: vec![("a".to_owned(), "z".to_owned())],
        indexes: vec![("k".to_owned(), "kk".to_owned())],
        ..Renaming::of(&name("t"))
    };
    let after = [new, state("p")];
    assert_eq!(fate(&after, std::slice::from_ref(&renaming), "index", "k"), "keep u.kk, known");
    // The names of indexes are those of indexes alone.
    assert_eq!(fate(&after, &[renaming], "foreign_key", "f"), "keep u.f, known");
}

#[test]
fn a_foreign_key_goes_with_its_parent() {
    assert_eq!(fate(&[state("t")], &[], "foreign_key", "f"), "drop");
    let mut detached = state("p");
    detached.phase = TablePhase::Detached;
    assert_eq!(fate(&[state("t"), detached], &[], "foreign_key", "f"), "drop");
    let mut other_type = state("p");
    other_type.model.columns[0].target = TargetType::BigInt;
    assert_eq!(fate(&[state("t"), other_type], &[], "foreign_key", "f"), "drop");
}

#[test]
fn a_table_that_waits_for_its_copy_keeps_all_but_foreign_keys_to_tables_that_go() {
    let mut waiting = state("t");
    waiting.phase = TablePhase::Resyncing;
    waiting.model.details.indexes.clear();
    assert_eq!(fate(&[waiting.clone(), state("p")], &[], "index", "k"), "keep t.k, unknown");
    assert_eq!(fate(&[waiting.clone(), state("p")], &[], "foreign_key", "f"), "keep t.f, unknown");
    assert_eq!(fate(&[waiting], &[], "foreign_key", "f"), "drop");
}

#[test]
fn only_what_is_the_pipeline_s_own_is_dropped() {
    let own = recorded("index", "k");
    assert!(own.is_own());
    assert!(!Recorded { statement: String::new(), ..own.clone() }.is_own());
    assert!(!Recorded { outcome: Outcome::Failed.name().to_owned(), ..own.clone() }.is_own());
    assert_eq!(drop_statement(&own).as_deref(), Some(r#"DROP INDEX IF EXISTS "app"."t_k""#));
    let constraint = r#"ALTER TABLE IF EXISTS "app"."t" DROP CONSTRAINT IF EXISTS "t_f""#;
    assert_eq!(drop_statement(&recorded("foreign_key", "f")).as_deref(), Some(constraint));
    let never = Recorded { target_name: "x".repeat(64), ..own };
    assert_eq!(drop_statement(&never), None);
}
