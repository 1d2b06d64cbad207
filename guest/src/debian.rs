//! Debian's kernels, which have the binder driver as a module: found, downloaded and unpacked with apt's and dpkg's own
//! programs, in folders of our own, so that nothing is installed and no permission is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::arch::Arch;
use crate::kernel::{Kernel, unpack};

/// Which of Debian's kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// The standard one.
    Standard,
    /// The one with PREEMPT_RT.
    Realtime,
}

impl Flavour {
    /// The package that depends on the current kernel. The cloud flavour has no binder driver.
    fn package(self, arch: Arch) -> String {
        match self {
            Flavour::Standard => format!("linux-image-{}", arch.debian()),
            Flavour::Realtime => format!("linux-image-rt-{}", arch.debian()),
        }
    }
}

/// The kernel, from `cache` if it is there. Delete its folder to get a newer one.
pub(crate) fn kernel(arch: Arch, flavour: Flavour, cache: &Path) -> Result<Kernel> {
    let wanted = flavour.package(arch);
    let folder = cache.join(&wanted);
    if !folder.is_dir() {
        fs::create_dir_all(cache).with_context(|| format!("create {}", cache.display()))?;
        let half = cache.join(format!("{wanted}.half-{}", std::process::id()));
        let made = fetch(arch, &wanted, &half)
            .with_context(|| format!("get Debian's {wanted} (or give a kernel of your own with --kernel)"));
        let moved = made.and_then(|()| {
            // Another run may have been quicker; its folder is as good.
            fs::rename(&half, &folder).or_else(|error| if folder.is_dir() { Ok(()) } else { Err(error) })?;
            Ok(())
        });
        let _ = fs::remove_dir_all(&half);
        moved?;
    }
    let release = fs::read_to_string(folder.join("release")).context("read the kernel's release")?;
    let unpacked = folder.join("vmlinux");
    let image = if unpacked.is_file() { unpacked } else { folder.join("vmlinuz") };
    let name = format!("Debian {} {}", release.trim(), arch.name());
    Ok(Kernel { arch, name, image, modules: vec![folder.join("binder_linux.ko")] })
}

/// Downloads a package's kernel and its driver into `folder`.
fn fetch(arch: Arch, wanted: &str, folder: &Path) -> Result<()> {
    let apt = Apt::new(arch, folder)?;
    apt.run("apt-get", &["-qq", "update"])?;
    let depends = apt.run("apt-cache", &["depends", wanted])?;
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let Some(release) = package else { bail!("apt-cache names no kernel that {wanted} depends on") };
    apt.run("apt-get", &["-qq", "download", &format!("linux-image-{release}")])?;
    let package = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get downloaded no package")?;
    let content = folder.join("content");
    let mut dpkg = Command::new("dpkg-deb");
    finish("dpkg-deb", dpkg.arg("-x").arg(&package).arg(&content))?;
    let modules = Path::new("lib/modules").join(release).join("kernel/drivers/android");
    let driver = [content.join(&modules), content.join("usr").join(&modules)]
        .into_iter()
        .flat_map(|folder| ["ko", "ko.xz", "ko.zst"].map(|kind| folder.join(format!("binder_linux.{kind}"))))
        .find(|path| path.is_file());
    let Some(driver) = driver else { bail!("package linux-image-{release} has no binder driver") };
    let image = content.join("boot").join(format!("vmlinuz-{release}"));
    keep(&image, &folder.join("vmlinuz"))?;
    unpack_module(&driver, &folder.join("binder_linux.ko"))?;
    if arch == Arch::X86_64 {
        unpack(&fs::read(folder.join("vmlinuz"))?, &folder.join("vmlinux"))?;
    }
    fs::write(folder.join("release"), release)?;
    for used in [content, folder.join("apt")] {
        fs::remove_dir_all(&used).with_context(|| format!("remove {}", used.display()))?;
    }
    fs::remove_file(&package).with_context(|| format!("remove {}", package.display()))
}

fn keep(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).with_context(|| format!("take {} out of the package", from.display()))
}

/// The guest's first process hands modules to the kernel as they are: not every kernel unpacks them.
fn unpack_module(from: &Path, to: &Path) -> Result<()> {
    let program = match from.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return keep(from, to),
    };
    let bytes = finish(program, Command::new(program).args(["-dcq"]).arg(from))?;
    fs::write(to, bytes).with_context(|| format!("write {}", to.display()))
}

/// apt with an index of its own, for any architecture.
struct Apt {
    folder: PathBuf,
    options: Vec<String>,
}

impl Apt {
    fn new(arch: Arch, folder: &Path) -> Result<Apt> {
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
            // apt would otherwise hand downloads to a user that cannot write here.
            "APT::Sandbox::User=".into(),
            "Acquire::Languages=none".into(),
        ];
        let options = settings.into_iter().flat_map(|setting| ["-o".to_owned(), setting]).collect();
        Ok(Apt { folder, options })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.args(&self.options).args(arguments).current_dir(&self.folder);
        Ok(String::from_utf8_lossy(&finish(program, &mut command)?).into_owned())
    }
}

/// Runs a program to its end; its standard output, or the last line of its complaint.
fn finish(program: &str, command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {program}; on Debian and its kin, apt and dpkg have it"))?;
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
