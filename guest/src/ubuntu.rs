//! apt with Ubuntu's packages, on any machine with apt. mmdebstrap knows where Ubuntu's packages
//! are, so that nothing here names a host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::apt::{Apt, extract, finish, packages};
use crate::arch::Arch;

/// Ubuntu 26.04.
const RELEASE: &str = "resolute";

/// apt with Ubuntu's index in `folder`.
pub(crate) fn apt(arch: Arch, folder: &Path) -> Result<Apt> {
    let keys = std::path::absolute(folder)?.join("keys");
    fs::create_dir_all(&keys).with_context(|| format!("create {}", keys.display()))?;
    let sources = sources(arch, &keys.join("sources.list"))?;
    let signed = format!("deb [signed-by={}] ", keyring(&keys)?.display());
    Apt::of(arch, folder, &sources.replace("deb ", &signed))
}

/// Ubuntu's sources, as lines of sources.list(5). mmdebstrap writes them into the system that it is
/// about to install, and `list` is a copy of them; nothing is installed.
fn sources(arch: Arch, list: &Path) -> Result<String> {
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap
        .args(["--quiet", "--variant=custom", "--mode=chrootless", "--format=null", "--components=main"])
        .args([
            "--skip=update,cleanup,check/signed-by",
            "--setup-hook=cat \"$1\"/etc/apt/sources.list >\"$LIST\"",
        ])
        .arg(format!("--architectures={}", arch.debian()))
        .arg(RELEASE)
        .env("LIST", list);
    finish("mmdebstrap", &mut mmdebstrap)
        .context("find Ubuntu's packages, which also needs the package distro-info-data")?;
    fs::read_to_string(list).context("read Ubuntu's sources")
}

/// The keys that sign Ubuntu's packages: those of this machine if it has them, else those in
/// Debian's package of them, which Debian's keys sign. Older releases of Debian have the package
/// only among their backports, which this machine's own mirror has.
fn keyring(folder: &Path) -> Result<PathBuf> {
    const KEYS: &str = "usr/share/keyrings/ubuntu-archive-keyring.gpg";
    let installed = Path::new("/").join(KEYS);
    if installed.is_file() {
        return Ok(installed);
    }
    let machine = Apt::of_this_machine(Arch::X86_64, folder)?;
    machine.run("apt-get", &["-qq", "update"])?;
    let download = |apt: &Apt| apt.run("apt-get", &["-qq", "download", "ubuntu-keyring"]);
    if download(&machine).is_err() {
        let backports = Apt::of(Arch::X86_64, folder, &backports(&machine)?)?;
        backports.run("apt-get", &["-qq", "update"])?;
        download(&backports).context("get Debian's package ubuntu-keyring")?;
    }
    extract(&packages(folder)?, folder, KEYS).context("take Ubuntu's keys out of their package")?;
    Ok(folder.join(KEYS))
}

/// The backports of this machine's release of Debian, from the mirror that its apt uses.
fn backports(machine: &Apt) -> Result<String> {
    let format = "$(REPO_URI) $(CODENAME)";
    let found = machine
        .run("apt-get", &["indextargets", "--format", format, "Created-By: Packages", "Origin: Debian"])?;
    backports_line(&found).context("this machine's apt has no release of Debian, which has Ubuntu's keys")
}

/// The source of a release's backports, given the mirrors and names of what apt has. Only a name
/// without a suffix is that of a release: security updates have another mirror.
fn backports_line(found: &str) -> Option<String> {
    let (mirror, release) = found
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(_, release)| !release.is_empty() && !release.contains('-'))?;
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    Some(format!("deb [signed-by={keys}] {mirror} {release}-backports main\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backports_come_from_the_mirror_of_the_release_itself() {
        let found = "file:/security/ trixie-security\nfile:/debian/ trixie\nfile:/debian/ trixie-updates\n";
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let line = format!("deb [signed-by={keys}] file:/debian/ trixie-backports main\n");
        assert_eq!(backports_line(found), Some(line));
        assert_eq!(backports_line("file:/security/ trixie-security\n"), None);
        assert_eq!(backports_line(""), None);
    }
}
