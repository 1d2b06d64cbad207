//! One worker process as its parent holds it: its pid, its two ends, how it ended. Killed and
//! waited for, by pid, when dropped. Must not know of other workers.

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

/// How worker processes are started.
#[derive(Debug, Clone)]
pub struct Spawner {
    /// The program; by default the running one, /proc/self/exe, even if its file has been replaced
    /// meanwhile.
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
    /// Another program that answers to the hidden command.
    pub fn with_exe(exe: impl Into<PathBuf>) -> Self {
        Self { exe: exe.into(), ..Self::default() }
    }
}

/// How long the run waits for the end of what a killed worker has started.
const ALL_GONE_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) role: String,
    pub(super) pid: u32,
    child: Child,
    /// Readable when the process has ended (Linux 5.3+).
    pidfd: Option<OwnedFd>,
    /// `None` once there is nothing more to say to it.
    pub(super) input: Option<UnixStream>,
    pub(super) output: File,
    pub(super) decoder: Decoder,
    pub(super) progress: Progress,
    /// Ends when the others have: not waited for.
    pub(super) background: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Starting,
    Ready,
    Going,
    /// It said so; its end is still to come.
    Done,
    /// It said why it could not be done; there is no more to hear from it.
    Failed,
    /// Reaped.
    Ended,
}

impl Worker {
    pub(super) fn spawn(spawner: &Spawner, role: String) -> Result<Self> {
        let failed = |source| {
            // Of this program itself, the path says nothing.
            let from = match spawner.exe == Spawner::default().exe {
                true => String::new(),
                false => format!(" from {}", spawner.exe.display()),
            };
            Error::system(format!("start {role}{from}"), source)
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        // A full socket must not keep the parent from seeing a signal or a death.
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
        })
    }

    /// Asks it to make no more calls, which only jobs that make many of them notice.
    pub(super) fn stop(&self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid.cast_signed()) {
            // Not waited for yet, so the number is still its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// Reads once what has arrived, which does not block after poll said so; false at the end.
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

    /// Waits for the process to end, for this long at most, then ends it; tells how it ended.
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
                    // An interrupted wait goes round once more.
                    let _ = poll(&mut fds, Some(&timespec(left)));
                }
                None => std::thread::sleep(left.min(Duration::from_millis(5))),
            }
        }
        // Both can only fail if it has ended meanwhile.
        let _ = self.child.kill();
        let status = self.child.wait().map_err(|source| failed(self.name(), source))?;
        self.progress = Progress::Ended;
        Ok(status)
    }

    pub(super) fn kill(&mut self) {
        // Fails only when it has ended.
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
            // Somebody who ends what the worker started still holds its end of the pipe. What was
            // said is not asked for.
            let mut fds = [PollFd::new(&self.output, PollFlags::empty())];
            let _ = poll(&mut fds, Some(&timespec(ALL_GONE_WITHIN)));
        }
    }
}

/// "was killed by SIGKILL", "exited with status 3".
pub(super) fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let core = if status.core_dumped() { " (core dumped)" } else { "" };
            format!("was killed by {}{core}", signal_name(signal))
        }
        (None, Some(code)) => format!("exited with status {code}"),
        (None, None) => format!("ended ({status})"),
    }
}

pub(super) fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
