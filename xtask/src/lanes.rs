//! Steps that run in a separate process beside others, whose output is shown when it has ended. An
//! idle lane uses only CPUs that nothing else needs, and can be paused. Knows no step.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::shell::{cargo_command, output, root, say, target_dir};
use crate::step::{self, Done, Step};

/// Steps that run in a separate process. The task `lane` runs them.
pub(crate) struct Lane {
    pub(crate) name: &'static str,
    pub(crate) steps: &'static [Step],
    /// Whether they give way to all other programs, and pause while a test needs all CPUs.
    pub(crate) idle: bool,
}

/// The environment variable that names the process group of the idle lane to a test's runner.
pub(crate) const IDLE: &str = "ROUNDTRIP_IDLE_LANE";

/// The process group of the idle lane; 0 if none runs.
static IDLE_GROUP: AtomicI32 = AtomicI32::new(0);

/// Tells the runner of tests which lane to pause.
pub(crate) fn announce(tests: &mut Command) {
    let group = IDLE_GROUP.load(Ordering::Relaxed);
    if group > 0 {
        tests.env(IDLE, group.to_string());
    }
}

/// The idle lane is stopped until this value is dropped.
pub(crate) struct Paused(Pid);

impl Paused {
    /// Stops this process group, of which [`IDLE`] has the number.
    pub(crate) fn group(number: &str) -> Option<Self> {
        let group = Pid::from_raw(number.parse().ok()?)?;
        // It may have ended.
        kill_process_group(group, Signal::STOP).is_ok().then_some(Self(group))
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::CONT);
    }
}

/// Runs a lane's steps, and writes their results for the process that started this one.
pub(crate) fn run(lane: &Lane, results: &Path) -> bool {
    if lane.idle {
        // Its process group is not the terminal's, so it would outlive an interrupted run.
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            let _ = kill_process_group(rustix::process::getpgrp(), Signal::KILL);
        });
    }
    let done = step::carry_out(lane.steps, say);
    let lines: Vec<String> = done.iter().map(|one| one.to_json().to_string()).collect();
    let written = std::fs::write(results, lines.join("\n"));
    written.is_ok() && done.iter().all(|one| one.result.is_ok())
}

/// A lane that was started.
pub(crate) struct Running {
    name: String,
    idle: bool,
    child: Child,
    log: PathBuf,
    results: PathBuf,
    start: Instant,
}

impl Running {
    pub(crate) fn start(lane: &Lane) -> Result<Self> {
        let name = lane.name;
        let folder = target_dir().join("lanes");
        std::fs::create_dir_all(&folder)?;
        let (log, results) = (folder.join(format!("{name}.log")), folder.join(format!("{name}.json")));
        let _ = std::fs::remove_file(&results);
        let output = File::create(&log)?;
        say(&format!("\n=== in parallel with the next steps: {name}"));
        // Through Cargo: building the tests may have replaced this program's file.
        let mut command = if lane.idle { idle(&cargo_command()) } else { cargo_command() };
        command.stdin(if lane.idle { Stdio::piped() } else { Stdio::null() });
        command.args(["run", "--quiet", "--package", "xtask", "--", "lane", name]).arg(&results);
        command.current_dir(root()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        if lane.idle {
            IDLE_GROUP.store(child.id().cast_signed(), Ordering::Relaxed);
        }
        Ok(Self { name: name.to_owned(), idle: lane.idle, child, log, results, start: Instant::now() })
    }

    /// Waits, shows its output, and returns the results of its steps.
    pub(crate) fn end(mut self) -> Vec<Done> {
        if self.idle {
            IDLE_GROUP.store(0, Ordering::Relaxed);
            // A test that was killed may have left it stopped.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::CONT);
        }
        // Not `wait`, which closes the standard input that keeps an idle lane alive.
        let open = self.child.stdin.take();
        let status = self.child.wait();
        drop(open);
        say(&format!("\n=== ran in parallel: {}", self.name));
        say(&String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()));
        let lines = std::fs::read_to_string(&self.results).unwrap_or_default();
        let mut done: Vec<Done> = lines.lines().filter_map(Done::from_json).collect();
        let bad = done.iter().any(|one| one.result.is_err());
        if !bad && !status.as_ref().is_ok_and(ExitStatus::success) {
            let error = anyhow::anyhow!("it ended with {status:?} after {:?}", self.start.elapsed());
            done.push(Done::failed(&self.name, &error));
        }
        done
    }
}

/// The same program in a process group of its own, which runs only while a CPU is idle.
fn idle(command: &Command) -> Command {
    use std::os::unix::process::CommandExt as _;
    let program = command.get_program();
    let mut idle = if output("chrt", &["--idle", "0", "true"]).is_some() {
        let mut chrt = Command::new("chrt");
        chrt.args(["--idle", "0"]).arg(program);
        chrt
    } else {
        Command::new(program)
    };
    idle.process_group(0);
    idle
}
