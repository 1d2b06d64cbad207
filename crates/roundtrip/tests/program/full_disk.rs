//! Recordings on a full disk: a clear error, exit status 1, no partial files, and nothing left in
//! the kernel. The disk is a small tmpfs in a mount namespace of the test. If this process may not
//! create one, or may not use the kernel's trace, a test is skipped.
#![allow(clippy::print_stderr)] // Tests report on standard error what they could not try.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::process::{roundtrip, stderr};
use crate::support::turn::{Single, Turn};
use roundtrip_skips::{Need, skip};
use roundtrip_tracefs::Tracefs;

/// Runs the program with `$1` as the mount point of a tmpfs of one megabyte, of which `$2`
/// kilobytes are free. Then prints the program's pid and status, and the files left there.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=1m none "$1" || exit 77
cd "$1" && head -c $((1048576 - $2 * 1024)) /dev/zero > filler && shift 2
"$@" & pid=$!
wait $pid; status=$?
echo "pid $pid"
find . -mindepth 1 ! -name filler | sort
exit $status"#;

/// A temporary folder of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-full-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tracefs() -> Option<Tracefs> {
    Tracefs::open().inspect_err(|error| skip(Need::Tracefs, error)).ok()
}

/// The output of the program in a folder with this much space. `None`, with the test skipped, if
/// that is not possible.
fn on_full_disk(name: &str, kilobytes: u32, program: &mut Command) -> Option<Output> {
    let folder = Folder::new(name);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(&folder.0).arg(kilobytes.to_string());
    command.arg(program.get_program()).args(program.get_args()).stdin(Stdio::null());
    let output = command.output();
    match output {
        Ok(output) if output.status.code() != Some(77) => Some(output),
        Ok(output) => {
            skip(Need::Root, format!("no tmpfs can be mounted: {}", stderr(&output)));
            None
        }
        Err(error) => {
            skip(Need::Program("unshare"), error);
            None
        }
    }
}

/// The program's pid, and the lines after it.
fn left(output: &Output) -> (String, Vec<String>) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, behind) = text.rsplit_once("pid ").unwrap_or_else(|| panic!("{text}{}", stderr(output)));
    let mut lines = behind.lines().map(str::to_owned);
    (lines.next().unwrap(), lines.collect())
}

#[test]
fn a_recording_that_fills_the_disk_ends_with_complete_parts() {
    let Some(tracefs) = tracefs() else { return };
    // Enough for the formats and some snapshots, and then for the formats but not for the first
    // snapshot.
    for (kilobytes, name) in [(1000, "some"), (60, "none")] {
        let mut program = roundtrip(
            "ipc latency --driver emulated --stack hwbinder --callers other --iterations 300 --deadline 1ns --explain \
             --explain-limit 300 --format json --out run",
        );
        let Some(output) = on_full_disk(name, kilobytes, &mut program) else { return };
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("No space left")).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| line.contains("cannot ")), "{said}");
        let (pid, left) = left(&output);
        let halves: Vec<&String> = left.iter().filter(|path| path.contains("/.")).collect();
        assert_eq!(halves, [] as [&String; 0], "nothing half-written is left");
        // What was measured is printed, and what was stored is kept.
        let text = String::from_utf8_lossy(&output.stdout);
        let run = text.lines().next().unwrap();
        assert_eq!(run.starts_with("{\"schema\":\"roundtrip.run\""), name == "some", "{said}");
        let kept = left.iter().any(|path| path.ends_with("/recording/snapshots/0001/snapshot.json"));
        assert_eq!(kept, name == "some", "{left:?}");
        if left.iter().any(|path| path.contains("/unfinished-1")) {
            assert!(said.contains("is kept in run/unfinished-1"), "{said}");
        }
        let prefix = format!("roundtrip-{pid}-");
        let instances = std::fs::read_dir(tracefs.root().join("instances")).unwrap().flatten();
        let ours = instances.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        assert_eq!(ours.count(), 0, "no instance is left");
    }
}

#[test]
fn a_trace_that_does_not_fit_leaves_no_file() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/x86_64-6.1-binder");
    let run = run.canonicalize().unwrap();
    let mut program = roundtrip("explain -o slow.perfetto-trace");
    let Some(output) = on_full_disk("explain", 4, program.arg(run)) else { return };
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write slow.perfetto-trace") && said.contains("No space left"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(left(&output).1, [] as [String; 0]);
}

/// Starts a trace with the program `$0`, and stops it three times on a disk with 4 kB left. Short
/// programs run in between, so that the trace is longer. All in one mount namespace, because the
/// program unmounts the tracefs that it mounted. Prints after each command its status, and what it
/// left.
const STOP: &str = r#"
mount -t tmpfs -o size=1m none "$1" || exit 77
cd "$1" && head -c 1044480 /dev/zero > filler
for args in "start -b 256" "stop -o trace.txt" "stop -o trace.perfetto-trace" "stop --discard"; do
    "$0" trace $args 2>&1; echo "status $?"
    for each in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 0; done
    find . -mindepth 1 ! -name filler
    echo "end"
done"#;

#[test]
fn the_global_trace_is_kept_when_its_file_does_not_fit() {
    let _turn = Turn::take(Single::GlobalTrace);
    let Some(_) = tracefs() else { return };
    let folder = Folder::new("global");
    let program = env!("CARGO_BIN_EXE_roundtrip");
    let mut command = Command::new("unshare");
    let output = command.args(["--mount", "sh", "-c", STOP, program]).arg(&folder.0).output().unwrap();
    if output.status.code() == Some(77) {
        return skip(Need::Root, format!("no tmpfs can be mounted: {}", stderr(&output)));
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let [started, text, perfetto, discarded] = text.split_terminator("end\n").collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    if !started.contains("status 0\n") {
        // Another user has a trace, which must not be changed.
        return skip(Need::Machine, started);
    }
    for (said, kept) in [(text, "stopped and kept"), (perfetto, "the recording is kept")] {
        let (said, left) = said.split_once("status 1\n").unwrap_or_else(|| panic!("{said}"));
        assert!(said.contains(kept) && said.contains("No space left") && said.lines().count() == 1, "{said}");
        assert_eq!(left, "");
    }
    assert!(discarded.contains("status 1\n"), "the events were taken out, and every setting was put back");
    let (_, behind) = perfetto.split_once("trace convert ").unwrap();
    let folder = Folder(behind.split(' ').next().unwrap().into());
    let file = folder.0.join("again.txt");
    let again = roundtrip("trace convert").arg(&folder.0).arg("-o").arg(&file).output().unwrap();
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(std::fs::read_to_string(&file).unwrap().contains("sched_switch"));
}

/// Runs the program, and removes its run directory as soon as it contains a recording.
fn without_directory(name: &str, args: &str) -> (Folder, Output) {
    let folder = Folder::new(name);
    let mut program = roundtrip(args);
    program.current_dir(&folder.0).args(["--out", "run"]).stdin(Stdio::null());
    let child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let recorded = || {
        let found = Command::new("find").arg(folder.0.join("run")).args(["-name", "snapshot.json"]).output();
        !found.unwrap().stdout.is_empty()
    };
    for _ in 0..2000 {
        if recorded() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // The program may still be adding files.
    while folder.0.join("run").exists() {
        let _ = std::fs::remove_dir_all(folder.0.join("run"));
    }
    (folder, child.wait_with_output().unwrap())
}

#[test]
fn a_run_whose_directory_vanishes_is_still_printed() {
    let Some(_) = tracefs() else { return };
    for (name, args) in [
        (
            "vanished-calls",
            "ipc latency --driver emulated --stack hwbinder --callers other --duration 1500ms --deadline 1us --explain \
             --explain-limit 1000 --inject sleep,every=50ms,for=2ms --format json",
        ),
        (
            "vanished-writes",
            "storage layers --writers native --sizes 4k --calls 400 --rounds 100 --format json --file writes",
        ),
    ] {
        let (_folder, output) = without_directory(name, args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("recording ended") || said.contains("the recording is lost"), "{said}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("\"latency\""), "what was measured is not printed: {text}{said}");
    }
}

/// Runs a program with a closed output, and prints its exit status and errors.
fn unread(program: &mut Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "{ \"$@\"; echo \"status $?\" >&2; } | true", "sh"]);
    command.arg(program.get_program()).args(program.get_args());
    command
}

#[test]
fn a_run_that_cannot_be_stored_fails_even_if_its_output_is_closed() {
    let folder = Folder::new("unread");
    // Files of at most 50 kilobytes: the test file fits, but the run with its 1500 calls does not.
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 100; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_roundtrip")]);
    limited.args("storage layers --no-recorder --writers native --sizes 4k".split(' '));
    limited.args("--calls 1500 --rounds 3 --file-size 16K --out run".split(' '));
    let output = unread(&mut limited).current_dir(&folder.0).stdin(Stdio::null()).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("File too large"), "{said}");
    assert!(said.ends_with("status 1\n"), "{said}");
    assert!(!folder.0.join("run/run.json").exists());
}

#[test]
fn a_recording_that_ends_early_fails_even_if_its_output_is_closed() {
    if tracefs().is_none() {
        return;
    }
    let mut program = roundtrip(
        "ipc latency --driver emulated --stack hwbinder --callers other --iterations 300 --deadline 1ns --explain \
         --explain-limit 300 --format json --out run",
    );
    let Some(output) = on_full_disk("unread-recording", 1000, &mut unread(&mut program)) else { return };
    let said = stderr(&output);
    assert!(said.contains("No space left") && said.ends_with("status 1\n"), "{said}");
}
