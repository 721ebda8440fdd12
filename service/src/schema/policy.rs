//! What becomes of values that PostgreSQL can't hold: one policy per kind, and per column where
//! the operator says so. Nothing here converts; see `convert::policy`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Column, MysqlType, TableModel, TableName, TargetType};
use crate::halt::{Halt, Reason};

/// A kind of value that has no exact image in its target column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// `0000-00-00`, of a DATETIME with the time 00:00:00.
    ZeroDate,
    /// Any other date with a month or day of zero, or a day that its month does not have.
    PartialDate,
    /// A whole date of the year 0.
    YearZero,
    /// A TINYINT(1) other than 0 and 1 in a column that became boolean.
    BeyondBoolean,
    /// A NUL character in text.
    NulText,
    /// A NUL character (`\u0000`) in a JSON document.
    NulJson,
    /// Bytes that are not valid in the column's character set.
    InvalidBytes,
    /// A value that the target's type has no room for, such as one beyond 1 GiB.
    OutOfRange,
}

/// What is done with a value of some kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The pipeline halts and names the column.
    Refuse,
    /// NULL; a column that is NOT NULL loses that on the target first.
    Null,
    /// The kind's replacement, see [`ValueKind::replacement`].
    Replace,
    /// The target's column takes a wider type, and the value is stored as it is.
    Widen,
}

impl Policy {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Null => "null",
            Self::Replace => "replace",
            Self::Widen => "widen",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Refuse, Self::Null, Self::Replace, Self::Widen].into_iter().find(|one| one.name() == name)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Number of kinds.
const KINDS: usize = 8;

impl ValueKind {
    pub const ALL: [Self; KINDS] = [
        Self::ZeroDate,
        Self::PartialDate,
        Self::YearZero,
        Self::BeyondBoolean,
        Self::NulText,
        Self::NulJson,
        Self::InvalidBytes,
        Self::OutOfRange,
    ];

    /// The stable name: key of the configuration, and as stored and served.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ZeroDate => "zero_date",
            Self::PartialDate => "partial_date",
            Self::YearZero => "year_zero",
            Self::BeyondBoolean => "beyond_boolean",
            Self::NulText => "nul_text",
            Self::NulJson => "nul_json",
            Self::InvalidBytes => "invalid_bytes",
            Self::OutOfRange => "out_of_range",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The policies that the kind can have, the default first.
    #[must_use]
    pub const fn choices(self) -> &'static [&'static str] {
        match self {
            Self::ZeroDate | Self::PartialDate => &["null", "replace", "refuse"],
            Self::BeyondBoolean => &["widen", "null", "refuse"],
            Self::YearZero | Self::NulText | Self::NulJson | Self::InvalidBytes => {
                &["refuse", "null", "replace"]
            }
            Self::OutOfRange => &["refuse", "null"],
        }
    }

    #[must_use]
    pub fn allows(self, policy: Policy) -> bool {
        self.choices().contains(&policy.name())
    }

    const fn default_policy(self) -> Policy {
        match self {
            Self::ZeroDate | Self::PartialDate => Policy::Null,
            Self::BeyondBoolean => Policy::Widen,
            Self::YearZero | Self::NulText | Self::NulJson | Self::InvalidBytes | Self::OutOfRange => {
                Policy::Refuse
            }
        }
    }

    /// What `replace` stores, for the operator; `None` where the kind has no replacement.
    #[must_use]
    pub const fn replacement(self) -> Option<&'static str> {
        match self {
            Self::ZeroDate => Some("-infinity, which sorts before every date as 0000-00-00 does"),
            Self::PartialDate => Some(
                "the nearest day that exists: a month or day of zero becomes 1, a day beyond its month's end the last one",
            ),
            Self::YearZero => Some("the same day of the year 1 BC"),
            Self::NulText | Self::InvalidBytes => Some("U+FFFD in its place"),
            Self::NulJson => Some("the escape \\ufffd in its place"),
            Self::BeyondBoolean | Self::OutOfRange => None,
        }
    }

    /// Whether different values of the kind, and all others, are still different under the policy.
    #[must_use]
    pub const fn stays_distinct(self, policy: Policy) -> bool {
        match policy {
            Policy::Refuse | Policy::Widen => true,
            Policy::Null => false,
            Policy::Replace => matches!(self, Self::ZeroDate | Self::YearZero),
        }
    }

    /// Whether a column can hold such a value at all.
    #[must_use]
    pub const fn concerns(self, column: &Column) -> bool {
        let mysql = &column.mysql;
        match self {
            Self::ZeroDate => {
                matches!(mysql, MysqlType::Date | MysqlType::DateTime { .. } | MysqlType::Timestamp { .. })
            }
            Self::PartialDate | Self::YearZero => {
                matches!(mysql, MysqlType::Date | MysqlType::DateTime { .. })
            }
            Self::BeyondBoolean => matches!(mysql, MysqlType::TinyInt { display_width_one: true, .. }),
            Self::NulText | Self::InvalidBytes => {
                matches!(mysql, MysqlType::Char { .. } | MysqlType::Varchar { .. } | MysqlType::Text { .. })
            }
            Self::NulJson => matches!(mysql, MysqlType::Json),
            Self::OutOfRange => true,
        }
    }

    const fn place(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The policy of every kind, for one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnPolicies([Policy; KINDS]);

impl Default for ColumnPolicies {
    fn default() -> Self {
        Self(ValueKind::ALL.map(ValueKind::default_policy))
    }
}

impl ColumnPolicies {
    #[must_use]
    pub fn of(&self, kind: ValueKind) -> Policy {
        self.0.get(kind.place()).copied().unwrap_or(Policy::Refuse)
    }

    fn set(&mut self, kind: ValueKind, policy: Policy) {
        if let Some(slot) = self.0.get_mut(kind.place()) {
            *slot = policy;
        }
    }
}

/// The operator's policies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policies {
    all: ColumnPolicies,
    /// By `database.table.column`.
    columns: BTreeMap<String, Vec<(ValueKind, Policy)>>,
}

impl Policies {
    /// Sets a kind's policy for every column that has none of its own.
    #[must_use]
    pub fn with(mut self, kind: ValueKind, policy: Policy) -> Self {
        self.all.set(kind, policy);
        self
    }

    /// Sets a kind's policy for one column, named `database.table.column`.
    #[must_use]
    pub fn with_column(mut self, column: &str, kind: ValueKind, policy: Policy) -> Self {
        self.columns.entry(column.to_owned()).or_default().push((kind, policy));
        self
    }

    /// The policies of a column.
    #[must_use]
    pub fn of(&self, table: &TableName, column: &str) -> ColumnPolicies {
        let mut policies = self.all;
        if !self.columns.is_empty() {
            let own = self.columns.get(&full_name(table, column)).into_iter().flatten();
            own.for_each(|(kind, policy)| policies.set(*kind, *policy));
        }
        policies
    }

    #[must_use]
    pub fn names_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// What is wrong with the columns that the policies name, given every replicated table: one
    /// sentence for each that none of them has, that two of them have, or that can't hold a value
    /// of the kind.
    #[must_use]
    pub fn problems(&self, tables: &[TableModel]) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, policies) in &self.columns {
            let found: Vec<&Column> = tables
                .iter()
                .flat_map(|table| table.columns.iter().map(move |column| (table, column)))
                .filter(|(table, column)| full_name(&table.name, &column.name) == *name)
                .map(|(_, column)| column)
                .collect();
            match *found {
                [] => problems.push(format!("no replicated table has the column {name:?}")),
                [column] => {
                    let idle = policies.iter().filter(|(kind, _)| !kind.concerns(column));
                    problems.extend(
                        idle.map(|(kind, _)| format!("{name:?} is a column without values of kind {kind}")),
                    );
                }
                _ => problems.push(format!("{name:?} is the name of more than one column")),
            }
        }
        problems
    }

    /// # Errors
    /// `policy_invalid` with all of [`Policies::problems`].
    pub fn check(&self, tables: &[TableModel]) -> Result<(), Halt> {
        let problems = self.problems(tables);
        if problems.is_empty() { Ok(()) } else { Err(Halt::new(Reason::PolicyInvalid, problems.join("; "))) }
    }
}

fn full_name(table: &TableName, column: &str) -> String {
    format!("{}.{}.{column}", table.database, table.table)
}

/// A change of a target column that a policy asks for before a value can be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetChange {
    /// Index of the column.
    pub column: usize,
    /// The kind of value that came first.
    pub kind: ValueKind,
    pub form: ChangeForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeForm {
    DropNotNull,
    /// boolean to smallint.
    Widen,
}

impl TargetChange {
    /// The policy that asks for it.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        match self.form {
            ChangeForm::DropNotNull => Policy::Null,
            ChangeForm::Widen => Policy::Widen,
        }
    }

    /// Makes the change in the model. Returns whether it was not there yet.
    pub fn make(&self, model: &mut TableModel) -> bool {
        let Some(column) = model.columns.get_mut(self.column) else { return false };
        match self.form {
            ChangeForm::DropNotNull => {
                let new = !column.nullable && !column.not_null_dropped;
                column.not_null_dropped |= new;
                new
            }
            ChangeForm::Widen => {
                let new = column.target == TargetType::Boolean;
                if new {
                    column.target = TargetType::SmallInt;
                }
                new
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[(&str, MysqlType, TargetType)]) -> TableModel {
        let column = |(name, mysql, target): &(&str, MysqlType, TargetType)| Column {
            name: (*name).to_owned(),
            mysql: mysql.clone(),
            target: *target,
            nullable: false,
            not_null_dropped: false,
            details: Default::default(),
            auto_increment: false,
            generated: false,
        };
        TableModel {
            name: TableName { database: "app".to_owned(), table: "t".to_owned() },
            columns: columns.iter().map(column).collect(),
            key: Vec::new(),
            key_is_primary: false,
            engine: "InnoDB".to_owned(),
            default_charset: None,
            details: Default::default(),
        }
    }

    #[test]
    fn every_kind_has_its_default_first_and_a_replacement_where_it_can_replace() {
        for kind in ValueKind::ALL {
            assert_eq!(kind.choices().first(), Some(&kind.default_policy().name()), "{kind}");
            assert_eq!(ValueKind::from_name(kind.name()), Some(kind));
            assert_eq!(kind.allows(Policy::Replace), kind.replacement().is_some(), "{kind}");
            assert!(kind.choices().iter().all(|name| Policy::from_name(name).is_some()), "{kind}");
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            assert_eq!(ColumnPolicies::default().of(kind), kind.default_policy());
        }
    }

    #[test]
    fn a_column_s_own_policy_wins_for_its_kind_alone() {
        let policies = Policies::default().with(ValueKind::ZeroDate, Policy::Refuse).with_column(
            "app.t.d",
            ValueKind::ZeroDate,
            Policy::Replace,
        );
        let name = &table(&[]).name;
        assert_eq!(policies.of(name, "d").of(ValueKind::ZeroDate), Policy::Replace);
        assert_eq!(policies.of(name, "d").of(ValueKind::PartialDate), Policy::Null);
        assert_eq!(policies.of(name, "e").of(ValueKind::ZeroDate), Policy::Refuse);
    }

    #[test]
    fn columns_that_are_not_there_or_of_another_kind_are_named() {
        let tables =
            [table(&[("d", MysqlType::Date, TargetType::Date), ("j", MysqlType::Json, TargetType::Jsonb)])];
        let named = |name: &str, kind| Policies::default().with_column(name, kind, Policy::Null);
        assert!(named("app.t.d", ValueKind::ZeroDate).check(&tables).is_ok());
        for (policies, word) in [
            (named("app.t.x", ValueKind::ZeroDate), "\"app.t.x\""),
            (named("app.u.d", ValueKind::ZeroDate), "\"app.u.d\""),
            (named("app.t.j", ValueKind::ZeroDate), "zero_date"),
        ] {
            let halt = policies.check(&tables).unwrap_err();
            assert_eq!(halt.reason, Reason::PolicyInvalid);
            assert!(halt.detail.contains(word), "{halt}");
        }
        // A dot in a name can make two columns read the same.
        let mut dotted = table(&[("d", MysqlType::Date, TargetType::Date)]);
        dotted.name = TableName { database: "app.t".to_owned(), table: "x".to_owned() };
        let mut other = table(&[("x.d", MysqlType::Date, TargetType::Date)]);
        other.name.table = "t".to_owned();
        let problems = named("app.t.x.d", ValueKind::ZeroDate).problems(&[dotted, other]);
        assert!(problems.iter().any(|problem| problem.contains("more than one")), "{problems:?}");
    }

    #[test]
    fn a_change_is_made_once_and_leaves_the_source_s_nullability() {
        let boolean = MysqlType::TinyInt { unsigned: false, display_width_one: true };
        let mut model = table(&[("b", boolean, TargetType::Boolean)]);
        for (form, kind) in
            [(ChangeForm::DropNotNull, ValueKind::ZeroDate), (ChangeForm::Widen, ValueKind::BeyondBoolean)]
        {
            let change = TargetChange { column: 0, kind, form };
            assert!(change.make(&mut model));
            assert!(!change.make(&mut model));
        }
        let column = &model.columns[0];
        assert!(!column.nullable && column.not_null_dropped && column.target == TargetType::SmallInt);
        assert!(
            !TargetChange { column: 9, kind: ValueKind::ZeroDate, form: ChangeForm::Widen }.make(&mut model)
        );
    }
}
