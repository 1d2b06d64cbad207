//! Runs tests that need the kernel's binder driver in guests: the conformance suite, and the main
//! function of the device binary. Knows the expected results; the guest crate boots.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use roundtrip_guest::{Arch, Clock, End, Job, Kernel, Packaged, Source, outputs};

use crate::boot::{first_process, inputs, prepare, with_kernel};
use crate::outcome::Outcome;
use crate::passed;
use crate::shell::{cargo_command, root, say, split, static_binary, target_dir};

/// The timeout for all programs in one guest. The slowest guest takes two minutes.
const LIMIT: Duration = Duration::from_secs(900);

/// The tests that need the driver: packages, names, and whether they start the device binary.
const TESTS: [(&str, &str, bool); 2] =
    [("roundtrip-binder-conformance", "conformance", false), ("roundtrip-guest", "devices", true)];

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

/// Arguments for the program under the name `atrace`, and what it must print: calls of a kernel
/// function. It runs in a guest because some machines do not allow functions to be traced.
const TRACED: (&str, &[&str]) = ("-t 1 -b 64 -k vfs_write binder_driver", &["TRACE:", "vfs_write"]);

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

/// Builds the programs for all kernels.
pub(crate) fn build_all() -> Result<()> {
    for arch in [Arch::X86_64, Arch::Aarch64] {
        first_process(arch)?;
        for (package, tests, _) in TESTS {
            build(package, tests, arch)?;
        }
    }
    Ok(())
}

/// A program that runs in a guest.
struct Run {
    program: PathBuf,
    arguments: String,
    /// Other programs that it starts.
    files: Vec<PathBuf>,
    /// What it must print; nothing if it is a program of tests.
    expected: Vec<&'static str>,
}

/// What runs on a kernel.
fn programs(arch: Arch, which: Packaged) -> Result<Vec<Run>> {
    let binary = static_binary(arch.name());
    let mut programs = Vec::new();
    for (package, tests, starts_it) in TESTS {
        programs.push(Run {
            program: build(package, tests, arch)?,
            arguments: "--ignored --test-threads=1".to_owned(),
            files: starts_it.then(|| binary.clone()).into_iter().collect(),
            expected: Vec::new(),
        });
    }
    let explained = (arch == Arch::X86_64 && which != Packaged::Ubuntu).then_some(EXPLAINED);
    programs.extend(RUNS.into_iter().chain(explained).map(|(arguments, expected)| Run {
        program: binary.clone(),
        arguments: arguments.to_owned(),
        files: Vec::new(),
        expected: [&[driver(which)], expected].concat(),
    }));
    if (arch, which) == (Arch::X86_64, Packaged::Debian) {
        let program = target_dir().join("atrace");
        std::fs::copy(&binary, &program).with_context(|| format!("copy {}", binary.display()))?;
        let (arguments, expected) = TRACED;
        let (arguments, expected) = (arguments.to_owned(), expected.to_vec());
        programs.push(Run { program, arguments, files: Vec::new(), expected });
    }
    Ok(programs)
}

/// Runs all programs in one guest, because booting it takes several seconds. Leaves out those that
/// passed before.
fn run(kernel: &Kernel, which: Packaged) -> Result<Outcome> {
    let arch = kernel.arch;
    let init = first_process(arch)?;
    let (mut left, mut outcomes) = (Vec::new(), Vec::new());
    for run in programs(arch, which)? {
        let file = run.program.file_name().unwrap_or_default().display().to_string();
        // Without the hash that Cargo appends to a test's name.
        let name = if run.expected.is_empty() { file.split('-').next().unwrap_or(&file) } else { &file };
        let line = format!("{}: {name} {}", kernel.name, run.arguments);
        let inputs = inputs(kernel, &init, &job(arch, which, &[&run]), Clock::Wall)?;
        match passed::before(&line, &inputs) {
            Some(skipped) => {
                say(&format!("{line}: passed before with the same inputs"));
                outcomes.push(Outcome::Unchanged { parts: 1, of: 1, skipped });
            }
            None => left.push((run, line, inputs)),
        }
    }
    if !left.is_empty() {
        let job = job(arch, which, &left.iter().map(|(run, ..)| run).collect::<Vec<_>>());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let end = roundtrip_guest::run(kernel, &init, &job, Clock::Wall, &mut out, &mut err);
        let (out, err) = (outputs(&out), outputs(&err));
        let said: Vec<String> = out.iter().zip(&err).map(|(out, err)| format!("{out}{err}")).collect();
        let last = said.last().map_or("", String::as_str);
        let (_, line, _) = &left[said.len().clamp(1, left.len()) - 1];
        match end {
            Ok(End::Exit(0)) if said.len() == left.len() => {}
            Ok(end) => bail!("{line} {end}:\n{last}"),
            Err(error) => return Err(error.context(format!("run {line}:\n{last}"))),
        }
        for ((run, line, inputs), said) in left.iter().zip(&said) {
            say(&format!("{line}\n{}", judge(run, said).with_context(|| format!("{line}:\n{said}"))?));
            passed::note(line, inputs, &Outcome::Passed)?;
            outcomes.push(Outcome::Passed);
        }
    }
    Ok(passed::together(&outcomes))
}

/// A job that runs these programs, of which there is at least one.
fn job(arch: Arch, which: Packaged, runs: &[&Run]) -> Job {
    let mut programs: Vec<_> = runs.iter().map(|run| (run.program.clone(), split(&run.arguments))).collect();
    let (program, arguments) = programs.pop().unwrap_or_default();
    Job {
        earlier: programs,
        program,
        arguments,
        environment: vec![
            ("PROPTEST_CASES".into(), sequences(arch, which).to_string()),
            ("ROUNDTRIP".into(), format!("./roundtrip-{}", arch.name())),
        ],
        files: runs.iter().flat_map(|run| run.files.clone()).collect(),
        out: None,
        limit: LIMIT,
    }
}

/// Checks what a program printed, and returns a line about it.
fn judge(run: &Run, said: &str) -> Result<String> {
    if run.expected.is_empty() {
        return passed_tests(said).map(str::to_owned);
    }
    match run.expected.iter().find(|part| !said.contains(**part)) {
        Some(part) => bail!("it does not say '{part}'"),
        None => Ok("as expected".to_owned()),
    }
}

/// The summary line of a program of tests that passed. Fails if it ran no test.
pub(crate) fn passed_tests(said: &str) -> Result<&str> {
    let summary = said.lines().find(|line| line.starts_with("test result: ok.")).unwrap_or_default();
    if !summary.contains(" passed") || summary.contains(" 0 passed") {
        bail!("nothing was tested");
    }
    Ok(summary)
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
