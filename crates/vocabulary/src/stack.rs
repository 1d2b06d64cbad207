//! The names of Android's two IPC stacks.

use serde::{Deserialize, Serialize};

/// One of Android's two IPC stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// General IPC: arguments are serialised into a parcel.
    Binder,
    /// IPC with hardware services: the driver copies arguments from the caller's memory
    /// (scatter-gather).
    Hwbinder,
}

impl Stack {
    /// Both stacks.
    pub const ALL: [Self; 2] = [Self::Binder, Self::Hwbinder];

    /// The name in arguments and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Binder => "binder",
            Self::Hwbinder => "hwbinder",
        }
    }
}

impl std::fmt::Display for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
