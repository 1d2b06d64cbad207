//! How a service is called: over the driver, or within the process. Must not know what is measured.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::plan_fault::Unknown;

/// Android's names for how a call reaches its service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Over the driver, to a server process.
    #[default]
    Binderize,
    /// A function call in the client's own process.
    Passthrough,
}

impl Mode {
    /// Both modes.
    pub const ALL: [Self; 2] = [Self::Binderize, Self::Passthrough];

    /// The name in arguments and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Binderize => "binderize",
            Self::Passthrough => "passthrough",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Mode {
    type Err = Error;

    /// Accepts the name in lower case, or in upper case as Android's programs do.
    fn from_str(text: &str) -> Result<Self> {
        let found =
            Self::ALL.into_iter().find(|mode| mode.name() == text || mode.name().to_uppercase() == text);
        found.ok_or_else(|| Unknown::new("mode", text, Self::ALL.map(Self::name)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_read_in_small_letters_and_in_androids_capitals() {
        for (text, mode) in [
            ("binderize", Mode::Binderize),
            ("BINDERIZE", Mode::Binderize),
            ("passthrough", Mode::Passthrough),
            ("PASSTHROUGH", Mode::Passthrough),
        ] {
            assert_eq!(text.parse::<Mode>().unwrap(), mode);
        }
        assert!("Binderize".parse::<Mode>().is_err());
    }
}
