//! What the source's rows hold that PostgreSQL can't: `tidegate check --data`.
//!
//! Rows are read as the copy reads them and converted as the copy converts them, into nothing, so
//! that what is counted here is what a run will meet. Nothing but counts leaves this module.

mod collation;

use std::collections::BTreeMap;

use super::reader::chunk::{self, KeyBound};
use super::reader::{quote, quote_table};
use super::session::Session;
use crate::binlog::cell::Cell;
use crate::convert::TablePlan;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::details::ForeignKey;
use crate::schema::policy::{Policies, Policy, ValueKind};
use crate::schema::{Column, MysqlType, TableModel, TableName};

/// The widest entry of a PostgreSQL B-tree and the header that it shares with the key, in bytes
/// (server source `src/include/access/nbtree.h`, `BTMaxItemSize`).
const KEY_BYTES_MAX: usize = 2_704 - 8;

/// What a run does about rows of some kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The pipeline halts at the first of them.
    Halts,
    /// Stored as NULL.
    Null,
    /// Stored as the kind's replacement.
    Replace,
    /// The target's column is smallint instead of boolean, and holds them as they are.
    Smallint,
    /// Stored as they are: a constraint on the target that forbids them could not be made.
    Stored,
    /// Stored as they are: the target's collation may take them for equal to others, or not, otherwise
    /// than the source's.
    ComparedOtherwise,
}

/// Rows of one kind in one column, or of one constraint.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Found {
    /// `database.table` of the source.
    pub table: String,
    /// Column, the key's columns, or the foreign key's name.
    pub column: String,
    /// A kind of value, `key_too_long`, `orphan`, `other_characters` or `trailing_blanks`.
    pub kind: &'static str,
    pub rows: u64,
    pub outcome: Outcome,
    /// Lines of configuration to consider, where there are any.
    pub config: Option<String>,
}

/// How far the scan is.
#[derive(Debug, Clone, Copy)]
pub struct Scanned<'a> {
    pub table: &'a TableName,
    pub rows: u64,
}

/// Reads every table in chunks of about `chunk_rows` rows, calling `progress` after each.
///
/// # Errors
/// Failures of the source; values that contradict their own type.
pub async fn scan(
    session: &mut Session,
    tables: &[TableModel],
    policies: &Policies,
    chunk_rows: u64,
    mut progress: impl FnMut(Scanned<'_>),
) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    for model in tables {
        let mut scan = Scan::new(model)?;
        let mut after: Option<KeyBound> = None;
        loop {
            let through = if chunk::is_divisible(model) {
                chunk::next_bound(session, model, after.as_ref(), None, chunk_rows).await?
            } else {
                None
            };
            scan.rows_between(session, after.as_ref(), through.as_ref()).await?;
            scan.conditions_between(session, after.as_ref(), through.as_ref()).await?;
            progress(Scanned { table: &model.name, rows: scan.rows });
            if through.is_none() {
                break;
            }
            after = through;
        }
        found.extend(scan.found(policies));
    }
    Ok(found)
}

/// Holds for rows of the child whose parent is missing. MySQL does not ask for one where any column
/// is NULL.
fn orphaned(key: &ForeignKey, child: &TableName) -> String {
    let child = quote_table(child);
    let given: Vec<String> =
        key.columns.iter().map(|column| format!("{child}.{} IS NOT NULL", quote(column))).collect();
    let pairs = key.columns.iter().zip(&key.parent_columns);
    let joined: Vec<String> = pairs
        .map(|(column, referenced)| format!("p.{} = {child}.{}", quote(referenced), quote(column)))
        .collect();
    format!(
        "{} AND NOT EXISTS (SELECT 1 FROM {} p WHERE {})",
        given.join(" AND "),
        quote_table(&key.parent),
        joined.join(" AND ")
    )
}

/// The scan of one table.
struct Scan<'a> {
    model: &'a TableModel,
    plan: TablePlan,
    rows: u64,
    values: BTreeMap<(usize, ValueKind), u64>,
    long_keys: u64,
    conditions: Vec<Condition>,
}

/// Rows that the source counts itself.
struct Condition {
    /// Column, or the foreign key's name.
    subject: String,
    kind: &'static str,
    outcome: Outcome,
    sql: String,
    rows: u64,
}

fn conditions(model: &TableModel) -> Vec<Condition> {
    let orphans = model.details.foreign_keys.iter().map(|key| Condition {
        subject: key.name.clone(),
        kind: "orphan",
        outcome: Outcome::Stored,
        sql: orphaned(key, &model.name),
        rows: 0,
    });
    orphans.chain(collation::conditions(model)).collect()
}

impl<'a> Scan<'a> {
    fn new(model: &'a TableModel) -> Result<Self, Halt> {
        let plan = TablePlan::new(model, &Policies::default())?;
        let conditions = conditions(model);
        Ok(Self { model, plan, rows: 0, values: BTreeMap::new(), long_keys: 0, conditions })
    }

    async fn rows_between(
        &mut self,
        session: &mut Session,
        after: Option<&KeyBound>,
        through: Option<&KeyBound>,
    ) -> Result<(), Failure> {
        let model = self.model;
        let mut rows = chunk::read(session, model, after, through).await?;
        let mut out = Vec::new();
        while let Some(row) = rows.next().await? {
            self.rows += 1;
            let mut key_bytes = 0;
            for (index, cell) in row.cells().enumerate() {
                out.clear();
                self.value(index, cell.map_err(|halt| *halt)?, &mut out)?;
                if model.key.contains(&index) {
                    key_bytes += out.len();
                }
            }
            self.long_keys += u64::from(key_bytes > KEY_BYTES_MAX);
        }
        Ok(())
    }

    fn value(&mut self, index: usize, cell: Cell<'_>, out: &mut Vec<u8>) -> Result<(), Halt> {
        let (Some(column), Some(plan)) = (self.model.columns.get(index), self.plan.columns().get(index))
        else {
            return Err(Halt::new(Reason::Internal, "a row has more columns than its table"));
        };
        let beyond = may_be_boolean(column) && matches!(cell, Cell::Int(value) if !matches!(value, 0 | 1));
        let kind = match plan.write(cell, out) {
            Ok(()) => beyond.then_some(ValueKind::BeyondBoolean),
            Err(error) => Some(error.kind().ok_or_else(|| error.into_halt(&self.model.name, &column.name))?),
        };
        if let Some(kind) = kind {
            *self.values.entry((index, kind)).or_default() += 1;
        }
        Ok(())
    }

    async fn conditions_between(
        &mut self,
        session: &mut Session,
        after: Option<&KeyBound>,
        through: Option<&KeyBound>,
    ) -> Result<(), Failure> {
        for condition in &mut self.conditions {
            let counted = chunk::count_where(session, self.model, after, through, &condition.sql).await?;
            condition.rows = condition.rows.checked_add(counted).ok_or_else(|| {
                Failure::retry(Side::Source, "the source counts more rows than a table can have")
            })?;
        }
        Ok(())
    }

    fn found(&self, policies: &Policies) -> Vec<Found> {
        let TableName { database, table } = &self.model.name;
        let table = format!("{database}.{table}");
        let entry = |column: String, kind, rows, outcome, config| Found {
            table: table.clone(),
            column,
            kind,
            rows,
            outcome,
            config,
        };
        let mut found = Vec::new();
        for (&(index, kind), &rows) in &self.values {
            let Some(column) = self.model.columns.get(index) else { continue };
            let in_key = self.model.key.contains(&index);
            let outcome = outcome(kind, policies.of(&self.model.name, &column.name).of(kind), in_key);
            let name = format!("{table}.{}", column.name);
            let config = (outcome == Outcome::Halts).then(|| proposal(&name, kind, in_key)).flatten();
            found.push(entry(column.name.clone(), kind.name(), rows, outcome, config));
        }
        if self.long_keys > 0 {
            let names: Vec<&str> = self
                .model
                .key
                .iter()
                .filter_map(|&index| self.model.columns.get(index))
                .map(|column| column.name.as_str())
                .collect();
            found.push(entry(names.join(", "), "key_too_long", self.long_keys, Outcome::Halts, None));
        }
        for condition in self.conditions.iter().filter(|condition| condition.rows > 0) {
            let Condition { subject, kind, outcome, rows, .. } = condition;
            found.push(entry(subject.clone(), kind, *rows, *outcome, None));
        }
        found
    }
}

/// Its type on the target is chosen from its data.
fn may_be_boolean(column: &Column) -> bool {
    matches!(column.mysql, MysqlType::TinyInt { display_width_one: true, unsigned: false })
        && !column.auto_increment
}

fn outcome(kind: ValueKind, policy: Policy, in_key: bool) -> Outcome {
    match policy {
        // The first copy looks at all rows before it chooses the type.
        _ if kind == ValueKind::BeyondBoolean => Outcome::Smallint,
        Policy::Refuse => Outcome::Halts,
        _ if in_key && !kind.stays_distinct(policy) => Outcome::Halts,
        Policy::Null => Outcome::Null,
        Policy::Replace => Outcome::Replace,
        Policy::Widen => Outcome::Smallint,
    }
}

/// The policy that gets past values of the kind and keeps the most of them; `None` where only
/// mending them does.
fn proposal(column: &str, kind: ValueKind, in_key: bool) -> Option<String> {
    let policy = [Policy::Replace, Policy::Null]
        .into_iter()
        .find(|policy| kind.allows(*policy) && (!in_key || kind.stays_distinct(*policy)))?;
    // A TOML basic string and what it escapes.
    let column = column.replace('\\', "\\\\").replace('"', "\\\"");
    Some(format!("[policies.\"{column}\"]\n{kind} = \"{policy}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::details::Action;

    #[test]
    fn what_halts_is_proposed_a_policy_that_does_not() {
        assert_eq!(
            proposal("app.t.a\"b", ValueKind::NulText, false).as_deref(),
            Some("[policies.\"app.t.a\\\"b\"]\nnul_text = \"replace\"")
        );
        assert_eq!(proposal("app.t.c", ValueKind::NulText, true), None);
        let null = proposal("app.t.c", ValueKind::OutOfRange, false);
        assert!(null.is_some_and(|lines| lines.ends_with("out_of_range = \"null\"")));
        for kind in ValueKind::ALL {
            for in_key in [false, true] {
                let Some(lines) = proposal("app.t.c", kind, in_key) else { continue };
                let policy = lines.rsplit('"').nth(1).and_then(Policy::from_name).expect("a policy");
                assert_ne!(outcome(kind, policy, in_key), Outcome::Halts, "{kind} {in_key}");
            }
        }
    }

    #[test]
    fn keys_halt_where_their_policy_could_merge_them() {
        assert_eq!(outcome(ValueKind::ZeroDate, Policy::Null, true), Outcome::Halts);
        assert_eq!(outcome(ValueKind::ZeroDate, Policy::Null, false), Outcome::Null);
        assert_eq!(outcome(ValueKind::ZeroDate, Policy::Replace, true), Outcome::Replace);
        assert_eq!(outcome(ValueKind::BeyondBoolean, Policy::Refuse, false), Outcome::Smallint);
    }

    #[test]
    fn an_orphan_is_a_child_with_every_column_and_no_parent() {
        let name = |table: &str| TableName { database: "app".to_owned(), table: table.to_owned() };
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let key = ForeignKey {
            name: "fk".to_owned(),
            columns: names(["a", "b"]),
            parent: name("t"),
            parent_columns: names(["x", "y"]),
            on_update: Action::NoAction,
            on_delete: Action::NoAction,
        };
        assert_eq!(
            orphaned(&key, &name("t")),
            "`app`.`t`.`a` IS NOT NULL AND `app`.`t`.`b` IS NOT NULL AND NOT EXISTS \
             (SELECT 1 FROM `app`.`t` p WHERE p.`x` = `app`.`t`.`a` AND p.`y` = `app`.`t`.`b`)"
        );
    }
}
