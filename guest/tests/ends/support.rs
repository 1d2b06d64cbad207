//! The commands, started and judged, and what is done to them. Knows no test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use roundtrip_guest::mapped;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than any of them takes under emulation on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An environment variable of all processes of a command.
const MARK: &str = "ROUNDTRIP_ENDS=1";

const CGROUPS: &str = "/sys/fs/cgroup";
const MEMORY: &str = "/sys/fs/cgroup/little";
const DISK: &str = "/disk";

/// The static binary, which the job in the guest names.
fn roundtrip(args: &str) -> Command {
    let mut command = Command::new(std::env::var_os("ROUNDTRIP").expect("ROUNDTRIP names the binary"));
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command
}

/// A command in progress, with a folder for its output and its temporary files.
pub(crate) struct Running {
    pub(crate) child: Child,
    folder: PathBuf,
    what: String,
}

/// How it ended.
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    out: String,
    pub(crate) err: String,
    what: String,
}

impl Running {
    /// Starts a command that stores its run at `out`.
    pub(crate) fn start(args: &str, out: &Path) -> Self {
        let folder = PathBuf::from("/tmp/ended");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("tmp")).expect("a folder");
        let file = |name: &str| File::create(folder.join(name)).expect("a file");
        let (own, rest) = args.split_once(" -- ").map_or((args, ""), |(own, rest)| (own, rest));
        let mut command = roundtrip(own);
        command.arg("--out").arg(out);
        if !rest.is_empty() {
            command.arg("--").args(rest.split_whitespace());
        }
        let (name, value) = MARK.split_once('=').expect("a variable");
        command.env(name, value).env("TMPDIR", folder.join("tmp"));
        let child = command.stdout(file("out")).stderr(file("err")).spawn().expect("a program that starts");
        Self { child, folder, what: args.to_owned() }
    }

    pub(crate) fn end(mut self) -> End {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(Instant::now() < until, "{} hangs", self.what);
            sleep(Duration::from_millis(5));
        };
        let text = |name: &str| {
            String::from_utf8_lossy(&fs::read(self.folder.join(name)).expect("a file")).into_owned()
        };
        End { status, out: text("out"), err: text("err"), what: self.what }
    }
}

impl End {
    /// What a test says when something is wrong with it.
    pub(crate) fn finding(&self, what: &str) -> String {
        format!("{}: {what} ({})\n{}{}", self.what, self.status, self.out, self.err)
    }

    /// Checks that it neither crashed nor failed silently, and that nothing is left of it but what
    /// it stored.
    pub(crate) fn is_sound(&self) {
        assert!(!self.err.contains("panicked"), "{}", self.finding("it crashed"));
        let failed = self.status.code().is_some_and(|code| code != 0);
        assert!(!failed || !self.err.trim().is_empty(), "{}", self.finding("it failed without a word"));
        let left = soon_nothing(|| [processes(), instances(), temporary()].concat());
        assert_eq!(left, [] as [String; 0], "{}", self.finding("it left something"));
    }
}

/// Waits up to five seconds until `list` returns nothing. Returns what it returned last.
pub(crate) fn soon_nothing(list: impl Fn() -> Vec<String>) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let left = list();
        if left.is_empty() || Instant::now() > until {
            return left;
        }
        sleep(Duration::from_millis(10));
    }
}

pub(crate) fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The living processes of commands.
pub(crate) fn processes() -> Vec<String> {
    let is_ours = |pid: &String| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|&byte| byte == 0).any(|one| one == MARK.as_bytes())
    };
    let name = |pid: String| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or(pid);
    names("/proc").into_iter().filter(is_ours).map(name).collect()
}

/// The instances of the kernel's trace.
pub(crate) fn instances() -> Vec<String> {
    names("/sys/kernel/tracing/instances")
}

/// What lies in the temporary folder of the last command.
fn temporary() -> Vec<String> {
    names("/tmp/ended/tmp")
}

/// Calls that are observed, until this is dropped.
pub(crate) struct Calls(Child);

impl Calls {
    pub(crate) fn start() -> Self {
        let mut command =
            roundtrip("ipc latency --stack hwbinder --callers other --rate 500/s --duration 10m");
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let calls = Self(child.expect("a program that starts"));
        // It uses a device from the start, which the other commands then leave alone.
        sleep(Duration::from_secs(2));
        calls
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// A folder that is empty at first.
pub(crate) fn empty(path: &str) -> PathBuf {
    let path = PathBuf::from(path);
    let _ = fs::remove_dir_all(&path);
    path
}

/// Files and folders that do not have their final names, in a folder.
pub(crate) fn half_written(folder: &Path) -> Vec<PathBuf> {
    let below = names(folder).into_iter().map(|name| folder.join(name));
    below
        .flat_map(|path| {
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if hidden { vec![path] } else { half_written(&path) }
        })
        .collect()
}

/// A memory control group. Dropping it removes it.
pub(crate) struct LittleMemory;

impl LittleMemory {
    pub(crate) fn new(bytes: u64) -> Self {
        fs::write(format!("{CGROUPS}/cgroup.subtree_control"), "+memory").expect("a memory controller");
        fs::create_dir(MEMORY).expect("a control group");
        let memory = Self;
        memory.allow(bytes);
        memory
    }

    pub(crate) fn allow(&self, bytes: u64) {
        fs::write(format!("{MEMORY}/memory.max"), bytes.to_string()).expect("a limit");
    }

    pub(crate) fn used(&self) -> u64 {
        let used = fs::read_to_string(format!("{MEMORY}/memory.current")).expect("what is used");
        used.trim().parse().expect("a number")
    }

    /// What starts `running` is started in the group.
    pub(crate) fn around<T>(&self, start: impl FnOnce() -> T) -> T {
        let own = std::process::id().to_string();
        fs::write(format!("{MEMORY}/cgroup.procs"), &own).expect("a group to join");
        let started = start();
        fs::write(format!("{CGROUPS}/cgroup.procs"), &own).expect("a group to join");
        started
    }

    /// How many processes the kernel has killed here for lack of memory.
    pub(crate) fn killed(&self) -> u64 {
        let events = fs::read_to_string(format!("{MEMORY}/memory.events")).expect("events");
        let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        killed.and_then(|killed| killed.parse().ok()).expect("a number")
    }
}

impl Drop for LittleMemory {
    fn drop(&mut self) {
        let gone = soon_nothing(|| {
            fs::remove_dir(MEMORY).err().map(|error| error.to_string()).into_iter().collect()
        });
        assert_eq!(gone, [] as [String; 0], "the control group is empty");
    }
}

/// The disk, which fails until this is dropped.
pub(crate) struct Failing;

impl Failing {
    pub(crate) fn now() -> Self {
        mapped::set_failing(Path::new("/dev/vda1"), true).expect("a mapped disk");
        Self
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        unmount(DISK, UnmountFlags::empty()).expect("nothing in use");
        mapped::set_failing(Path::new("/dev/vda1"), false).expect("a mapped disk");
        mount("/dev/dm-0", DISK, "ext4", MountFlags::empty(), None).expect("a file system");
    }
}
