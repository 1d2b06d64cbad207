//! The two stacks that can be called over. Names only; must not know how a call is made.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::plan_fault::Unknown;

/// One of Android's two IPC stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// General IPC through parcels.
    Binder,
    /// IPC with hardware services, scatter-gather.
    Hwbinder,
}

impl Stack {
    /// Both.
    pub const ALL: [Stack; 2] = [Stack::Binder, Stack::Hwbinder];

    /// The name in arguments and reports.
    pub fn name(self) -> &'static str {
        match self {
            Stack::Binder => "binder",
            Stack::Hwbinder => "hwbinder",
        }
    }
}

impl std::fmt::Display for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Stack {
    type Err = Error;

    fn from_str(text: &str) -> Result<Stack> {
        let found = Stack::ALL.into_iter().find(|stack| stack.name() == text);
        found.ok_or_else(|| Unknown::new("stack", text, Stack::ALL.map(Stack::name)).into())
    }
}
