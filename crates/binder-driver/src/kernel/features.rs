//! Queries which features a kernel driver has beyond the protocol's first version. Changes nothing.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::Path;

use roundtrip_vocabulary::{Features, Language};

use super::sys;
use crate::uapi::PROTOCOL_VERSION;

/// The features that are queried by ioctl, by their names in binderfs.
const ASKED: [&str; 2] = ["extended_error", "oneway_spam_detection"];

/// Queries the device, and reads the features that its binderfs lists.
pub(super) fn ask(device: BorrowedFd<'_>, path: &str) -> Features {
    // Query this process's own state, because an unknown process id would fail with EINVAL, like a
    // missing feature.
    let mut own = [0; 12];
    own[..4].copy_from_slice(&std::process::id().to_ne_bytes());
    Features {
        protocol: PROTOCOL_VERSION,
        language: language(Path::new("/sys/module")),
        extended_error: sys::extended_error(device, &mut [0; 12]).is_ok(),
        oneway_spam_detection: sys::oneway_spam_detection(device, &mut [0; 4]).is_ok(),
        freeze: sys::frozen_info(device, &mut own).is_ok(),
        listed: listed(path),
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

#[cfg(test)]
mod tests {
    use super::*;

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
