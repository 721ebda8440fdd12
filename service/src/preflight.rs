//! What `tidegate check` reports: one finding per problem, each with its reason and remedy, and how
//! much there is to copy.

use std::fmt;

/// Whether a finding forbids an exact replication or only deserves attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// `run` refuses to start.
    Error,
    /// `run` starts; the operator should know.
    Warning,
}

/// One problem with a server's settings, privileges or tables.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Stable name such as `source.gtid_mode`.
    pub name: &'static str,
    pub severity: Severity,
    /// What is wrong, with the value or object found.
    pub problem: String,
    /// Why an exact replication needs it otherwise.
    pub reason: String,
    /// What mends it: SQL where SQL can, else a sentence.
    pub fix: String,
}

impl Finding {
    #[must_use]
    pub fn error(
        name: &'static str,
        problem: impl Into<String>,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            name,
            severity: Severity::Error,
            problem: problem.into(),
            reason: reason.into(),
            fix: fix.into(),
        }
    }

    #[must_use]
    pub fn warning(
        name: &'static str,
        problem: impl Into<String>,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::error(name, problem, reason, fix) }
    }

    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// How much the included tables hold on the source, by its statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Size {
    pub tables: u64,
    pub data_bytes: u64,
    pub index_bytes: u64,
}

impl Size {
    /// One table more.
    pub fn add(&mut self, data_bytes: u64, index_bytes: u64) {
        self.tables += 1;
        self.data_bytes = self.data_bytes.saturating_add(data_bytes);
        self.index_bytes = self.index_bytes.saturating_add(index_bytes);
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.is_error() { "error" } else { "warning" };
        write!(f, "{severity} {}: {} ({}) fix: {}", self.name, self.problem, self.reason, self.fix)
    }
}
