//! The guard: a process that cleans up after the run that started it, if the run is killed. Without
//! it, the kernel would go on recording until the next command, which slows the system calls of
//! every program. Must not know what is removed.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::sched;

/// The hidden command that makes the binary a guard: the program must call
/// [`stand_guard`](crate::left_behind::stand_guard) if this is its first argument.
pub const COMMAND: &str = "__guard";

/// What the process is called. A `killall roundtrip` does not end it.
const PROCESS: &str = "guard";

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
    /// it. It holds none of the run's files, so that nobody waits for it.
    pub(crate) fn start() -> Option<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(PROCESS).arg(COMMAND).env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut guard = Self(command.spawn().ok()?);
        // A pipe's buffer takes it at once.
        guard.0.stdin.as_mut()?.write_all(std::process::id().to_string().as_bytes()).ok()?;
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
    let mut run = String::new();
    while std::io::stdin().read_to_string(&mut run).is_err_and(|error| error.kind() == ErrorKind::Interrupted)
    {
    }
    for _ in 0..TRIES {
        // A process that ends closes its files one after the other, so it may still hold locks.
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        if parent.to_string() != run && clean() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}
