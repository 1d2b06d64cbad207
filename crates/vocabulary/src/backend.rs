//! The driver that a result was measured on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Features;

/// The driver that a result was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "driver")]
pub enum Backend {
    /// The kernel's binder driver.
    Kernel {
        /// The device's path, or a description ("a private binderfs").
        device: String,
        /// Its features, if they were queried.
        features: Option<Features>,
    },
    /// Roundtrip's emulated driver with the rules of a profile.
    Emulated {
        /// The kernel whose priority rules it follows.
        profile: Profile,
    },
}

impl Backend {
    /// True for the emulated driver.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        matches!(self, Self::Emulated { .. })
    }

    /// The name and the features, for the head of a report.
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

/// The kernel whose priority rules the emulated driver follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The Android common kernel. The *sender* sets the server thread's priority before the wakeup.
    /// The thread inherits a real-time policy and priority if the node asks for it
    /// (`FLAT_BINDER_FLAG_INHERIT_RT`), otherwise only the nice value.
    #[default]
    Ack,
    /// The mainline kernel. A server thread inherits only the nice value, and the *receiver* sets
    /// it once it runs.
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
