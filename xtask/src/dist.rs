//! Builds the binaries that devices run, checks that they are static, and prints their sizes.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::install::TARGETS;
use crate::shell::{cargo, say, target_dir};
use crate::steps::Outcome;

/// Builds one binary per target into `target/dist`.
pub(crate) fn build() -> Result<Outcome> {
    let folder = target_dir().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    for target in TARGETS {
        cargo(&["build", "--release", "--package", "roundtrip", "--target", target])?;
        let built = target_dir().join(target).join("release/roundtrip");
        let bytes = fs::read(&built).with_context(|| format!("read {}", built.display()))?;
        if asks_for_interpreter(&bytes).with_context(|| format!("{} is no ELF file", built.display()))? {
            bail!("{} is not static: it asks for a dynamic linker", built.display());
        }
        let arch = target.split('-').next().unwrap_or(target);
        let copy = folder.join(format!("roundtrip-{arch}"));
        fs::copy(&built, &copy).with_context(|| format!("write {}", copy.display()))?;
        report(&copy, bytes.len());
    }
    Ok(Outcome::Passed)
}

fn report(path: &Path, bytes: usize) {
    say(&format!("{:>8.1} kB  {}", bytes as f64 / 1000.0, path.display()));
}

/// Whether a 64-bit little-endian ELF file has a `PT_INTERP` program header (`elf(5)`); `None` if it is none.
fn asks_for_interpreter(file: &[u8]) -> Option<bool> {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, len: usize| {
        let bytes = file.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte)))
    };
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, entry, entries) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for index in 0..entries {
        let at = usize::try_from(table.checked_add(index * entry)?).ok()?;
        if number(at, 4)? == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_dynamic_and_text_is_no_elf_file() {
        let own = fs::read("/proc/self/exe").expect("readable");
        // The test runs on the host's own target, whose linker is dynamic unless it is musl's.
        assert_eq!(asks_for_interpreter(&own), Some(cfg!(not(target_env = "musl"))));
        assert_eq!(asks_for_interpreter(b"#!/bin/sh\n"), None);
        assert_eq!(asks_for_interpreter(&own[..60]), None);
    }
}
