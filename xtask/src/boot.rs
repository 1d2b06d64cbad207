//! What the tasks that use guests share: a kernel to boot and the guest's first process. Must not
//! know the tasks.

use std::path::{Path, PathBuf};

use anyhow::Result;
use roundtrip_guest::{Arch, Clock, Job, Kernel, Packaged, Source};

use crate::outcome::Outcome;
use crate::passed::{self, Inputs};
use crate::shell::{cargo_command, missing, run, target_dir};

/// Makes a kernel ready to boot, and downloads a distribution's the first time.
pub(crate) fn prepare(arch: Arch, source: &Source) -> Result<Kernel> {
    Kernel::prepare(arch, source, &target_dir().join("guest"))
}

/// Runs a step on a distribution's kernel. The step is not run if QEMU or the kernel is missing.
pub(crate) fn with_kernel(
    arch: Arch,
    which: Packaged,
    step: impl FnOnce(Kernel) -> Result<Outcome>,
) -> Result<Outcome> {
    let (emulator, package) = arch.emulator();
    if let Some(not_run) = missing(emulator, package) {
        return Ok(not_run);
    }
    match prepare(arch, &Source::Packaged(which)) {
        Ok(kernel) => step(kernel),
        Err(error) => Ok(Outcome::NotRun(format!("{error:#}"))),
    }
}

/// Builds the guest's init process.
pub(crate) fn first_process(arch: Arch) -> Result<PathBuf> {
    run(cargo_command()
        .args(["build", "--quiet", "--package", "roundtrip-guest", "--bin", "guest-init"])
        .args(["--target", arch.target()]))?;
    Ok(target_dir().join(arch.target()).join("debug/guest-init"))
}

/// Runs a job unless it passed before on this kernel with the same programs. `run` gets the guest's
/// first process.
pub(crate) fn once(
    what: &str,
    kernel: &Kernel,
    job: &Job,
    clock: Clock,
    run: impl FnOnce(&Path) -> Result<Outcome>,
) -> Result<Outcome> {
    let init = first_process(kernel.arch)?;
    passed::once(&format!("{what} on {}", kernel.name), &inputs(kernel, &init, job, clock)?, || run(&init))
}

/// What the result of a job in a guest depends on.
pub(crate) fn inputs(kernel: &Kernel, init: &Path, job: &Job, clock: Clock) -> Result<Inputs> {
    let mut inputs = Inputs::new()?.text(&format!("{kernel:?} {clock:?} {:?}", job.environment));
    for (program, arguments) in job.earlier.iter().chain([&(job.program.clone(), job.arguments.clone())]) {
        inputs = inputs.text(&arguments.join(" ")).file(program)?;
    }
    job.files.iter().map(PathBuf::as_path).chain([init]).try_fold(inputs, Inputs::file)
}
