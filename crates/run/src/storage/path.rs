//! Where a file's writes go: its file system, the block device below it, the devices below that
//! one, and their settings that bear on the time of a write (the study's table 1). Must not know
//! how it is found out.

use serde::{Deserialize, Serialize};

/// What is between a file and the device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoragePath {
    /// Where the file system is mounted.
    pub mount_point: String,
    /// "ext4", "f2fs".
    pub file_system: String,
    /// "rw,relatime", and what the file system adds: "data=ordered".
    pub mount_options: String,
    /// The block device that is mounted; `None` for file systems without one.
    pub device: Option<Device>,
    /// What could not be found, and what that means.
    pub missing: Vec<String>,
}

/// A block device (Documentation/ABI/stable/sysfs-block).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Of the whole disk: "vda", "nvme0n1", "mmcblk0", "loop3", "dm-0".
    pub name: String,
    /// The disk's number, as `dev_t` in the kernel's events: major << 20 | minor.
    pub dev: u32,
    /// The number of the partition that is mounted, where it is one.
    pub partition_dev: Option<u32>,
    /// How the device is reached.
    pub bus: Bus,
    /// Its name by its maker.
    pub model: Option<String>,
    /// In bytes.
    pub size_bytes: Option<u64>,
    /// The I/O scheduler in use: "none", "mq-deadline".
    pub scheduler: Option<String>,
    /// How many requests may wait in a queue (nr_requests).
    pub nr_requests: Option<u32>,
    /// Hardware queues; `None` where the driver shows none.
    pub queues: Option<u32>,
    /// "write back": a write needs a flush to be durable; "write through": none.
    pub write_cache: Option<String>,
    /// Whether it can make one write durable without a flush.
    pub fua: Option<bool>,
    /// Where completions are handled: 0 anywhere, 1 near the submitter, 2 on the submitter's CPU.
    pub rq_affinity: Option<u32>,
    /// Whether completions may be polled for.
    pub io_poll: Option<bool>,
    /// Whether it calls itself a spinning disk.
    pub rotational: Option<bool>,
    /// The smallest unit that it can be addressed in, in bytes.
    pub logical_block_bytes: Option<u32>,
    /// The smallest unit that it writes without reading first, in bytes.
    pub physical_block_bytes: Option<u32>,
    /// The largest request, in KiB.
    pub max_sectors_kb: Option<u32>,
    /// How the kernel's events call its controller: "mmc0", "nvme0", "0:0:0:0" (SCSI),
    /// "1d84000.ufshc" (UFS).
    #[serde(default)]
    pub controllers: Vec<String>,
    /// The hidden disks that its requests are made for, where an NVMe disk may have several
    /// controllers ("nvme0c1n1").
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The interrupts of its controllers.
    pub interrupts: Vec<Interrupt>,
    /// The file behind a loop device.
    pub backing_file: Option<String>,
    /// The devices that it is made of, each with those below it.
    pub below: Vec<Self>,
}

/// How a device is reached: what events mark the hand-over to it, and the return.
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
    /// Any other.
    #[default]
    Other,
}

/// One interrupt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its number.
    pub irq: u32,
    /// As /proc/interrupts and `irq_handler_entry` call it.
    pub name: String,
    /// The CPUs that it comes to now (effective_affinity_list).
    pub cpus: Option<String>,
}

impl Device {
    /// Those that do the work in the end, with nothing below them: this one, where it is one.
    #[must_use]
    pub fn leaves(&self) -> Vec<&Self> {
        if self.below.is_empty() {
            return vec![self];
        }
        self.below.iter().flat_map(Self::leaves).collect()
    }

    /// The partitions on the way down, each with its disk, as `dev_t`.
    #[must_use]
    pub fn partitions(&self) -> Vec<(u32, u32)> {
        let own = self.partition_dev.map(|partition| (partition, self.dev));
        own.into_iter().chain(self.below.iter().flat_map(Self::partitions)).collect()
    }
}

impl StoragePath {
    /// The devices that do the work in the end: those with nothing below them.
    #[must_use]
    pub fn leaves(&self) -> Vec<&Device> {
        self.device.iter().flat_map(Device::leaves).collect()
    }

    /// The partitions on the way down, each with its disk, as `dev_t`.
    #[must_use]
    pub fn partitions(&self) -> Vec<(u32, u32)> {
        self.device.iter().flat_map(Device::partitions).collect()
    }
}

impl Bus {
    /// As a table says it.
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
