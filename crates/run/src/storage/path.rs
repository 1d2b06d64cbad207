//! Where a file's writes go: its file system, the block device below, the devices below that one,
//! and their settings that affect the duration of a write (table 1 of the study). Must not know how
//! these facts are found.

use serde::{Deserialize, Serialize};

/// The layers between a file and the device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoragePath {
    /// Where the file system is mounted.
    pub mount_point: String,
    /// "ext4", "f2fs".
    pub file_system: String,
    /// "rw,relatime", followed by the file system's own options: "data=ordered".
    pub mount_options: String,
    /// The mounted block device; `None` for file systems without one.
    pub device: Option<Device>,
    /// What could not be found, and the consequences.
    pub missing: Vec<String>,
}

/// A block device (Documentation/ABI/stable/sysfs-block).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Name of the whole disk: "vda", "nvme0n1", "mmcblk0", "loop3", "dm-0".
    pub name: String,
    /// The disk's number, as `dev_t` in the kernel's events: major << 20 | minor.
    pub dev: u32,
    /// The number of the mounted partition; `None` if the whole disk is used.
    pub partition_dev: Option<u32>,
    /// How the device is reached.
    pub bus: Bus,
    /// The vendor's name for the device.
    pub model: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// The I/O scheduler in use: "none", "mq-deadline".
    pub scheduler: Option<String>,
    /// How many requests fit into a queue (nr_requests).
    pub nr_requests: Option<u32>,
    /// The number of hardware queues; `None` if the driver does not show them.
    pub queues: Option<u32>,
    /// "write back": a write needs a flush to be durable; "write through": it does not.
    pub write_cache: Option<String>,
    /// Whether the device can make a single write durable without a flush.
    pub fua: Option<bool>,
    /// Which CPU handles completions: 0 any CPU, 1 a CPU near the submitting one, 2 the submitting
    /// CPU.
    pub rq_affinity: Option<u32>,
    /// Whether completions can be polled.
    pub io_poll: Option<bool>,
    /// Whether the device reports that it is a spinning disk.
    pub rotational: Option<bool>,
    /// The smallest addressable unit, in bytes.
    pub logical_block_bytes: Option<u32>,
    /// The smallest unit that the device writes without reading first, in bytes.
    pub physical_block_bytes: Option<u32>,
    /// The largest request, in KiB.
    pub max_sectors_kb: Option<u32>,
    /// The names of the device's controllers in the kernel's events: "mmc0", "nvme0", "0:0:0:0"
    /// (SCSI), "1d84000.ufshc" (UFS).
    pub controllers: Vec<String>,
    /// The hidden disks to which its requests are issued, if an NVMe disk may have several
    /// controllers ("nvme0c1n1").
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The interrupts of its controllers.
    pub interrupts: Vec<Interrupt>,
    /// The file behind a loop device.
    pub backing_file: Option<String>,
    /// The devices below this one, of which it consists.
    pub below: Vec<Self>,
}

/// How a device is reached, which determines the events for the dispatch to it and the completion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bus {
    /// MMC and SD cards.
    Mmc,
    /// Universal Flash Storage.
    Ufs,
    /// NVM Express.
    Nvme,
    /// SCSI, and ATA through it.
    Scsi,
    /// A virtual machine's disk.
    Virtio,
    /// A file as a device.
    Loop,
    /// The device mapper.
    Dm,
    /// Any other way.
    #[default]
    Other,
}

/// One interrupt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its number.
    pub irq: u32,
    /// Its name in /proc/interrupts and `irq_handler_entry`.
    pub name: String,
    /// The CPUs that handle it now (effective_affinity_list).
    pub cpus: Option<String>,
}

impl Device {
    /// The devices at the bottom, which do the work: this device if nothing is below it.
    #[must_use]
    pub fn leaves(&self) -> Vec<&Self> {
        if self.below.is_empty() {
            return vec![self];
        }
        self.below.iter().flat_map(Self::leaves).collect()
    }

    /// The partitions on the path, each with its disk, as `dev_t`.
    #[must_use]
    pub fn partitions(&self) -> Vec<(u32, u32)> {
        let own = self.partition_dev.map(|partition| (partition, self.dev));
        own.into_iter().chain(self.below.iter().flat_map(Self::partitions)).collect()
    }
}

impl StoragePath {
    /// The devices at the bottom, which do the work.
    #[must_use]
    pub fn leaves(&self) -> Vec<&Device> {
        self.device.iter().flat_map(Device::leaves).collect()
    }

    /// The partitions on the path, each with its disk, as `dev_t`.
    #[must_use]
    pub fn partitions(&self) -> Vec<(u32, u32)> {
        self.device.iter().flat_map(Device::partitions).collect()
    }
}

impl Bus {
    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mmc => "MMC/SD",
            Self::Ufs => "UFS",
            Self::Nvme => "NVMe",
            Self::Scsi => "SCSI",
            Self::Virtio => "virtio",
            Self::Loop => "loop",
            Self::Dm => "device mapper",
            Self::Other => "other",
        }
    }
}
