//! Installs packages in a Debian system in which nothing else was installed, without a network, and
//! measures there. Knows how each format is installed; systems of other architectures need QEMU's
//! user mode.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::Machine;
use super::emulated::Emulated;
use crate::install::download;
use crate::leftovers::Temporary;
use crate::outcome::Outcome;
use crate::shell::{is_root, missing, run, say};

/// Installs each package by itself in a clean system of this machine, and measures there with these
/// arguments.
pub(super) fn run_each(machine: Machine, packages: &[(PathBuf, &str)]) -> Result<Outcome> {
    if !is_root() {
        return Ok(Outcome::NotRun("not root: a clean system needs chroot".into()));
    }
    if let Some(outcome) = missing("mmdebstrap", "mmdebstrap") {
        return Ok(outcome);
    }
    let _emulated = match Emulated::start(machine)? {
        Ok(emulated) => emulated,
        Err(why) => return Ok(Outcome::NotRun(why)),
    };
    let temporary = Temporary::new()?;
    let system = temporary.path().join("system.tar");
    let mut make = Command::new("mmdebstrap");
    make.args(["--quiet", "--variant=essential", "--include=python3-venv"]);
    download(make.arg(format!("--architectures={}", machine.debian)).arg(release()).arg(&system))
        .context("install a clean Debian")?;
    for (package, measuring) in packages {
        let clean = temporary.path().join("root");
        fs::create_dir(&clean).with_context(|| format!("create {}", clean.display()))?;
        run(Command::new("tar").args(["--extract", "--file"]).arg(&system).arg("--directory").arg(&clean))?;
        one(&clean, package, measuring)?;
        fs::remove_dir_all(&clean).with_context(|| format!("remove {}", clean.display()))?;
    }
    Ok(Outcome::Passed)
}

/// The release of Debian that this machine has, or the current one.
fn release() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let own = value("VERSION_CODENAME").filter(|_| value("ID") == Some("debian"));
    own.unwrap_or("stable").to_owned()
}

/// Installs one package in a system, and uses what it installed.
fn one(clean: &Path, package: &Path, measuring: &str) -> Result<()> {
    let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let copy = clean.join("tmp").join(&name);
    fs::copy(package, &copy).with_context(|| format!("copy {}", package.display()))?;
    let install = match name.rsplit('.').next() {
        Some("deb") => format!("dpkg --install /tmp/{name}"),
        Some("whl") => format!(
            "python3 -m venv /venv && /venv/bin/pip install --quiet --no-index /tmp/{name} && export PATH=/venv/bin:$PATH"
        ),
        Some("gz") => format!("tar --extract --file /tmp/{name} --directory /"),
        Some("rpm") => "true".to_owned(),
        _ => bail!("{name} is of no known format"),
    };
    if name.ends_with(".rpm") {
        // Debian's system has no rpm of its own.
        let mut rpm = Command::new("rpm");
        rpm.args(["--install", "--nodeps", "--ignorearch", "--root"]).arg(clean);
        run(rpm.arg(package))?;
    }
    let mut used =
        format!("{install} && cd /tmp && roundtrip version && roundtrip {measuring} --out run >text");
    used += " && test -s run/run.json && grep -q binder text";
    if !name.ends_with(".whl") {
        used += " && libbinder_benchmark --help >/dev/null && test -s /usr/share/man/man1/roundtrip-survey.1";
    }
    run(&mut inside(clean, &used)).with_context(|| format!("{name} in a clean system"))?;
    say(&format!("{name}: installed, and measured"));
    Ok(())
}

/// A command line that runs in a system, with its own processes and without a network. They end
/// with it.
fn inside(clean: &Path, line: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--net", "sh", "-e", "-c"]);
    command.arg(
        "mount --rbind /dev \"$1/dev\"; mount -t proc proc \"$1/proc\"; mount --rbind /sys \"$1/sys\"
         exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot \"$1\" sh -e -c \"$2\"",
    );
    command.arg("sh").arg(clean).arg(line);
    command
}
