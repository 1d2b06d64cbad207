//! `storage observe` during a flood of events: events that do not fit the buffer are counted as
//! lost, and take no memory. The only test of its program, because other observers would lose
//! events too.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::observed::{has, number, roundtrip, text};
use crate::support::storage::folder;
use serde_json::Value;

/// The peak memory of a process, in kilobytes.
fn most_kilobytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_flood_of_events_is_counted_as_lost_and_takes_no_memory() {
    if !has(&["dd", "python3"]) {
        return;
    }
    let directory = folder("observed-flood");
    // Each call moves one byte and causes two events: about a million events per second and
    // process.
    let flood =
        |_| Command::new("dd").args(["if=/dev/zero", "of=/dev/null", "bs=1"]).stderr(Stdio::null()).spawn();
    let mut floods: Vec<_> = (0..2).map(flood).map(Result::unwrap).collect();
    let mut observe = roundtrip(&directory);
    observe.args(["--buffer", "256k", "--duration", "4s", "--format", "json", "--quiet"]);
    // Not a pipe: it has rows of everything that writes on this machine, and is read when it ends.
    let printed = directory.join("printed.json");
    let stdout = std::fs::File::create(&printed).unwrap();
    let mut observer = observe.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    let mut most_kb = 0;
    while observer.try_wait().unwrap().is_none() {
        most_kb = most_kb.max(most_kilobytes(observer.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(50));
    }
    let alive = floods.iter_mut().all(|flood| flood.try_wait().unwrap().is_none());
    for flood in &mut floods {
        flood.kill().unwrap();
        flood.wait().unwrap();
    }
    let output = observer.wait_with_output().unwrap();
    assert!(output.status.success() && alive, "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&std::fs::read(&printed).unwrap()).unwrap();
    let unseen = &run["results"]["observed_writes"]["unseen"];
    assert!(number(&unseen["lost_events"]) > 100_000, "{unseen}");
    assert!(run["warnings"].to_string().contains("events of the kernel were lost"), "{}", run["warnings"]);
    assert!(most_kb < 200 << 10, "{most_kb} kB");
    std::fs::remove_dir_all(&directory).unwrap();
}
