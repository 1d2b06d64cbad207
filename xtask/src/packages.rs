//! Packages of the program, for machines without a Rust toolchain: an archive, `.deb`, `.rpm`, a
//! Python wheel and an image for containers, with what they contain and their checksums. Knows what
//! is installed where; each format is a file of its own, and `trial` installs them.

mod bill;
mod emulated;
mod formats;
mod image;
mod tree;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::dist::check_file;
use crate::install::ARM32;
use crate::outcome::Outcome;
use crate::passed::{self, Inputs};
use crate::shell::{cargo, root, run, say, static_binary, target_dir};

/// A kind of machine, by the names that each format has for it.
#[derive(Debug, Clone, Copy)]
struct Machine {
    target: &'static str,
    arch: &'static str,
    debian: &'static str,
    rpm: &'static str,
    /// Architecture and variant of an image.
    image: (&'static str, Option<&'static str>),
    /// The kernel's number for programs of the machine, and whether they have 64 bits (elf(5)).
    elf: (u8, bool),
    /// The platforms of a wheel. A static program needs no C library, so both names are true.
    wheel: &'static str,
}

const MACHINES: [Machine; 3] = [
    Machine {
        target: "x86_64-unknown-linux-musl",
        arch: "x86_64",
        debian: "amd64",
        rpm: "x86_64",
        image: ("amd64", None),
        elf: (0x3e, true),
        wheel: "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    },
    Machine {
        target: "aarch64-unknown-linux-musl",
        arch: "aarch64",
        debian: "arm64",
        rpm: "aarch64",
        image: ("arm64", None),
        elf: (0xb7, true),
        wheel: "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    },
    Machine {
        target: ARM32,
        arch: "armv7",
        debian: "armhf",
        rpm: "armv7hl",
        image: ("arm", Some("v7")),
        elf: (0x28, false),
        wheel: "manylinux_2_17_armv7l.musllinux_1_1_armv7l",
    },
];

/// What measures in a clean system. The survey takes half a minute unless it is told otherwise.
const SURVEY: &str = "survey --duration 3s";

/// The folder of all packages.
fn folder() -> PathBuf {
    target_dir().join("dist")
}

/// Builds the programs that packages contain. Unlike the binary for phones, they read other tools'
/// recordings.
pub(crate) fn build() -> Result<Outcome> {
    let mut build = vec!["build", "--release", "--package", "roundtrip"];
    build.extend(MACHINES.iter().flat_map(|machine| ["--target", machine.target]));
    cargo(&build)
}

/// Makes every package from those programs, and a file with the checksums of all.
pub(crate) fn make() -> Result<Outcome> {
    let mut made = Vec::new();
    for machine in MACHINES {
        let program = target_dir().join(machine.target).join("release/roundtrip");
        check_file(&program)?;
        made.extend(each(machine, &program)?);
        let image = folder().join(format!("roundtrip-{}-{}.oci.tar", version()?, machine.debian));
        image::write(machine, &program, &image)?;
        made.push(image);
        made.push(bill::write(machine, &folder())?);
    }
    let mut sums = String::new();
    for path in &made {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        sums += &format!("{}  {name}\n", hex(&bytes));
        say(&format!("{:>8.1} kB  {}", bytes.len() as f64 / 1000.0, path.display()));
    }
    let path = folder().join("SHA256SUMS");
    fs::write(&path, sums).with_context(|| format!("write {}", path.display()))?;
    Ok(Outcome::Passed)
}

/// The packages of one kind of machine that the machine's own tools install.
fn each(machine: Machine, program: &Path) -> Result<Vec<PathBuf>> {
    let tree = tree::Tree::new(machine, program)?;
    Ok(vec![
        formats::archive(&tree, &folder())?,
        formats::deb(&tree, &folder())?,
        formats::rpm(&tree, &folder())?,
        formats::wheel(machine, program, &folder())?,
    ])
}

/// Makes this machine's `.deb` and wheel from the binary for phones, which exists already, installs
/// them in a clean Debian system, and measures there.
pub(crate) fn check() -> Result<Outcome> {
    let machine = own()?;
    let program = static_binary(machine.arch);
    if !program.exists() {
        bail!("{} does not exist: the previous step builds it", program.display());
    }
    let inputs = Inputs::new()?.file(&program)?;
    let inputs = inputs.project(&["README.md", "CHANGELOG.md", "LICENSE", "xtask/src"])?;
    passed::once("packages in a clean system", &inputs, || {
        let folder = target_dir().join("packages");
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let tree = tree::Tree::new(machine, &program)?;
        let deb = formats::deb(&tree, &folder)?;
        let wheel = formats::wheel(machine, &program, &folder)?;
        trial::run_each(machine, &[(deb, SURVEY), (wheel, SURVEY)])
    })
}

/// Installs every package that `make` made in a clean system of its architecture. Systems of
/// another architecture run in QEMU's user mode.
pub(crate) fn check_all() -> Result<Outcome> {
    for machine in MACHINES {
        let made = formats::names(machine, &version()?).map(|name| (folder().join(name), SURVEY));
        if let outcome @ Outcome::NotRun(_) = trial::run_each(machine, &made)? {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed)
}

fn own() -> Result<Machine> {
    let arch = std::env::consts::ARCH;
    let own = MACHINES.into_iter().find(|machine| machine.arch == arch);
    own.with_context(|| format!("no packages are made for {arch}"))
}

/// The version of all packages.
fn version() -> Result<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    Ok(version.context("Cargo.toml names no version")?.trim_matches('"').to_owned())
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Packs a folder as a tar archive that is the same whenever and by whomever it is made.
fn tar(folder: &Path, file: &Path) -> Result<()> {
    let mut tar = std::process::Command::new("tar");
    tar.args(["--create", "--auto-compress", "--sort=name", "--mtime=@0", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", "--file"]).arg(file).arg("--directory").arg(folder).arg(".");
    run(&mut tar).map(drop)
}
