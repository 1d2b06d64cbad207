//! Helpers for the tests of `storage observe`: they start it and check its result.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use roundtrip_skips::{Need, skip};
use serde_json::Value;

pub(crate) fn roundtrip(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(["storage", "observe", "--buffer", "32M"]).current_dir(directory).stdin(Stdio::null());
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns true if this user is root and has these programs. Otherwise skips the test.
pub(crate) fn has(programs: &[&'static str]) -> bool {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "the kernel's trace needs root");
        return false;
    }
    for &program in programs {
        if Command::new(program).arg("--version").output().is_err() {
            skip(Need::Program(program), format!("no {program} here"));
            return false;
        }
    }
    true
}

/// The result of a run that observed this shell command.
pub(crate) fn observe(directory: &Path, arguments: &[&str], shell: &str) -> Value {
    let mut command = roundtrip(directory);
    command.args(["--format", "json", "--quiet"]).args(arguments).args(["--", "sh", "-c", shell]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{shell}: {}", text(&output.stderr));
    // The command's own output comes first.
    let json = text(&output.stdout);
    let begin = json.find("{\"schema\"").or_else(|| json.find("{\n")).unwrap_or(0);
    let run: Value = serde_json::from_str(&json[begin..]).unwrap_or_else(|error| panic!("{error}: {json}"));
    run["results"]["observed_writes"].clone()
}

/// What a run with these arguments reports.
pub(crate) fn observed(command: &mut Command) -> Value {
    let output = command.args(["--format", "json", "--quiet"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    run["results"]["observed_writes"].clone()
}

pub(crate) fn rows(observed: &Value) -> &Vec<Value> {
    observed["rows"].as_array().unwrap()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Checks that every call is divided, that each row's layers add up to its calls' time, and that at
/// most 0.1% of all time is unexplained, except where the kernel did not record switches.
pub(crate) fn adds_up(observed: &Value) {
    let (unexplained_ns, all_ns) = unexplained(observed);
    let which = || {
        let of = |row: &Value| {
            format!("{} {} {}", row["call"], row["file"], row["divided"]["layers"]["unexplained"]["sum_ns"])
        };
        rows(observed).iter().map(of).collect::<Vec<_>>().join("\n")
    };
    assert!(unexplained_ns * 1000 <= all_ns, "{unexplained_ns} of {all_ns} ns are unexplained:\n{}", which());
}

/// The unexplained time and all time, in nanoseconds. Leaves out unexplained time for which the
/// kernel did not record switches. Checks that each row's layers add up to its time.
fn unexplained(observed: &Value) -> (u64, u64) {
    let (mut all_ns, mut unexplained_ns) = (0, 0);
    for row in rows(observed) {
        let divided = &row["divided"];
        assert_eq!(divided["calls"], row["latency"]["count"], "{row}");
        assert_eq!(divided["sum_ns"], row["latency"]["sum_ns"], "{row}");
        let layers = divided["layers"].as_object().unwrap();
        let sum_ns: u64 = layers.values().map(|layer| number(&layer["sum_ns"])).sum();
        assert_eq!(sum_ns, number(&divided["sum_ns"]), "{row}");
        all_ns += sum_ns;
        let unexplained = layers.get("unexplained").map_or(0, |layer| number(&layer["sum_ns"]));
        unexplained_ns += unexplained - number(&divided["unexplained_for_switches_ns"]);
    }
    assert_eq!(number(&observed["unseen"]["lost_events"]), 0, "{}", observed["unseen"]);
    assert!(rows(observed).iter().all(|row| row["divided"]["lost_calls"] == 0));
    (unexplained_ns, all_ns)
}

/// The number of calls, by system call.
pub(crate) fn counted(observed: &Value) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for row in rows(observed) {
        *counts.entry(row["call"].as_str().unwrap().to_owned()).or_default() +=
            number(&row["latency"]["count"]);
    }
    counts
}

/// The number of calls in strace's output that `which` accepts, by system call. A call whose output
/// was interrupted by another is on two lines, and counts once.
pub(crate) fn straced(file: &Path, which: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
    let log = std::fs::read_to_string(file).unwrap();
    let mut counts = BTreeMap::new();
    for line in log.lines().filter(|line| !line.contains(" resumed>") && which(line)) {
        let Some((name, _)) = line.split_once('(') else { continue };
        let name = name.rsplit(' ').next().unwrap();
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

pub(crate) const SYNCS: &str = "trace=fsync,fdatasync,sync_file_range,msync,sync,syncfs";

/// A program that appends to its own file, and makes each write durable.
pub(crate) const APPENDER: &str = "import os,sys\nf=os.open(sys.argv[1],os.O_RDWR|os.O_CREAT,0o600)\n\
                        for i in range(int(sys.argv[2])):\n os.write(f,b'x'*8192); os.fsync(f)\n";

/// Starts [`APPENDER`] on `file` in a folder, where it writes until it is killed.
pub(crate) fn appending(directory: &Path) -> Child {
    std::fs::write(directory.join("append.py"), APPENDER).unwrap();
    let mut program = Command::new("python3");
    program.args(["append.py", "file", "100000"]).current_dir(directory).spawn().unwrap()
}
