//! apt with its own index, for any architecture and distribution. This file knows no kernels.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::arch::Arch;

/// apt with its index in a folder, into which it also downloads packages.
pub(crate) struct Apt {
    folder: PathBuf,
    options: Vec<String>,
}

impl Apt {
    /// Uses the sources of this machine.
    pub(crate) fn of_this_machine(arch: Arch, folder: &Path) -> Result<Self> {
        let folder = std::path::absolute(folder)?;
        let own = folder.join("apt");
        for sub in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(own.join(sub)).with_context(|| format!("create {}/{sub}", own.display()))?;
        }
        let settings = [
            format!("Dir::State={}/state", own.display()),
            format!("Dir::Cache={}/cache", own.display()),
            "Dir::State::status=/dev/null".into(),
            format!("APT::Architecture={}", arch.debian()),
            format!("APT::Architectures={}", arch.debian()),
            // Without this, apt downloads as a user that cannot write to this folder.
            "APT::Sandbox::User=".into(),
            "Acquire::Languages=none".into(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".into(),
        ];
        let options = settings.into_iter().flat_map(|setting| ["-o".to_owned(), setting]).collect();
        Ok(Self { folder, options })
    }

    /// Uses only these sources, as lines of sources.list(5).
    pub(crate) fn of(arch: Arch, folder: &Path, sources: &str) -> Result<Self> {
        let mut apt = Self::of_this_machine(arch, folder)?;
        let list = apt.folder.join("apt/sources.list");
        fs::write(&list, sources).with_context(|| format!("write {}", list.display()))?;
        for setting in
            [format!("Dir::Etc::SourceList={}", list.display()), "Dir::Etc::SourceParts=/dev/null".into()]
        {
            apt.options.extend(["-o".to_owned(), setting]);
        }
        Ok(apt)
    }

    /// Runs one of apt's programs and returns its output.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.args(&self.options).args(arguments).current_dir(&self.folder);
        Ok(String::from_utf8_lossy(&finish(program, &mut command)?).into_owned())
    }

    /// The packages that this one depends on.
    pub(crate) fn depends(&self, package: &str) -> Result<Vec<String>> {
        let text = self.run("apt-cache", &["depends", package])?;
        Ok(text.lines().filter_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned).collect())
    }
}

/// Runs a program to its end. Returns its standard output, or the last line of its error output.
pub(crate) fn finish(program: &str, command: &mut Command) -> Result<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output().with_context(|| {
        let package = match program {
            "apt-get" | "apt-cache" => "apt",
            "xz" => "xz-utils",
            other => other,
        };
        format!("start {program}; on Debian and its relatives, it is in the package {package}")
    })?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{program} ended with {}: {}",
            output.status,
            complaint.trim().lines().last().unwrap_or_default()
        );
    }
    Ok(output.stdout)
}

/// The packages in a folder.
pub(crate) fn packages(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    Ok(entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .collect())
}

/// Takes the one file of this name, which may have asterisks, out of whichever package has it, into
/// `to`.
pub(crate) fn extract(packages: &[PathBuf], to: &Path, name: &str) -> Result<PathBuf> {
    let found = extract_all(packages, to, &[name])?;
    found.into_iter().next().with_context(|| format!("none of the kernel's packages has {name}"))
}

/// Takes all files of these names out of the first package that has any.
pub(crate) fn extract_all(packages: &[PathBuf], to: &Path, names: &[&str]) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for package in packages {
        let mut archive = Command::new("dpkg-deb")
            .arg("--fsys-tarfile")
            .arg(package)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start dpkg-deb; on Debian and its relatives, it is in the package dpkg")?;
        let content = archive.stdout.take().context("a pipe from dpkg-deb")?;
        // tar fails where there is no such file, and writes the names of those that there are.
        let written = Command::new("tar")
            .args(["-xv", "--wildcards", "-C"])
            .arg(to)
            .args(names.iter().map(|name| format!("./{name}")))
            .stdin(content)
            .stderr(Stdio::null())
            .output()
            .context("start tar")?;
        archive.wait().context("wait for dpkg-deb")?;
        let found: Vec<PathBuf> =
            String::from_utf8_lossy(&written.stdout).lines().map(|name| to.join(name)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}
