//! The architectures that can be booted, and their names in each tool. Starts nothing.

use anyhow::{Result, bail};

/// A guest's architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Arch {
    /// All architectures.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The name in Rust, QEMU and `uname -m`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Debian's name.
    #[must_use]
    pub fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// The static Rust target.
    #[must_use]
    pub fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-musl",
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// QEMU's program, and the Debian package that has it.
    #[must_use]
    pub fn emulator(self) -> (&'static str, &'static str) {
        match self {
            Self::X86_64 => ("qemu-system-x86_64", "qemu-system-x86"),
            Self::Aarch64 => ("qemu-system-aarch64", "qemu-system-arm"),
        }
    }

    /// The architecture of a static program, from the machine in its ELF header (`elf(5)`).
    ///
    /// # Errors
    /// If the bytes are not an ELF file, or are for another machine.
    pub fn of_program(elf: &[u8]) -> Result<Self> {
        if !elf.starts_with(b"\x7fELF\x02\x01") {
            bail!("it is not a 64-bit little-endian ELF program");
        }
        match elf.get(18..20) {
            Some([62, 0]) => Ok(Self::X86_64),
            Some([183, 0]) => Ok(Self::Aarch64),
            other => bail!("it is for a machine that cannot be booted here (ELF number {other:?})"),
        }
    }

    /// The guest's serial ports: the kernel's console, then standard output, standard error and the
    /// report.
    pub(crate) fn ports(self) -> [&'static str; 4] {
        match self {
            Self::X86_64 => ["ttyS0", "ttyS1", "ttyS2", "ttyS3"],
            // The board has only one serial port; the others are on a PCI card.
            Self::Aarch64 => ["ttyAMA0", "ttyS0", "ttyS1", "ttyS2"],
        }
    }
}

impl std::str::FromStr for Arch {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = |arch: &Self| arch.name() == text || arch.debian() == text;
        match Self::ALL.into_iter().find(known) {
            Some(arch) => Ok(arch),
            None => bail!("unknown architecture '{text}': choose from x86_64, aarch64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_of_a_program_is_read_from_its_header() {
        let own = std::fs::read("/proc/self/exe").expect("readable");
        assert_eq!(Arch::of_program(&own).expect("an ELF file").name(), std::env::consts::ARCH);
        assert!(Arch::of_program(b"#!/bin/sh").is_err());
        assert!("riscv64".parse::<Arch>().is_err());
        assert_eq!("arm64".parse::<Arch>().expect("Debian's name"), Arch::Aarch64);
    }
}
