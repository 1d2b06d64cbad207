//! `storage syscalls` counts what `strace -f -c` counts, on a workload that repeats exactly, and
//! shows it again from a stored run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::observed::{has, number, text};

/// Writes, makes durable, starts processes, and has a call that fails.
const WORKLOAD: &str = "dd if=/dev/zero of=written bs=4k count=200 conv=fsync 2>/dev/null; \
                        cat absent 2>/dev/null; true";

/// Calls and errors by system call.
type Counts = BTreeMap<String, (u64, u64)>;

fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("roundtrip-syscalls-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    folder
}

fn by_strace(folder: &Path) -> Counts {
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o", "summary", "sh", "-c", WORKLOAD]).current_dir(folder);
    assert!(command.status().unwrap().success());
    let summary = std::fs::read_to_string(folder.join("summary")).unwrap();
    // Share, seconds, time per call, calls, errors if there are any, and the name.
    let row = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (name, numbers) = words.split_last()?;
        let number = |at: usize| numbers.get(at).map_or(Some(0), |text| text.parse().ok());
        Some((name.to_string(), (number(3)?, number(4)?)))
    };
    let rows = summary.lines().skip(2).take_while(|line| !line.starts_with("---"));
    rows.map(|line| row(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

fn counts(run: &Value) -> Counts {
    let rows = run["results"]["system_calls"]["rows"].as_array().unwrap();
    let row = |row: &Value| {
        let counts = (number(&row["latency"]["count"]), number(&row["failed"]));
        (row["call"].as_str().unwrap().to_owned(), counts)
    };
    rows.iter().map(row).collect()
}

fn roundtrip(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    let output = command.args(args).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_counts_of_calls_and_errors_are_those_of_strace() {
    if !has(&["strace"]) {
        return;
    }
    let folder = folder();
    let options = ["storage", "syscalls", "--quiet", "--buffer", "32M", "--format", "json", "--out", "run"];
    let run = roundtrip(&folder, &[&options[..], &["--", "sh", "-c", WORKLOAD]].concat());
    let run: Value = serde_json::from_str(&run).unwrap();
    assert_eq!(number(&run["results"]["system_calls"]["unseen"]["lost_events"]), 0);
    let ours = counts(&run);
    assert_eq!(ours, by_strace(&folder));
    assert!(ours["write"].0 >= 200 && ours["fsync"] == (1, 0) && ours["openat"].1 >= 1, "{ours:?}");
    // The stored run has the same rows.
    let stored = roundtrip(&folder, &["show", "run", "--format", "json"]);
    assert_eq!(counts(&serde_json::from_str(&stored).unwrap()), ours);
    let table = roundtrip(&folder, &["show", "run"]);
    let total = ours.values().map(|(calls, _)| calls).sum::<u64>().to_string();
    let last = table.lines().find(|line| line.trim_end().ends_with("total")).unwrap();
    assert!(last.trim_start().starts_with("100.00") && last.contains(&total), "{table}");
    std::fs::remove_dir_all(&folder).unwrap();
}
