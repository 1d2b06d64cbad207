//! Distributions' kernels, which have the binder driver as a module: found, downloaded and unpacked
//! with apt's and dpkg's own programs, in folders of our own, so that nothing is installed and no
//! permission is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::apt::{Apt, extract, extract_all, finish, packages};
use crate::arch::Arch;
use crate::disk::Disk;
use crate::modules::Modules;
use crate::ubuntu;
use crate::unpack::unpack;

/// A distribution's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packaged {
    /// Debian's standard kernel, of this machine's release. It has no binderfs.
    Debian,
    /// Debian's with PREEMPT_RT.
    DebianRealtime,
    /// Ubuntu 26.04's. It has binderfs.
    Ubuntu,
}

impl Packaged {
    /// The package that depends on the current kernel. Debian's cloud flavour has no binder driver.
    fn package(self, arch: Arch) -> String {
        match self {
            Self::Debian => format!("linux-image-{}", arch.debian()),
            Self::DebianRealtime => format!("linux-image-rt-{}", arch.debian()),
            Self::Ubuntu => "linux-image-generic".into(),
        }
    }

    fn distribution(self) -> &'static str {
        match self {
            Self::Debian | Self::DebianRealtime => "Debian",
            Self::Ubuntu => "Ubuntu",
        }
    }

    /// The folder in the cache.
    fn folder(self, arch: Arch) -> String {
        match self {
            Self::Ubuntu => format!("ubuntu-{}", arch.debian()),
            Self::Debian | Self::DebianRealtime => self.package(arch),
        }
    }

    /// apt that knows the distribution's packages.
    fn apt(self, arch: Arch, folder: &Path) -> Result<Apt> {
        match self {
            Self::Debian | Self::DebianRealtime => Apt::of_this_machine(arch, folder),
            Self::Ubuntu => ubuntu::apt(arch, folder),
        }
    }
}

/// The files of a distribution's kernel.
pub(crate) struct Files {
    /// Its name in reports.
    pub(crate) name: String,
    pub(crate) image: PathBuf,
    pub(crate) modules: Vec<PathBuf>,
    /// The folder with all of it.
    pub(crate) folder: PathBuf,
}

/// The kernel, from `cache` if it is there. Delete its folder to get a newer one.
pub(crate) fn kernel(arch: Arch, which: Packaged, cache: &Path) -> Result<Files> {
    let folder = cache.join(which.folder(arch));
    if !folder.is_dir() {
        fs::create_dir_all(cache).with_context(|| format!("create {}", cache.display()))?;
        let half = cache.join(format!("{}.half-{}", which.folder(arch), std::process::id()));
        let made = fetch(arch, which, &half).with_context(|| {
            let (distribution, package) = (which.distribution(), which.package(arch));
            format!("get {distribution}'s {package} (or give a kernel of your own with --kernel)")
        });
        let moved = made.and_then(|()| {
            // Another run may have finished first; its folder is equivalent.
            fs::rename(&half, &folder).or_else(|error| if folder.is_dir() { Ok(()) } else { Err(error) })?;
            Ok(())
        });
        let _ = fs::remove_dir_all(&half);
        moved?;
    }
    let release = fs::read_to_string(folder.join("release")).context("read the kernel's release")?;
    let unpacked = folder.join("vmlinux");
    let image = if unpacked.is_file() { unpacked } else { folder.join("vmlinuz") };
    let name = format!("{} {} {}", which.distribution(), release.trim(), arch.name());
    let modules = vec![folder.join("binder_linux.ko")];
    Ok(Files { name, image, modules, folder })
}

/// The folder with the modules that reach disks, beside a kernel that is in the cache: from the
/// same package. Few guests have a disk, so that they are fetched when one does.
pub(crate) fn disk_modules(arch: Arch, which: Packaged, folder: &Path) -> Result<Modules> {
    let kept = folder.join("modules");
    if !kept.is_dir() {
        let half = folder.join(format!("modules.half-{}", std::process::id()));
        let made = fetch_disk_modules(arch, which, folder, &half).with_context(|| {
            format!("get the modules for disks; delete {} to get a newer kernel", folder.display())
        });
        let moved = made.and_then(|()| {
            fs::rename(half.join("modules"), &kept)
                .or_else(|error| if kept.is_dir() { Ok(()) } else { Err(error) })?;
            Ok(())
        });
        let _ = fs::remove_dir_all(&half);
        moved?;
    }
    Modules::read(&kept)
}

/// The folders in a package with the modules that disks may need.
const DISK_MODULES: [&str; 12] = [
    "*/kernel/block/*.ko*",
    "*/kernel/crypto/*.ko*",
    "*/kernel/drivers/block/virtio_blk.ko*",
    "*/kernel/drivers/md/dm-mod.ko*",
    "*/kernel/drivers/mmc/*.ko*",
    "*/kernel/drivers/nvme/*.ko*",
    "*/kernel/drivers/scsi/*.ko*",
    "*/kernel/drivers/ufs/*.ko*",
    "*/kernel/drivers/virtio/*.ko*",
    "*/kernel/fs/ext4/*.ko*",
    "*/kernel/fs/*b*.ko*",
    "*/kernel/lib/*.ko*",
];

fn fetch_disk_modules(arch: Arch, which: Packaged, cached: &Path, folder: &Path) -> Result<()> {
    let release = fs::read_to_string(cached.join("release")).context("read the kernel's release")?;
    let apt = which.apt(arch, folder)?;
    apt.run("apt-get", &["-qq", "update"])?;
    let found = download(&apt, release.trim(), folder)?;
    let content = folder.join("content");
    for path in extract_all(&found, &content, &DISK_MODULES)? {
        if path.extension().is_some_and(|extension| extension != "ko") {
            unpack_module(&path, &path.with_extension(""))?;
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    let all = Modules::read(&content)?;
    let kept = folder.join("modules");
    fs::create_dir_all(&kept).with_context(|| format!("create {}", kept.display()))?;
    for disk in Disk::ALL {
        for path in all.in_order(disk.modules())? {
            let name = path.file_name().context("a module's name")?;
            if !kept.join(name).exists() {
                fs::copy(&path, kept.join(name)).with_context(|| format!("keep {}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Downloads a kernel and its driver into `folder`.
fn fetch(arch: Arch, which: Packaged, folder: &Path) -> Result<()> {
    let wanted = which.package(arch);
    let apt = which.apt(arch, folder)?;
    apt.run("apt-get", &["-qq", "update"])?;
    let release = apt
        .depends(&wanted)?
        .iter()
        .find_map(|package| Some(package.strip_prefix("linux-image-")?.to_owned()))
        .with_context(|| format!("apt-cache names no kernel that {wanted} depends on"))?;
    let found = download(&apt, &release, folder)?;
    let content = folder.join("content");
    let image = extract(&found, &content, &format!("boot/vmlinuz-{release}"))?;
    let driver = extract(&found, &content, "*/drivers/android/binder_linux.ko*")?;
    keep(&image, &folder.join("vmlinuz"))?;
    unpack_module(&driver, &folder.join("binder_linux.ko"))?;
    if arch == Arch::X86_64 {
        unpack(&fs::read(folder.join("vmlinuz"))?, &folder.join("vmlinux"))?;
    }
    fs::write(folder.join("release"), release)?;
    for used in [content, folder.join("apt"), folder.join("keys")] {
        if used.exists() {
            fs::remove_dir_all(&used).with_context(|| format!("remove {}", used.display()))?;
        }
    }
    found
        .iter()
        .try_for_each(|used| fs::remove_file(used).with_context(|| format!("remove {}", used.display())))
}

/// Downloads a kernel into `folder`: the image and the modules are one package, or several.
fn download(apt: &Apt, release: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    let image = format!("linux-image-{release}");
    let mut needed = apt.depends(&image)?;
    needed.retain(|package| {
        ["linux-modules-", "linux-binary-"].iter().any(|kind| package.strip_prefix(kind) == Some(release))
    });
    needed.push(image);
    for package in &needed {
        apt.run("apt-get", &["-qq", "download", package])?;
    }
    packages(folder)
}

fn keep(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).with_context(|| format!("take {} out of the package", from.display()))
}

/// The guest's first process hands modules to the kernel as they are: not every kernel unpacks
/// them.
fn unpack_module(from: &Path, to: &Path) -> Result<()> {
    let program = match from.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return keep(from, to),
    };
    let bytes = finish(program, Command::new(program).args(["-dcq"]).arg(from))?;
    fs::write(to, bytes).with_context(|| format!("write {}", to.display()))
}
