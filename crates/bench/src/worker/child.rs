//! The parent's side of one worker process: its pid, its socket and pipe, and how it ended.
//! Dropping it kills and reaps the process. Must not know of other workers.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::frame::Decoder;
use super::signal_name;
use crate::error::{Error, Result};
use crate::kernel::kills::Kills;

/// How worker processes are started.
#[derive(Debug, Clone)]
pub struct Spawner {
    /// The program; by default the running one through /proc/self/exe, which works even if its file
    /// has been replaced.
    pub exe: PathBuf,
    /// Its arguments; by default the hidden command.
    pub args: Vec<OsString>,
}

impl Default for Spawner {
    fn default() -> Self {
        Self { exe: "/proc/self/exe".into(), args: vec![super::COMMAND.into()] }
    }
}

impl Spawner {
    /// Uses another program that accepts the hidden command.
    pub fn with_exe(exe: impl Into<PathBuf>) -> Self {
        Self { exe: exe.into(), ..Self::default() }
    }
}

/// How long to wait for the processes that a killed worker has started.
const ALL_GONE_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) role: String,
    pub(super) pid: u32,
    child: Child,
    /// Readable when the process has ended (Linux 5.3+).
    pidfd: Option<OwnedFd>,
    /// `None` when no more messages will be sent.
    pub(super) input: Option<UnixStream>,
    pub(super) output: File,
    pub(super) decoder: Decoder,
    pub(super) progress: Progress,
    /// Whether this worker ends after the others, so that the group does not wait for it.
    pub(super) background: bool,
    /// The CPUs that it may use, since the group has started.
    pub(super) cpus: Option<Vec<u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Starting,
    Ready,
    Going,
    /// It reported success, but has not ended yet.
    Done,
    /// It reported an error, and will send nothing more.
    Failed,
    /// Reaped.
    Ended,
}

impl Worker {
    pub(super) fn spawn(spawner: &Spawner, role: String) -> Result<Self> {
        let failed = |source| {
            // For this program itself, the path is meaningless.
            let from = match spawner.exe == Spawner::default().exe {
                true => String::new(),
                false => format!(" from {}", spawner.exe.display()),
            };
            Error::system(format!("start {role}{from}"), source)
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        // A full socket must not keep the parent from noticing a signal or a death.
        ours.set_nonblocking(true).map_err(failed)?;
        let mut child = Command::new(&spawner.exe)
            .arg0("roundtrip")
            .args(&spawner.args)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(failed)?;
        let pid = child.id();
        let output = child.stdout.take().map(OwnedFd::from);
        let pidfd = rustix::process::Pid::from_raw(pid.cast_signed())
            .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok());
        let output = output.ok_or_else(|| failed(std::io::Error::other("no pipe to read from")))?.into();
        Ok(Self {
            role,
            pid,
            child,
            pidfd,
            input: Some(ours),
            output,
            decoder: Decoder::default(),
            progress: Progress::Starting,
            background: false,
            cpus: None,
        })
    }

    /// Asks the worker to make no more calls. Only jobs that make many calls check for this.
    pub(super) fn stop(&self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid.cast_signed()) {
            // Not reaped yet, so the pid is still valid.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// Reads once what has arrived, which does not block after poll. Returns false at the end of
    /// the pipe.
    pub(super) fn fill(&mut self) -> Result<bool> {
        let mut bytes = [0; 64 * 1024];
        loop {
            match self.output.read(&mut bytes) {
                Ok(length) => {
                    self.decoder.push(&bytes[..length]);
                    return Ok(length > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::system(format!("read from {}", self.name()), source)),
            }
        }
    }

    /// Waits up to `grace` for the process to end, then kills it. Returns its exit status.
    pub(super) fn end(&mut self, grace: Duration) -> Result<ExitStatus> {
        self.input = None;
        let until = Instant::now() + grace;
        let failed = |name, source| Error::system(format!("wait for {name}"), source);
        loop {
            if let Some(status) = self.child.try_wait().map_err(|source| failed(self.name(), source))? {
                self.progress = Progress::Ended;
                return Ok(status);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match &self.pidfd {
                Some(pidfd) => {
                    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
                    // After an interrupted wait, the loop continues.
                    let _ = poll(&mut fds, Some(&timespec(left)));
                }
                None => std::thread::sleep(left.min(Duration::from_millis(5))),
            }
        }
        // This fails only if it has already ended.
        let _ = self.child.kill();
        let status = self.child.wait().map_err(|source| failed(self.name(), source))?;
        self.progress = Progress::Ended;
        Ok(status)
    }

    pub(super) fn kill(&mut self) {
        // Fails only if it has ended.
        let _ = self.child.kill();
    }

    pub(super) fn name(&self) -> String {
        format!("{} (pid {})", self.role, self.pid)
    }

    pub(super) fn died(&self, how: String) -> Error {
        Error::PeerDied { role: self.role.clone(), pid: self.pid, how }
    }

    pub(super) fn output_fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.progress != Progress::Ended {
            self.kill();
            let _ = self.child.wait();
            // A supervisor keeps the pipe open until it has ended everything that the worker
            // started. The data in the pipe does not matter.
            let mut fds = [PollFd::new(&self.output, PollFlags::empty())];
            let _ = poll(&mut fds, Some(&timespec(ALL_GONE_WITHIN)));
        }
    }
}

/// "was killed by SIGKILL", "exited with status 3". `kills` is from before the process started.
pub(super) fn how(status: ExitStatus, kills: Kills) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let core = if status.core_dumped() { " (core dumped)" } else { "" };
            format!("was killed by {}{core}{}", signal_name(signal), kills.behind(status))
        }
        (None, Some(code)) => format!("exited with status {code}"),
        (None, None) => format!("ended ({status})"),
    }
}

pub(super) fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
