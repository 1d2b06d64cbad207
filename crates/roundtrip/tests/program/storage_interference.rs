//! `roundtrip storage interference` as a process: changed kernel settings are restored however it
//! ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use std::time::{Duration, Instant};

use roundtrip_skips::{Need, skip};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::process::{children, guard};
use crate::support::turn::{Single, Turn};

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn interference(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(["storage", "interference", "--no-recorder", "--file-size", "1M"]).args(arguments);
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The completion setting of every queue.
fn affinities() -> BTreeMap<PathBuf, String> {
    let queues = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let files = queues.map(|entry| entry.path().join("queue/rq_affinity"));
    files.filter_map(|file| Some((file.clone(), std::fs::read_to_string(file).ok()?))).collect()
}

const SETTINGS: [&str; 6] =
    ["--conditions", "rq-affinity-0,rq-affinity-1,rq-affinity-2", "--duration", "1h", "--rounds", "1000"];

/// Starts a comparison of settings, and waits until one is changed; `None` if this machine does not
/// support that.
fn with_a_changed_setting(directory: &Path, before: &BTreeMap<PathBuf, String>) -> Option<Child> {
    let mut child = interference(directory, &SETTINGS).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while Instant::now() < until {
        if affinities() != *before {
            return Some(child);
        }
        if child.try_wait().unwrap().is_some() {
            let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
            if !said.contains("belongs to another run") {
                return None;
            }
            // Another run on this machine owns it.
            child = interference(directory, &SETTINGS).spawn().unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("no setting was changed in two minutes");
}

#[test]
fn a_setting_is_restored_on_ctrl_c_and_after_a_kill() {
    let _turn = Turn::take(Single::Settings);
    let directory = folder("settings");
    let before = affinities();
    let Some(mut child) = with_a_changed_setting(&directory, &before) else {
        // Some file systems have no device with a setting to change.
        let need = if before.is_empty() { Need::Machine } else { Need::Root };
        return skip(need, "no setting could be changed here");
    };
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(affinities(), before);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);

    for guarded in [true, false] {
        let mut child = with_a_changed_setting(&directory, &before).expect("it could a moment ago");
        if !guarded {
            let guard = guard(child.id()).and_then(|pid| Pid::from_raw(pid.cast_signed()));
            kill_process(guard.unwrap(), Signal::KILL).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while guarded && affinities() != before {
            assert!(Instant::now() < until, "the guard restores nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
        // Also removes the test file.
        let arguments = ["--conditions", "alone", "--duration", "1ms", "--rounds", "1"];
        let output = interference(&directory, &arguments).stdout(Stdio::piped()).output().unwrap();
        assert!(output.status.success());
        assert_eq!(affinities(), before);
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// timeout(1) signals its child and then its group, and users press Ctrl-C twice.
#[test]
fn a_second_signal_does_not_interrupt_the_cleanup() {
    let _turn = Turn::take(Single::Settings);
    let directory = folder("signalled-twice");
    let before = affinities();
    for pause_us in [0, 20, 100, 300, 1_000, 3_000, 10_000, 30_000] {
        let Some(child) = with_a_changed_setting(&directory, &before) else {
            let need = if before.is_empty() { Need::Machine } else { Need::Root };
            return skip(need, "no setting could be changed here");
        };
        let pid = Pid::from_child(&child);
        for _ in 0..3 {
            // The run may have ended before the last one. It has not been reaped, so the pid is
            // still valid.
            kill_process(pid, Signal::TERM).unwrap();
            std::thread::sleep(Duration::from_micros(pause_us));
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(143), "{pause_us} us: {:?} {said}", output.status);
        assert!(said.lines().count() <= 2 && said.contains("SIGTERM"), "{said}");
        assert_eq!(affinities(), before, "{pause_us} us");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "{pause_us} us");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn of_two_concurrent_runs_one_owns_a_setting_and_the_other_names_the_owner() {
    let _turn = Turn::take(Single::Settings);
    let directory = folder("overlapping");
    let before = affinities();
    let Some(first) = with_a_changed_setting(&directory, &before) else {
        let need = if before.is_empty() { Need::Machine } else { Need::Root };
        return skip(need, "no setting could be changed here");
    };
    let refused = interference(&directory, &SETTINGS).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    let holder = format!("belongs to another run at the moment (pid {})", first.id());
    assert!(said.contains(&holder) && said.lines().count() == 1, "{said}");
    let arguments =
        ["--conditions", "alone,rq-affinity-0,rq-affinity-1", "--duration", "1ms", "--rounds", "1"];
    let without = interference(&directory, &arguments).stdout(Stdio::piped()).output().unwrap();
    let page = String::from_utf8_lossy(&without.stdout).into_owned();
    assert!(without.status.success() && page.contains(&holder), "{page}");
    kill_process(Pid::from_child(&first), Signal::INT).unwrap();
    assert_eq!(first.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(affinities(), before);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Starts a long run, and waits until it has created its test file and writes.
fn writing(directory: &Path) -> (Child, PathBuf) {
    let mut child = interference(directory, &["--conditions", "alone", "--duration", "1h"]).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while Instant::now() < until {
        let file = std::fs::read_dir(directory).unwrap().next().map(|entry| entry.unwrap().path());
        if let Some(file) = file.filter(|file| file.metadata().is_ok_and(|meta| meta.len() == 1 << 20))
            && !children(child.id()).is_empty()
        {
            return (child, file);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("no test file was made in two minutes");
}

#[test]
fn a_run_removes_its_killed_writers_file_and_the_next_run_that_of_a_killed_run() {
    let directory = folder("killed");
    let (child, _) = writing(&directory);
    let writer = children(child.id())[0];
    kill_process(Pid::from_raw(writer.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("was killed by SIGKILL") && stderr.lines().count() == 1, "{stderr}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);

    let (mut child, file) = writing(&directory);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(file.exists());
    // While a worker of the killed run lives, the file is not abandoned.
    rustix::fs::flock(std::fs::File::open(&file).unwrap(), rustix::fs::FlockOperation::LockExclusive)
        .unwrap();
    let mine = directory.join("roundtrip-1.test");
    std::fs::write(&mine, "precious").unwrap();
    let arguments = ["--conditions", "alone", "--duration", "1ms", "--rounds", "1"];
    let output = interference(&directory, &arguments).stdout(Stdio::piped()).output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(page.contains(" was removed: it was the test file of a run that was killed"), "{page}");
    assert!(!file.exists());
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "precious");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_recorded_comparison_is_shown_again_as_it_was_printed() {
    let directory = folder("shown");
    let args =
        "storage interference --file-size 1M --conditions hog-other --rounds 2 --duration 1ms --out run";
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    let printed = command.args(args.split(' ')).current_dir(&directory).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let shown = Command::new(env!("CARGO_BIN_EXE_roundtrip")).arg("show").arg(directory.join("run")).output();
    std::fs::remove_dir_all(&directory).unwrap();
    let [printed, shown] = [printed, shown.unwrap()].map(|output| String::from_utf8(output.stdout).unwrap());
    let shown: Vec<&str> = shown.lines().collect();
    for line in printed.lines() {
        assert!(shown.contains(&line), "{line:?} is not in {shown:#?}");
    }
    assert!(
        printed.contains("hog-other") && shown.contains(&"== Writes with background load =="),
        "{printed}"
    );
}

#[test]
fn wrong_input_is_one_line() {
    let directory = folder("wrong-neighbours");
    for (arguments, said) in [
        (vec!["--conditions", "rain"], "unknown condition 'rain': choose from hog-same"),
        (vec!["--conditions", ""], "unknown condition ''"),
        (vec!["--memory-share", "95"], "from 1 to 90"),
        (vec!["--io-limit", "1"], "4096 bytes a second"),
        (vec!["--sizes", "2M"], "--file-size"),
        (vec!["--rounds", "0"], "from 1 to 1000"),
    ] {
        let output = interference(&directory, &arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{arguments:?}: {stderr}");
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir(&directory).unwrap();
}
