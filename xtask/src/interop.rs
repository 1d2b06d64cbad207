//! `cargo xtask interop`: calls between this project's binder stack and `rsbinder`, in both
//! directions and through either service manager, over the kernel's binder driver in a guest. Knows
//! how to build the programs; `peers/interop` knows the expected results.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use roundtrip_guest::{Arch, Clock, End, Job, Kernel, Packaged};

use crate::boot::{once, with_kernel};
use crate::outcome::Outcome;
use crate::peers;
use crate::shell::{cargo_command, run, say, static_binary};

const ARCH: Arch = Arch::X86_64;
const LIMIT: Duration = Duration::from_secs(300);
/// The package of `rsb_hub`, in the version that the programs in `peers` use.
const TOOLS: &str = "rsbinder-tools@0.12.0";
/// Two service managers, two services, two clients.
const PAIRS: usize = 8;

/// Builds, boots and checks.
pub(crate) fn check() -> Result<Outcome> {
    let arguments = |hub| vec!["all".to_owned(), hub];
    let expected = |said: &str| said.lines().filter(|line| line.ends_with(": passed")).count() == PAIRS;
    with_kernel(ARCH, Packaged::Debian, |kernel| {
        in_guest("interop", &kernel, Vec::new(), Clock::Wall, arguments, expected)
    })
}

/// Tests `roundtrip ipc observe` with programs that do not know Roundtrip. The guest's clock counts
/// instructions, on one CPU, so that figures are reproducible.
pub(crate) fn observed() -> Result<Outcome> {
    let roundtrip = static_binary(ARCH.name());
    let name = format!("./roundtrip-{}", ARCH.name());
    let arguments =
        |hub| ["observed", "all"].map(str::to_owned).into_iter().chain([hub, name.clone()]).collect();
    let expected = |said: &str| said.contains("named correctly");
    with_kernel(ARCH, Packaged::Debian, |kernel| {
        in_guest("observed", &kernel, vec![roundtrip], Clock::Instructions, arguments, expected)
    })
}

/// Runs the program in a guest, with `rsb_hub` and other files beside it. It must succeed and print
/// `expected`.
fn in_guest(
    what: &str,
    kernel: &Kernel,
    mut files: Vec<PathBuf>,
    clock: Clock,
    arguments: impl Fn(String) -> Vec<String>,
    expected: impl Fn(&str) -> bool,
) -> Result<Outcome> {
    let (hub, program) = (build_hub()?, peers::build("interop")?);
    let name = hub.file_name().unwrap_or_default().display().to_string();
    files.push(hub);
    let job = Job {
        earlier: Vec::new(),
        program,
        arguments: arguments(format!("./{name}")),
        environment: Vec::new(),
        files,
        out: None,
        limit: LIMIT,
    };
    once(what, kernel, &job, clock, |init| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let end = roundtrip_guest::run(kernel, init, &job, clock, &mut out, &mut err)?;
        let said = String::from_utf8_lossy(&out).into_owned();
        if end != End::Exit(0) || !expected(&said) {
            bail!("the programs {end} on {}:\n{said}{}", kernel.name, String::from_utf8_lossy(&err));
        }
        say(said.trim_end());
        Ok(Outcome::Passed)
    })
}

/// Builds both programs.
pub(crate) fn build_all() -> Result<()> {
    build_hub()?;
    peers::build("interop").map(drop)
}

/// Builds `rsbinder`'s service manager from the registry, unless it exists, small enough for a boot
/// image.
fn build_hub() -> Result<PathBuf> {
    let tools = peers::folder().join("tools");
    let mut command = cargo_command();
    command.args(["install", "--quiet", "--debug", "--locked", TOOLS, "--bin", "rsb_hub"]);
    command.args(["--target", ARCH.target()]).arg("--root").arg(&tools);
    command.arg("--target-dir").arg(peers::folder());
    // Not optimised: nothing of it is measured.
    command.envs([("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_PROFILE_DEV_STRIP", "symbols")]);
    run(command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0"))?;
    Ok(tools.join("bin/rsb_hub"))
}
