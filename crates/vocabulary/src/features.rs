//! What a kernel's binder driver can do beyond the first version of the protocol.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A driver's features.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// `BINDER_VERSION`: 8 for every device that could be opened.
    pub protocol: i32,
    /// The driver's language; `None` if `/sys/module` does not show it.
    pub language: Option<Language>,
    /// `BINDER_GET_EXTENDED_ERROR`: reports why a transaction failed (since Linux 5.19).
    pub extended_error: bool,
    /// `BINDER_ENABLE_ONEWAY_SPAM_DETECTION` (since Linux 5.13).
    pub oneway_spam_detection: bool,
    /// `BINDER_FREEZE` and `BINDER_GET_FROZEN_INFO` (since Linux 5.12).
    pub freeze: bool,
    /// Further features that the device's binderfs lists, by the kernel's names
    /// ("freeze_notification"). The set is empty for a device outside a binderfs, even if its
    /// driver has such features.
    pub listed: BTreeSet<String>,
}

/// The language of a driver. Both drivers use the same protocol. In mainline's Rust driver, server
/// threads inherit no priority at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// `drivers/android/binder.c`.
    C,
    /// `drivers/android/binder/`, since Linux 6.18.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_listed_with_the_missing_ones() {
        let features = Features {
            protocol: 8,
            language: Some(Language::Rust),
            extended_error: true,
            oneway_spam_detection: false,
            freeze: true,
            listed: BTreeSet::from(["freeze_notification".to_owned()]),
        };
        let text = "protocol 8, written in Rust, extended error, freeze, no oneway spam detection, freeze notification";
        assert_eq!(features.to_string(), text);
    }
}
