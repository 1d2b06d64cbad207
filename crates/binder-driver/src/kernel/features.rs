//! Queries which features a kernel driver has beyond the protocol's first version. Changes nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::sys;
use crate::uapi::PROTOCOL_VERSION;

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

/// The features that are queried by ioctl, by their names in binderfs.
const ASKED: [&str; 2] = ["extended_error", "oneway_spam_detection"];

impl Features {
    /// Queries the device, and reads the features that its binderfs lists.
    pub(super) fn ask(device: BorrowedFd<'_>, path: &str) -> Self {
        // Query this process's own state, because an unknown process id would fail with EINVAL,
        // like a missing feature.
        let mut own = [0; 12];
        own[..4].copy_from_slice(&std::process::id().to_ne_bytes());
        Self {
            protocol: PROTOCOL_VERSION,
            language: language(Path::new("/sys/module")),
            extended_error: sys::extended_error(device, &mut [0; 12]).is_ok(),
            oneway_spam_detection: sys::oneway_spam_detection(device, &mut [0; 4]).is_ok(),
            freeze: sys::frozen_info(device, &mut own).is_ok(),
            listed: listed(path),
        }
    }
}

/// Finds the driver's language. The C driver is the module `binder_linux`, or built in (then
/// `binder` is listed, because it has parameters). The Rust driver is `rust_binder`. If both exist,
/// it is unknown which one a device belongs to.
fn language(modules: &Path) -> Option<Language> {
    let has = |name: &str| modules.join(name).is_dir();
    match (has("binder_linux") || has("binder"), has("rust_binder")) {
        (true, false) => Some(Language::C),
        (false, true) => Some(Language::Rust),
        _ => None,
    }
}

/// The files that contain "1" in the folder "features" of a device's binderfs, without those in
/// [`ASKED`].
fn listed(path: &str) -> BTreeSet<String> {
    // Follow links: Android's /dev/binder is one.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let beside =
        |path: &Path| path.parent().and_then(|folder| std::fs::read_dir(folder.join("features")).ok());
    // A private mount has no path, so its canonical name is unusable.
    let Some(entries) = beside(&target).or_else(|| beside(Path::new(path))) else { return BTreeSet::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let on = std::fs::read_to_string(entry.path()).is_ok_and(|text| text.trim() == "1");
            (on && !ASKED.contains(&name.as_str())).then_some(name)
        })
        .collect()
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

    #[test]
    fn the_language_is_known_if_exactly_one_driver_exists() {
        let folder = std::env::temp_dir().join(format!("binder-driver-modules-{}", std::process::id()));
        let mut found = Vec::new();
        for names in [&[][..], &["binder_linux"], &["rust_binder"], &["binder", "rust_binder"]] {
            for name in names {
                std::fs::create_dir_all(folder.join(name)).expect("a folder");
            }
            found.push(language(&folder));
            let _ = std::fs::remove_dir_all(&folder);
        }
        assert_eq!(found, [None, Some(Language::C), Some(Language::Rust), None]);
    }

    #[test]
    fn only_enabled_features_of_a_binderfs_are_listed() {
        let folder = std::env::temp_dir().join(format!("binder-driver-features-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("features")).expect("a folder");
        for (name, text) in [("extended_error", "1\n"), ("freeze_notification", "1\n"), ("new", "0\n")] {
            std::fs::write(folder.join("features").join(name), text).expect("a file");
        }
        let found = listed(folder.join("binder").to_str().expect("a name"));
        let _ = std::fs::remove_dir_all(&folder);
        assert_eq!(found, BTreeSet::from(["freeze_notification".to_owned()]));
        assert_eq!(listed("/dev/no-such-device"), BTreeSet::new());
    }
}
