//! The program under the name `atrace`, and `trace start` with atrace's arguments. If this process
//! may not use the kernel's trace, a test is skipped.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use flate2::read::ZlibDecoder;
use roundtrip_skips::{Need, skip};
use roundtrip_tracefs::Tracefs;

use crate::support::global_trace::settings;
use crate::support::process::{roundtrip, stderr, text};
use crate::support::turn::{Single, Turn};

/// The line of Android's documentation.
const DOCUMENTED: &str = "--async_start -b 8000 -c sched idle workq binder_driver sync freq";

fn atrace(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.arg0("atrace").args(args.split_whitespace()).stdin(Stdio::null());
    command
}

fn succeed(args: &str) -> Output {
    let output = atrace(args).output().unwrap();
    assert!(output.status.success(), "{args}: {}", stderr(&output));
    output
}

/// The kernel's trace, or `None`, with the test skipped, if it is not there or in use.
fn unused_trace() -> Option<(Tracefs, Vec<String>)> {
    let tracefs = Tracefs::open().inspect_err(|error| skip(Need::Tracefs, error)).ok()?;
    let probe = atrace("--async_start sched").output().unwrap();
    if !probe.status.success() {
        assert_eq!(stderr(&probe).lines().count(), 1, "{}", stderr(&probe));
        skip(Need::Machine, stderr(&probe));
        return None;
    }
    succeed("--async_stop");
    let before = settings(tracefs.root());
    Some((tracefs, before))
}

#[test]
fn the_documented_line_records_dumps_and_stops() {
    let _turn = Turn::take(Single::GlobalTrace);
    let Some((tracefs, before)) = unused_trace() else { return };
    let started = succeed(DOCUMENTED);
    assert_eq!(text(&started.stdout), "capturing trace...");
    let again = atrace("--async_start").output().unwrap();
    assert!(again.status.code() == Some(1) && stderr(&again).contains("trace stop"), "{}", stderr(&again));
    let dumped = text(&succeed("--async_dump").stdout);
    assert!(dumped.starts_with(" done\nTRACE:\n# tracer: nop\n"), "{dumped:.200}");
    for mark in ["trace_event_clock_sync: parent_ts=", "trace_event_clock_sync: realtime_ts="] {
        assert!(dumped.contains(mark), "{mark}");
    }
    // A dump clears the buffers, and recording goes on.
    std::thread::sleep(Duration::from_millis(20));
    let file = std::env::temp_dir().join(format!("roundtrip-atrace-{}", std::process::id()));
    std::fs::write(&file, "of an earlier run").unwrap();
    let stopped = atrace("--async_stop -z -o").arg(&file).output().unwrap();
    assert_eq!((text(&stopped.stdout).as_str(), stopped.status.code()), (" done\n", Some(0)));
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut rest = String::new();
    ZlibDecoder::new(bytes.strip_prefix(b"TRACE:\n").unwrap()).read_to_string(&mut rest).unwrap();
    assert!(rest.contains("sched_switch") && !rest.contains("clock_sync"), "{rest:.200}");
    assert_eq!(settings(tracefs.root()), before);
    let nothing = atrace("--async_stop").output().unwrap();
    assert!(stderr(&nothing).contains("no trace was started") && nothing.status.code() == Some(1));
}

#[test]
fn a_whole_recording_waits_prints_and_restores_everything() {
    let _turn = Turn::take(Single::GlobalTrace);
    let Some((tracefs, before)) = unused_trace() else { return };
    let names = std::env::temp_dir().join(format!("roundtrip-atrace-names-{}", std::process::id()));
    std::fs::write(&names, "gfx load\n").unwrap();
    let whole = atrace("-t 0 -b 512 -a com.example sched -f").arg(&names).output().unwrap();
    std::fs::remove_file(&names).unwrap();
    assert!(whole.status.success(), "{}", stderr(&whole));
    assert!(text(&whole.stdout).starts_with("capturing trace... done\nTRACE:\n# tracer: nop\n"));
    let notes = stderr(&whole);
    assert_eq!(notes.lines().count(), 3, "{notes}");
    assert!(notes.contains("no events for load") && notes.contains("events of gfx"), "{notes}");
    assert_eq!(settings(tracefs.root()), before);
    // Ctrl-C while it records.
    let mut aborted = atrace("-t 100 sched").stdout(Stdio::piped()).spawn().unwrap();
    let mut said = vec![0; "capturing trace...".len()];
    aborted.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(aborted.id().cast_signed()).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let aborted = aborted.wait_with_output().unwrap();
    assert_eq!((text(&aborted.stdout).as_str(), aborted.status.code()), ("\ntrace aborted.\n", Some(130)));
    assert_eq!(settings(tracefs.root()), before);
}

#[test]
fn functions_are_traced_and_their_filter_is_restored() {
    let _turn = Turn::take(Single::GlobalTrace);
    let Some((tracefs, before)) = unused_trace() else { return };
    let traced = atrace("-t 1 -k vfs_read,vfs_write sched").output().unwrap();
    assert_eq!(settings(tracefs.root()), before);
    if !traced.status.success() {
        let why = stderr(&traced);
        assert!(why.contains("functions") && why.lines().count() == 1, "{why}");
        return skip(Need::Machine, why);
    }
    let traced = text(&traced.stdout);
    assert!(traced.contains("vfs_write") && !traced.contains("vfs_open"), "{traced:.300}");
    let unknown = atrace("-t 0 -k no_such_function sched").output().unwrap();
    assert_eq!(
        (unknown.status.code(), stderr(&unknown).lines().count()),
        (Some(1), 1),
        "{}",
        stderr(&unknown)
    );
    assert_eq!(settings(tracefs.root()), before);
}

#[test]
fn events_are_streamed_until_a_signal() {
    let _turn = Turn::take(Single::GlobalTrace);
    let Some((tracefs, before)) = unused_trace() else { return };
    let mut streaming = atrace("--stream sched").stdout(Stdio::piped()).spawn().unwrap();
    let mut seen = String::new();
    let mut part = [0; 4096];
    while !seen.contains("sched_switch") {
        let length = streaming.stdout.as_mut().unwrap().read(&mut part).unwrap();
        assert!(length > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    let pid = rustix::process::Pid::from_raw(streaming.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = streaming.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(settings(tracefs.root()), before);
}

#[test]
fn trace_start_takes_the_documented_line_too() {
    let _turn = Turn::take(Single::GlobalTrace);
    let Some((tracefs, before)) = unused_trace() else { return };
    let started = roundtrip(&format!("trace start {DOCUMENTED}")).output().unwrap();
    assert!(started.status.success(), "{}", stderr(&started));
    let file = std::env::temp_dir().join(format!("roundtrip-atrace-start-{}.txt", std::process::id()));
    let stopped = roundtrip("trace stop -o").arg(&file).output().unwrap();
    assert!(stopped.status.success(), "{}", stderr(&stopped));
    let recorded = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(recorded.contains("trace_event_clock_sync: parent_ts="), "{recorded:.300}");
    assert_eq!(settings(tracefs.root()), before);
}

#[test]
fn trace_start_takes_all_other_arguments_too() {
    let _turn = Turn::take(Single::GlobalTrace);
    let Some((tracefs, before)) = unused_trace() else { return };
    let trace_start = |args: &str| {
        let output = roundtrip(&format!("trace start {args}")).output().unwrap();
        assert!(output.status.success(), "{args}: {}", stderr(&output));
        output
    };
    let whole = text(&trace_start("-t 0 -b 512 -n -s 0 -a com.example sched").stdout);
    assert!(whole.starts_with("capturing trace... done\nTRACE:\n# tracer: nop\n"), "{whole:.200}");
    assert_eq!(settings(tracefs.root()), before);
    // As Android's scripts do, although atrace ignores -z here.
    let started = trace_start("--async_start -z -c -b 8192 gfx view sched load");
    let notes = stderr(&started);
    assert!(
        notes.contains("-z have no effect at the start") && notes.contains("events of gfx, view"),
        "{notes}"
    );
    assert!(notes.contains("no events for load") && notes.lines().count() == 3, "{notes}");
    assert!(text(&trace_start("--async_dump").stdout).starts_with(" done\nTRACE:\n"));
    assert!(text(&trace_start("--async_stop").stdout).starts_with(" done\nTRACE:\n"));
    assert_eq!(settings(tracefs.root()), before);
    assert!(text(&trace_start("--list_categories").stdout).contains(" sched - CPU Scheduling\n"));
    let refused = roundtrip("trace start --only_userspace gfx").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn categories_are_listed_and_wrong_use_is_refused_in_one_line() {
    let refused = atrace("--only_userspace gfx").output().unwrap();
    assert_eq!(
        (refused.status.code(), stderr(&refused).lines().count()),
        (Some(2), 1),
        "{}",
        stderr(&refused)
    );
    let refused = atrace("-t 0 schde").output().unwrap();
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("'schde'"), "{}", stderr(&refused));
    if let Err(error) = Tracefs::open() {
        return skip(Need::Tracefs, error);
    }
    let listed = text(&succeed("--list_categories").stdout);
    assert!(listed.contains("       sched - CPU Scheduling\n") && !listed.contains("membus"), "{listed}");
    assert!(
        listed.contains("         gfx - Graphics\n") && listed.contains("\n  core_services - "),
        "{listed}"
    );
}
