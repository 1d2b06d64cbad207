//! What the tasks that use guests share: a kernel to boot and the guest's first process. Must not
//! know the tasks.

use std::path::PathBuf;

use anyhow::Result;
use guest::{Arch, Kernel, Packaged, Source};

use crate::outcome::Outcome;
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
        .args(["build", "--quiet", "--package", "guest", "--bin", "guest-init"])
        .args(["--target", arch.target()]))?;
    Ok(target_dir().join(arch.target()).join("debug/guest-init"))
}
