//! Writes packages with the tools that each system makes its own with: tar, dpkg-deb, rpmbuild,
//! pip.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::tree::Tree;
use super::{Machine, tar};
use crate::shell::{root, run, target_dir};

const SUMMARY: &str = "shows where the time goes in Binder calls and synchronous writes";

/// The names of a machine's packages, in the order in which the trial installs them.
pub(super) fn names(machine: Machine, version: &str) -> [String; 4] {
    let Machine { arch, debian, rpm, wheel, .. } = machine;
    [
        format!("roundtrip-{version}-{arch}.tar.gz"),
        format!("roundtrip_{version}_{debian}.deb"),
        format!("roundtrip-{version}-1.{rpm}.rpm"),
        format!("roundtrip-{version}-py3-none-{wheel}.whl"),
    ]
}

/// An archive to unpack into `/` or anywhere else.
pub(super) fn archive(tree: &Tree, folder: &Path) -> Result<PathBuf> {
    let [name, ..] = names(tree.machine, &tree.version);
    let file = folder.join(name);
    tar(&tree.folder, &file)?;
    Ok(file)
}

/// Debian's format.
pub(super) fn deb(tree: &Tree, folder: &Path) -> Result<PathBuf> {
    let [_, name, ..] = names(tree.machine, &tree.version);
    let staged = target_dir().join("packages").join(format!("deb-{}", tree.machine.arch));
    fs::remove_dir_all(&staged).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    run(Command::new("cp").args(["--archive", "--no-target-directory"]).arg(&tree.folder).arg(&staged))?;
    let kilobytes =
        fs::metadata(staged.join("usr/bin/roundtrip")).context("read the program's size")?.len() / 1024;
    let control = format!(
        "Package: roundtrip\nVersion: {}\nArchitecture: {}\nMaintainer: The developers of Roundtrip <developers@roundtrip.invalid>\n\
         Section: utils\nPriority: optional\nInstalled-Size: {kilobytes}\nDescription: {SUMMARY}\n \
         Roundtrip measures Binder calls and synchronous writes on the device itself, and says which\n \
         layer, thread or interrupt the time went to.\n",
        tree.version, tree.machine.debian
    );
    fs::create_dir(staged.join("DEBIAN")).context("create DEBIAN")?;
    fs::write(staged.join("DEBIAN/control"), control).context("write the control file")?;
    let file = folder.join(name);
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", "0").args(["--root-owner-group", "-Zxz", "--build"]);
    run(build.arg(&staged).arg(&file))?;
    Ok(file)
}

/// The format of Fedora, openSUSE and their relatives.
pub(super) fn rpm(tree: &Tree, folder: &Path) -> Result<PathBuf> {
    let [_, _, name, _] = names(tree.machine, &tree.version);
    let work = target_dir().join("packages").join(format!("rpm-{}", tree.machine.arch));
    fs::create_dir_all(&work).with_context(|| format!("create {}", work.display()))?;
    let spec = format!(
        "Name: roundtrip\nVersion: {}\nRelease: 1\nSummary: {SUMMARY}\nLicense: Apache-2.0\nAutoReqProv: no\n\
         %define __strip /bin/true\n%define _build_id_links none\n%description\nRoundtrip {SUMMARY}.\n\
         %install\ncp --archive --no-target-directory {} %{{buildroot}}\n%files\n%defattr(-,root,root)\n/usr\n",
        tree.version,
        tree.folder.display()
    );
    let path = work.join("roundtrip.spec");
    fs::write(&path, spec).with_context(|| format!("write {}", path.display()))?;
    let mut build = Command::new("rpmbuild");
    build.args(["--quiet", "-bb", "--target", &format!("{}-linux", tree.machine.rpm)]);
    build.args(["--define", &format!("_topdir {}", work.display())]);
    build.args([
        "--define",
        &format!("_rpmdir {}", folder.display()),
        "--define",
        "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm",
    ]);
    run(build.arg(&path))?;
    Ok(folder.join(name))
}

/// Python's format: `pip install` puts the program beside Python's own.
pub(super) fn wheel(machine: Machine, program: &Path, folder: &Path) -> Result<PathBuf> {
    let version = super::version()?;
    let [.., name] = names(machine, &version);
    let source = target_dir().join("packages").join(format!("wheel-{}", machine.arch));
    fs::create_dir_all(&source).with_context(|| format!("create {}", source.display()))?;
    let manifest = format!(
        "[build-system]\nrequires = [\"hatchling>=1.25\"]\nbuild-backend = \"hatchling.build\"\n\n[project]\n\
         name = \"roundtrip\"\nversion = \"{version}\"\ndescription = \"{SUMMARY}\"\nreadme = \"README.md\"\n\
         license = \"Apache-2.0\"\n\n[tool.hatch.build.targets.wheel]\nbypass-selection = true\n\n\
         [tool.hatch.build.targets.wheel.shared-scripts]\nroundtrip = \"roundtrip\"\n\n\
         [tool.hatch.build.targets.wheel.hooks.custom]\n"
    );
    let hook = format!(
        "from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n\n\n\
         class Platform(BuildHookInterface):\n    def initialize(self, version, build_data):\n        \
         build_data[\"pure_python\"] = False\n        build_data[\"tag\"] = \"py3-none-{}\"\n",
        machine.wheel
    );
    fs::write(source.join("pyproject.toml"), manifest).context("write pyproject.toml")?;
    fs::write(source.join("hatch_build.py"), hook).context("write hatch_build.py")?;
    fs::copy(root().join("README.md"), source.join("README.md")).context("copy README.md")?;
    fs::copy(program, source.join("roundtrip")).context("copy the program")?;
    let mut pip = Command::new(target_dir().join("lab/bin/python"));
    pip.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir"]);
    run(pip.arg(folder).arg(&source))?;
    Ok(folder.join(name))
}
