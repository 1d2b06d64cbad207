//! The first process of a guest: mounts what programs expect, loads the binder driver and those of
//! a scratch disk, runs the job's programs, reports, and restarts the machine, which ends QEMU.
//! Panics on failure: the kernel's panic that follows ends the guest, and the console shows why.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use roundtrip_guest::archive::{Kind, Writer};
use roundtrip_guest::wire;
use rustix::mount::MountFlags;
use rustix::system::RebootCommand;
use rustix::termios::OptionalActions;

fn main() {
    mount();
    let text = |path: &str| fs::read_to_string(Path::new("/").join(path)).expect(path);
    let ports = text(wire::PORTS);
    let mut ports = ports.lines().map(port);
    let mut next = || ports.next().expect("three serial ports");
    let (out, err, mut report) = (next(), next(), next());
    load_modules();
    make_devices();
    name_ufs_controller();
    mount_disk();
    report.write_all(wire::STARTED.as_bytes()).expect("the report's port");
    let ended = run_all(&out, &err);
    let mut archive = Writer::default();
    archive.add(wire::ENDED, Kind::File, ended.as_bytes());
    collect(&mut archive, wire::OUT);
    report.write_all(&archive.finish()).expect("the report's port");
    for port in [out, err, report] {
        rustix::termios::tcdrain(&port).expect("a serial port");
    }
    rustix::system::reboot(RebootCommand::Restart).expect("restart");
}

fn mount() {
    for (kind, at) in [
        ("devtmpfs", "/dev"),
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("debugfs", "/sys/kernel/debug"),
        ("tracefs", "/sys/kernel/tracing"),
        ("cgroup2", "/sys/fs/cgroup"),
        ("tmpfs", "/run"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/out"),
        ("tmpfs", "/dev/shm"),
        ("mqueue", "/dev/mqueue"),
    ] {
        let _ = fs::create_dir_all(at);
        // A kernel may lack one of them if the program does not need it.
        let _ = rustix::mount::mount(kind, at, kind, MountFlags::empty(), None);
    }
}

/// A serial port that passes bytes on unchanged.
fn port(name: &str) -> File {
    let port = File::options().read(true).write(true).open(Path::new("/dev").join(name)).expect(name);
    let mut settings = rustix::termios::tcgetattr(&port).expect(name);
    settings.make_raw();
    rustix::termios::tcsetattr(&port, OptionalActions::Now, &settings).expect(name);
    port
}

fn load_modules() {
    let Ok(modules) = fs::read_dir(Path::new("/").join(wire::MODULES)) else { return };
    let mut modules: Vec<_> = modules.filter_map(|entry| Some(entry.ok()?.path())).collect();
    modules.sort();
    for module in modules {
        let bytes = fs::read(&module).expect("a module");
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        let parameters: Vec<String> = if name.contains("binder") {
            // Kernels differ in how many devices they can number; the first three are needed, the
            // others are for tests.
            [wire::CASE_DEVICES, 16, 0].map(devices).to_vec()
        } else if name.ends_with("nvme.ko") {
            // A further queue without an interrupt, for polled requests.
            vec!["poll_queues=1".to_owned()]
        } else {
            vec![String::new()]
        };
        let load = |parameters: &String| {
            let parameters = std::ffi::CString::new(parameters.as_str()).expect("no zero bytes");
            rustix::system::init_module(&bytes, &parameters)
        };
        let mut result = Err(rustix::io::Errno::NOEXEC);
        for parameters in &parameters {
            result = result.or_else(|_| load(parameters));
        }
        assert!(result.is_ok(), "cannot load {}: {result:?}", module.display());
    }
}

fn devices(cases: usize) -> String {
    let cases = (0..cases).map(|number| format!("case{number}"));
    let all: Vec<String> = wire::DEVICES.map(str::to_owned).into_iter().chain(cases).collect();
    format!("devices={}", all.join(","))
}

/// If the kernel has binderfs, mounts it where Android does.
fn make_devices() {
    let at = "/dev/binderfs";
    fs::create_dir_all(at).expect(at);
    if rustix::mount::mount("binder", at, "binder", MountFlags::empty(), None).is_err() {
        return;
    }
    for name in wire::DEVICES {
        let _ = symlink(format!("{at}/{name}"), format!("/dev/{name}"));
    }
}

/// Tells the UFS driver, where it is loaded, of QEMU's controller, which Linux knows by itself
/// since 6.6.
fn name_ufs_controller() {
    const QEMU: &str = "1b36 0013";
    // This fails on kernels that already know the controller.
    let _ = fs::write("/sys/bus/pci/drivers/ufshcd/new_id", QEMU);
}

/// Mounts the scratch disk, if there is one, as soon as its driver has found it.
fn mount_disk() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let Ok(asked) = fs::read_to_string(Path::new("/").join(wire::DISK)) else { return };
    let (partition, mapped) = asked.split_once(' ').map_or((asked.as_str(), false), |(name, _)| (name, true));
    let partition = Path::new("/dev").join(partition);
    let begin = Instant::now();
    while !partition.exists() {
        assert!(begin.elapsed() < PATIENCE, "no driver has found {}", partition.display());
        std::thread::sleep(Duration::from_millis(10));
    }
    let device =
        if mapped { roundtrip_guest::mapped::map(&partition).expect("a mapped device") } else { partition };
    let at = Path::new("/").join(wire::MOUNTED);
    fs::create_dir_all(&at).expect("a mount point");
    let mounted = rustix::mount::mount(&device, &at, "ext4", MountFlags::empty(), None);
    assert!(mounted.is_ok(), "cannot mount {}: {mounted:?}", device.display());
}

/// Runs the programs in order, until one fails. Returns how the last of them ended.
fn run_all(mut out: &File, mut err: &File) -> String {
    let environment = zero_ended(wire::ENVIRONMENT).unwrap_or_default();
    let mut ended = "error there is no program".to_owned();
    for number in 0.. {
        let Ok(arguments) = zero_ended(&format!("{}{number}", wire::ARGUMENTS)) else { break };
        if number > 0 {
            out.write_all(wire::NEXT.as_bytes()).expect("standard output's port");
            err.write_all(wire::NEXT.as_bytes()).expect("standard error's port");
        }
        let child = start(&arguments, &environment, out, err);
        ended = child.map_or_else(|error| format!("error {error}"), wait);
        if ended != "exit 0" {
            break;
        }
    }
    ended
}

fn zero_ended(file: &str) -> std::io::Result<Vec<String>> {
    fs::read(Path::new("/").join(file)).map(|bytes| wire::split(&bytes))
}

fn start(arguments: &[String], environment: &[String], out: &File, err: &File) -> std::io::Result<Child> {
    let set = environment.iter().filter_map(|line| line.split_once('='));
    // Under its own name: a program may answer to several.
    Command::new(Path::new("/").join(wire::WORK).join(&arguments[0]))
        .arg0(&arguments[0])
        .args(&arguments[1..])
        .env_clear()
        .envs([("PATH", "/work"), ("HOME", "/work"), ("TMPDIR", "/tmp"), ("LANG", "C")])
        .envs(set)
        .current_dir(Path::new("/").join(wire::WORK))
        .stdin(File::open("/dev/null")?)
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?)
        .spawn()
}

fn wait(mut child: Child) -> String {
    describe(child.wait().expect("a child to wait for"))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("error {status}"),
    }
}

/// Adds a folder, relative to the root, to the report.
fn collect(archive: &mut Writer, folder: &str) {
    archive.add(folder, Kind::Folder, b"");
    let Ok(entries) = fs::read_dir(Path::new("/").join(folder)) else { return };
    for entry in entries.filter_map(Result::ok) {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{folder}/{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(archive, &path),
            Ok(kind) if kind.is_file() => {
                archive.add(&path, Kind::File, &fs::read(entry.path()).unwrap_or_default());
            }
            _ => {}
        }
    }
}
