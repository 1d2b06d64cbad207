//! Runs one scenario: the measurement, the injector beside it, and the explanation of what was
//! slow. Must not know what a true sentence is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::judge::{self, Operation};
use super::scenarios::{By, CPU, Measured, Scenario};
use crate::processes::below;
use crate::shell::{bound, root};

/// How long it may take until the victims exist.
const PATIENCE: Duration = Duration::from_secs(20);

/// A write that takes longer than this is slow.
const SLOW_WRITE_NS: u64 = 4_000_000;

/// What a scenario showed.
pub(super) struct Shown {
    pub(super) operations: Vec<Operation>,
    /// Slow operations without a sentence.
    pub(super) without_sentence: u64,
    /// When the injector disturbed.
    pub(super) stretches: Vec<(u64, u64)>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) seconds: u32,
}

/// Measures in this folder, which is emptied first.
pub(super) fn run(scenario: &Scenario, program: &Path, folder: &Path, extent: Extent) -> Result<Shown> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let target = folder.join("target");
    fs::create_dir_all(&target).with_context(|| format!("create {}", target.display()))?;
    let _mounted = match scenario.measured {
        Measured::JournalledWrites => Some(Mounted::new(folder, &target)?),
        Measured::Calls | Measured::Writes => None,
    };
    let run = folder.join("run");
    let mut child = start(scenario, program, &target, &run, extent)?;
    let log = match scenario.by {
        By::Itself(_) => run.join("injected.csv"),
        By::Outside(..) => folder.join("injected.csv"),
    };
    let injector = beside(scenario, &mut child, &log, &target);
    let output = child.wait_with_output()?;
    let injector = injector.with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    if let Some(injector) = injector {
        end(injector)?;
    }
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stretches = judge::stretches(&fs::read_to_string(&log).context("read the injector's log")?)?;
    let (options, least_ns): (&[&str], u64) = match scenario.measured {
        Measured::Calls => (&[], 0),
        Measured::Writes | Measured::JournalledWrites => (&["--slowest", "1000"], SLOW_WRITE_NS),
    };
    let json = explained(program, options, &run)?;
    let (operations, without_sentence) = judge::operations(&json, least_ns)?;
    Ok(Shown { operations, without_sentence, stretches })
}

/// What `explain` says about a run, as JSON.
pub(super) fn explained(program: &Path, options: &[&str], run: &Path) -> Result<Value> {
    let mut command = Command::new(program);
    let output = command.args(["explain", "--format", "json"]).args(options).arg(run).output();
    let output = output.context("start explain")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("the JSON of explain")
}

/// Starts the measurement.
fn start(scenario: &Scenario, program: &Path, target: &Path, run: &Path, extent: Extent) -> Result<Child> {
    let mut command = Command::new(program);
    let seconds = extent.seconds;
    let options = match scenario.measured {
        Measured::Calls => format!(
            "ipc latency --driver emulated --stack hwbinder --format csv --explain --explain-limit 1000 \
             --duration {seconds}s"
        ),
        Measured::Writes | Measured::JournalledWrites => format!(
            "storage layers --writers native --durability dsync --sizes 4k --format csv --buffer 32M --calls {} \
             --rounds {seconds} --file {}",
            seconds * writes_per_s(scenario.measured),
            target.join("victim").display(),
        ),
    };
    command.args(options.split(' ')).args(scenario.options.split(' '));
    if let By::Itself(what) = scenario.by {
        command.args(["--inject", what]);
    }
    command.arg("--out").arg(run).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().context("start the measurement")
}

/// How many writes take about a second beside other load.
fn writes_per_s(measured: Measured) -> u32 {
    if measured == Measured::JournalledWrites { 250 } else { 1000 }
}

/// Starts the injector as soon as its victims exist. `None` if the program disturbs itself.
fn beside(scenario: &Scenario, child: &mut Child, log: &Path, target: &Path) -> Result<Option<Child>> {
    let By::Outside(kind, names) = scenario.by else { return Ok(None) };
    fs::write(log, "").context("create the log")?;
    let pids = victims(child, names)?;
    injector(kind, &pids, Pace::default(), (log, target)).map(Some)
}

/// Waits until there are processes below `child` whose names begin with these.
pub(super) fn victims(child: &mut Child, names: &[&str]) -> Result<Vec<Pid>> {
    let began = Instant::now();
    let mut pids = Vec::new();
    while pids.len() < names.len() {
        ensure!(child.try_wait()?.is_none() && began.elapsed() < PATIENCE, "no process {names:?}");
        std::thread::sleep(Duration::from_millis(10));
        pids = names.iter().filter_map(|name| below(child.id(), name)).collect();
    }
    Ok(pids)
}

/// How often an injector disturbs, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) every_ms: u32,
    pub(super) for_ms: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { every_ms: 100, for_ms: 14 }
    }
}

/// Starts the injector of this kind, for these victims. Its log exists, and `target` is on the file
/// system that they write to.
pub(super) fn injector(
    kind: &str,
    victims: &[Pid],
    pace: Pace,
    (log, target): (&Path, &Path),
) -> Result<Child> {
    let mut command = bound();
    command.arg("python3").arg(root().join("xtask/src/injections/injector.py"));
    command.arg(kind).arg(log).arg(CPU).arg(target);
    command.args([pace.every_ms, pace.for_ms].map(|ms| ms.to_string()));
    command.args(victims.iter().map(|pid| pid.as_raw_nonzero().to_string())).stderr(Stdio::piped());
    command.spawn().context("start the injector")
}

/// Ends the injector, if it did not end with its victims.
pub(super) fn end(injector: Child) -> Result<()> {
    // In vain if it has ended.
    let _ = kill_process(Pid::from_child(&injector), Signal::TERM);
    let output = injector.wait_with_output()?;
    ensure!(output.status.success(), "the injector: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A file system with a journal on a loop device, mounted while this value lives.
struct Mounted(PathBuf);

impl Mounted {
    fn new(folder: &Path, target: &Path) -> Result<Self> {
        let script = "truncate -s 1G disk && mkfs.ext4 -q disk && mount -o loop disk \"$1\"";
        let status =
            Command::new("sh").args(["-c", script, "sh"]).arg(target).current_dir(folder).status()?;
        ensure!(status.success(), "no file system on a loop device");
        Ok(Self(target.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A process may use it for a moment longer.
        for _ in 0..50 {
            if Command::new("umount").arg(&self.0).status().is_ok_and(|status| status.success()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
