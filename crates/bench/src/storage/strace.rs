//! `strace` on a writer, as in the 2012 study that docs/storage.md describes: attaches it, and
//! reads the duration of each system call from its output. Must not know what the durations are
//! compared with.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};

use super::system_call::SystemCall;
use crate::clock::now_ns;
use crate::directory::scratch::Scratch;
use crate::error::{Disturbance, Error, NotHere, Result};
use crate::worker::die_with_parent;
use roundtrip_run::storage::Call;

/// A running strace. Dropping it detaches it; the writer continues.
#[derive(Debug)]
pub struct Strace {
    child: Child,
    said: BufReader<ChildStderr>,
    scratch: Scratch,
}

impl Strace {
    /// Checks that strace is installed.
    ///
    /// # Errors
    /// [`Error::NotHere`] with how to install it.
    pub fn check() -> Result<()> {
        let asked = Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        match asked {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(NotHere::Strace.into()),
            Err(error) => Err(Error::system("start strace", error)),
        }
    }

    /// Attaches strace to every thread of a process, and returns when it is attached.
    ///
    /// # Errors
    /// [`Error::NotHere`] if strace is not installed or lacks permission; [`Error::System`] if it
    /// cannot be started.
    pub fn attach(pid: u32) -> Result<Self> {
        let scratch = Scratch::new()?;
        let mut command = Command::new("strace");
        die_with_parent(&mut command, rustix::process::Signal::KILL);
        let mut child = command
            .args(["-f", "-T", "-ttt", "-s", "0", "-e", "signal=none", "-o"])
            .arg(scratch.path().join("strace"))
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => NotHere::Strace.into(),
                _ => Error::system("start strace", error),
            })?;
        let Some(said) = child.stderr.take() else { unreachable!("it was asked for") };
        let mut strace = Self { child, said: BufReader::new(said), scratch };
        let mut line = String::new();
        let read = strace.said.read_line(&mut line);
        read.map_err(|error| Error::system("read strace's output", error))?;
        if line.contains(" attached") {
            return Ok(strace);
        }
        Err(NotHere::StraceRefused { said: line.trim().to_owned() }.into())
    }

    /// Detaches, and returns the system calls of one thread in order.
    ///
    /// # Errors
    /// [`Error::File`] if strace's output cannot be read, [`Error::Disturbed`] if it has no system
    /// call of the thread.
    pub fn detach(mut self, tid: u32) -> Result<Vec<SystemCall>> {
        self.end();
        let path = self.scratch.path().join("strace");
        let text = std::fs::read(&path).map_err(|cause| Error::file("read", &path, cause))?;
        let calls = SystemCall::parse(&String::from_utf8_lossy(&text), tid, boot_less_real_ns());
        if calls.is_empty() {
            let mut said = String::new();
            let _ = self.said.read_to_string(&mut said);
            let why = said.lines().last().unwrap_or("nothing").trim();
            return Err(Disturbance::StraceSawNothing { said: why.to_owned() }.into());
        }
        Ok(calls)
    }

    /// Asks strace to detach. It does so when the writer next stops, if not before.
    fn end(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.end();
        }
    }
}

/// CLOCK_BOOTTIME minus CLOCK_REALTIME, in nanoseconds, accurate to about a microsecond.
fn boot_less_real_ns() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    let real_ns = time.tv_sec * 1_000_000_000 + time.tv_nsec;
    now_ns().cast_signed() - real_ns
}

/// The total duration of the system calls within each call, in nanoseconds; `None` if there are
/// none.
pub(super) fn within(calls: &[Call], system_calls: &[SystemCall]) -> Vec<Option<u64>> {
    /// The tolerance, in nanoseconds: strace truncates to microseconds, and the times come from two
    /// clocks.
    const AGREE_NS: u64 = 3_000;
    let sum = |call: &Call| {
        let first = system_calls.partition_point(|one| one.start_ns < call.start_ns.saturating_sub(AGREE_NS));
        let ours = system_calls.iter().skip(first).take_while(|one| one.start_ns < call.end_ns);
        let durations: Vec<u64> = ours
            .filter(|one| {
                one.start_ns.saturating_add(one.duration_ns) <= call.end_ns.saturating_add(AGREE_NS)
            })
            .map(|one| one.duration_ns)
            .collect();
        (!durations.is_empty()).then(|| durations.iter().sum())
    };
    calls.iter().map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
7 100.000001 lseek(3, 0, SEEK_SET) = 0 <0.000002>
7 100.000010 write(3, \"\"..., 16384) = 16384 <0.000234>
8 100.000011 futex(0x1, FUTEX_WAIT <unfinished ...>
7 100.000300 fsync(3 <unfinished ...>
8 100.000310 <... futex resumed>) = 0 <0.000300>
7 100.000900 <... fsync resumed>)      = 0 <0.000590>
7 100.001000 exit_group(0)      = ?
nonsense
7 99 write(1) = 1 <x>
";

    #[test]
    fn system_calls_of_a_thread_are_read_also_in_two_lines() {
        let call = |start_ns, duration_ns| SystemCall { start_ns, duration_ns };
        let calls = SystemCall::parse(TEXT, 7, -99_000_000_000);
        assert_eq!(
            calls,
            [call(1_000_001_000, 2_000), call(1_000_010_000, 234_000), call(1_000_300_000, 590_000)]
        );
        let call = |start_ns, end_ns| Call { start_ns, end_ns };
        // The first call contains the system calls after the seek. The second contains none.
        let sums = within(&[call(1_000_009_500, 1_000_900_400), call(1_000_950_000, 1_000_951_000)], &calls);
        assert_eq!(sums, [Some(824_000), None]);
        assert!(SystemCall::parse("", 7, 0).is_empty());
    }
}
