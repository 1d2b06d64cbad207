//! Settings on a made-up machine. Only root's notes are below the fixture's root.

use rustix::fs::{FlockOperation, flock};

use super::*;
use crate::kernel::root::{Fixture, fixture};

const FILE: &str = "sys/block/vda/queue/rq_affinity";

/// The fixture; skips the test if this user's notes are not below it.
fn machine() -> Option<Fixture> {
    if !rustix::process::geteuid().is_root() {
        roundtrip_skips::skip(roundtrip_skips::Need::Root, "settings are root's");
        return None;
    }
    Some(fixture(&[(FILE, "1"), ("run/x", ""), ("proc/sys/kernel/random/boot_id", "now\n")]))
}

fn notes(root: &Root) -> usize {
    root.names("run/roundtrip").len()
}

/// Does what the end of a killed process does: releases the lock, and nothing else.
fn kill(setting: Setting) {
    flock(&setting.claim.lock, FlockOperation::Unlock).unwrap();
    std::mem::forget(setting);
}

#[test]
fn a_setting_is_put_back_when_it_ends() {
    let Some(root) = machine() else { return };
    let claim = Rc::new(Claim::take(&root, Path::new(FILE)).unwrap());
    let setting = Setting::change(&claim, "2", "1".into()).unwrap();
    assert_eq!(root.read(FILE).as_deref(), Some("2"));
    assert!(restore_abandoned(&root).is_empty(), "its process lives");
    drop(setting);
    assert_eq!(root.read(FILE).as_deref(), Some("1"));
    assert_eq!(notes(&root), 1, "it is still claimed");
    drop(claim);
    assert_eq!(notes(&root), 0);
}

#[test]
fn one_run_at_a_time_owns_a_setting_and_another_gets_the_owners_name() {
    let Some(root) = machine() else { return };
    let first = Rc::new(Claim::take(&root, Path::new(FILE)).unwrap());
    let setting = Setting::change(&first, "2", "1".into()).unwrap();
    let said = Claim::take_within(&root, Path::new(FILE), Duration::ZERO).unwrap_err();
    assert!(said.contains(&format!("another run at the moment (pid {})", std::process::id())), "{said}");
    let other = Claim::take_within(&root, Path::new("sys/block/vda/queue/other"), Duration::ZERO);
    drop(other.unwrap());
    drop((setting, first));
    Claim::take_within(&root, Path::new(FILE), Duration::ZERO).unwrap();
    assert_eq!(root.read(FILE).as_deref(), Some("1"));
}

#[test]
fn the_next_process_restores_what_a_killed_one_changed() {
    let Some(root) = machine() else { return };
    for claims in [false, true] {
        let claim = Rc::new(Claim::take(&root, Path::new(FILE)).unwrap());
        kill(Setting::change(&claim, "2", "1".into()).unwrap());
        std::mem::forget(claim);
        if claims {
            drop(Claim::take(&root, Path::new(FILE)).unwrap());
        } else {
            assert_eq!(restore_abandoned(&root), [format!("/{FILE}")]);
        }
        assert_eq!((root.read(FILE).as_deref(), notes(&root)), (Some("1"), 0));
    }
}

#[test]
fn a_note_of_another_boot_or_one_that_was_not_finished_puts_nothing_back() {
    let Some(root) = machine() else { return };
    for text in [
        format!("pid 1\nthen\n{FILE}\n9\n{END}\n"),
        format!("pid 1\nnow\n{FILE}\n9\n"),
        format!("pid 1\nnow\n{FILE}\n9"),
        "pid 1\n".to_owned(),
    ] {
        let directory = private_directory(&root.path("")).unwrap();
        std::fs::write(directory.join(note_name(Path::new(FILE))), text).unwrap();
        assert!(restore_abandoned(&root).is_empty());
        assert_eq!((root.read(FILE).as_deref(), notes(&root)), (Some("1"), 0));
    }
}

#[test]
fn a_setting_that_cannot_be_changed_leaves_nothing() {
    let Some(root) = machine() else { return };
    let claim = Rc::new(Claim::take(&root, Path::new("sys/none/rq_affinity")).unwrap());
    let error = Setting::change(&claim, "2", "1".into()).unwrap_err().to_string();
    assert!(error.contains("rq_affinity"), "{error}");
    assert!(!root.has("sys/none"));
}
