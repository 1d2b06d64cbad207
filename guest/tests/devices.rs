//! `roundtrip` on devices that are busy, have a context manager, or must not be opened. Each
//! refusal is one line that says what, where and how to fix it, with a failure's exit status, and
//! leaves nothing running or locked.
//!
//! These tests run sequentially in a guest (`cargo xtask guests`), beside the static binary. They
//! are not with the program's other tests because a test of that package would build the whole
//! program again for each guest.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use roundtrip_binder_driver::Driver as _;
use roundtrip_binder_driver::kernel::{Kernel, PrivateBinderfs};
use roundtrip_skips::{Need, skip};
use rustix::process::{Pid, Signal};

const DEVICES: [&str; 3] = ["/dev/binder", "/dev/hwbinder", "/dev/vndbinder"];
/// Android's shell user, without capabilities.
const SHELL: u32 = 2000;

/// The static binary, which the job in the guest names.
fn roundtrip(args: &str) -> Command {
    let mut command = Command::new(std::env::var_os("ROUNDTRIP").expect("ROUNDTRIP names the binary"));
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command
}

/// A short measurement on one stack, with additional options.
fn measure(args: &str) -> Command {
    roundtrip(&format!("ipc throughput --stack binder --sizes 4 --min-time 0.01s {args}"))
}

/// The only line of a command that must fail.
fn refusal(mut command: Command) -> String {
    // Sequential, because other tests' processes would look like leftovers of this one.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    let output = command.output().expect("a program that starts");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(output.stdout.is_empty(), "nothing but the line: {:?}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(children(), Vec::<String>::new(), "something was left running");
    said.trim_end().strip_prefix("roundtrip: ").expect("the program's name").to_owned()
}

/// The output and the warnings of a command that must succeed.
fn success(mut command: Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().expect("a program that starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let (out, err) = (text(stdout), text(stderr));
    assert!(status.success(), "{err}");
    (out, err)
}

/// The command lines of all processes whose parent is this test or has ended.
fn children() -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    entries
        .filter(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let behind_name: Vec<_> =
                stat.rsplit(')').next().unwrap_or_default().split_whitespace().take(2).collect();
            behind_name.get(1) == Some(&own.as_str())
        })
        .map(|entry| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default())
        .collect()
}

/// Makes this process the context manager of a device, like a phone's service manager.
fn manager_of(path: &str) -> Kernel {
    let since = Instant::now();
    loop {
        let device = Kernel::open(path, 4096).expect(path);
        match device.become_context_manager(0) {
            Ok(()) => return device,
            // The driver cleans up some time after the end of a process.
            Err(error) => assert!(since.elapsed() < Duration::from_secs(20), "{path}: {error}"),
        }
        drop(device);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether any process holds the lock on a device. Trying to lock it would make a simultaneous
/// attempt by a run fail.
fn is_locked(path: &str) -> bool {
    let inode = format!(":{}", fs::metadata(path).expect(path).ino());
    let locks = fs::read_to_string("/proc/locks").expect("/proc/locks");
    // `1: FLOCK  ADVISORY  WRITE 708 00:05:13 0 EOF` (proc_locks(5)). Waiting requests have an
    // arrow.
    locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|words| {
        words.get(1) == Some(&"FLOCK") && words.get(5).is_some_and(|place| place.ends_with(&inode))
    })
}

fn has_binderfs() -> bool {
    PrivateBinderfs::mount().is_ok()
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn a_device_that_another_run_uses_is_refused_until_that_run_ends() {
    let device = "/dev/hwbinder";
    // The previous user may have ended only just now.
    let driver = Kernel::open(device, 4096).expect(device);
    while driver.has_context_manager().expect(device) {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(driver);
    let mut other = roundtrip(&format!("ipc throughput --stack binder --min-time 10m --device {device}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a program that starts");
    while !is_locked(device) {
        if let Some(status) = other.try_wait().expect("a child") {
            let mut said = String::new();
            other.stderr.take().expect("it is piped").read_to_string(&mut said).expect("UTF-8");
            panic!("the other run ended with {status} before it locked {device}: {said}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut command = measure(&format!("--device {device}"));
    let output = command.output().expect("a program that starts");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(
        said,
        format!(
            "roundtrip: another run of Roundtrip uses {device}: wait until it ends, or name another device\n"
        )
    );
    rustix::process::kill_process(Pid::from_child(&other), Signal::TERM).expect("a running child");
    assert_eq!(other.wait().expect("a child").code(), Some(143), "ended by SIGTERM, in order");
    assert!(!is_locked(device));
    let (out, _) = success(command);
    assert!(out.contains(&format!("kernel driver at {device} (protocol 8")), "{out}");
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn a_device_with_a_context_manager_is_left_alone() {
    let device = "/dev/vndbinder";
    let manager = manager_of(device);
    assert_eq!(
        refusal(measure(&format!("--device {device}"))),
        format!(
            "{device} already has a context manager, which Roundtrip does not disturb: name another device, or run as root on a kernel with binderfs"
        )
    );
    assert!(!is_locked(device));
    drop(manager);
    let (out, _) = success(measure(&format!("--device {device}")));
    assert!(out.contains(&format!("kernel driver at {device} (")), "{out}");
}

/// Like a running Android: every device has its service manager.
#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn on_a_phone_root_gets_a_private_binderfs_and_others_the_emulated_driver() {
    let _managers = DEVICES.map(manager_of);
    // On Android, every user may open them.
    for device in DEVICES {
        fs::set_permissions(device, Permissions::from_mode(0o666)).expect(device);
    }
    let as_shell = |args: &str| {
        let mut command = measure(args);
        command.uid(SHELL).gid(SHELL);
        command
    };
    let mount = if has_binderfs() {
        let (out, _) = success(measure("--driver kernel"));
        assert!(out.contains("kernel driver on a private binderfs (protocol 8"), "{out}");
        assert!(success(measure("")).0.contains("kernel driver on a private binderfs"));
        "Operation not permitted (os error 1); only root may do this, and SELinux may refuse it"
    } else {
        let said = refusal(measure("--driver kernel"));
        assert!(said.contains("this kernel has no binderfs (CONFIG_ANDROID_BINDERFS)"), "{said}");
        "; only root may do this, and SELinux may refuse it"
    };
    let said = refusal(as_shell("--driver kernel"));
    let start = "no binder device of the kernel is usable: cannot mount a private binderfs: ";
    assert!(said.starts_with(start) && said.contains(mount), "{said}");
    for device in DEVICES {
        assert!(said.contains(&format!("; {device} already has a context manager")), "{said}");
    }
    let (out, err) = success(as_shell(""));
    assert!(out.contains("emulated driver (ack profile)"), "{out}");
    let warned = format!("{out}{err}");
    assert!(warned.contains("the kernel's driver was not used: ") && warned.contains(mount), "{warned}");
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn a_device_without_permission_is_named_in_the_error() {
    let device = "/dev/hwbinder";
    fs::set_permissions(device, Permissions::from_mode(0o600)).expect(device);
    let mut command = measure(&format!("--device {device}"));
    command.uid(SHELL).gid(SHELL);
    assert_eq!(
        refusal(command),
        format!(
            "cannot open {device}: Permission denied (os error 13); run as root, or allow it (SELinux and the user of the first context manager decide)"
        )
    );
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn a_device_on_a_binderfs_is_used_by_its_path() {
    let device = "/dev/binderfs/hwbinder";
    if !has_binderfs() {
        assert!(!Path::new(device).exists());
        return skip(Need::Machine, "this kernel has no binderfs");
    }
    let (out, _) = success(measure(&format!("--device {device}")));
    assert!(out.contains(&format!("kernel driver at {device} (protocol 8")), "{out}");
    assert!(out.contains("freeze notification"), "as the binderfs lists it: {out}");
}
