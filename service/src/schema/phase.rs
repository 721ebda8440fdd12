//! Where a table's replication stands, as it is stored in the target and served by `/status`.

use serde::{Deserialize, Serialize};

/// Where a table stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TablePhase {
    /// Known, not yet captured.
    Pending,
    /// Waiting for the brief read lock of the capture.
    Capturing,
    Copying,
    /// Copied; shows one state of the source once the processed set includes `converge_set`.
    CatchingUp,
    Streaming,
    Resyncing,
    /// No longer in the filter; its rows stay, its changes are not applied.
    Detached,
    Halted,
}

impl TablePhase {
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Capturing,
        Self::Copying,
        Self::CatchingUp,
        Self::Streaming,
        Self::Resyncing,
        Self::Detached,
        Self::Halted,
    ];

    /// The name stored and served.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Capturing => "capturing",
            Self::Copying => "copying",
            Self::CatchingUp => "catching_up",
            Self::Streaming => "streaming",
            Self::Resyncing => "resyncing",
            Self::Detached => "detached",
            Self::Halted => "halted",
        }
    }

    /// The phase of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }
}
