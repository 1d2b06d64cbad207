//! The guard: a process that cleans up after the run that started it, if the run is killed. Without
//! it, the kernel would go on recording until the next command, which slows the system calls of
//! every program. Must not know what is removed.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, pidfd_open, setrlimit};

use crate::sched;

/// The hidden command that makes the binary a guard: the program must call
/// [`stand_guard`](crate::left_behind::stand_guard) if this is its first argument.
pub const COMMAND: &str = "__guard";

/// What the process is called. A `killall roundtrip` does not end it.
const PROCESS: &str = "guard";

/// What the guard writes once it is ready.
const READY: &[u8] = b"1";

/// The most CPU time that a guard uses, in seconds. It needs some milliseconds.
const CPU_SECONDS: u64 = 10;

/// How often to try, and how long to wait in between: a killed run's workers may live for a moment,
/// and another process that looks for abandoned things may have locked one.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);

/// A guard of this process. Dropping it ends it, so whatever it guards must be dropped before.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts a guard; `None` if that fails. Then the next command removes what a killed run left.
    ///
    /// The guard has a process group of its own, so that nobody who signals the run's group reaches
    /// it. It holds none of the run's files, so that nobody waits for it. When this returns, the
    /// kernel no longer kills it for lack of memory.
    pub(crate) fn start() -> Option<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(PROCESS).arg(COMMAND).env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut guard = Self(command.spawn().ok()?);
        // A pipe's buffer takes it at once.
        guard.0.stdin.as_mut()?.write_all(std::process::id().to_string().as_bytes()).ok()?;
        guard.0.stdout.take()?.read_exact(&mut [0; READY.len()]).ok()?;
        Some(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Before `wait` closes the pipe, which would tell it that this process was killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for the end of the run, which sends its process id on standard input and holds the pipe
/// open. Then calls `clean` again and again until it returns true: nothing is left.
pub(crate) fn stand(clean: impl Fn() -> bool) {
    sched::set_name(PROCESS);
    // When a control group runs out of memory, the kernel often kills the run, then the guard, or
    // all at once. Only root may forbid it, but only root records.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    // Without enough memory for the guard itself, its page faults would be repeated for ever.
    let most = Some(CPU_SECONDS);
    let _ = setrlimit(Resource::Cpu, Rlimit { current: most, maximum: most });
    let parent = rustix::process::getppid();
    let end_of_parent = parent.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    // The run may have been killed meanwhile.
    let _ = std::io::stdout().write_all(READY).and_then(|()| std::io::stdout().flush());
    let mut run = String::new();
    while std::io::stdin().read_to_string(&mut run).is_err_and(|error| error.kind() == ErrorKind::Interrupted)
    {
    }
    // The last thread of a killed process may still hold locks when the pipe is closed already.
    if let Some(end) = end_of_parent.filter(|_| name(parent) == run) {
        while poll(&mut [PollFd::new(&end, PollFlags::IN)], None) == Err(Errno::INTR) {}
    }
    for _ in 0..TRIES {
        // Before Linux 5.3, this is all that tells of the parent's end.
        if name(rustix::process::getppid()) != run && clean() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// A process id as the run sends it.
fn name(pid: Option<Pid>) -> String {
    pid.map_or(0, |pid| pid.as_raw_nonzero().get()).to_string()
}
