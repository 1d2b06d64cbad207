//! Where a file's writes go: its file system, the block device below, the devices below that one,
//! and their settings that affect the duration of a write. Reads sysfs and procfs. Must not change
//! or judge anything.

mod bus;

use std::path::{Path, PathBuf};

use roundtrip_run::storage::{Bus, Device, StoragePath};

use crate::kernel::root::Root;
use bus::{Multipath, bus_of, controllers, interrupts, numbered};

/// Finds the devices below a file. `dev` is its device from stat(2), `path` its absolute path.
#[must_use]
pub fn way_down(root: &Root, path: &Path, dev: (u32, u32)) -> StoragePath {
    let mounts = root.read("proc/self/mountinfo").unwrap_or_default();
    let mount = mounts
        .lines()
        .filter_map(Mount::parse)
        .filter(|mount| path.starts_with(&mount.point))
        // Of two mounts on the same directory, the later one hides the earlier.
        .max_by_key(|mount| mount.point.as_os_str().len());
    let Some(mount) = mount else {
        let missing = vec!["file system: /proc/self/mountinfo does not name it".to_owned()];
        return StoragePath { missing, ..StoragePath::default() };
    };
    // Some file systems (btrfs, overlayfs) report their own device numbers. Then the mount's
    // source names the device.
    let device = read(root, dev).or_else(|| {
        let name = mount.source.strip_prefix("/dev/")?;
        read(root, number(&root.read(format!("sys/class/block/{name}/dev"))?)?)
    });
    let mut missing = Vec::new();
    if device.is_none() {
        let text = format!("block device: {} on {} has none", mount.kind, mount.point.display());
        missing.push(text + ", or none that sysfs shows; its time cannot be distinguished from the kernel's");
    }
    StoragePath {
        mount_point: mount.point.display().to_string(),
        file_system: mount.kind.to_owned(),
        mount_options: mount.options,
        device,
        missing,
    }
}

/// The block devices that are mounted, and the disks of which nothing is mounted, each with the
/// devices below it.
#[must_use]
pub(crate) fn disks(root: &Root) -> Vec<Device> {
    let mounts = root.read("proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| number(line.split(' ').nth(2)?));
    let names = root.names("sys/block");
    let disks = names.iter().filter_map(|name| number(&root.read(format!("sys/block/{name}/dev"))?));
    let mut devices: Vec<Device> = Vec::new();
    for device in mounted.chain(disks).filter_map(|dev| read(root, dev)) {
        let known = |known: &Device| (known.dev, known.partition_dev) == (device.dev, device.partition_dev);
        let disk = |known: &Device| device.partition_dev.is_none() && known.dev == device.dev;
        if device.size_bytes != Some(0) && !devices.iter().any(|one| known(one) || disk(one)) {
            devices.push(device);
        }
    }
    devices
}

/// A line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
struct Mount<'a> {
    point: PathBuf,
    kind: &'a str,
    source: &'a str,
    options: String,
}

impl Mount<'_> {
    fn parse(line: &str) -> Option<Mount<'_>> {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let mut right = right.split(' ');
        let (kind, source) = (right.next()?, right.next()?);
        let (own, of_file_system) = (left.get(5)?, right.next().unwrap_or_default());
        let added = of_file_system.split(',').filter(|option| !own.split(',').any(|ours| ours == *option));
        let options: Vec<&str> = own.split(',').chain(added).filter(|option| !option.is_empty()).collect();
        Some(Mount { point: unescape(left.get(4)?).into(), kind, source, options: options.join(",") })
    }
}

/// Decodes the octal escapes of spaces and similar characters.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

/// Parses "254:0".
fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The kernel's encoding, which its events show (include/linux/kdev_t.h).
fn kernel_dev((major, minor): (u32, u32)) -> u32 {
    major << 20 | minor
}

/// The most levels of stacked devices: a loop in sysfs must end, too.
const DEEPEST: u32 = 8;

fn read(root: &Root, dev: (u32, u32)) -> Option<Device> {
    read_at(root, dev, DEEPEST)
}

fn read_at(root: &Root, dev: (u32, u32), deepest: u32) -> Option<Device> {
    let own = format!("sys/dev/block/{}:{}", dev.0, dev.1);
    if !root.has(&own) {
        return None;
    }
    // A partition's directory is inside its disk's.
    let is_partition = root.has(format!("{own}/partition"));
    let disk = if is_partition { format!("{own}/..") } else { own };
    let at = std::fs::canonicalize(root.path(&disk)).ok()?;
    let name = at.file_name()?.to_str()?.to_owned();
    let whole = number(&root.read(format!("{disk}/dev"))?)?;
    let read = |file: &str| root.read(format!("{disk}/{file}"));
    let value = |file: &str| root.number::<u32>(format!("{disk}/{file}"));
    let flag = |file: &str| value(file).map(|value| value != 0);
    // If the driver's directory is elsewhere, the path of /sys/block/X/device contains more of the
    // bus than the disk's own path.
    let way = std::fs::canonicalize(root.path(format!("{disk}/device"))).unwrap_or_else(|_| at.clone());
    let way = way.to_string_lossy();
    let host = numbered(&way, "host");
    let driver = host.and_then(|host| root.read(format!("sys/class/scsi_host/{host}/proc_name")));
    let bus = bus_of(&way, &name, driver.as_deref());
    let many = if bus == Bus::Nvme { Multipath::of(root, &disk, &name) } else { Multipath::default() };
    let controllers = if many.controllers.is_empty() { controllers(bus, &way) } else { many.controllers };
    let backing_file = read("loop/backing_file");
    let slaves = root.names(format!("{disk}/slaves"));
    let mut below: Vec<Device> = slaves
        .iter()
        .filter_map(|slave| number(&root.read(format!("{disk}/slaves/{slave}/dev"))?))
        .filter_map(|dev| read_at(root, dev, deepest.checked_sub(1)?))
        .collect();
    if let Some(file) = &backing_file {
        below.extend(below_file(root, file).and_then(|dev| read_at(root, dev, deepest.checked_sub(1)?)));
    }
    let queues = root.names(format!("{disk}/mq")).len() as u32;
    Some(Device {
        dev: kernel_dev(whole),
        partition_dev: is_partition.then(|| kernel_dev(dev)),
        bus,
        model: read("device/model").or_else(|| read("device/name")),
        size_bytes: root.number::<u64>(format!("{disk}/size")).map(|sectors| sectors * 512),
        scheduler: read("queue/scheduler").map(|list| chosen(&list)),
        nr_requests: value("queue/nr_requests"),
        queues: (queues > 0).then_some(queues),
        write_cache: read("queue/write_cache"),
        fua: flag("queue/fua"),
        rq_affinity: value("queue/rq_affinity"),
        io_poll: flag("queue/io_poll"),
        rotational: flag("queue/rotational"),
        logical_block_bytes: value("queue/logical_block_size"),
        physical_block_bytes: value("queue/physical_block_size"),
        max_sectors_kb: value("queue/max_sectors_kb"),
        interrupts: interrupts(root, bus, &way, &controllers),
        controllers,
        paths: many.paths,
        backing_file,
        below,
        name,
    })
}

/// The device that holds a loop device's file.
fn below_file(root: &Root, file: &str) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt as _;
    let dev = std::fs::metadata(root.path(file)).ok()?.dev();
    Some((rustix::fs::major(dev), rustix::fs::minor(dev)))
}

/// Parses "none [mq-deadline] kyber".
fn chosen(list: &str) -> String {
    let marked = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    marked.map_or(list, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use roundtrip_run::storage::Interrupt;

    use super::*;
    use crate::kernel::root::fixture;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw,data=ordered\n\
30 22 0:40 / /mnt/with\\040blank rw,nosuid - tmpfs tmpfs rw,size=100k\n\
31 22 179:2 / /data rw,noatime - f2fs /dev/mmcblk0p2 rw,fsync_mode=posix\n";

    #[test]
    fn a_disk_is_found_with_its_settings_and_interrupts() {
        let root = fixture(&[
            ("proc/self/mountinfo", MOUNTS),
            (
                "proc/interrupts",
                " CPU0 CPU1\n 35: 0 1 PCI-MSIX 0-edge virtio1-config\n 36: 0 851447 PCI-MSIX 1-edge virtio1-req.0\n 37: 1 1 x virtio11-req.0\n",
            ),
            ("proc/irq/36/effective_affinity_list", "1\n"),
            ("sys/devices/pci0/virtio1/block/vda/dev", "254:0\n"),
            ("sys/devices/pci0/virtio1/block/vda/size", "528482304\n"),
            ("sys/devices/pci0/virtio1/block/vda/mq/0/cpu_list", "0, 1\n"),
            ("sys/devices/pci0/virtio1/block/vda/queue/scheduler", "none [mq-deadline] kyber\n"),
            ("sys/devices/pci0/virtio1/block/vda/queue/write_cache", "write back\n"),
            ("sys/devices/pci0/virtio1/block/vda/queue/fua", "0\n"),
            ("sys/devices/pci0/virtio1/block/vda/queue/nr_requests", "256\n"),
            ("sys/dev/block/x", ""),
        ]);
        let link = |from: &str, to: &str| std::os::unix::fs::symlink(root.path(to), root.path(from)).unwrap();
        link("sys/dev/block/254:0", "sys/devices/pci0/virtio1/block/vda");
        link("sys/devices/pci0/virtio1/block/vda/device", "sys/devices/pci0/virtio1");
        let path = way_down(&root, Path::new("/srv/file"), (254, 0));
        assert_eq!((path.mount_point.as_str(), path.file_system.as_str()), ("/", "ext4"));
        assert_eq!(path.mount_options, "rw,relatime,data=ordered");
        let device = path.device.as_ref().expect("it has one");
        assert_eq!((device.name.as_str(), device.bus), ("vda", Bus::Virtio));
        assert_eq!((device.dev, device.partition_dev, device.queues), (254 << 20, None, Some(1)));
        assert_eq!(device.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!((device.fua, device.rotational, device.nr_requests), (Some(false), None, Some(256)));
        let interrupt = Interrupt { irq: 36, name: "virtio1-req.0".into(), cpus: Some("1".into()) };
        assert_eq!(device.interrupts, [interrupt]);
        assert_eq!(path.leaves(), [device]);
    }

    #[test]
    fn a_partition_leads_to_its_disk() {
        let root = fixture(&[
            ("proc/self/mountinfo", MOUNTS),
            ("proc/interrupts", " 50: 9 GIC 12 Level mmc0\n 51: 9 GIC 13 Level mmc0-cd\n"),
            ("sys/devices/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0/dev", "179:0\n"),
            ("sys/devices/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0/mmcblk0p2/dev", "179:2\n"),
            ("sys/devices/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0/mmcblk0p2/partition", "2\n"),
            ("sys/devices/soc/mmc_host/mmc0/mmc0:0001/name", "SD64G\n"),
            ("sys/dev/block/x", ""),
        ]);
        let disk = "sys/devices/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0";
        let link = |from: &str, to: &str| std::os::unix::fs::symlink(root.path(to), root.path(from)).unwrap();
        link("sys/dev/block/179:2", &format!("{disk}/mmcblk0p2"));
        link(&format!("{disk}/device"), "sys/devices/soc/mmc_host/mmc0/mmc0:0001");
        let path = way_down(&root, Path::new("/data/local/tmp/file"), (179, 2));
        assert_eq!(path.file_system, "f2fs");
        let device = path.device.expect("it has one");
        assert_eq!((device.name.as_str(), device.bus), ("mmcblk0", Bus::Mmc));
        assert_eq!((device.dev, device.partition_dev), (179 << 20, Some(179 << 20 | 2)));
        assert_eq!(device.model.as_deref(), Some("SD64G"));
        assert_eq!(device.controllers, ["mmc0"]);
        assert_eq!(device.interrupts.len(), 1);
        assert_eq!(device.interrupts[0].name, "mmc0");
    }

    #[test]
    fn a_file_system_without_a_device_is_reported_as_such() {
        let root = fixture(&[("proc/self/mountinfo", MOUNTS)]);
        let path = way_down(&root, Path::new("/mnt/with blank/file"), (0, 40));
        assert_eq!((path.file_system.as_str(), path.device.as_ref()), ("tmpfs", None));
        assert!(path.missing[0].starts_with("block device: tmpfs on /mnt/with blank has none"), "{path:?}");
    }

    #[test]
    fn controllers_have_the_names_that_their_buss_events_use() {
        for (way, bus, names) in [
            ("/sys/devices/pci0/nvme/nvme0", Bus::Nvme, &["nvme0"][..]),
            ("/sys/devices/pci0/ata1/host0/target0:0:0/0:0:0:0", Bus::Scsi, &["ata1", "0:0:0:0"]),
            (
                "/sys/devices/soc/1d84000.ufshc/host0/target0:0:0/0:0:0:1",
                Bus::Ufs,
                &["1d84000.ufshc", "0:0:0:1"],
            ),
            ("/sys/devices/pci0/virtio2", Bus::Virtio, &[]),
        ] {
            assert_eq!(controllers(bus, way), names, "{way}");
        }
    }

    #[test]
    fn an_nvme_disk_may_have_several_controllers_and_a_hidden_disk_for_each() {
        let disk = "sys/dev/block/259:0";
        let beside = |file: &str| format!("{disk}/device/{file}");
        let files = [
            beside("nvme0/nvme0c0n1/size"),
            beside("nvme0/nvme0c0n2/size"),
            beside("nvme3/nvme0c3n1/size"),
            beside("nvme3/hwmon1/name"),
            beside("nvme0n1/size"),
        ];
        let mut files: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "1")).collect();
        files.push((
            "proc/interrupts",
            "24: 0 0 PCI-MSIX nvme0q1\n25: 0 0 PCI-MSIX nvme1q1\n26: 0 0 PCI-MSIX nvme3q1",
        ));
        let root = fixture(&files);
        let many = Multipath::of(&root, disk, "nvme0n1");
        assert_eq!(many.controllers, ["nvme0", "nvme3"]);
        assert_eq!(many.paths, ["nvme0c0n1", "nvme0c3n1"]);
        let found = interrupts(
            &root,
            Bus::Nvme,
            "/sys/devices/virtual/nvme-subsystem/nvme-subsys0",
            &many.controllers,
        );
        assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["nvme0q1", "nvme3q1"]);
        // For all other buses, the path contains the only controller.
        assert!(Multipath::of(&root, disk, "nvme1n1").paths.is_empty());
    }

    #[test]
    fn buses_are_recognised_by_the_paths_of_their_devices() {
        for (way, name, bus) in [
            ("/sys/devices/pci0/nvme/nvme0", "nvme0n1", Bus::Nvme),
            ("/sys/devices/pci0/ata1/host0/target0:0:0/0:0:0:0", "sda", Bus::Scsi),
            ("/sys/devices/soc/1d84000.ufshc/host0/target0:0:0/0:0:0:1", "sdb", Bus::Ufs),
            ("/sys/devices/pci0/virtio2/host0/target0:0:0/0:0:0:0", "sda", Bus::Scsi),
            ("/sys/devices/virtual/block/loop0", "loop0", Bus::Loop),
            ("/sys/devices/virtual/block/dm-3", "dm-3", Bus::Dm),
            ("/sys/devices/virtual/block/zram0", "zram0", Bus::Other),
        ] {
            assert_eq!(bus_of(way, name, None), bus, "{way}");
        }
        let on_pci = "/sys/devices/pci0000:00/0000:00:02.0/host0/target0:0:0/0:0:0:0";
        for (driver, bus) in [("ufshcd", Bus::Ufs), ("ahci", Bus::Scsi)] {
            assert_eq!(bus_of(on_pci, "sda", Some(driver)), bus);
        }
    }
}
