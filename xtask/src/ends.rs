//! `cargo xtask ends`: `watch`, `ab` and `ipc observe` in a guest, when something outside ends them
//! or turns against them. `guest/tests/ends` knows what must hold then.

use std::time::Duration;

use anyhow::{Result, bail};
use roundtrip_guest::{Arch, Clock, Disk, End, Job, Packaged};

use crate::boot::{once, with_kernel};
use crate::guests;
use crate::outcome::Outcome;
use crate::shell::{say, split, static_binary};

const ARCH: Arch = Arch::X86_64;
/// It takes a minute and a half on a quiet machine.
const LIMIT: Duration = Duration::from_secs(900);

/// Builds the program of the tests.
pub(crate) fn build() -> Result<std::path::PathBuf> {
    guests::build("roundtrip-guest", "ends", ARCH)
}

/// Boots a guest with a disk that can be made to fail, and runs the tests there.
pub(crate) fn check() -> Result<Outcome> {
    with_kernel(ARCH, Packaged::Debian, |kernel| {
        let kernel = kernel.with_disk(Disk::Mapped)?;
        let job = Job {
            earlier: Vec::new(),
            program: build()?,
            arguments: split("--ignored --test-threads=1"),
            environment: vec![("ROUNDTRIP".into(), format!("./roundtrip-{}", ARCH.name()))],
            files: vec![static_binary(ARCH.name())],
            out: None,
            limit: LIMIT,
        };
        once("ends", &kernel, &job, Clock::Wall, |init| {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let end = roundtrip_guest::run(&kernel, init, &job, Clock::Wall, &mut out, &mut err)?;
            let said = String::from_utf8_lossy(&out).into_owned();
            if end != End::Exit(0) {
                bail!("the tests {end}:\n{said}{}", String::from_utf8_lossy(&err));
            }
            say(guests::passed_tests(&said)?);
            Ok(Outcome::Passed)
        })
    })
}
