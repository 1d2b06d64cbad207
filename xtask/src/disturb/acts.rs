//! What is done to a process of a measurement. Must not know what is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::processes::{below, children};

/// A disturbance.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    /// Sends a signal.
    Signal(Signal, &'static str),
    /// Stops it for some seconds.
    Stop { seconds: u64 },
    /// Freezes it for two seconds in a control group of its own.
    Freeze,
    /// Lets it use only the CPU that it does not use alone.
    Shrink,
    /// Moves it, with all processes below it, into a cpuset with only the CPU that it does not use
    /// alone.
    Cpuset,
    /// Takes the last CPU away for two seconds.
    CpuOff,
    /// Lets it open no more files.
    NoFiles,
    /// Gives its threads the policy `SCHED_IDLE`.
    Idle,
    /// Writes a value to a file of the recording.
    Recorder(&'static str, &'static str),
    /// Reads the events of the recording for a tenth of a second.
    ReadPipe,
    /// Clears the buffer of the recording.
    ClearBuffer,
}

impl Act {
    pub(super) const KILL: Self = Self::Signal(Signal::KILL, "SIGKILL");
    pub(super) const HANG_UP: Self = Self::Signal(Signal::HUP, "SIGHUP");

    /// In words.
    pub(super) fn what(self, victim: &str) -> String {
        let victim = if victim.is_empty() { "first worker" } else { victim };
        match self {
            Self::Signal(_, name) => format!("{name} to the {victim}"),
            Self::Stop { seconds } => format!("{victim} stopped for {seconds} s"),
            Self::Freeze => format!("{victim} frozen for 2 s"),
            Self::Shrink => format!("{victim} limited to another CPU"),
            Self::Cpuset => format!("{victim} moved into a cpuset with another CPU"),
            Self::CpuOff => "last CPU offline for 2 s".to_owned(),
            Self::NoFiles => format!("{victim} may open no more files"),
            Self::Idle => format!("{victim} made SCHED_IDLE"),
            Self::Recorder(file, "") => format!("`{file}` of the recording emptied"),
            Self::Recorder(file, value) => format!("{value} written to `{file}` of the recording"),
            Self::ReadPipe => "`trace_pipe` of the recording read".to_owned(),
            Self::ClearBuffer => "`trace` of the recording cleared".to_owned(),
        }
    }

    /// Disturbs the process below a command whose name begins with `victim`, or the command.
    pub(super) fn on(self, child: &Child, victim: &str) -> Result<()> {
        match self {
            Self::Recorder(file @ "tracing_on", value) => {
                return recording(child, |path| write_while_on(path, file, value));
            }
            Self::Recorder(file, value) => return recording(child, |path| write(&path.join(file), value)),
            Self::ReadPipe => return recording(child, |path| read_for_a_moment(&path.join("trace_pipe"))),
            Self::ClearBuffer => return recording(child, |path| write_while_on(path, "trace", "")),
            Self::CpuOff => return cpu_off(),
            _ => {}
        }
        let pid = match victim {
            "roundtrip" => Pid::from_child(child),
            name => soon(|| below(child.id(), name)).context("there is no such process")?,
        };
        let pid_text = pid.as_raw_nonzero().to_string();
        match self {
            Self::Signal(signal, _) => Ok(kill_process(pid, signal)?),
            Self::Stop { seconds } => {
                kill_process(pid, Signal::STOP)?;
                sleep(Duration::from_secs(seconds));
                // The command may have ended without it.
                let _ = kill_process(pid, Signal::CONT);
                Ok(())
            }
            Self::Freeze => freeze(&pid_text),
            Self::Shrink => tool("taskset", &["-apc", &other_cpu(&pid_text)?.to_string(), &pid_text]),
            Self::Cpuset => into_cpuset(pid.as_raw_nonzero().get().cast_unsigned(), victim == "roundtrip"),
            Self::NoFiles => tool("prlimit", &["--pid", &pid_text, "--nofile=3:3"]),
            Self::Idle => tool("chrt", &["--idle", "-a", "-p", "0", &pid_text]),
            Self::CpuOff | Self::Recorder(..) | Self::ReadPipe | Self::ClearBuffer => Ok(()),
        }
    }
}

/// How long to wait for what is disturbed. A comparison of writes first tries, without recording,
/// what is possible.
const WAIT: Duration = Duration::from_secs(30);

fn write(path: &Path, value: &str) -> Result<()> {
    fs::write(path, format!("{value}\n")).with_context(|| path.display().to_string())
}

/// Waits until something is there.
fn soon<T>(find: impl Fn() -> Option<T>) -> Option<T> {
    let until = Instant::now() + WAIT;
    loop {
        let found = find();
        if found.is_some() || Instant::now() >= until {
            return found;
        }
        sleep(Duration::from_millis(1));
    }
}

/// Writes to a file of a recording as soon as the recording is on. While it is off, neither
/// switching it off nor clearing it would change anything.
fn write_while_on(recording: &Path, file: &str, value: &str) -> Result<()> {
    let is_on = || fs::read_to_string(recording.join("tracing_on")).is_ok_and(|on| on.trim() == "1");
    soon(|| is_on().then_some(())).context("the recording is never on")?;
    write(&recording.join(file), value)
}

/// Reads a file for a tenth of a second, again until it has had something.
fn read_for_a_moment(path: &Path) -> Result<()> {
    let arguments = ["0.1", "cat", path.to_str().context("its name is not UTF-8")?];
    let until = Instant::now() + WAIT;
    while Command::new("timeout").args(arguments).output().context("timeout")?.stdout.is_empty() {
        ensure!(Instant::now() < until && path.exists(), "{} had no events", path.display());
    }
    Ok(())
}

/// The last CPU, or the first one if the process may use only the last one.
fn other_cpu(pid: &str) -> Result<usize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let last = std::thread::available_parallelism()?.get() - 1;
    Ok(if allowed.is_some_and(|cpus| cpus.trim() == last.to_string()) { 0 } else { last })
}

/// Moves a process into a cpuset with another CPU, or with the first one and all processes below.
fn into_cpuset(pid: u32, all: bool) -> Result<()> {
    let two = Path::new("/sys/fs/cgroup/cgroup.procs").exists();
    let parent = Path::new(if two { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpuset" });
    ensure!(parent.exists(), "there are no cpusets");
    let group = parent.join("roundtrip-disturb-cpus");
    fs::create_dir_all(&group).with_context(|| group.display().to_string())?;
    if two {
        write(&parent.join("cgroup.subtree_control"), "+cpuset")?;
    } else {
        write(&group.join("cpuset.mems"), "0")?;
    }
    let cpu = if all { 0 } else { other_cpu(&pid.to_string())? };
    write(&group.join("cpuset.cpus"), &cpu.to_string())?;
    let mut pids = vec![pid];
    let mut at = 0;
    while all && at < pids.len() {
        pids.extend(children(pids[at]).into_iter().map(|(pid, _)| pid));
        at += 1;
    }
    pids.into_iter().try_for_each(|pid| write(&group.join("cgroup.procs"), &pid.to_string()))
}

fn cpu_off() -> Result<()> {
    let last = std::thread::available_parallelism()?.get() - 1;
    let path = PathBuf::from(format!("/sys/devices/system/cpu/cpu{last}/online"));
    write(&path, "0")?;
    sleep(Duration::from_secs(2));
    write(&path, "1")
}

/// Freezes a process by the freezer of either version of control groups.
fn freeze(pid: &str) -> Result<()> {
    let two = Path::new("/sys/fs/cgroup/cgroup.procs").exists();
    let parent = Path::new(if two { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/freezer" });
    ensure!(parent.exists(), "there is no freezer");
    let group = parent.join("roundtrip-disturb");
    fs::create_dir_all(&group).with_context(|| group.display().to_string())?;
    let (file, on, off) =
        if two { ("cgroup.freeze", "1", "0") } else { ("freezer.state", "FROZEN", "THAWED") };
    write(&group.join("cgroup.procs"), pid)?;
    write(&group.join(file), on)?;
    sleep(Duration::from_secs(2));
    write(&group.join(file), off)
}

fn tool(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output().with_context(|| program.to_owned())?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Calls `act` with the directory of a command's recording in progress, through a mount of its own.
fn recording(child: &Child, act: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let mount = std::env::temp_dir().join(format!("roundtrip-disturb-{}", std::process::id()));
    let at = mount.to_str().context("the temporary directory's name is not UTF-8")?;
    fs::create_dir_all(&mount)?;
    let result = tool("mount", &["-t", "tracefs", "nodev", at]).and_then(|()| {
        // The listing must be closed before the mount is removed.
        let acted = ours(&mount, child.id()).context("there is no recording").and_then(|path| act(&path));
        tool("umount", &[at])?;
        acted
    });
    let _ = fs::remove_dir(&mount);
    result
}

/// The directory of a process's instance in a tracefs.
fn ours(tracefs: &Path, pid: u32) -> Option<PathBuf> {
    let entries = fs::read_dir(tracefs.join("instances")).ok()?.flatten();
    let is_ours = |name: &str| name.starts_with(&format!("roundtrip-{pid}-"));
    let mut found = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    found.next().map(|entry| entry.path())
}
