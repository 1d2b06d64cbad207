//! Runs tests that need the kernel's binder driver in guests: the conformance suite, and the main
//! function of the device binary. Knows the expected results; the guest crate boots.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use guest::{Arch, Clock, End, Job, Kernel, Packaged, Source, outputs};

use crate::boot::{first_process, prepare, with_kernel};
use crate::outcome::Outcome;
use crate::shell::{cargo_command, root, say, split, static_binary};

/// The timeout for all programs in one guest. The slowest guest takes two minutes.
const LIMIT: Duration = Duration::from_secs(900);

/// The tests that need the driver: packages and names.
const TESTS: [(&str, &str); 2] = [("binder-emulator", "conformance"), ("guest", "devices")];

/// The number of random command sequences for each kernel, always the same ones: a minute's worth
/// on the first kernel. The first one finds what the driver does on all kernels, the others what is
/// specific to them. `cargo xtask sequences` runs more and different ones.
fn sequences(arch: Arch, which: Packaged) -> u32 {
    if (arch, which) == (Arch::X86_64, Packaged::Debian) { 300 } else { 60 }
}

/// What each kernel must do with the device binary: arguments and expected output.
const RUNS: [(&str, &[&str]); 2] = [
    // Both stacks, and the features of this kernel's driver.
    (
        "ipc throughput --driver kernel --sizes 4,4k --min-time 0.1s",
        &["(protocol 8, written in C, extended error", "hwbinder"],
    ),
    (
        "ipc latency --driver kernel --stack hwbinder --iterations 200",
        // The result on mainline kernels, with the reason.
        &["FAIL", "driver ignores INHERIT_RT"],
    ),
];

/// A slow call over the kernel's driver, and its expected explanation: that it was found by the
/// driver's own events. Only for kernels whose speed under emulation is known.
const EXPLAINED: (&str, &[&str]) = (
    "ipc latency --driver kernel --stack hwbinder --duration 2s --deadline 20ms --explain --explain-limit 1 \
     --inject sleep,every=100ms,for=40ms",
    &["Slow call 1", "request by binder's own event, reply by binder's own event"],
);

/// The name of the driver: only one of the kernels has binderfs.
fn driver(which: Packaged) -> &'static str {
    match which {
        Packaged::Debian | Packaged::DebianRealtime => "kernel driver at /dev/",
        Packaged::Ubuntu => "kernel driver on a private binderfs",
    }
}

/// Downloads and unpacks the kernels.
pub(crate) fn install() -> Result<Outcome> {
    use Packaged::{Debian, DebianRealtime, Ubuntu};
    let kernels = [
        (Arch::X86_64, Debian),
        (Arch::X86_64, DebianRealtime),
        (Arch::X86_64, Ubuntu),
        (Arch::Aarch64, Debian),
    ];
    for (arch, which) in kernels {
        if let Err(error) = prepare(arch, &Source::Packaged(which)) {
            return Ok(Outcome::NotRun(format!("{error:#}")));
        }
    }
    Ok(Outcome::Passed)
}

/// Runs everything on one kernel.
pub(crate) fn check(arch: Arch, which: Packaged) -> Result<Outcome> {
    with_kernel(arch, which, |kernel| run(&kernel, which))
}

/// Runs all programs in one guest, because booting it takes several seconds.
fn run(kernel: &Kernel, which: Packaged) -> Result<Outcome> {
    let arch = kernel.arch;
    let binary = static_binary(arch.name());
    let mut programs = Vec::new();
    for (package, tests) in TESTS {
        programs.push((build(package, tests, arch)?, split("--ignored --test-threads=1")));
    }
    let explained = (arch == Arch::X86_64 && which != Packaged::Ubuntu).then_some(EXPLAINED);
    let runs: Vec<_> = RUNS.into_iter().chain(explained).collect();
    programs.extend(runs.iter().map(|(arguments, _)| (binary.clone(), split(arguments))));
    let lines: Vec<String> = programs
        .iter()
        .map(|(program, arguments)| {
            let name = program.file_name().unwrap_or_default().display().to_string();
            format!("{}: {name} {}", kernel.name, arguments.join(" "))
        })
        .collect();
    let (program, arguments) = programs.pop().context("programs to run")?;
    let job = Job {
        earlier: programs,
        program,
        arguments,
        environment: vec![
            ("PROPTEST_CASES".into(), sequences(arch, which).to_string()),
            ("ROUNDTRIP".into(), format!("./roundtrip-{}", arch.name())),
        ],
        files: Vec::new(),
        out: None,
        limit: LIMIT,
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let end = guest::run(kernel, &first_process(arch)?, &job, Clock::Wall, &mut out, &mut err);
    let (out, err) = (outputs(&out), outputs(&err));
    let said: Vec<String> = out.iter().zip(&err).map(|(out, err)| format!("{out}{err}")).collect();
    let last = said.last().map_or("", String::as_str);
    let line = &lines[said.len().clamp(1, lines.len()) - 1];
    match end {
        Ok(End::Exit(0)) if said.len() == lines.len() => {}
        Ok(end) => bail!("{line} {end}:\n{last}"),
        Err(error) => return Err(error.context(format!("run {line}:\n{last}"))),
    }
    let (of_tests, of_runs) = said.split_at(TESTS.len());
    for ((said, line), (_, tests)) in of_tests.iter().zip(&lines).zip(TESTS) {
        let summary = said.lines().find(|line| line.starts_with("test result: ok.")).unwrap_or_default();
        if !summary.contains(" passed") || summary.contains(" 0 passed") {
            bail!("{tests} tested nothing on {}:\n{said}", kernel.name);
        }
        say(&format!("{line}\n{summary}"));
    }
    for (said, (arguments, expected)) in of_runs.iter().zip(runs) {
        let missing = |part: &&str| !said.contains(*part);
        if let Some(part) = [driver(which)].into_iter().chain(expected.iter().copied()).find(missing) {
            bail!("roundtrip {arguments} does not say '{part}' on {}:\n{said}", kernel.name);
        }
        say(&format!("{}: roundtrip {arguments}", kernel.name));
    }
    Ok(Outcome::Passed)
}

/// Builds a package's test for a guest, and returns its path.
pub(crate) fn build(package: &str, test: &str, arch: Arch) -> Result<PathBuf> {
    let built = cargo_command()
        .args(["test", "--quiet", "--package", package, "--test", test, "--no-run"])
        .args(["--target", arch.target(), "--message-format", "json"])
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo")?;
    if !built.status.success() {
        bail!("{test} does not build for {}", arch.target());
    }
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    let named = format!("\"name\":\"{test}\"");
    let path = messages
        .lines()
        .filter(|line| line.contains(&named))
        .find_map(|line| line.split_once("\"executable\":\"")?.1.split('"').next());
    Ok(path.with_context(|| format!("cargo names no executable of {test}"))?.into())
}
