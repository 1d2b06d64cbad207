//! A library does not know which program uses it: its errors and documentation name no command of
//! `roundtrip`. `cli`, which has the commands, adds what the user can do.

use std::path::{Path, PathBuf};

/// The crates that other programs could use.
const LIBRARIES: &[&str] = &[
    "latency",
    "files",
    "stored",
    "binder-driver",
    "binder-emulator",
    "binder",
    "echo",
    "tracefs",
    "layers",
    "run",
];

/// How commands are written in messages and documents.
const COMMAND: &str = "`roundtrip ";

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_library_names_a_command() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").join("crates");
    let mut named = Vec::new();
    for library in LIBRARIES {
        let mut files = Vec::new();
        sources(&crates.join(library).join("src"), &mut files);
        assert!(!files.is_empty(), "{library} has no sources");
        for file in files {
            let text = std::fs::read_to_string(&file).expect("UTF-8");
            let lines = text.lines().enumerate().filter(|(_, line)| line.contains(COMMAND));
            named.extend(lines.map(|(index, line)| format!("{}:{}: {line}", file.display(), index + 1)));
        }
    }
    assert!(named.is_empty(), "{}", named.join("\n"));
}
