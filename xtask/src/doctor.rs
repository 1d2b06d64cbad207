//! `roundtrip doctor` on two guests that differ in one setting: it names the setting, and calls
//! measured in both show its effect. Knows the expected results; the guest crate boots.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use roundtrip_guest::{Arch, Clock, End, Job, Kernel, Packaged};

use crate::boot::{first_process, once, with_kernel};
use crate::outcome::Outcome;
use crate::shell::{say, split, static_binary, target_dir};

/// The timeout for one measurement on a busy machine. It takes ten seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// A real-time caller and its server, which together keep their CPU busy.
const MEASURED: &str = "ipc latency --driver emulated --stack hwbinder --callers fifo:99 --inheritance on --placement same \
                        --work 5ms --duration 1s --out /out/run";

/// Values of the kernel's sched_rt_runtime_us, with the expected state of the setting and its
/// description.
const GUESTS: [(&str, &str, &str); 2] =
    [("50000", "lengthens", "50000 us of each 100000 us"), ("-1", "good", "off")];

/// The check that must distinguish the two.
const CHECK: &str = "rt-throttling";

/// How many times longer the slowest call must be if the kernel throttles real-time threads. Time
/// counts instructions in these guests, so nothing else differs. It is four times.
const EFFECT: f64 = 2.0;

/// Measures in both guests, and runs the doctor on the stored runs.
pub(crate) fn check() -> Result<Outcome> {
    let arch = Arch::X86_64;
    if std::env::consts::ARCH != arch.name() {
        return Ok(Outcome::NotRun(
            "the guest's own binary judges the stored runs, so this works only on x86-64".into(),
        ));
    }
    with_kernel(arch, Packaged::Debian, |kernel| {
        let job = job(&static_binary(kernel.arch.name()), None);
        once("doctor", &kernel, &job, Clock::Instructions, |_| compare(&kernel))
    })
}

/// Measures and judges both, and compares what the doctor says.
fn compare(kernel: &Kernel) -> Result<Outcome> {
    let binary = static_binary(kernel.arch.name());
    let mut judged = Vec::new();
    for (number, (runtime_us, state, found)) in GUESTS.into_iter().enumerate() {
        let parameters =
            format!("sysctl.kernel.sched_rt_runtime_us={runtime_us} sysctl.kernel.sched_rt_period_us=100000");
        let runs = target_dir().join(format!("guest-doctor-{number}"));
        // Left by an earlier check.
        let _ = fs::remove_dir_all(&runs);
        measure(&kernel.clone().with_parameters(&parameters), &binary, &runs)?;
        let (findings, longest_ns) = judge(&binary, &runs.join("run"))?;
        let of_check = format!("\"check\":\"{CHECK}\"");
        let finding = findings.split("},{").find(|finding| finding.contains(&of_check));
        let finding = finding.with_context(|| format!("the doctor does not mention {CHECK}:\n{findings}"))?;
        for wanted in [format!("\"state\":\"{state}\""), format!("\"found\":\"{found}\"")] {
            if !finding.contains(&wanted) {
                bail!("with {parameters} the doctor does not say {wanted}:\n{finding}");
            }
        }
        say(&format!("{parameters}: {CHECK} {state}, slowest call {:.1} ms", longest_ns / 1e6));
        judged.push((findings, longest_ns));
    }
    let [(throttled, slow_ns), (free, fast_ns)] = &judged[..] else { bail!("both guests were measured") };
    if slow_ns / fast_ns < EFFECT {
        bail!("the slowest call took {slow_ns} ns with throttling and {fast_ns} ns without: no effect");
    }
    let bad = |findings: &str| findings.matches("\"state\":\"lengthens\"").count();
    if bad(throttled) != bad(free) + 1 {
        bail!("the guests differ in more than {CHECK}:\n{throttled}\n{free}");
    }
    Ok(Outcome::Passed)
}

/// Measures in a guest, and copies the run into a folder.
fn measure(kernel: &Kernel, binary: &Path, runs: &Path) -> Result<()> {
    let job = job(binary, Some(runs.to_owned()));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let init = first_process(kernel.arch)?;
    match roundtrip_guest::run(kernel, &init, &job, Clock::Instructions, &mut out, &mut err)? {
        End::Exit(0) => Ok(()),
        end => bail!("{MEASURED} {end}:\n{}", String::from_utf8_lossy(&[out, err].concat())),
    }
}

fn job(binary: &Path, out: Option<PathBuf>) -> Job {
    Job {
        earlier: Vec::new(),
        program: binary.to_owned(),
        arguments: split(MEASURED),
        environment: Vec::new(),
        files: Vec::new(),
        out,
        limit: LIMIT,
    }
}

/// The doctor's findings for a stored run, as JSON, and the run's slowest call, in nanoseconds.
fn judge(binary: &Path, run: &Path) -> Result<(String, f64)> {
    let stdout = |arguments: &[&str]| -> Result<String> {
        let output = Command::new(binary).args(arguments).arg(run).output();
        let output = output.with_context(|| format!("start {}", binary.display()))?;
        if !output.status.success() {
            bail!("{}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let document = stdout(&["doctor", "--format", "json"])?;
    let findings =
        document.split_once("\"findings\":[").context("the doctor's JSON has findings")?.1.to_owned();
    let run = fs::read_to_string(run.join("run.json")).with_context(|| format!("read {}", run.display()))?;
    let longest = run
        .split("\"max_ns\":")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<f64>().ok());
    let longest_ns = longest.fold(0.0, f64::max);
    if longest_ns == 0.0 {
        bail!("the run has no slowest call");
    }
    Ok((findings, longest_ns))
}
