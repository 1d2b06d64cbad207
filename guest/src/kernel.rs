//! A kernel to boot: its source, and its conversion to the form that QEMU boots fastest. Boots
//! nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, bail};

use crate::arch::Arch;
use crate::disk::Disk;
use crate::packaged::{self, Packaged};
use crate::unpack::unpack;

/// Where a kernel comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A distribution's.
    Packaged(Packaged),
    /// A bzImage, Image or vmlinux, and modules to load, in this order. The driver may be built in.
    File {
        /// The kernel.
        image: PathBuf,
        /// Modules.
        modules: Vec<PathBuf>,
    },
}

/// A kernel that is ready to boot.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Its architecture.
    pub arch: Arch,
    /// Its name in reports.
    pub name: String,
    pub(crate) image: PathBuf,
    pub(crate) modules: Vec<PathBuf>,
    /// Whose it is, and the folder that it lies in.
    pub(crate) packaged: Option<(Packaged, PathBuf)>,
    /// The scratch disk that its guests have.
    pub(crate) disk: Option<Disk>,
    /// Additional kernel parameters.
    pub(crate) parameters: String,
    /// The file that was unpacked for this value.
    pub(crate) _unpacked: Option<Arc<Unpacked>>,
}

/// A file that is deleted with this value.
#[derive(Debug)]
pub(crate) struct Unpacked(PathBuf);

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Kernel {
    /// Makes a kernel ready: downloads a distribution's, or unpacks a file, into `cache` unless it
    /// is there already.
    ///
    /// # Errors
    /// If the kernel cannot be downloaded, or a file is not a kernel of this architecture.
    pub fn prepare(arch: Arch, source: &Source, cache: &Path) -> Result<Self> {
        match source {
            Source::Packaged(which) => {
                let packaged::Files { name, image, modules, folder } = packaged::kernel(arch, *which, cache)?;
                let packaged = Some((*which, folder));
                Ok(Self {
                    arch,
                    name,
                    image,
                    modules,
                    packaged,
                    disk: None,
                    parameters: String::new(),
                    _unpacked: None,
                })
            }
            Source::File { image, modules } => {
                let bytes =
                    fs::read(image).with_context(|| format!("read the kernel {}", image.display()))?;
                let name = format!("{} ({})", image.display(), arch.name());
                // A unique name, because several kernels may be booted at the same time.
                let own = Unpacked(cache.join(unpacked_name()));
                fs::create_dir_all(cache).with_context(|| format!("create {}", cache.display()))?;
                let unpacked = arch == Arch::X86_64 && unpack(&bytes, &own.0)?;
                let image = if unpacked { own.0.clone() } else { image.clone() };
                let _unpacked = unpacked.then(|| Arc::new(own));
                let modules = modules.clone();
                let parameters = String::new();
                Ok(Self { arch, name, image, modules, packaged: None, disk: None, parameters, _unpacked })
            }
        }
    }

    /// The same kernel for guests that have this scratch disk, mounted at `/disk`: with the modules
    /// that reach it, which are downloaded unless they are there already. A kernel of the
    /// user's must have been given its own.
    ///
    /// # Errors
    /// If modules cannot be downloaded.
    pub fn with_disk(mut self, disk: Disk) -> Result<Self> {
        if let Some((which, folder)) = &self.packaged {
            let modules = packaged::disk_modules(self.arch, *which, folder)?;
            self.modules.extend(modules.in_order(disk.modules())?);
        }
        self.disk = Some(disk);
        Ok(self)
    }

    /// The same kernel, started with these parameters as well: `preempt=full`,
    /// `sysctl.kernel.sched_rt_runtime_us=-1` (Documentation/admin-guide/kernel-parameters.
    /// txt).
    #[must_use]
    pub fn with_parameters(mut self, parameters: &str) -> Self {
        self.parameters = parameters.to_owned();
        self
    }
}

fn unpacked_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("own-vmlinux-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Refuses a file that cannot be booted, with a clear message.
pub(crate) fn require(image: &Path) -> Result<()> {
    if !image.is_file() {
        bail!("there is no kernel at {}", image.display());
    }
    Ok(())
}
