//! Worker processes from the outside: their messages arrive. However they or their parent end, the
//! end is reported, and no process remains.

use std::io::{BufRead, BufReader, Read, Seek};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::jobs::TestJob;
use roundtrip_bench::Error;
use roundtrip_bench::Result;
use roundtrip_bench::worker::{Event, Link, Spawner, What, Work, WorkerGroup};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const WORKER: &str = env!("CARGO_BIN_EXE_bench-test-worker");
/// Long enough for the slowest machine. Nothing waits for it on success.
const PATIENCE: Duration = Duration::from_secs(30);

/// A job that the worker program does not know.
#[derive(Serialize, Deserialize)]
struct Unknown;

impl Work for Unknown {
    const NAME: &'static str = "dance";

    fn run(self, _: &mut Link) -> Result<()> {
        Ok(())
    }
}

fn group() -> WorkerGroup {
    WorkerGroup::new(Spawner::with_exe(WORKER)).unwrap()
}

/// The group's first error.
fn error_of(group: &mut WorkerGroup) -> Error {
    loop {
        match group.next(Some(PATIENCE)) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("nothing happened"),
            Err(error) => return error,
        }
    }
}

fn is_gone(pid: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

fn wait_until_gone(pid: u32) {
    let until = Instant::now() + PATIENCE;
    while !is_gone(pid) {
        assert!(Instant::now() < until, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn messages_go_both_ways_and_a_finished_worker_is_reaped() {
    let mut group = group();
    let echo = group.spawn("echo", &TestJob::Echo).unwrap();
    group.start(PATIENCE).unwrap();
    let long = "x".repeat(1 << 20);
    for message in [json!(1), json!({"a": [null, true]}), json!(long)] {
        group.send(echo, &message).unwrap();
        assert_eq!(group.message::<Value>(echo, PATIENCE).unwrap(), message);
    }
    let pid = group.pid(echo);
    group.finish(PATIENCE).unwrap();
    assert!(is_gone(pid));
}

#[test]
fn samples_arrive_complete_and_in_order() {
    const COUNT: u64 = 400_000; // more than one frame holds
    let mut group = group();
    group.spawn("sampler", &TestJob::Samples(COUNT)).unwrap();
    group.start(PATIENCE).unwrap();
    let mut samples = Vec::new();
    for event in group.finish(PATIENCE).unwrap() {
        if let Event { what: What::Samples(more), .. } = event {
            samples.extend(more);
        }
    }
    assert_eq!(samples.len() as u64, COUNT);
    assert!(samples.iter().zip(0..).all(|(sample, n)| sample.start_ns == n && sample.end_ns == 2 * n));
}

#[test]
fn descriptors_arrive_with_the_message_they_were_sent_beside() {
    let mut group = group();
    let writer = group.spawn("writer", &TestJob::WriteToDescriptors).unwrap();
    group.start(PATIENCE).unwrap();
    for text in ["first", "second"] {
        let mut files: Vec<std::fs::File> = (0..2)
            .map(|_| rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap().into())
            .collect();
        let fds: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
        group.send_with_descriptors(writer, &text, &fds).unwrap();
        group.message::<()>(writer, PATIENCE).unwrap();
        for file in &mut files {
            let mut read = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }
}

#[test]
fn what_a_worker_prints_does_not_reach_the_frames() {
    let mut group = group();
    let printer = group.spawn("printer", &TestJob::Print).unwrap();
    group.start(PATIENCE).unwrap();
    assert_eq!(group.message::<String>(printer, PATIENCE).unwrap(), "after the stray line");
    group.finish(PATIENCE).unwrap();
}

#[test]
fn a_killed_worker_is_named_with_its_signal() {
    let mut group = group();
    group.spawn("client of pair 2", &TestJob::Sleep).unwrap();
    let server = group.spawn("server of pair 2", &TestJob::Sleep).unwrap();
    group.start(PATIENCE).unwrap();
    let pid = group.pid(server);
    let victim = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
    assert_eq!(
        error_of(&mut group).to_string(),
        format!("server of pair 2 (pid {pid}) was killed by SIGKILL")
    );
}

#[test]
fn a_worker_that_just_exits_has_died_even_with_status_0() {
    for code in [0, 3] {
        let mut group = group();
        let quitter = group.spawn("quitter", &TestJob::Exit(code)).unwrap();
        let pid = group.pid(quitter);
        group.start(PATIENCE).unwrap();
        let expected = format!("quitter (pid {pid}) exited with status {code}");
        assert_eq!(error_of(&mut group).to_string(), expected);
    }
}

#[test]
fn a_workers_own_error_is_the_runs_error() {
    let mut group = group();
    group.spawn("unlucky", &TestJob::Fail("no such device".into())).unwrap();
    group.start(PATIENCE).unwrap();
    let error = error_of(&mut group);
    assert!(
        matches!(&error, Error::WorkerFailed { message, .. } if message.ends_with(": no such device")),
        "{error}"
    );
}

#[test]
fn a_death_is_the_reason_for_the_failure_that_another_reports_first() {
    let mut group = group();
    let client = group.spawn("client", &TestJob::Fail("the service is gone".into())).unwrap();
    let server = group.spawn("server", &TestJob::Sleep).unwrap();
    group.start(PATIENCE).unwrap();
    wait_until_zombie(group.pid(client));
    let pid = group.pid(server);
    let victim = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
    assert_eq!(error_of(&mut group).to_string(), format!("server (pid {pid}) was killed by SIGKILL"));
}

#[test]
fn a_message_to_a_dead_worker_tells_how_it_died() {
    let mut group = group();
    let quitter = group.spawn("quitter", &TestJob::Exit(3)).unwrap();
    group.start(PATIENCE).unwrap();
    wait_until_zombie(group.pid(quitter));
    let error = group.send(quitter, &1).unwrap_err().to_string();
    assert!(error.contains("exited with status 3"), "{error}");
}

fn wait_until_zombie(pid: u32) {
    let until = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
        assert!(Instant::now() < until, "process {pid} does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_unknown_job_is_an_error() {
    let mut group = group();
    group.spawn("confused", &Unknown).unwrap();
    let error = group.start(PATIENCE).unwrap_err().to_string();
    assert!(error.contains("confused") && error.contains("unknown job"), "{error}");
}

#[test]
fn a_garbled_frame_is_an_error_that_names_the_worker() {
    let mut group = group();
    group.spawn("babbler", &TestJob::Garble).unwrap();
    group.start(PATIENCE).unwrap();
    let error = error_of(&mut group);
    assert!(matches!(&error, Error::GarbledFrame { from, .. } if from.starts_with("babbler")), "{error}");
}

#[test]
fn a_worker_that_never_gets_ready_is_named() {
    let mut group = group();
    group.spawn("sleeper", &TestJob::SleepBeforeReady).unwrap();
    let error = group.start(Duration::from_millis(50)).unwrap_err();
    assert!(matches!(&error, Error::WorkerSilent { role, .. } if role == "sleeper"), "{error}");
}

#[test]
fn a_dropped_group_leaves_no_process() {
    let mut group = group();
    let workers: Vec<_> =
        (0..3).map(|n| group.spawn(format!("sleeper {n}"), &TestJob::Sleep).unwrap()).collect();
    let pids: Vec<_> = workers.into_iter().map(|worker| group.pid(worker)).collect();
    drop(group);
    assert!(pids.into_iter().all(is_gone));
}

#[test]
fn background_workers_end_when_the_others_have_finished() {
    let mut group = group();
    let hog = group.spawn_background("hog", &TestJob::Sleep).unwrap();
    group.spawn("sampler", &TestJob::Samples(1)).unwrap();
    group.start(PATIENCE).unwrap();
    let pid = group.pid(hog);
    group.finish(PATIENCE).unwrap();
    assert!(is_gone(pid));
}

/// A process that is the parent of two workers, and the workers' pids.
fn parent() -> (Child, Vec<u32>) {
    let mut parent = Command::new(WORKER).arg("parent").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (parent, line.split_whitespace().map(|pid| pid.parse().unwrap()).collect())
}

fn signal(parent: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(parent.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn workers_die_with_a_parent_that_could_not_tell_them() {
    let (mut parent, workers) = parent();
    assert_eq!(workers.len(), 2);
    signal(&parent, rustix::process::Signal::KILL);
    parent.wait().unwrap();
    workers.into_iter().for_each(wait_until_gone);
}

/// Whether this process was started with a signal ignored, as under nohup(1). Its children inherit
/// that (proc_pid_status(5)).
fn is_ignored(signal: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap() >> (signal.as_raw() - 1) & 1 != 0
}

#[test]
fn an_interrupted_parent_reaps_its_workers_and_says_so_in_its_status() {
    for (asked, status) in [
        (rustix::process::Signal::INT, 130),
        (rustix::process::Signal::TERM, 143),
        (rustix::process::Signal::HUP, 129),
    ] {
        if is_ignored(asked) {
            continue;
        }
        let (mut parent, workers) = parent();
        signal(&parent, asked);
        assert_eq!(parent.wait().unwrap().code(), Some(status));
        assert!(workers.into_iter().all(is_gone), "workers outlive a parent that was interrupted");
    }
}
