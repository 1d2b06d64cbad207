//! `storage observe` during floods. Events that do not fit the buffer are counted as lost, and take
//! no memory. Threads that do not fit the table are summed up.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::observed::{APPENDER, counted, has, number, observe, roundtrip, rows, text};
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

/// Starts as many threads as wanted, a hundred at a time. Each of them writes to a file once.
const THREADS: &str = "\
import os, sys, threading
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_DSYNC, 0o600)
for _ in range(int(sys.argv[2]) // 100):
    threads = [threading.Thread(target=os.pwrite, args=(file, b'x', 0)) for _ in range(100)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
";

#[test]
fn a_flood_of_threads_does_not_hide_the_program_that_writes_after_it() {
    if !has(&["python3"]) {
        return;
    }
    let directory = folder("observed-threads");
    std::fs::write(directory.join("threads.py"), THREADS).unwrap();
    std::fs::write(directory.join("append.py"), APPENDER).unwrap();
    let shell =
        "python3 threads.py many 1400; python3 append.py database 200; python3 threads.py more 100; sleep 1";
    let observed = observe(&directory, &[], shell);
    let rows = rows(&observed);
    // Only the second program calls fsync.
    let calls = counted(&observed);
    assert_eq!(calls["fsync"], 200, "{calls:?}");
    let others = rows.last().unwrap();
    assert_eq!(rows.len(), 501);
    assert!(number(&others["stands_for"]) >= 1001, "{others}");
    assert!(number(&others["beyond_ns"]) > 0 && others["file"] == "", "{others}");
    // Nothing is missing, neither in the table nor in the layers.
    assert_eq!(calls.values().sum::<u64>(), 1400 + 200 + 100, "{calls:?}");
    for row in rows {
        assert_eq!(row["divided"]["calls"], row["latency"]["count"], "{row}");
        assert_eq!(row["divided"]["sum_ns"], row["latency"]["sum_ns"], "{row}");
    }
    assert_eq!(number(&observed["unseen"]["lost_events"]), 0, "{}", observed["unseen"]);
    std::fs::remove_dir_all(&directory).unwrap();
}
