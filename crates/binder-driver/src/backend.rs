//! [`Backend`]: which driver it is, and [`Profile`]: whose rules the emulated one follows.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kernel::Features;

/// Which driver a result was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "driver")]
pub enum Backend {
    /// The kernel's binder driver.
    Kernel {
        /// The device's path, or a description of it ("a private binderfs").
        device: String,
        /// What it can do, where it was asked.
        #[serde(default)]
        features: Option<Features>,
    },
    /// Roundtrip's emulated driver, with the rules of this profile.
    Emulated {
        /// Which kernel's priority rules it follows.
        profile: Profile,
    },
}

impl Backend {
    /// True for the emulated driver.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        matches!(self, Self::Emulated { .. })
    }

    /// The name, and what the driver can do: what the head of a report says.
    #[must_use]
    pub fn in_full(&self) -> String {
        match self {
            Self::Kernel { features: Some(features), .. } => format!("{self} ({features})"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel { device, .. } if device.starts_with('/') => write!(f, "kernel driver at {device}"),
            Self::Kernel { device, .. } => write!(f, "kernel driver on {device}"),
            Self::Emulated { profile } => write!(f, "emulated driver ({profile} profile)"),
        }
    }
}

/// Which kernel's priority rules the emulated driver follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The Android common kernel: the *sender* lends its policy and priority before the wake-up, to
    /// nodes that inherit real-time priority (`FLAT_BINDER_FLAG_INHERIT_RT`); others get its nice
    /// value.
    #[default]
    Ack,
    /// The mainline kernel: only the nice value, set by the *receiver* once it runs.
    Mainline,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ack => "ack",
            Self::Mainline => "mainline",
        })
    }
}
