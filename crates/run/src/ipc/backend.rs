//! The driver that a result was measured on, as names and facts. Must not know how a driver is
//! opened or queried.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The driver that a result was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "driver")]
pub enum Backend {
    /// The kernel's binder driver.
    Kernel {
        /// The device's path, or a description ("a private binderfs").
        device: String,
        /// Its features, if they were queried.
        #[serde(default)]
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
    /// The Android common kernel.
    #[default]
    Ack,
    /// The mainline kernel. A server thread inherits only the nice value.
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

/// How a server thread inherits its caller's real-time priority with the emulated driver. Nice
/// values are always set directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InheritBy {
    /// The driver sets the server thread's policy, or uses a PI futex if that is not permitted.
    #[default]
    Auto,
    /// The driver sets the policy. Without permission, nothing is inherited.
    Policy,
    /// The driver uses a PI futex, which needs no permission. The server's policy does not show the
    /// inherited priority.
    PiFutex,
}

impl InheritBy {
    /// Whether this is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Features of a kernel's driver beyond the first version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// `BINDER_VERSION`.
    pub protocol: i32,
    /// The language that the driver is written in; `None` if the kernel does not show it.
    pub language: Option<Language>,
    /// `BINDER_GET_EXTENDED_ERROR` (since Linux 5.19).
    pub extended_error: bool,
    /// `BINDER_ENABLE_ONEWAY_SPAM_DETECTION` (since Linux 5.13).
    pub oneway_spam_detection: bool,
    /// `BINDER_FREEZE` and `BINDER_GET_FROZEN_INFO` (since Linux 5.12).
    pub freeze: bool,
    /// Other features that the device's binderfs lists, under the kernel's names
    /// ("freeze_notification").
    pub listed: BTreeSet<String>,
}

/// The language that a driver is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// C.
    C,
    /// Rust.
    Rust,
}

impl fmt::Display for Features {
    /// "protocol 8, written in C, extended error, no freeze, ...".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "protocol {}", self.protocol)?;
        match self.language {
            Some(Language::C) => f.write_str(", written in C")?,
            Some(Language::Rust) => f.write_str(", written in Rust")?,
            None => {}
        }
        for (has, name) in [
            (self.extended_error, "extended error"),
            (self.freeze, "freeze"),
            (self.oneway_spam_detection, "oneway spam detection"),
        ] {
            write!(f, ", {}{name}", if has { "" } else { "no " })?;
        }
        self.listed.iter().try_for_each(|name| write!(f, ", {}", name.replace('_', " ")))
    }
}
