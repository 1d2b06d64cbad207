//! Runs a job in a guest: makes its folder, starts QEMU, passes on what the program writes, and
//! reads the report.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::arch::Arch;
use crate::archive::{self, Kind, Writer};
use crate::disk::{Disk, IMAGE};
use crate::folder::Folder;
use crate::job::{End, Job};
use crate::kernel::{Kernel, require};
use crate::qemu::{Accelerator, Clock, INITRD, LOGS, command};
use crate::sys::die_with_parent;
use crate::wire;

/// The longest time until the kernel starts the first process.
const BOOT: Duration = Duration::from_secs(120);
/// The same with KVM, after which emulation is tried.
const BOOT_KVM: Duration = Duration::from_secs(15);

/// Boots `kernel`, runs `job` with `init` as the first process, and passes on what its programs
/// write while they do. Says on `err` when KVM is there and does not work. Returns how the last
/// program that ran ended.
///
/// # Errors
/// When QEMU is missing, the guest does not come up, or it dies before the program ends; with the
/// console's last lines.
pub fn run(
    kernel: &Kernel,
    init: &Path,
    job: &Job,
    clock: Clock,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<End> {
    require(&kernel.image)?;
    let disk = initial_disk(kernel, init, job)?;
    let order = order(kernel.arch, clock, kvm_may_work());
    in_order(order, &kernel.name, err, remember_that_kvm_fails, |accelerator, err| {
        attempt(kernel, &disk, job, clock, accelerator, out, err)
    })
}

/// The accelerators to try, in order. Only emulation can count instructions or run another
/// architecture.
fn order(arch: Arch, clock: Clock, kvm: bool) -> &'static [Accelerator] {
    if kvm && clock == Clock::Wall && arch.name() == std::env::consts::ARCH {
        &[Accelerator::Kvm, Accelerator::Tcg]
    } else {
        &[Accelerator::Tcg]
    }
}

/// Returns the end of the first attempt whose guest comes up. Reports a failure of KVM, and
/// remembers it unless the kernel itself does not boot.
fn in_order(
    order: &[Accelerator],
    name: &str,
    err: &mut dyn Write,
    remember: impl FnOnce(),
    mut attempt: impl FnMut(Accelerator, &mut dyn Write) -> Result<Attempt>,
) -> Result<End> {
    let mut console = String::new();
    for (number, accelerator) in order.iter().enumerate() {
        match attempt(*accelerator, err)? {
            Attempt::Ended(end) => {
                if number > 0 {
                    remember();
                }
                return Ok(end);
            }
            Attempt::NotUp(said) => {
                if *accelerator == Accelerator::Kvm {
                    writeln!(err, "guest: KVM is there but does not boot this kernel; emulating")?;
                }
                console = said;
            }
        }
    }
    bail!("{name} did not boot:\n{console}")
}

enum Attempt {
    Ended(End),
    /// The first process did not start. The last lines of the console and of QEMU.
    NotUp(String),
}

fn attempt(
    kernel: &Kernel,
    disk: &[u8],
    job: &Job,
    clock: Clock,
    accelerator: Accelerator,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Attempt> {
    let folder = Folder::new()?;
    let file = |name: &str| folder.file(name);
    fs::write(file(INITRD), disk).with_context(|| format!("write {}", file(INITRD).display()))?;
    for log in LOGS {
        File::create(file(log)).with_context(|| format!("create {}", file(log).display()))?;
    }
    if let Some(disk) = kernel.disk {
        disk.image(&file(IMAGE))?;
    }
    let complaints = File::create(file("qemu")).context("create QEMU's log")?;
    let (program, package) = kernel.arch.emulator();
    let mut emulator = command(kernel, folder.path(), accelerator, clock);
    let child = die_with_parent(&mut emulator)
        .stdout(complaints.try_clone()?)
        .stderr(complaints)
        .spawn()
        .with_context(|| format!("cannot start {program}; Debian's package {package} has it"))?;
    let boot = if accelerator == Accelerator::Kvm { BOOT_KVM } else { BOOT };
    match watch(Running(child), &folder, boot, job.limit, out, err)? {
        Some(end) => Ok(Attempt::Ended(end)),
        None => read_report(&folder, kernel, job),
    }
}

/// Passes the program's output on until QEMU ends, or the guest does not come up within `boot`.
/// Kills the guest and returns [`End::Limit`] when the program has run for `limit`.
fn watch(
    mut qemu: Running,
    folder: &Folder,
    boot: Duration,
    limit: Duration,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Option<End>> {
    let file = |name: &str| folder.file(name);
    let [mut stdout, mut stderr] = [Tail::open(&file("stdout"))?, Tail::open(&file("stderr"))?];
    let begin = Instant::now();
    let mut up = None;
    loop {
        let ended = qemu.0.try_wait().context("wait for QEMU")?;
        if up.is_none() && fs::metadata(file("report")).is_ok_and(|report| report.len() > 0) {
            up = Some(Instant::now());
        }
        stdout.pass_on(out)?;
        stderr.pass_on(err)?;
        match up {
            _ if ended.is_some() => break,
            None if begin.elapsed() > boot => break,
            Some(since) if since.elapsed() > limit => return Ok(Some(End::Limit)),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(qemu);
    stdout.pass_on(out)?;
    stderr.pass_on(err)?;
    Ok(None)
}

/// Reads the guest's report, and stores the files that the program left.
fn read_report(folder: &Folder, kernel: &Kernel, job: &Job) -> Result<Attempt> {
    let file = |name: &str| folder.file(name);
    let report = fs::read(file("report")).context("read the guest's report")?;
    let Some(archive) = report.strip_prefix(wire::STARTED.as_bytes()) else {
        return Ok(Attempt::NotUp(last_lines(&[&file("console"), &file("qemu")])));
    };
    let Some(files) = archive::files(archive) else {
        let console = last_lines(&[&file("console"), &file("qemu")]);
        bail!("{} died, or hung, before the program ended:\n{console}", kernel.name);
    };
    let ended = files.iter().find(|(name, _)| name == wire::ENDED);
    let end = ended.and_then(|(_, text)| End::parse(std::str::from_utf8(text).ok()?));
    if let Some(to) = &job.out {
        store(&files, to)?;
    }
    Ok(Attempt::Ended(end.context("the guest's report does not say how the program ended")?))
}

/// Builds the initial RAM disk.
fn initial_disk(kernel: &Kernel, init: &Path, job: &Job) -> Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("read {}", path.display()));
    let mut disk = Writer::default();
    for folder in ["dev", "job", wire::MODULES, wire::WORK] {
        disk.add(folder, Kind::Folder, b"");
    }
    // The kernel opens the console for the first process before it mounts anything.
    disk.add("dev/console", Kind::Device(5, 1), b"");
    disk.add("init", Kind::Program, &read(init)?);
    let programs = || {
        let earlier = job.earlier.iter().map(|(program, arguments)| (program, arguments));
        earlier.chain([(&job.program, &job.arguments)])
    };
    for (number, (program, arguments)) in programs().enumerate() {
        let words: Vec<String> =
            [name_of(program)?.to_owned()].into_iter().chain(arguments.iter().cloned()).collect();
        disk.add(&format!("{}{number}", wire::ARGUMENTS), Kind::File, &wire::zero_ended(&words));
    }
    let environment: Vec<String> =
        job.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    disk.add(wire::ENVIRONMENT, Kind::File, &wire::zero_ended(&environment));
    disk.add(wire::PORTS, Kind::File, kernel.arch.ports()[1..].join("\n").as_bytes());
    if let Some(scratch) = kernel.disk {
        let mapped = if scratch == Disk::Mapped { " mapped" } else { "" };
        disk.add(wire::DISK, Kind::File, format!("{}{mapped}", scratch.partition()).as_bytes());
    }
    for (number, module) in kernel.modules.iter().enumerate() {
        let name = format!("{}/{number:02}-{}", wire::MODULES, name_of(module)?);
        disk.add(&name, Kind::File, &read(module)?);
    }
    let files: BTreeSet<&PathBuf> = programs().map(|(program, _)| program).chain(&job.files).collect();
    for path in files {
        disk.add(&format!("{}/{}", wire::WORK, name_of(path)?), Kind::Program, &read(path)?);
    }
    Ok(disk.finish())
}

fn name_of(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.with_context(|| format!("{} has a name that a guest cannot use", path.display()))
}

/// Stores the files that the program left.
fn store(files: &[(String, &[u8])], to: &Path) -> Result<()> {
    for (name, content) in files {
        let Some(name) = name.strip_prefix(wire::OUT).and_then(|name| name.strip_prefix('/')) else {
            continue;
        };
        if Path::new(name).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            bail!("the guest named a file that it may not write: {name}");
        }
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap_or(to))
            .with_context(|| format!("create {}", to.display()))?;
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// The last lines of the logs, which show the reason.
fn last_lines(logs: &[&Path]) -> String {
    let texts = logs.iter().map(|log| fs::read(log).unwrap_or_default());
    texts.map(|text| end_of_log(&String::from_utf8_lossy(&text))).collect()
}

/// A log's last lines. After a kernel panic: the lines before it, because only registers and the
/// stack follow it.
fn end_of_log(text: &str) -> String {
    const LINES: usize = 30;
    let text = text.replace('\r', "");
    let mut lines: Vec<&str> = text.lines().collect();
    if let Some(panic) = lines.iter().position(|line| line.contains("Kernel panic")) {
        lines.truncate(panic + 1);
    }
    lines[lines.len().saturating_sub(LINES)..].iter().map(|line| format!("  {line}\n")).collect()
}

/// A running QEMU, killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Passes on what is appended to a file.
struct Tail(File);

impl Tail {
    fn open(path: &Path) -> Result<Self> {
        Ok(Self(File::open(path).with_context(|| format!("open {}", path.display()))?))
    }

    fn pass_on(&mut self, to: &mut dyn Write) -> Result<()> {
        let mut new = Vec::new();
        self.0.read_to_end(&mut new).context("read what the guest wrote")?;
        if !new.is_empty() {
            to.write_all(&new).and_then(|()| to.flush()).context("pass on what the guest wrote")?;
        }
        Ok(())
    }
}

/// The file that records, until the next boot, that KVM does not work. A failed attempt is slow.
fn kvm_note() -> Option<PathBuf> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(std::env::temp_dir().join(format!("roundtrip-guest-no-kvm-{}", boot.trim())))
}

fn kvm_may_work() -> bool {
    let usable = File::options().read(true).write(true).open("/dev/kvm").is_ok();
    usable && !kvm_note().is_some_and(|note| note.exists())
}

fn remember_that_kvm_fails() {
    // If this fails, the next guest tries KVM again, which only costs time.
    let _ = kvm_note().map(File::create);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_reported_and_for_a_panic_the_lines_before_it() {
        let numbered = |from: usize, to: usize| {
            (from..to).map(|number| format!("line {number}\r\n")).collect::<String>()
        };
        assert_eq!(
            end_of_log(&numbered(0, 100)),
            numbered(70, 100).replace("line", "  line").replace('\r', "")
        );
        let told = end_of_log(&format!("unpacking failed\nKernel panic - not syncing\n{}", numbered(0, 100)));
        assert_eq!(told, "  unpacking failed\n  Kernel panic - not syncing\n");
        assert_eq!(end_of_log(""), "");
    }

    /// Runs attempts whose guests end or do not come up. Returns the accelerators tried, the error
    /// output, whether the failure was remembered, and the end.
    fn tried(
        order: &[Accelerator],
        comes_up: impl Fn(Accelerator) -> bool,
    ) -> (Vec<Accelerator>, String, bool, Option<End>) {
        let (mut tried, mut said, mut remembered) = (Vec::new(), Vec::new(), false);
        let end = in_order(
            order,
            "a kernel",
            &mut said,
            || remembered = true,
            |accelerator, _| {
                tried.push(accelerator);
                Ok(match comes_up(accelerator) {
                    true => Attempt::Ended(End::Exit(0)),
                    false => Attempt::NotUp("panic".into()),
                })
            },
        );
        (tried, String::from_utf8(said).expect("UTF-8"), remembered, end.ok())
    }

    #[test]
    fn kvm_is_tried_first_if_it_supports_the_guest() {
        use Accelerator::{Kvm, Tcg};
        let native: Arch = std::env::consts::ARCH.parse().expect("an architecture that can be booted");
        let foreign = Arch::ALL.into_iter().find(|arch| *arch != native).expect("another one");
        assert_eq!(order(native, Clock::Wall, true), [Kvm, Tcg]);
        assert_eq!(order(native, Clock::Wall, false), [Tcg]);
        assert_eq!(order(native, Clock::Instructions, true), [Tcg], "KVM counts no instructions");
        assert_eq!(order(foreign, Clock::Wall, true), [Tcg]);
    }

    #[test]
    fn kvm_that_boots_the_guest_is_used_alone() {
        let (order, said, remembered, end) = tried(&[Accelerator::Kvm, Accelerator::Tcg], |_| true);
        assert_eq!((order, end), (vec![Accelerator::Kvm], Some(End::Exit(0))));
        assert!(said.is_empty() && !remembered);
    }

    #[test]
    fn a_failure_of_kvm_is_reported_and_remembered_and_the_guest_is_emulated() {
        let (order, said, remembered, end) =
            tried(&[Accelerator::Kvm, Accelerator::Tcg], |accelerator| accelerator == Accelerator::Tcg);
        assert_eq!((order.len(), end), (2, Some(End::Exit(0))));
        assert!(
            remembered && said.contains("KVM is there but does not boot this kernel; emulating"),
            "{said}"
        );
    }

    #[test]
    fn a_kernel_that_never_boots_is_an_error_and_not_a_failure_of_kvm() {
        let (order, _, remembered, end) = tried(&[Accelerator::Kvm, Accelerator::Tcg], |_| false);
        assert_eq!((order.len(), remembered, end), (2, false, None));
    }
}
