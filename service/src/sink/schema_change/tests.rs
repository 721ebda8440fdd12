use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::config::Ignored;
use crate::fold::statement::Ddl;
use crate::fold::unit::Fingerprint;
use crate::schema::alter::StatementFacts;
use crate::schema::ddl::CreateTable;
use crate::schema::partitions::{Native, TargetPartitions, TargetStrategy};
use crate::schema::{Column, MysqlType, TableModel, TargetType};

const GTID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7";

#[derive(Default)]
struct Tables(BTreeMap<TableName, TableState>);

impl Known for Tables {
    fn state(&self, name: &TableName) -> Option<&TableState> {
        self.0.get(name)
    }

    fn all(&self) -> Vec<&TableState> {
        self.0.values().collect()
    }

    fn in_database(&self, database: &str) -> Vec<&TableState> {
        self.0.values().filter(|state| state.name().database == database).collect()
    }
}

fn name(table: &str) -> TableName {
    TableName { database: "app".to_owned(), table: table.to_owned() }
}

fn model(table: &str) -> TableModel {
    let (mysql, target) = (MysqlType::Int { unsigned: false }, TargetType::Integer);
    let column = Column {
        name: "id".to_owned(),
        mysql,
        target,
        nullable: false,
        auto_increment: false,
        generated: false,
        not_null_dropped: false,
        details: Default::default(),
    };
    TableModel {
        name: name(table),
        columns: vec![column],
        key: vec![0],
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: Default::default(),
    }
}

impl Tables {
    fn with(mut self, table: &str, phase: TablePhase, ownership: Ownership, set: &str) -> Self {
        let state = TableState::new(model(table), phase).unwrap();
        let state = TableState { snapshot_set: Some(set.parse().unwrap()), ownership, ..state };
        self.0.insert(name(table), state);
        self
    }

    fn streaming(self, table: &str) -> Self {
        self.with(table, TablePhase::Streaming, Ownership::Created, "")
    }

    fn adopted(self, table: &str) -> Self {
        self.with(table, TablePhase::Streaming, Ownership::Adopted, "")
    }

    /// Copied after the change.
    fn shown(self, table: &str) -> Self {
        self.with(table, TablePhase::CatchingUp, Ownership::Created, GTID)
    }

    fn detached(self, table: &str, ownership: Ownership) -> Self {
        self.with(table, TablePhase::Detached, ownership, "")
    }

    fn decide(&self, kind: DdlKind, content: Content, tables: &[&str]) -> Vec<Action> {
        self.ruled(&[], kind, content, tables).unwrap()
    }

    /// With entries of `ddl.ignore`.
    fn ruled(
        &self,
        ignore: &[&str],
        kind: DdlKind,
        content: Content,
        tables: &[&str],
    ) -> Result<Vec<Action>, Halt> {
        let tables = tables.iter().map(|table| name(table)).collect();
        let statement = Ddl { kind, tables, databases: vec!["app".to_owned()], content };
        let fingerprint =
            Fingerprint { original_commit_micros: 0, immediate_commit_micros: 0, transaction_length: 0 };
        let (gtid, facts) = (GTID.parse().unwrap(), StatementFacts::default());
        let change = SchemaChange { gtid, fingerprint, overlap_pending: false, statement, facts };
        let (lock_wait_timeout, lock_deadline) = (Duration::from_secs(1), Duration::from_secs(1));
        let ignore = ignore.iter().map(|entry| Ignored::parse(entry).unwrap()).collect();
        let config = DdlConfig { policy: DdlPolicy::Mirror, ignore, lock_wait_timeout, lock_deadline };
        let filter = Filter::new(&["app.*".to_owned()], &["app._*".to_owned()]).unwrap();
        decide(&change, &config, &filter, &Overrides::default(), self)
    }

    fn rename(&self, pairs: &[(&str, &str)]) -> Vec<String> {
        let pairs = pairs.iter().map(|(from, to)| (name(from), name(to))).collect();
        let actions = self.decide(DdlKind::RenameTable, Content::Rename(pairs), &[]);
        let outcome = Outcome::of(&actions, self, |_| None).unwrap();
        assert!(outcome.saved.iter().all(|state| state.target_table == state.name().table));
        actions.iter().map(shown).collect()
    }

    fn drop(&self, tables: &[&str]) -> Vec<String> {
        let actions = self.decide(DdlKind::DropTable, Content::DropTable { if_exists: true }, tables);
        actions.iter().map(shown).collect()
    }

    fn create(&self, table: &str, with_rows: bool) -> Vec<String> {
        let create = CreateTable { if_not_exists: false, like: None, with_rows };
        let actions = self.decide(DdlKind::CreateTable, Content::CreateTable(create), &[table]);
        actions.iter().map(shown).collect()
    }
}

fn shown(action: &Action) -> String {
    let table = &action.table().table;
    match action {
        Action::Drop(_) => format!("drop {table}"),
        Action::Forget(_) => format!("forget {table}"),
        Action::Detach(_) => format!("detach {table}"),
        Action::Release(_) => format!("release {table}"),
        Action::Move { to, .. } => format!("{table} -> {}", to.table),
        Action::Empty(_) => format!("empty {table}"),
        Action::Keep(_) => format!("keep {table}"),
        Action::Alter { .. } => format!("alter {table}"),
        Action::Create(_) => format!("create {table}"),
        Action::Copy { .. } => format!("copy {table}"),
        Action::Note(_) => format!("note {table}"),
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_list_of_renames_counts_as_a_whole() {
    let known = Tables::default().streaming("a").streaming("b").streaming("c");
    assert_eq!(known.rename(&[("a", "x")]), ["a -> x"]);
    assert_eq!(known.rename(&[("a", "t"), ("b", "a"), ("t", "b")]), ["a -> b", "b -> a"]);
    assert_eq!(known.rename(&[("a", "_t"), ("b", "a"), ("_t", "b")]), ["a -> b", "b -> a"]);
    assert_eq!(
        known.rename(&[("a", "t"), ("b", "a"), ("c", "b"), ("t", "c")]),
        ["a -> c", "b -> a", "c -> b"]
    );
    assert_eq!(known.rename(&[("a", "x"), ("x", "a")]), NOTHING);
    assert_eq!(known.rename(&[("a", "x"), ("x", "y")]), ["a -> y"]);
    assert_eq!(known.rename(&[("_u", "_v"), ("_v", "_w")]), NOTHING);
}

#[test]
fn a_table_leaves_the_filter_and_another_takes_its_name() {
    let known = Tables::default().streaming("t").streaming("new");
    assert_eq!(known.rename(&[("t", "_old")]), ["detach t"]);
    assert_eq!(known.rename(&[("_new", "x")]), ["copy x"]);
    // The cutover of an online schema change, its shadow tables outside the filter, or one of them.
    assert_eq!(known.rename(&[("t", "_old"), ("_new", "t")]), ["copy t"]);
    assert_eq!(known.rename(&[("t", "_old"), ("new", "t")]), ["drop t", "new -> t"]);
    assert_eq!(known.rename(&[("t", "old"), ("_new", "t")]), ["t -> old", "copy t"]);
    assert_eq!(known.rename(&[("t", "old"), ("new", "t")]), ["new -> t", "t -> old"]);
}

#[test]
fn what_a_copy_shows_is_left_alone() {
    let known = Tables::default().streaming("old").shown("new");
    assert_eq!(known.rename(&[("old", "new")]), ["drop old"]);
    assert_eq!(known.rename(&[("new", "x")]), ["copy x"]);
    assert_eq!(known.drop(&["new"]), NOTHING);
    assert_eq!(known.create("new", false), NOTHING);
    assert_eq!(known.decide(DdlKind::TruncateTable, Content::Names, &["new"]), []);
}

#[test]
fn a_table_of_the_operators_keeps_its_place() {
    let known = Tables::default().adopted("mine").streaming("new");
    assert_eq!(known.rename(&[("mine", "_old"), ("new", "mine")]), ["drop new", "copy mine"]);
    assert_eq!(known.rename(&[("mine", "x"), ("new", "mine")]), ["mine -> x", "new -> mine"]);
    assert_eq!(known.drop(&["mine", "new"]), ["detach mine", "drop new"]);
    let known = Tables::default().detached("gone", Ownership::Adopted).streaming("new");
    assert_eq!(known.rename(&[("new", "gone")]), ["drop new", "copy gone"]);
}

#[test]
fn detached_tables_come_back_by_a_copy_and_end_with_the_sources() {
    let known = Tables::default().detached("c", Ownership::Created).detached("u", Ownership::Unclaimed);
    assert_eq!(known.create("c", false), ["copy c"]);
    assert_eq!(known.drop(&["c", "u", "missing"]), ["drop c", "forget u"]);
    assert_eq!(known.rename(&[("c", "x")]), ["drop c", "copy x"]);
    assert_eq!(known.rename(&[("u", "x")]), ["forget u", "copy x"]);
    let excluded = Tables::default().detached("_c", Ownership::Created);
    assert_eq!(excluded.drop(&["_c"]), NOTHING);
}

#[test]
fn creation_needs_a_definition_or_the_rows() {
    let known = Tables::default().streaming("t");
    assert_eq!(known.create("new", false), ["create new"]);
    assert_eq!(known.create("new", true), ["copy new"]);
    assert_eq!(known.create("_new", false), NOTHING);
    assert_eq!(known.create("t", false), NOTHING);
}

#[test]
fn exchange_concerns_both_and_an_index_neither() {
    let known = Tables::default().streaming("p").streaming("t");
    let exchange = vec![AlterOperation::Partition(PartitionOperation::Exchange)];
    let actions = known.decide(DdlKind::AlterTable, Content::Alter(exchange.clone()), &["p", "t"]);
    assert_eq!(actions.iter().map(shown).collect::<Vec<_>>(), ["copy p", "copy t"]);
    let actions = known.decide(DdlKind::AlterTable, Content::Alter(exchange), &["_p", "t"]);
    assert_eq!(actions.iter().map(shown).collect::<Vec<_>>(), ["copy t"]);
    let actions = known.decide(DdlKind::AlterTable, Content::Alter(Vec::new()), &["t"]);
    assert_eq!(actions.iter().map(shown).collect::<Vec<_>>(), ["note t"]);
}

#[test]
fn a_renamed_table_keeps_its_rows_and_a_copy_keeps_its_owner() {
    let known = Tables::default().streaming("a").streaming("b");
    let rename =
        vec![AlterOperation::Partition(PartitionOperation::Drop), AlterOperation::RenameTo(name("x"))];
    let actions = known.decide(DdlKind::AlterTable, Content::Alter(rename), &["a", "x"]);
    assert_eq!(actions.iter().map(shown).collect::<Vec<_>>(), ["a -> x", "copy x"]);
    let outcome = Outcome::of(&actions, &known, |_| None).unwrap();
    assert_eq!(outcome.removed, [name("a"), name("x")]);
    let [state] = outcome.saved.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(
        (state.name(), state.phase, state.ownership),
        (&name("x"), TablePhase::Resyncing, Ownership::Created)
    );
    assert!(outcome.needs_copy());

    let dropped = known.decide(DdlKind::DropDatabase, Content::DropDatabase { if_exists: false }, &[]);
    assert_eq!(dropped.iter().map(shown).collect::<Vec<_>>(), ["drop a", "drop b"]);
}

#[test]
fn each_table_of_a_swap_keeps_its_own_state() {
    let mut known = Tables::default().streaming("a").streaming("b");
    for (table, rows) in [("a", 1), ("b", 2)] {
        known.0.get_mut(&name(table)).unwrap().rows_copied = rows;
    }
    let pairs = vec![(name("a"), name("t")), (name("b"), name("a")), (name("t"), name("b"))];
    let actions = known.decide(DdlKind::RenameTable, Content::Rename(pairs), &[]);
    let mut saved = Outcome::of(&actions, &known, |_| None).unwrap().saved;
    saved.sort_by_key(|state| state.rows_copied);
    let names: Vec<_> = saved.iter().map(|state| state.name().table.as_str()).collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn rows_that_were_kept_are_not_lost_to_a_copy() {
    let mut known = Tables::default().streaming("t").streaming("new");
    let partition = |operation| Content::Alter(vec![AlterOperation::Partition(operation)]);
    let alter = |known: &Tables, operation| {
        known.ruled(&["drop_partition app.t"], DdlKind::AlterTable, partition(operation), &["t", "new"])
    };
    let actions = alter(&known, PartitionOperation::Drop).unwrap();
    assert_eq!(actions.iter().map(shown).collect::<Vec<_>>(), ["keep t"]);
    let [state] = Outcome::of(&actions, &known, |_| None).unwrap().saved.try_into().unwrap();
    assert!(state.model.details.target_keeps_rows && state.phase == TablePhase::Streaming);
    known.0.insert(name("t"), state);

    // Those that lose nothing pass.
    assert_eq!(alter(&known, PartitionOperation::Truncate).unwrap(), [Action::Keep(name("t"))]);
    assert_eq!(alter(&known, PartitionOperation::Add).unwrap(), [Action::Note(name("t"))]);
    assert_eq!(known.rename(&[("t", "x")]), ["t -> x"]);
    assert_eq!(known.drop(&["t"]), ["drop t"]);
    let emptied = known.decide(DdlKind::TruncateTable, Content::Names, &["t"]);
    let [state] = Outcome::of(&emptied, &known, |_| None).unwrap().saved.try_into().unwrap();
    assert!(!state.model.details.target_keeps_rows, "it has none any more");

    let halts = |result: Result<Vec<Action>, Halt>| {
        let halt = result.unwrap_err();
        assert_eq!((halt.reason, halt.table.as_deref()), (Reason::RowsKept, Some("app.t")), "{halt}");
    };
    halts(alter(&known, PartitionOperation::Exchange));
    let pairs = vec![(name("t"), name("_old")), (name("new"), name("t"))];
    halts(known.ruled(&[], DdlKind::RenameTable, Content::Rename(pairs), &[]));
    let pairs = vec![(name("t"), name("_old")), (name("_new"), name("t"))];
    halts(known.ruled(&[], DdlKind::RenameTable, Content::Rename(pairs), &[]));
    let details = &mut known.0.get_mut(&name("t")).unwrap().model.details;
    details.target_partitions = TargetPartitions::Native(Native {
        strategy: TargetStrategy::List,
        columns: vec!["id".to_owned()],
        partitions: Vec::new(),
    });
    halts(alter(&known, PartitionOperation::Add));
}
