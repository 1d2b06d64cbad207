//! A command under attack: how it is started, how long it may take, and what is checked afterwards.

use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::attack::Folder;

/// An environment variable of all processes of a victim, which marks processes that outlive it.
const MARK: &str = "ROUNDTRIP_ATTACKED";

/// Longer than any command takes on the slowest machine. A command that runs longer is a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running command in its own process group, with its own folders.
pub(crate) struct Victim {
    child: Child,
    mark: String,
    folder: Folder,
    what: String,
}

/// The result of a command under attack.
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// The command, for a message.
    what: String,
    /// Its processes that are still alive.
    survivors: Vec<String>,
    /// Files that it left in its folder.
    pub(crate) files: Vec<PathBuf>,
}

/// The program with these arguments.
pub(crate) fn roundtrip(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(args.split_whitespace());
    command
}

impl Victim {
    /// Starts a command in this folder, which also contains its temporary and run-time directories.
    pub(crate) fn start(mut command: Command, folder: Folder) -> Self {
        let mark = format!("{:x}", fastrand::u128(..));
        let place = folder.path();
        for name in ["work", "tmp", "run"] {
            std::fs::create_dir_all(place.join(name)).unwrap();
        }
        let to = |name: &str| Stdio::from(File::create(place.join(name)).unwrap());
        command
            .current_dir(place.join("work"))
            .env("TMPDIR", place.join("tmp"))
            .env("XDG_RUNTIME_DIR", place.join("run"))
            .env(MARK, &mark)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(to("stdout"))
            .stderr(to("stderr"));
        let what = format!("{command:?}");
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
        Self { child, mark, folder, what }
    }

    /// Sends a signal to it or, like a terminal, to its process group.
    pub(crate) fn signal(&self, signal: Signal, group: bool) {
        let pid = Pid::from_child(&self.child);
        // It may have ended.
        let _ =
            if group { kill_process_group(pid, signal) } else { rustix::process::kill_process(pid, signal) };
    }

    /// Waits for its end. If it hangs, it is killed, and the test fails.
    pub(crate) fn end(mut self) -> Result<End, String> {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > until => return Err(self.hangs()),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let place = self.folder.path();
        let (stdout, stderr) = (std::fs::read(place.join("stdout")).unwrap(), self.stderr());
        let survivors = self.survivors();
        self.signal(Signal::KILL, true);
        let mut files = Vec::new();
        for name in ["work", "tmp", "run"] {
            list(&place.join(name), place, &mut files);
        }
        Ok(End { status, stdout, stderr, what: self.what, survivors, files })
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.path().join("stderr")).unwrap()).into_owned()
    }

    fn hangs(mut self) -> String {
        self.signal(Signal::KILL, true);
        let _ = self.child.wait();
        format!("{}\n  does not end; its message: {}", self.what, self.stderr())
    }

    /// Its processes that are still alive after a grace period.
    fn survivors(&self) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let alive = marked(&self.mark);
            if alive.is_empty() || Instant::now() > until {
                return alive;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The living processes with this mark: pid and name.
fn marked(mark: &str) -> Vec<String> {
    let entry = format!("{MARK}={mark}");
    let mut alive = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(environ) = std::fs::read(process.path().join("environ")) else { continue };
        if environ.split(|&byte| byte == 0).any(|one| one == entry.as_bytes()) {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            alive.push(format!("{} {}", process.file_name().to_string_lossy(), name.trim()));
        }
    }
    alive
}

fn list(folder: &Path, place: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        files.push(path.strip_prefix(place).unwrap().to_owned());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&path, place, files);
        }
    }
}

impl End {
    /// Checks what must hold for every command after any attack: it did not crash, its output is
    /// plain text, a failure is reported, and none of its processes is alive. `signals` may have
    /// killed it.
    pub(crate) fn is_sound(&self, signals: &[Signal]) -> Result<(), String> {
        let crashed = self.status.code() == Some(101) || self.stderr.contains("panicked at");
        let died = self.status.signal().filter(|signal| !signals.iter().any(|one| one.as_raw() == *signal));
        if crashed || died.is_some() {
            return Err(self.finding("it crashed"));
        }
        let reported = !self.stderr.trim().is_empty();
        if self.status.code().is_some_and(|code| code != 0) && !reported {
            return Err(self.finding("it failed without a message"));
        }
        let raw = |byte: &u8| byte.is_ascii_control() && !b"\n\t".contains(byte);
        if self.stderr.as_bytes().iter().any(raw) || self.stdout.iter().any(raw) {
            return Err(self.finding("it wrote control characters"));
        }
        if !self.survivors.is_empty() {
            return Err(self.finding(&format!("its processes are still alive: {:?}", self.survivors)));
        }
        Ok(())
    }

    /// Like [`End::is_sound`], and it left no files.
    pub(crate) fn is_clean(&self, signals: &[Signal]) -> Result<(), String> {
        self.is_sound(signals)?;
        if self.files.is_empty() { Ok(()) } else { Err(self.left()) }
    }

    /// A message about files that it left: the first few.
    pub(crate) fn left(&self) -> String {
        let few: Vec<_> = self.files.iter().take(4).collect();
        self.finding(&format!("it left {} files: {few:?} ...", self.files.len()))
    }

    pub(crate) fn finding(&self, what: &str) -> String {
        let message: String = self.stderr.chars().take(2000).collect();
        format!("{}\n  {what} ({}); its message: {}", self.what, self.status, message.escape_debug())
    }
}
