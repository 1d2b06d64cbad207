//! Which driver a result was measured on. Names and facts only; must not know how a driver is
//! opened or asked.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Which driver a result was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "driver")]
pub enum Backend {
    /// The kernel's binder driver.
    Kernel {
        /// The device's path, or what stands for one ("a private binderfs").
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
    /// The Android common kernel's.
    #[default]
    Ack,
    /// The mainline kernel's: only the nice value is inherited.
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

/// How the emulated driver gives a server its caller's real-time priority. Nice values are always
/// set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InheritBy {
    /// By setting the server thread's policy; through a priority-inheriting futex where that is not
    /// permitted.
    #[default]
    Auto,
    /// By setting the policy. Without permission nothing is inherited.
    Policy,
    /// Through a priority-inheriting futex, which needs no permission. The server's policy does not
    /// show it.
    PiFutex,
}

impl InheritBy {
    /// Whether it is the one that is chosen where nobody says otherwise.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What a kernel's driver can do beyond the protocol's first version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// `BINDER_VERSION`.
    pub protocol: i32,
    /// What the driver is written in; `None` where the kernel does not tell.
    pub language: Option<Language>,
    /// `BINDER_GET_EXTENDED_ERROR` (since Linux 5.19).
    pub extended_error: bool,
    /// `BINDER_ENABLE_ONEWAY_SPAM_DETECTION` (since Linux 5.13).
    pub oneway_spam_detection: bool,
    /// `BINDER_FREEZE` and `BINDER_GET_FROZEN_INFO` (since Linux 5.12).
    pub freeze: bool,
    /// What the device's binderfs lists besides, under the kernel's names ("freeze_notification").
    pub listed: BTreeSet<String>,
}

/// What a driver is written in.
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
