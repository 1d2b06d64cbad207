//! `storage syscalls` counts what `strace -f -c` counts, on a workload that repeats exactly, and
//! shows it again from a stored run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::observed::{has, number, text};

/// Writes, makes durable, starts processes, and has a call that fails.
const WORKLOAD: &str = "dd if=/dev/zero of=written bs=4k count=200 conv=fsync 2>/dev/null; \
                        cat absent 2>/dev/null; true";

/// Calls and errors by system call.
type Counts = BTreeMap<String, (u64, u64)>;

fn folder(of: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("roundtrip-syscalls-{of}-{}", std::process::id()));
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
    let folder = folder("strace");
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

/// The rows of a run that observes this.
fn observe(folder: &Path, subject: &[&str]) -> (Value, Counts) {
    let options = ["storage", "syscalls", "--quiet", "--format", "json"];
    let run: Value = serde_json::from_str(&roundtrip(folder, &[&options[..], subject].concat())).unwrap();
    let counts = counts(&run);
    (run["results"]["system_calls"].clone(), counts)
}

/// A program that is killed when the test ends.
struct Beside(Child);

impl Beside {
    fn start(program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        Self(command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn calls_of_other_programs_take_no_space_in_the_buffers() {
    if !has(&["dd"]) {
        return;
    }
    let folder = folder("others");
    // It makes up to a million calls a second. A buffer of 256 kB holds some thousands of them.
    let _flood = Beside::start("dd", &["if=/dev/zero", "of=/dev/null", "bs=1"]);
    let small = ["--buffer", "256K", "--", "sh", "-c", "sleep 0.3; sleep 0.3; cat absent; true"];
    let (of_command, calls) = observe(&folder, &small);
    assert_eq!(number(&of_command["unseen"]["lost_events"]), 0, "{of_command}");
    assert!(calls["execve"].0 >= 4 && calls["openat"].1 >= 1, "{calls:?}");
    let sleeps = Beside::start("sh", &["-c", "while :; do sleep 0.2; done"]);
    let pid = sleeps.0.id().to_string();
    let (of_process, calls) = observe(&folder, &["--buffer", "256K", "--duration", "1s", "--pid", &pid]);
    assert_eq!(number(&of_process["unseen"]["lost_events"]), 0, "{of_process}");
    assert!(
        calls.contains_key("wait4") && !calls.contains_key("execve"),
        "its children are not observed: {calls:?}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_process_is_observed_in_all_its_threads_and_under_its_next_program() {
    if !has(&["python3"]) {
        return;
    }
    let folder = folder("threads");
    // Its second thread executes the next program. Kernels before 5.19 then no longer follow it.
    let script = "import os, threading\n\
                  def other():\n    os.execvp('sh', ['sh', '-c', 'for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; done; cat absent'])\n\
                  threading.Thread(target=other).start()\n\
                  threading.Event().wait()";
    let (observed, calls) = observe(&folder, &["--", "python3", "-c", script]);
    assert!(calls["openat"].1 >= 1 && calls["wait4"].0 >= 3, "{calls:?}");
    match observed["not_recorded"].as_str() {
        None => assert!(calls["wait4"].0 >= 10, "{calls:?}"),
        Some(said) => assert!(said.contains("a thread of process") && said.ends_with("is missing"), "{said}"),
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
