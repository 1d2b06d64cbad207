//! QEMU's command line for a guest. Starts nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::arch::Arch;
use crate::disk::Disk;
use crate::kernel::Kernel;
use crate::wire::DEVICES;

/// The clock of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The host's time. Of use only with KVM: under emulation it says nothing about the guest's
    /// kernel.
    Wall,
    /// One nanosecond for each instruction executed, on one processor: figures compare between
    /// kernels and programs, and reproduce.
    Instructions,
}

/// How the guest's instructions are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// By the host's processor (KVM).
    Kvm,
    /// By translation (TCG).
    Tcg,
}

/// QEMU, ready to start. Its files lie in `folder`: the initial RAM disk goes in, one log per
/// serial port comes out.
pub(crate) fn command(kernel: &Kernel, folder: &Path, accelerator: Accelerator, clock: Clock) -> Command {
    let arch = kernel.arch;
    let mut command = Command::new(arch.emulator().0);
    // Relative file names, because QEMU splits its options at commas.
    command.current_dir(folder).stdin(Stdio::null());
    command.args(["-nodefaults", "-no-reboot", "-display", "none", "-m", "1024"]);
    match (clock, accelerator) {
        (Clock::Instructions, _) => {
            // What reproduces best: one processor, and no instruction that does a varying amount of
            // work.
            command.args(["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-smp", "1"])
        }
        // Its two processors take turns in one thread. With a thread for each, QEMU (7.2 and 10.0)
        // may translate an instruction for the one just before the other writes to it, and then
        // keeps the old one for good: kernels change their own code whenever events are turned on
        // or off, and came to endless breakpoints, or recorded no events. A turn is over when its
        // processor waits: calls between the two take three quarters of the time that they take
        // with two threads.
        (Clock::Wall, Accelerator::Tcg) => command.args(["-accel", "tcg,thread=single", "-smp", "2"]),
        (Clock::Wall, Accelerator::Kvm) => command.args(["-accel", "kvm", "-smp", "2"]),
    };
    match (arch, clock, accelerator) {
        (Arch::X86_64, Clock::Instructions, _) => command.args(["-cpu", "max,-erms,-fsrm"]),
        (Arch::X86_64, ..) => command.args(["-cpu", "max"]),
        (Arch::Aarch64, _, Accelerator::Kvm) => command.args(["-M", "virt", "-cpu", "host"]),
        // Newer processors have pointer authentication, which makes emulation five times slower.
        (Arch::Aarch64, ..) => command.args(["-M", "virt", "-cpu", "cortex-a57"]),
    };
    for log in LOGS {
        command.args(["-chardev", &format!("file,id={log},path={log}")]);
    }
    match arch {
        Arch::X86_64 => {
            for log in LOGS {
                command.args(["-serial", &format!("chardev:{log}")]);
            }
        }
        Arch::Aarch64 => {
            let [console, out, err, report] = LOGS;
            command.args(["-serial", &format!("chardev:{console}"), "-device"]);
            command.arg(format!("pci-serial-4x,chardev1={out},chardev2={err},chardev3={report}"));
        }
    }
    command.args(kernel.disk.map(Disk::options).unwrap_or_default());
    command.arg("-kernel").arg(&kernel.image).args(["-initrd", INITRD]);
    command.args(["-append", &kernel_line(arch, clock, &kernel.parameters)]);
    command
}

/// The initial RAM disk, in the guest's folder.
pub(crate) const INITRD: &str = "initrd";
/// The logs of the four serial ports: the kernel's console, standard output, standard error, the
/// report.
pub(crate) const LOGS: [&str; 4] = ["console", "stdout", "stderr", "report"];

fn kernel_line(arch: Arch, clock: Clock, parameters: &str) -> String {
    let devices = DEVICES.join(",");
    let counting = if clock == Clock::Instructions { " lpj=1000000" } else { "" };
    let own = if arch == Arch::X86_64 { " tsc=reliable" } else { "" };
    // Without noirqdebug, a kernel with PREEMPT_RT takes an emulated serial port that is written a
    // lot for broken, since its interrupts come faster than a thread can handle them, and turns it
    // off: a large report never arrives. The devices of a driver that is built in are named here,
    // those of a module when it is loaded. A first file system of the kind tmpfs takes at most half
    // of the memory, of which some kernels know very little yet when they mount it
    // (CONFIG_DEFERRED_STRUCT_PAGE_INIT; init/do_mounts.c chooses the kind): a test beside its
    // program did not fit. One of the kind ramfs has no bound.
    format!(
        "console={},115200 panic=-1 oops=panic loglevel=5 noirqdebug rdinit=/init rootfstype=ramfs \
         binder.devices={devices}{own}{counting}{}{parameters}",
        arch.ports()[0],
        if parameters.is_empty() { "" } else { " " },
    )
}
