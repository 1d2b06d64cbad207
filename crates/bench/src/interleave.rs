//! Runs two programs that store runs alternately, many times each. The two runs of a pair follow
//! each other directly, and their order is shuffled, so that changes on the machine affect both.
//! Must not know what the programs measure.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::error::{Error, Result};
use crate::kernel::kills::Kills;
use crate::progress::Progress;
use crate::schedule::shuffle::Shuffle;
use crate::worker::{Interrupts, die_with_parent};

/// How long a program may clean up after a signal.
const GRACE: Duration = Duration::from_secs(15);

/// How often to check whether a program has ended, if the kernel cannot report it (before Linux
/// 5.3).
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// One of the two programs.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Its name in messages, and the directory of its runs: "a".
    pub name: &'static str,
    /// A program and its arguments, to which `--out DIRECTORY` is added.
    pub command: Vec<OsString>,
    /// A command line that a shell executes before each run, outside the measurement.
    pub before: Option<String>,
}

/// Values of one option that both programs get, one after the other.
#[derive(Debug, Clone)]
pub struct Scan {
    /// The option, without dashes: "sizes".
    pub option: String,
    /// Its values.
    pub values: Vec<String>,
}

/// Runs both programs equally often, in pairs, and stores the runs in `DIRECTORY/NAME/0001` and so
/// on. Every second pair has the opposite order of the pair before it, so that each program runs
/// first equally often. With a scan, a pair is one run of each program for each value, stored as
/// `DIRECTORY/NAME/0001/OPTION=VALUE`. The programs' standard output is discarded.
///
/// Returns the number of complete pairs: all of them, unless a signal arrived.
///
/// # Errors
/// [`Error::Subject`] if a program cannot be started or fails, [`Error::File`] if the directories
/// cannot be created.
pub fn interleave(
    subjects: &[Subject; 2],
    scan: Option<&Scan>,
    pairs: u64,
    directory: &Path,
    interrupts: &Interrupts,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<u64> {
    for subject in subjects {
        let of = directory.join(subject.name);
        std::fs::create_dir(&of).map_err(|cause| Error::file("create", &of, cause))?;
    }
    let values: Vec<Option<(&str, &str)>> = match scan {
        Some(Scan { option, values }) => values.iter().map(|value| Some((&**option, &**value))).collect(),
        None => vec![None],
    };
    let runs = 2 * values.len() as u64;
    let mut shuffle = Shuffle::new();
    let mut order = shuffle.order(2);
    for pair in 0..pairs {
        if pair % 2 == 0 {
            order = shuffle.order(2);
        } else {
            order.reverse();
        }
        let each = values.iter().flat_map(|value| order.iter().map(move |&which| (*value, which)));
        for (done, (value, which)) in (0..).zip(each) {
            let subject = &subjects[which];
            let value_text = value.map_or_else(String::new, |(_, value)| format!(", {value}"));
            let what = format!("pair {} of {pairs}, {}{value_text}", pair + 1, subject.name);
            progress(Progress { what: &what, done: runs * pair + done, total: runs * pairs });
            match subject.run(pair + 1, value, directory, interrupts) {
                Err(Error::Interrupted { .. }) => return Ok(pair),
                result => result?,
            }
        }
    }
    Ok(pairs)
}

/// Executes a command line in a shell, and waits for it.
fn shell(name: &'static str, line: &str, interrupts: &Interrupts) -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    execute(name, &mut command, interrupts)
}

impl Subject {
    fn run(
        &self,
        number: u64,
        value: Option<(&str, &str)>,
        directory: &Path,
        interrupts: &Interrupts,
    ) -> Result<()> {
        interrupts.check()?;
        if let Some(line) = &self.before {
            shell(self.name, line, interrupts)?;
        }
        let [program, arguments @ ..] = &self.command[..] else {
            return Err(Error::Subject { name: self.name, how: "is an empty command line".to_owned() });
        };
        // Names that sort in numerical order.
        let mut out = directory.join(self.name).join(format!("{number:04}"));
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some((option, value)) = value {
            std::fs::create_dir_all(&out).map_err(|cause| Error::file("create", &out, cause))?;
            out.push(format!("{option}={value}"));
            command.arg(format!("--{option}")).arg(value);
        }
        command.arg("--out").arg(&out);
        execute(self.name, &mut command, interrupts)?;
        if out.join(roundtrip_run::FILE_NAME).is_file() {
            return Ok(());
        }
        let how = "succeeded but stored no run: it must be, or end with, a command of this program that takes --out";
        Err(Error::Subject { name: self.name, how: how.to_owned() })
    }
}

fn execute(name: &'static str, command: &mut Command, interrupts: &Interrupts) -> Result<()> {
    let cannot = |cause| Error::system("keep a program's error output", cause);
    let complaints = rustix::fs::memfd_create("complaints", rustix::fs::MemfdFlags::CLOEXEC);
    let complaints = File::from(complaints.map_err(|errno| cannot(errno.into()))?);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(complaints.try_clone().map_err(cannot)?);
    die_with_parent(command, Signal::TERM);
    let kills = Kills::now();
    let mut child = command.spawn().map_err(|cause| {
        let program = command.get_program().to_string_lossy();
        Error::Subject { name, how: format!("cannot be started: {program}: {cause}") }
    })?;
    let status = wait(&mut child, interrupts)?;
    if status.success() {
        return Ok(());
    }
    let said = last_line(complaints).map(|line| format!(": {line}")).unwrap_or_default();
    Err(Error::Subject { name, how: format!("failed ({status}){said}{}", kills.behind(status)) })
}

/// Waits for the end of a program. After a signal to this process, sends it SIGTERM, and after
/// [`GRACE`] SIGKILL.
fn wait(child: &mut Child, interrupts: &Interrupts) -> Result<ExitStatus> {
    let failed = |cause: std::io::Error| Error::system("wait for a program", cause);
    let pid = Pid::from_child(child);
    let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return interrupts.check().map(|()| status);
        }
        match (asked, interrupts.check()) {
            (None, Err(Error::Interrupted { .. })) => {
                let _ = rustix::process::kill_process(pid, Signal::TERM);
                asked = Some(Instant::now());
            }
            (Some(since), _) if since.elapsed() > GRACE => child.kill().map_err(failed)?,
            _ => {}
        }
        let mut events: Vec<PollFd<'_>> = Vec::new();
        events.extend(ended.as_ref().map(|ended| PollFd::new(ended, PollFlags::IN)));
        // Once a signal has arrived, it stays readable.
        if asked.is_none() {
            events.push(PollFd::from_borrowed_fd(interrupts.as_fd(), PollFlags::IN));
        }
        let at_most = (asked.is_some() || ended.is_none()).then_some(&LOOK_EVERY);
        match poll(&mut events, at_most) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
    }
}

/// The last non-empty line within the last few kilobytes.
fn last_line(mut complaints: File) -> Option<String> {
    const MOST: u64 = 4096;
    let length = complaints.metadata().ok()?.len();
    complaints.seek(SeekFrom::Start(length.saturating_sub(MOST))).ok()?;
    let mut bytes = Vec::new();
    complaints.take(MOST).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}
