//! Results never overwrite existing files and are never written through links. Only regular files
//! below a size limit are read.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use roundtrip_files::{Existing, NewFile};

/// A temporary directory for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_file_is_written_completely_or_not_at_all() {
    let folder = Folder::new("whole");
    let path = folder.0.join("result");
    let mut file = NewFile::create(&path, Existing::Keep).unwrap();
    file.write_all(b"half").unwrap();
    assert!(!path.exists());
    drop(file);
    assert_eq!(folder.names(), [""; 0]);
    roundtrip_files::write(&path, b"whole", Existing::Keep).unwrap();
    assert_eq!((folder.names(), text(&path)), (vec!["result".to_owned()], "whole".to_owned()));
}

#[test]
fn an_existing_file_is_replaced_only_on_request() {
    let folder = Folder::new("there");
    let path = folder.0.join("result");
    // Also if the other file is created while the new one is written.
    let mut late = NewFile::create(&path, Existing::Keep).unwrap();
    late.write_all(b"late").unwrap();
    std::fs::write(&path, "precious").unwrap();
    assert_eq!(late.complete().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(
        roundtrip_files::write(&path, b"x", Existing::Keep).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!((folder.names(), text(&path)), (vec!["result".to_owned()], "precious".to_owned()));
    roundtrip_files::write(&path, b"new", Existing::Replace).unwrap();
    assert_eq!((folder.names(), text(&path)), (vec!["result".to_owned()], "new".to_owned()));
}

#[test]
fn symbolic_links_are_neither_followed_nor_replaced() {
    let folder = Folder::new("links");
    let (target, link) = (folder.0.join("target"), folder.0.join("link"));
    std::fs::write(&target, "another's").unwrap();
    for to in [target.clone(), folder.0.join("nowhere")] {
        symlink(&to, &link).unwrap();
        for existing in [Existing::Keep, Existing::Replace] {
            roundtrip_files::write(&link, b"mine", existing).unwrap_err();
        }
        assert!(std::fs::read_link(&link).unwrap() == to && !folder.0.join("nowhere").exists());
        std::fs::remove_file(&link).unwrap();
    }
    // The name that the next temporary file would have.
    for number in 0..200 {
        let name = format!(".roundtrip-{}-{number}.partial", std::process::id());
        symlink(&target, folder.0.join(name)).unwrap();
    }
    roundtrip_files::write(&folder.0.join("result"), b"mine", Existing::Keep).unwrap();
    assert_eq!((text(&target), text(&folder.0.join("result"))), ("another's".into(), "mine".into()));
}

#[test]
fn directories_and_devices_are_not_replaced() {
    let folder = Folder::new("special");
    for place in [folder.0.clone(), PathBuf::from("/dev/null"), PathBuf::from("/")] {
        roundtrip_files::write(&place, b"x", Existing::Replace).unwrap_err();
    }
    assert!(std::fs::symlink_metadata("/dev/null").is_ok_and(|found| !found.is_file()));
}

#[test]
fn a_rename_does_not_replace_an_existing_name() {
    let folder = Folder::new("put");
    for name in ["one", "two"] {
        std::fs::create_dir(folder.0.join(name)).unwrap();
    }
    let error = roundtrip_files::put(&folder.0.join("one"), &folder.0.join("two")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    roundtrip_files::put(&folder.0.join("one"), &folder.0.join("three")).unwrap();
    assert_eq!(folder.names(), ["three", "two"]);
}

#[test]
fn only_regular_files_below_the_size_limit_are_read() {
    let folder = Folder::new("read");
    let path = |name: &str| folder.0.join(name);
    std::fs::write(path("file"), "text").unwrap();
    symlink(path("file"), path("link")).unwrap();
    symlink("/dev/zero", path("zero")).unwrap();
    symlink("/proc/self/status", path("status")).unwrap();
    symlink("/proc/self/mem", path("memory")).unwrap();
    std::fs::write(path("empty"), "").unwrap();
    assert_eq!(roundtrip_files::read(&path("empty"), 4).unwrap(), b"");
    roundtrip_files::read(&path("memory"), 4).unwrap_err();
    rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RUSR).unwrap();
    std::fs::File::create(path("sparse")).unwrap().set_len(3 << 30).unwrap();
    assert_eq!(roundtrip_files::read(&path("file"), 4).unwrap(), b"text");
    assert_eq!(roundtrip_files::read(&path("link"), 4).unwrap(), b"text");
    for (name, kind, hint) in [
        ("file", ErrorKind::FileTooLarge, "4 bytes"),
        ("fifo", ErrorKind::InvalidInput, "a FIFO"),
        ("status", ErrorKind::InvalidInput, "claims to be empty but is not"),
        ("zero", ErrorKind::InvalidInput, "a device"),
        ("", ErrorKind::InvalidInput, "a directory"),
        ("sparse", ErrorKind::FileTooLarge, "3221225472 bytes"),
        ("nothing", ErrorKind::NotFound, ""),
    ] {
        let error = roundtrip_files::read(&path(name), 3).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(hint), "{name}: {error}");
    }
    let mut budget = 6;
    roundtrip_files::read_within(&path("file"), &mut budget).unwrap();
    assert_eq!(budget, 2);
    assert_eq!(
        roundtrip_files::read_within(&path("file"), &mut budget).unwrap_err().kind(),
        ErrorKind::FileTooLarge
    );
}

#[test]
fn only_links_of_this_user_and_of_root_are_followed() {
    let folder = Folder::new("follow");
    let path = |name: &str| folder.0.join(name);
    std::fs::write(path("file"), "").unwrap();
    symlink("file", path("one")).unwrap();
    symlink(path("one"), path("two")).unwrap();
    symlink("round", path("round")).unwrap();
    assert_eq!(roundtrip_files::followed(&path("two")).unwrap(), path("file"));
    assert_eq!(roundtrip_files::followed(&path("new")).unwrap(), path("new"));
    assert!(roundtrip_files::followed(&path("round")).unwrap_err().to_string().contains("too many"));
    if !rustix::process::geteuid().is_root() {
        return roundtrip_skips::skip(roundtrip_skips::Need::Root, "only root can make another user's link");
    }
    std::os::unix::fs::lchown(path("one"), Some(12345), None).unwrap();
    assert!(roundtrip_files::followed(&path("two")).unwrap_err().to_string().contains("another user"));
}
