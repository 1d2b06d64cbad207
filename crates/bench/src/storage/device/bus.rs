//! The names that each bus uses for its devices: which bus a device is on, what events call its
//! controllers, and which interrupts are theirs. Reads sysfs and procfs. Must not know what is
//! below or above a device.

use roundtrip_run::storage::{Bus, Interrupt};

use crate::kernel::root::Root;

/// Finds the bus from the device's sysfs directory, its name, and the driver name of its SCSI host.
pub(super) fn bus_of(way: &str, name: &str, driver: Option<&str>) -> Bus {
    let has = |part: &str| way.contains(part);
    let named = |prefix: &str| name.starts_with(prefix);
    match () {
        () if has("/mmc_host/") => Bus::Mmc,
        // On PCI, the path does not show UFS.
        () if driver == Some("ufshcd") || has("ufs") && has("/host") => Bus::Ufs,
        () if has("/nvme") || named("nvme") => Bus::Nvme,
        () if has("/target") && has("/host") => Bus::Scsi,
        () if named("loop") => Bus::Loop,
        () if named("dm-") => Bus::Dm,
        () if has("/virtio") => Bus::Virtio,
        () => Bus::Other,
    }
}

/// NVMe's native multipathing (drivers/nvme/host/multipath.c): a disk of the subsystem, "nvme0n1",
/// and below it a hidden one for each controller, "nvme0c1n1".
#[derive(Default)]
pub(super) struct Multipath {
    pub(super) controllers: Vec<String>,
    pub(super) paths: Vec<String>,
}

impl Multipath {
    pub(super) fn of(root: &Root, disk: &str, name: &str) -> Self {
        let mut many = Self::default();
        let Some((subsystem, space)) = name.rsplit_once('n') else { return many };
        // The controllers are listed beside the disk, each with its path.
        for controller in root.names(format!("{disk}/device")) {
            let is_path = |path: &String| {
                let own = path.strip_prefix(subsystem).and_then(|rest| rest.strip_prefix('c'));
                own.and_then(|rest| rest.split_once('n')).is_some_and(|(_, of)| of == space)
            };
            let mut paths = root.names(format!("{disk}/device/{controller}"));
            paths.retain(is_path);
            if !paths.is_empty() {
                many.controllers.push(controller);
                many.paths.append(&mut paths);
            }
        }
        many
    }
}

/// The component of a device's sysfs directory that consists of this prefix and a number.
pub(super) fn numbered<'a>(way: &'a str, prefix: &str) -> Option<&'a str> {
    way.split('/').find(|part| {
        part.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// The names of the controllers in the events of a bus.
pub(super) fn controllers(bus: Bus, way: &str) -> Vec<String> {
    let name = match bus {
        Bus::Mmc => numbered(way, "mmc"),
        Bus::Nvme => numbered(way, "nvme"),
        // SCSI's events name host, channel, target and unit; UFS's events name the host's device.
        Bus::Scsi | Bus::Ufs => {
            let unit = way.rsplit('/').next();
            let host = numbered(way, "host").and_then(|host| way.split_once(&format!("/{host}/")));
            let device = host.and_then(|(device, _)| device.rsplit('/').next());
            return [device, unit].into_iter().flatten().map(str::to_owned).collect();
        }
        Bus::Virtio | Bus::Loop | Bus::Dm | Bus::Other => None,
    };
    name.map(str::to_owned).into_iter().collect()
}

/// The controllers' interrupts, by the names that their drivers give them.
pub(super) fn interrupts(root: &Root, bus: Bus, way: &str, controllers: &[String]) -> Vec<Interrupt> {
    let is_ours: Box<dyn Fn(&str) -> bool> = match (bus, numbered(way, "virtio"), numbered(way, "mmc")) {
        (_, Some(virtio), _) => {
            let prefix = format!("{virtio}-");
            // The configuration interrupt is not for requests.
            Box::new(move |name| name.starts_with(&prefix) && !name.ends_with("-config"))
        }
        (Bus::Nvme, ..) => {
            let prefixes: Vec<String> = controllers.iter().map(|nvme| format!("{nvme}q")).collect();
            Box::new(move |name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        }
        (Bus::Mmc, _, Some(mmc)) => {
            let host = mmc.to_owned();
            Box::new(move |name| name == host)
        }
        (Bus::Ufs, ..) => Box::new(|name| name.starts_with("ufshcd")),
        // AHCI's names contain the PCI address: "ahci[0000:00:1f.2]".
        (Bus::Scsi, ..) => {
            let way = way.to_owned();
            Box::new(move |name| {
                let address = name.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
                address.is_some_and(|address| way.contains(&format!("/{address}/")))
            })
        }
        _ => return Vec::new(),
    };
    let table = root.read("proc/interrupts").unwrap_or_default();
    let lines = table.lines().filter_map(|line| {
        let (irq, rest) = line.trim().split_once(':')?;
        Some((irq.parse::<u32>().ok()?, rest.split_whitespace().last()?))
    });
    lines
        .filter(|(_, name)| is_ours(name))
        .map(|(irq, name)| Interrupt {
            irq,
            name: name.to_owned(),
            cpus: root.read(format!("proc/irq/{irq}/effective_affinity_list")),
        })
        .collect()
}
