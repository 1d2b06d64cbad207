//! NVMe's native multipathing (drivers/nvme/host/multipath.c): requests are issued to hidden disks,
//! one for each controller that reaches the disk. sysfs has their names but no numbers; block
//! events have their numbers but no names. `nvme_setup_cmd` precedes `block_rq_issue` and names the
//! disk, which connects the two. Must not know what requests are used for.

use std::collections::{BTreeMap, HashMap};

use roundtrip_tracefs::{Body, Trace};

use super::Devices;

/// Pairs of device numbers: a hidden disk that has requests in the recording, and the disk of
/// `devices` that it is a path to.
pub(super) fn of(trace: &Trace, devices: &Devices) -> Vec<(u32, u32)> {
    if devices.controllers.iter().all(|controller| controller.paths.is_empty()) {
        return Vec::new();
    }
    // By CPU: the disk of the last command that was set up there. An interrupt may have set up
    // another command since.
    let mut ready: HashMap<u32, String> = HashMap::new();
    let mut named: BTreeMap<u32, HashMap<String, u32>> = BTreeMap::new();
    for event in trace.all() {
        let Body::Other { event: kind, .. } = event.body else { continue };
        match trace.names.text(kind) {
            "nvme/nvme_setup_cmd" => {
                let disk = trace.field(&event, "disk");
                let disk = disk.as_ref().and_then(|value| value.text()).unwrap_or_default();
                ready.insert(event.cpu, disk.to_owned());
            }
            "block/block_rq_issue" => {
                let dev = trace.number(&event, "dev").and_then(|dev| u32::try_from(dev).ok());
                if let Some((dev, disk)) = dev.zip(ready.remove(&event.cpu)) {
                    *named.entry(dev).or_default().entry(disk).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    let most = named.into_iter().filter_map(|(dev, names)| {
        let (disk, _) = names.into_iter().max_by_key(|(_, count)| *count)?;
        let ours = devices.controllers.iter().find(|ours| ours.paths.contains(&disk))?;
        Some((dev, ours.dev))
    });
    most.collect()
}
