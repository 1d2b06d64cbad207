//! A scratch disk for a guest: how QEMU attaches it, what the guest's kernel needs to reach it, and
//! its image with an ext4 file system. Boots nothing, and downloads nothing.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// How a scratch disk is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disk {
    /// `virtio-blk` on PCI.
    Virtio,
    /// An NVMe controller.
    Nvme,
    /// A shared namespace of an NVMe subsystem with one controller.
    NvmeShared,
    /// An SD card in an SDHCI controller.
    Sd,
    /// A SCSI disk on `virtio-scsi`.
    Scsi,
    /// `dm-linear` on a `virtio-blk` disk.
    Mapped,
    /// A logical unit of a UFS controller (since QEMU 8.2).
    Ufs,
}

/// The image's length in bytes: a power of two, as SD cards require. The file is sparse.
const IMAGE_BYTES: u64 = 128 << 20;
/// The offset of the only partition.
const PARTITION_BYTES: u64 = 1 << 20;
/// The image, in the guest's folder.
pub(crate) const IMAGE: &str = "disk";

impl Disk {
    /// All disks.
    pub const ALL: [Self; 7] =
        [Self::Virtio, Self::Nvme, Self::NvmeShared, Self::Sd, Self::Scsi, Self::Mapped, Self::Ufs];

    /// The name in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Nvme => "nvme",
            Self::NvmeShared => "nvme-shared",
            Self::Sd => "sd",
            Self::Scsi => "scsi",
            Self::Mapped => "dm",
            Self::Ufs => "ufs",
        }
    }

    /// Returns true if this QEMU program has every device that the disk needs.
    #[must_use]
    pub fn is_known_to(self, emulator: &str) -> bool {
        self.devices().iter().all(|device| {
            let kind = device.split(',').next().unwrap_or_default();
            let mut asked = Command::new(emulator);
            asked.args(["-device", &format!("{kind},help")]).stdin(Stdio::null());
            // QEMU exits with 0 either way, but lists options only for a known device.
            asked.output().is_ok_and(|told| !told.stdout.is_empty())
        })
    }

    /// The guest kernel's name of the partition with the file system.
    pub(crate) fn partition(self) -> &'static str {
        match self {
            Self::Virtio | Self::Mapped => "vda1",
            Self::Nvme | Self::NvmeShared => "nvme0n1p1",
            Self::Sd => "mmcblk0p1",
            Self::Scsi | Self::Ufs => "sda1",
        }
    }

    /// The block size in bytes: the unit of the partition table, and the minimum block size of the
    /// file system.
    fn block_bytes(self) -> u64 {
        if self == Self::Ufs { 4096 } else { 512 }
    }

    /// The modules for the disk and its file system, without their dependencies. Some kernels have
    /// some of them built in.
    pub(crate) fn modules(self) -> &'static [&'static str] {
        // jbd2 and ext4 request a checksum by name, so the modules' dependencies do not list it.
        match self {
            Self::Virtio => &["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"],
            Self::Nvme | Self::NvmeShared => &["nvme", "crc32c_generic", "ext4"],
            Self::Sd => &["sdhci_pci", "mmc_block", "crc32c_generic", "ext4"],
            Self::Scsi => &["virtio_pci", "virtio_scsi", "sd_mod", "crc32c_generic", "ext4"],
            Self::Mapped => &["virtio_pci", "virtio_blk", "dm_mod", "crc32c_generic", "ext4"],
            Self::Ufs => &["ufshcd_pci", "sd_mod", "crc32c_generic", "ext4"],
        }
    }

    /// QEMU's options.
    pub(crate) fn options(self) -> Vec<String> {
        // The image does not outlive the guest, so a flush need not reach the host's disk.
        let drive = format!("if=none,id=disk,file={IMAGE},format=raw,cache=unsafe");
        let devices = self.devices().iter().flat_map(|device| ["-device".to_owned(), (*device).to_owned()]);
        ["-drive".to_owned(), drive].into_iter().chain(devices).collect()
    }

    fn devices(self) -> &'static [&'static str] {
        match self {
            Self::Virtio | Self::Mapped => &["virtio-blk-pci,drive=disk"],
            Self::Nvme => &["nvme,serial=scratch,drive=disk"],
            Self::NvmeShared => &[
                "nvme-subsys,id=subsystem",
                // With a second controller, the disk's name would depend on chance.
                "nvme,id=controller,serial=scratch,subsys=subsystem",
                "nvme-ns,bus=controller,drive=disk,shared=on",
            ],
            Self::Sd => &["sdhci-pci", "sd-card,drive=disk"],
            Self::Scsi => &["virtio-scsi-pci", "scsi-hd,drive=disk"],
            Self::Ufs => &["ufs", "ufs-lu,drive=disk"],
        }
    }

    /// Makes an image: one partition, and in it ext4 with a journal.
    pub(crate) fn image(self, path: &Path) -> Result<()> {
        let cannot = || format!("write {}", path.display());
        let mut file = File::create(path).with_context(cannot)?;
        file.set_len(IMAGE_BYTES).with_context(cannot)?;
        file.seek(SeekFrom::Start(0)).with_context(cannot)?;
        file.write_all(&partition_table(self.block_bytes())).with_context(cannot)?;
        let kilobytes = (IMAGE_BYTES - PARTITION_BYTES) / 1024;
        let make = |program: &str| {
            Command::new(program)
                // Initialise everything now, so that the guest's kernel does no work later.
                .args(["-q", "-F", "-J", "size=4", "-b"])
                .args([self.block_bytes().max(1024).to_string(), "-E".to_owned()])
                .arg(format!("offset={PARTITION_BYTES},lazy_itable_init=0,lazy_journal_init=0,nodiscard"))
                .arg(path)
                .arg(format!("{kilobytes}k"))
                .stdin(Stdio::null())
                .output()
        };
        // It is often not in the PATH of an ordinary user.
        let made = make("mkfs.ext4").or_else(|_| make("/usr/sbin/mkfs.ext4"));
        let made = made.context("cannot start mkfs.ext4; Debian's package e2fsprogs has it")?;
        if !made.status.success() {
            let complaint = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            let _ = fs::remove_file(path);
            bail!("mkfs.ext4 made no file system in {}: {complaint}", path.display());
        }
        Ok(())
    }
}

/// A master boot record with one Linux partition, which extends to the end of the image.
fn partition_table(block_bytes: u64) -> [u8; 512] {
    const LINUX: u8 = 0x83;
    let first = (PARTITION_BYTES / block_bytes) as u32;
    let count = (IMAGE_BYTES / block_bytes) as u32 - first;
    let mut record = [0; 512];
    let entry = &mut record[446..462];
    entry[4] = LINUX;
    entry[8..12].copy_from_slice(&first.to_le_bytes());
    entry[12..16].copy_from_slice(&count.to_le_bytes());
    record[510..].copy_from_slice(&[0x55, 0xaa]);
    record
}

impl std::str::FromStr for Disk {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let names = Self::ALL.map(Self::name).join(", ");
        let known = Self::ALL.into_iter().find(|disk| disk.name() == text);
        known.with_context(|| format!("unknown disk '{text}': choose from {names}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_one_partition_with_a_file_system_that_has_a_journal() {
        let path = std::env::temp_dir().join(format!("roundtrip-guest-image-{}", std::process::id()));
        Disk::Sd.image(&path).expect("an image");
        let image = fs::read(&path).expect("readable");
        fs::remove_file(&path).expect("removable");
        assert_eq!(image.len() as u64, IMAGE_BYTES);
        assert_eq!(image[510..512], [0x55, 0xaa]);
        // struct ext4_super_block: s_magic at 0x38, s_feature_compat at 0x5c, whose bit 2 is a
        // journal's.
        let superblock = &image[PARTITION_BYTES as usize + 1024..];
        assert_eq!(superblock[0x38..0x3a], [0x53, 0xef]);
        assert_eq!(superblock[0x5c] & 4, 4);
    }

    #[test]
    fn an_unknown_disk_is_refused_with_the_list_of_known_ones() {
        let error = "floppy".parse::<Disk>().expect_err("no such disk").to_string();
        assert!(error.contains("virtio, nvme, nvme-shared, sd, scsi, dm, ufs"), "{error}");
        for disk in Disk::ALL {
            assert_eq!(disk.name().parse::<Disk>().expect("its own name"), disk);
        }
    }
}
