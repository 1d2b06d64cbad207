//! `storage layers` in guests whose disks have real, though emulated, controllers: which events
//! mark the device's time on each bus, and that all time is explained. Knows the expected results;
//! the guest crate boots.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use roundtrip_guest::{Arch, Clock, Disk, End, Job, Kernel, Packaged};

use crate::boot::{self, first_process, with_kernel};
use crate::outcome::Outcome;
use crate::passed::{self, Inputs};
use crate::shell::{say, split, static_binary, target_dir};

const ARCH: Arch = Arch::X86_64;

/// The timeout for one measurement, against a guest that hangs. It takes a few seconds, or a minute
/// with comparisons. On a machine that was three times as slow and busy, two minutes were too few.
const LIMIT: Duration = Duration::from_secs(600);

const ARGUMENTS: &str = "storage layers --file /disk/written --writers native --durability dsync,fsync --position append \
                         --sizes 4k,64k --calls 40 --rounds 2 --warm-up 3 --slowest 0 --format csv --out /out/run";

/// Comparisons on the NVMe disk that few machines support, but guests do. The disk has a queue that
/// supports polling. The rounds take a few seconds; the duration only bounds them, because a
/// condition for which no time is left would be left out.
const BESIDE: &str = "storage interference --file /disk/written --writers native --sizes 4k --conditions polled,io-limit --io-limit \
                      1M --rounds 3 --duration 30s --file-size 4M --out /out/run";

/// How much of the time of each writer and size may be unexplained, as a share. The device mapper's
/// workers pass writes to each other in ways that events do not always show.
fn most_unexplained(disk: Disk) -> f64 {
    if disk == Disk::Mapped { 0.05 } else { 0.01 }
}

/// Expected lines of each disk's report: its path in the environment, and the events that mark its
/// time.
const DISKS: [(Disk, &[&str]); 6] = [
    (
        Disk::Sd,
        &[
            "mmcblk0 (MMC/SD): QEMU!",
            " mmc0 on CPU ",
            "device: from mmc_request_start to the controller's interrupt",
        ],
    ),
    (
        Disk::Nvme,
        &[
            "nvme0n1 (NVMe): QEMU NVMe Ctrl",
            " nvme0q1 on CPU ",
            "device: from nvme_setup_cmd to the controller's interrupt",
        ],
    ),
    (
        Disk::NvmeShared,
        &[
            ", reached through nvme0c0n1",
            " nvme0q1 on CPU ",
            "device: from nvme_setup_cmd to the controller's interrupt",
        ],
    ),
    (
        Disk::Virtio,
        &[
            "vda (virtio): ",
            " virtio0-req.0 on CPU ",
            "device: from block_rq_issue to the controller's interrupt",
        ],
    ),
    (
        Disk::Scsi,
        &[
            "sda (SCSI): QEMU HARDDISK",
            " virtio0-request on CPU ",
            "device: from scsi_dispatch_cmd_start to the controller's interrupt",
        ],
    ),
    (
        Disk::Mapped,
        &[
            "dm-0 (device mapper): ",
            "    vda (virtio): ",
            "device: from block_rq_issue to the controller's interrupt",
        ],
    ),
];

/// A controller that QEMU has since version 8.2.
const UFS: [(Disk, &[&str]); 1] = [(
    Disk::Ufs,
    &[
        "sda (UFS): QEMU",
        " ufshcd on CPU ",
        "device: from ufshcd_command (send) to the controller's interrupt",
    ],
)];

/// The driver looks for more answers before it leaves its interrupt, so the answer to a command
/// sent meanwhile has no interrupt of its own.
const UFS_WITHIN: &str = "device: from ufshcd_command (send) to ufshcd_command (complete)";

/// Runs the measurement on every disk that QEMU supports.
pub(crate) fn check() -> Result<Outcome> {
    with_kernel(ARCH, Packaged::Debian, |kernel| check_all(&kernel, &DISKS))
}

/// Runs it on a UFS controller.
pub(crate) fn check_ufs() -> Result<Outcome> {
    with_kernel(ARCH, Packaged::Debian, |kernel| check_all(&kernel, &UFS))
}

fn check_all(kernel: &Kernel, disks: &[(Disk, &[&str])]) -> Result<Outcome> {
    let (emulator, _) = ARCH.emulator();
    if let Some((disk, _)) = disks.iter().find(|(disk, _)| !disk.is_known_to(emulator)) {
        return Ok(Outcome::NotRun(format!("this {emulator} has no controller for '{}'", disk.name())));
    }
    let mut outcomes = Vec::new();
    for &(disk, expected) in disks {
        let kernel = match kernel.clone().with_disk(disk) {
            Ok(kernel) => kernel,
            Err(error) => return Ok(Outcome::NotRun(format!("{error:#}"))),
        };
        let name = || format!("{} on {}", disk.name(), kernel.name);
        outcomes.push(passed::once(&format!("storage: {}", name()), &inputs(&kernel)?, || {
            again(|| measure(&kernel, disk, expected)).with_context(name)?;
            if disk == Disk::Nvme {
                again(|| compare(&kernel)).with_context(name)?;
            }
            Ok(Outcome::Passed)
        })?);
    }
    Ok(passed::together(&outcomes))
}

/// Does it once more if it fails, as failed tests are run once more. On a busy machine, a snapshot
/// was damaged once, probably because a processor of the guest had to wait for its CPU, and
/// recorded an event after the recorder was stopped.
fn again(does: impl Fn() -> Result<()>) -> Result<()> {
    does().or_else(|error| {
        say(&format!("  failed, and is tried again: {error:#}"));
        does()
    })
}

/// What the results on a disk depend on: the kernel, and the binaries there and here.
fn inputs(kernel: &Kernel) -> Result<Inputs> {
    let inputs = boot::inputs(kernel, &first_process(ARCH)?, &job(ARGUMENTS, None), Clock::Wall)?;
    inputs.file(&static_binary(std::env::consts::ARCH))
}

fn job(arguments: &str, out: Option<PathBuf>) -> Job {
    Job {
        earlier: Vec::new(),
        program: static_binary(ARCH.name()),
        arguments: split(arguments),
        environment: Vec::new(),
        files: Vec::new(),
        out,
        limit: LIMIT,
    }
}

/// Polled completions on a real queue, and a limit of a version 2 control group. Their effect on
/// times is not judged under emulation, only that they are produced.
fn compare(kernel: &Kernel) -> Result<()> {
    let (_, page) = run(kernel, BESIDE)?;
    if page.contains("Not possible: ") || !page.lines().any(|line| line.starts_with("io-limit  ")) {
        bail!("not everything was compared:\n{page}");
    }
    // Polled requests end without an interrupt, and others with one.
    let way = page.lines().find(|line| line.starts_with("polled: completions alone: "));
    let polled = way
        .and_then(|line| line.split_once("; beside: "))
        .is_some_and(|(alone, beside)| alone.contains("irq > ") && !beside.contains("irq"));
    if !polled {
        bail!("completions were not polled:\n{page}");
    }
    say("  polled for completions, and limited by io.max");
    Ok(())
}

fn measure(kernel: &Kernel, disk: Disk, expected: &[&str]) -> Result<()> {
    let (csv, page) = run(kernel, ARGUMENTS)?;
    let worst = worst_unexplained(&csv).with_context(|| csv.clone())?;
    if worst > most_unexplained(disk) {
        bail!("{:.2}% of the time is unexplained:\n{page}", worst * 100.0);
    }
    if let Some(part) = expected.iter().find(|part| !page.contains(**part)) {
        bail!("the run does not say '{part}':\n{page}");
    }
    // A request whose end was found from other events would have its own line.
    let boundaries: Vec<_> =
        page.lines().map(str::trim).filter(|line| line.starts_with("device: ")).collect();
    let is_allowed = |line: &str| {
        expected.iter().any(|part| line.contains(part)) || disk == Disk::Ufs && line.contains(UFS_WITHIN)
    };
    if let Some(other) = boundaries.iter().find(|line| !is_allowed(line)) {
        bail!("some requests are bounded by other events ({other}):\n{page}");
    }
    say(&format!("  {}, at most {:.3}% unexplained", boundaries.first().unwrap_or(&""), worst * 100.0));
    Ok(())
}

/// Runs this binary with these arguments in a guest. Returns its output, and what `show` prints for
/// its run.
fn run(kernel: &Kernel, arguments: &str) -> Result<(String, String)> {
    let run = target_dir().join("guest").join(format!("run-{}", std::process::id()));
    let job = job(arguments, Some(run.clone()));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let end = roundtrip_guest::run(kernel, &first_process(ARCH)?, &job, Clock::Wall, &mut out, &mut err);
    let [printed, err] = [out, err].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    // The recording is divided again here, as on any machine other than the one that recorded it.
    let shown = Command::new(static_binary(std::env::consts::ARCH)).arg("show").arg(run.join("run")).output();
    let _ = std::fs::remove_dir_all(&run);
    match end? {
        End::Exit(0) => {}
        // The summary shows the first line only, so the cause comes first.
        end => bail!("the measurement {end}: {}\n{printed}{err}", err.lines().last().unwrap_or("")),
    }
    let shown = shown.context("start the program that shows the run")?;
    let page = String::from_utf8_lossy(&[shown.stdout, shown.stderr].concat()).into_owned();
    Ok((printed, page))
}

/// The largest unexplained share of the time of a writer, a durability and a size. An error if
/// layers do not add up to the whole, if no time is the device's, or if nothing was divided.
fn worst_unexplained(csv: &str) -> Result<f64> {
    /// Means are written with all digits.
    const ROUNDING: f64 = 1e-9;
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let column = |name: &str| {
        head.iter().position(|column| *column == name).with_context(|| format!("no column '{name}'"))
    };
    let group = [column("writer")?, column("durability")?, column("size_bytes")?];
    let columns = [column("metric")?, column("value")?];
    let mut means: BTreeMap<[String; 3], BTreeMap<String, f64>> = BTreeMap::new();
    for row in lines {
        let cell = |at: usize| row.get(at).copied().unwrap_or_default();
        let [metric, value] = columns.map(cell);
        let Some(part) = metric.strip_suffix("mean") else { continue };
        let parts = means.entry(group.map(|at| cell(at).to_owned())).or_default();
        parts.insert(part.to_owned(), value.parse().context("a mean without a value")?);
    }
    let mut worst = 0.0_f64;
    for parts in means.values_mut() {
        let whole = parts.remove("").context("layers without a whole")?;
        let share = |part: &str| parts.get(part).map_or(0.0, |mean| mean / whole);
        let sum = parts.values().sum::<f64>() / whole;
        if (sum - 1.0).abs() > ROUNDING {
            bail!("the layers add up to {sum} of the whole");
        }
        if share("device.") <= 0.0 {
            bail!("no time is attributed to the device");
        }
        worst = worst.max(share("unexplained."));
    }
    if means.is_empty() {
        bail!("nothing was divided");
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "writer,durability,size_bytes,metric,unit,value";

    fn rows(durability: &str, means: &[(&str, f64)]) -> String {
        means.iter().map(|(metric, mean)| format!("\nnative,{durability},4096,{metric},ns,{mean}")).collect()
    }

    #[test]
    fn the_largest_unexplained_share_of_all_groups_is_returned() {
        let first = [("mean", 200.0), ("device.mean", 120.0), ("fs.mean", 79.0), ("unexplained.mean", 1.0)];
        let second = [("mean", 100.0), ("p50", 1.0), ("device.mean", 99.0), ("unexplained.mean", 1.0)];
        let text = format!("{HEAD}{}{}\n", rows("fsync", &first), rows("dsync", &second));
        let worst = worst_unexplained(&text).expect("good rows");
        assert!((worst - 0.01).abs() < 1e-12, "{worst}");
    }

    #[test]
    fn wrong_sums_and_missing_layers_are_errors() {
        for (means, said) in [
            (&[("mean", 1.0), ("device.mean", 0.6), ("fs.mean", 0.3)][..], "add up"),
            (&[("mean", 1.0), ("fs.mean", 1.0)], "no time is attributed"),
            (&[("mean", 1.0)], "add up"),
            (&[], "nothing was divided"),
        ] {
            let error =
                worst_unexplained(&format!("{HEAD}{}", rows("fsync", means))).expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
