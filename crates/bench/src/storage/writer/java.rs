//! The writer on a Java virtual machine: runs `SyncWriter.java` from its source, sends it orders,
//! and converts its times to CLOCK_BOOTTIME. Must not know what the times are used for.

use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write as _};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustix::time::{ClockId, clock_gettime};

use super::{Application, Block, WriterJob, failed};
use crate::clock::now_ns;
use crate::error::{Disturbance, Error, JavaFault, Result};
use crate::sched;
use crate::worker::{Link, signal_name, supervise};
use roundtrip_run::storage::Java;
use roundtrip_run::storage::{Call, Opened};

/// The source of the program, which the virtual machine compiles.
const SOURCE: &str = include_str!("../../../../../java/SyncWriter.java");

/// Whether the program that starts Java exists. Looks in PATH, as a shell does.
#[must_use]
pub fn exists(java: &Java) -> bool {
    let program = program(java);
    if program.is_empty() {
        return false;
    }
    if program.contains('/') {
        return Path::new(program).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

fn program(java: &Java) -> &str {
    java.command.first().map_or("", String::as_str)
}

/// The error if the program that starts Java does not exist.
#[must_use]
pub fn missing(java: &Java) -> JavaFault {
    JavaFault::Missing { program: program(java).to_owned() }
}

fn has_class_path(java: &Java) -> bool {
    java.command.iter().any(|word| {
        ["-cp", "-classpath", "--class-path"].contains(&word.as_str())
            || word.starts_with("-Djava.class.path")
    })
}

/// A running virtual machine.
#[derive(Debug)]
pub(super) struct Machine {
    /// The supervisor of the virtual machine.
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    complaints: BufReader<ChildStderr>,
    opened: Opened,
}

impl Machine {
    pub(super) fn start(job: &WriterJob, path: &str, link: &Link) -> Result<Self> {
        let java = &job.java;
        let cannot = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => missing(java).into(),
            _ => Error::system(format!("start {}", program(java)), error),
        };
        let source = rustix::fs::memfd_create("SyncWriter.java", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|cause| Error::system("store the Java program", cause))?;
        let mut source = std::fs::File::from(source);
        source
            .write_all(SOURCE.as_bytes())
            .map_err(|cause| Error::system("store the Java program", cause))?;
        let [program, arguments @ ..] = &java.command[..] else {
            return Err(Error::NoJavaCommand);
        };
        let mut command = Command::new(program);
        command.args(arguments);
        if has_class_path(java) {
            command.arg("SyncWriter");
        } else {
            let source = format!("/proc/{}/fd/{}", std::process::id(), source.as_raw_fd());
            // Without the suffix .java, the release must be given.
            command.args(["--source", "11", &source]);
        }
        command.args([path, job.api.name(), job.durability.name()]);
        // Writers are killed when a run ends early. Without a supervisor, the virtual machine would
        // continue to the end of its block, and one that was started by a script would continue
        // forever.
        supervise(&mut command, link);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let (Some(orders), Some(answers), Some(complaints)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three were asked for");
        };
        let opened = Opened { pid: 0, tid: 0, runtime: None };
        let mut machine = Self {
            child,
            orders,
            answers: BufReader::new(answers),
            complaints: BufReader::new(complaints),
            opened,
        };
        let tid = machine.text()?;
        machine.opened.tid = tid.parse().map_err(|_| JavaFault::NoThreadId { tid: tid.clone() })?;
        machine.opened.pid = process_of(machine.opened.tid).ok_or(JavaFault::NoSuchThread { tid })?;
        machine.opened.runtime = Some(machine.text()?);
        machine.check_clock()?;
        if let Some(scheduling) = job.scheduling {
            sched::set_scheduling(machine.opened.tid, scheduling)?;
        }
        Ok(machine)
    }

    /// Checks that `System.nanoTime` is CLOCK_MONOTONIC. It is on every Java for Linux that we
    /// know, but no standard requires it.
    fn check_clock(&mut self) -> Result<()> {
        let before = monotonic_ns();
        self.order("clock")?;
        self.status()?.map_err(|error| JavaFault::NoClock { said: error.to_string() })?;
        let clock_ns = self.number()?;
        if (before..=monotonic_ns()).contains(&clock_ns) {
            return Ok(());
        }
        Err(JavaFault::OtherClock.into())
    }

    fn order(&mut self, line: &str) -> Result<()> {
        let written = writeln!(self.orders, "{line}").and_then(|()| self.orders.flush());
        written.map_err(|error| self.died(error))
    }

    /// Reads the first word of an answer: success, or what went wrong.
    fn status(&mut self) -> Result<std::result::Result<(), String>> {
        match self.bytes::<4>()? {
            [0, 0, 0, 0] => Ok(Ok(())),
            _ => Ok(Err(self.text()?)),
        }
    }

    fn number(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.bytes()?))
    }

    /// Reads what `DataOutput.writeUTF` writes. Only ASCII is expected.
    fn text(&mut self) -> Result<String> {
        let mut text = vec![0; usize::from(u16::from_be_bytes(self.bytes()?))];
        let read = self.answers.read_exact(&mut text);
        read.map_err(|error| self.died(error))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        let read = self.answers.read_exact(&mut bytes);
        read.map_err(|error| self.died(error))?;
        Ok(bytes)
    }

    /// Ends the virtual machine and everything that it has started, unless it ends by itself within
    /// `grace`.
    fn end(&mut self, grace: Duration) -> std::io::Result<ExitStatus> {
        let until = Instant::now() + grace;
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(status),
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                None => break,
            }
        }
        // Fails only if it has ended. It is not reaped yet, so its pid is still valid.
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
        self.child.wait()
    }

    /// Why the virtual machine no longer answers: how it ended, and its first error message.
    fn died(&mut self, error: std::io::Error) -> Error {
        // Its pipes close a moment before it ends. Wait to learn how it ended.
        let ended = self.end(Duration::from_millis(500));
        // The supervisor exits with 128 plus the signal's number.
        let signal = ended.as_ref().ok().and_then(|status| status.code()).map(|code| code - 128);
        if let Some(signal) = signal.filter(|signal| (1..=64).contains(signal) && *signal != libc::SIGTERM) {
            return JavaFault::Killed { signal: signal_name(signal) }.into();
        }
        let how = ended.map_or_else(|_| error.to_string(), |status| status.to_string());
        let mut complaint = String::new();
        let _ = self.complaints.read_line(&mut complaint);
        JavaFault::Ended { how, complaint: complaint.trim().to_owned() }.into()
    }
}

impl Application for Machine {
    fn opened(&self) -> Opened {
        self.opened.clone()
    }

    fn write(&mut self, block: Block, until: u64) -> Result<Vec<Call>> {
        let before = boot_less_monotonic_ns();
        let Block { size_bytes, calls, warm_up } = block;
        self.order(&format!("block {size_bytes} {calls} {warm_up} 0 {until}"))?;
        self.status()?.map_err(|error| failed(block, error))?;
        let times: Vec<[u64; 2]> =
            (0..calls).map(|_| Ok([self.number()?, self.number()?])).collect::<Result<_>>()?;
        let after = boot_less_monotonic_ns();
        if before.abs_diff(after) > CLOCKS_AGREE_NS {
            return Err(Disturbance::Suspended.into());
        }
        let boot = |monotonic_ns: u64| monotonic_ns.saturating_add_signed(before.midpoint(after));
        Ok(times.into_iter().map(|[start, end]| Call { start_ns: boot(start), end_ns: boot(end) }).collect())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.end(Duration::ZERO);
    }
}

/// The process of a thread (proc_pid_status(5)). This is Java even if a script started it.
fn process_of(tid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// How much two readings of the clocks' difference may differ, in nanoseconds. Only a suspend
/// changes it.
const CLOCKS_AGREE_NS: u64 = 2_000;

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_BOOTTIME minus CLOCK_MONOTONIC, in nanoseconds: the time suspended since boot. Takes the
/// narrowest of several tries, which is accurate to half its width.
fn boot_less_monotonic_ns() -> i64 {
    let tries = (0..20).map(|_| {
        let (first, monotonic, last) = (monotonic_ns(), now_ns(), monotonic_ns());
        (last - first, monotonic.cast_signed() - first.midpoint(last).cast_signed())
    });
    tries.min().map_or(0, |(_, difference)| difference)
}
