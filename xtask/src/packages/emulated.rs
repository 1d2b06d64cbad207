//! Registers QEMU's user mode with the kernel, for programs of another machine. The setting
//! is restored at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::Machine;
use crate::shell::run;

const BINFMT: &str = "/proc/sys/fs/binfmt_misc";

/// What was registered and mounted here, and ends with this value.
pub(super) struct Emulated {
    entry: Option<PathBuf>,
    mounted: bool,
}

impl Emulated {
    /// Registers the machine, unless this machine runs its programs already. Returns the reason if
    /// QEMU is missing.
    pub(super) fn start(machine: Machine) -> Result<Result<Self, String>> {
        let mut emulated = Self { entry: None, mounted: false };
        if machine.arch == std::env::consts::ARCH {
            return Ok(Ok(emulated));
        }
        let name = format!("qemu-{}", if machine.elf.1 { machine.arch } else { "arm" });
        let qemu = format!("/usr/bin/{name}-static");
        if !Path::new(&qemu).exists() {
            return Ok(Err(format!("{qemu} is missing; install Debian's package qemu-user-static")));
        }
        if !Path::new(BINFMT).join("register").exists() {
            run(Command::new("mount").args(["-t", "binfmt_misc", "binfmt_misc", BINFMT]))?;
            emulated.mounted = true;
        }
        let entry = Path::new(BINFMT).join(&name);
        if !entry.exists() {
            fs::write(Path::new(BINFMT).join("register"), line(&name, machine.elf, &qemu))
                .with_context(|| format!("register {qemu} in {BINFMT}"))?;
            emulated.entry = Some(entry);
        }
        Ok(Ok(emulated))
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            let _ = fs::write(entry, "-1");
        }
        if self.mounted {
            let _ = Command::new("umount").arg(BINFMT).status();
        }
    }
}

/// A line of binfmt_misc (Linux's admin-guide/binfmt-misc): the start of ELF files of this number,
/// compared except for the byte of the system, and the lowest bit of the type. F: the kernel opens
/// the interpreter now, so a clean system need not have it.
fn line(name: &str, (number, wide): (u8, bool), interpreter: &str) -> String {
    let class = if wide { 2 } else { 1 };
    let zeros = r"\x00".repeat(9);
    let magic = format!(r"\x7fELF\x{class:02x}\x01\x01{zeros}\x02\x00\x{number:02x}\x00");
    let same = r"\xff";
    let mask = format!(r"{}\x00{}\xfe{}", same.repeat(7), same.repeat(8), same.repeat(3));
    format!(":{name}:M::{magic}:{mask}:{interpreter}:F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_and_mask_cover_the_first_twenty_bytes_of_an_elf_file() {
        let line = line("qemu-arm", (0x28, false), "/usr/bin/qemu-arm-static");
        let fields: Vec<&str> = line.split(':').collect();
        // Each byte has four characters, except for the three letters.
        assert_eq!(fields[4].replace("ELF", r"\x45\x4c\x46").len(), 20 * 4, "{line}");
        assert_eq!(fields[5].len(), 20 * 4, "{line}");
        assert!(fields[4].ends_with(r"\x02\x00\x28\x00"), "{line}");
    }
}
