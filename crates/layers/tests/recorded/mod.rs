//! Real recordings of synchronous writes, with the times that the writer measured: 16 KiB each, by
//! a real-time thread on a busy machine with two CPUs. `disk` overwrites with O_DSYNC on a virtual
//! disk. `journalled` appends with fsync to ext4 in a file behind a loop device on that disk.
#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;

use roundtrip_layers::storage::{Devices, Layer, Layers, Write, Writes};
use roundtrip_tracefs::{Body, Event, Recording, Trace};
use serde_json::Value;

/// A recording with its writes.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) trace: Trace,
    pub(crate) devices: Devices,
    pub(crate) writes: Vec<Write>,
    /// The device of the file system.
    pub(crate) device: u32,
}

impl Recorded {
    pub(crate) fn load(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/storage").join(name);
        let trace = Recording::open(&folder.join("recording")).unwrap().read(1).unwrap();
        let calls: Value =
            serde_json::from_slice(&std::fs::read(folder.join("calls.json")).unwrap()).unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        let list = |key: &str| calls[key].as_array().unwrap().iter();
        let tid = number(&calls["tid"]) as u32;
        Self {
            trace,
            devices: Devices {
                leaves: list("leaves").map(|dev| number(dev) as u32).collect(),
                interrupts: list("interrupts").map(|name| name.as_str().unwrap().to_owned()).collect(),
                ..Devices::default()
            },
            writes: list("calls")
                .map(|call| Write { start_ns: number(&call[0]), end_ns: number(&call[1]), tid })
                .collect(),
            device: number(&calls["device"]) as u32,
        }
    }

    pub(crate) fn layers(&self) -> Vec<Layers> {
        let writes = Writes::new(&self.trace, self.devices.clone());
        self.writes.iter().map(|&write| writes.layers(write)).collect()
    }
}

/// How long all calls together spent in a layer, in nanoseconds.
pub(crate) fn total_ns(calls: &[Layers], layer: Layer) -> u64 {
    calls.iter().map(|call| call.total_ns(layer)).sum()
}

/// An event's name, as `system/event`.
pub(crate) fn kind(trace: &Trace, event: &Event) -> String {
    let named = match event.body {
        Body::Switch { .. } => "sched/sched_switch",
        Body::Waking { .. } => "sched/sched_waking",
        Body::Wakeup { .. } => "sched/sched_wakeup",
        Body::Migrate { .. } => "sched/sched_migrate_task",
        Body::IrqEntry { .. } => "irq/irq_handler_entry",
        Body::IrqExit { .. } => "irq/irq_handler_exit",
        Body::SoftirqEntry { .. } => "irq/softirq_entry",
        Body::SoftirqExit { .. } => "irq/softirq_exit",
        Body::SysEnter { .. } => "raw_syscalls/sys_enter",
        Body::SysExit { .. } => "raw_syscalls/sys_exit",
        Body::VectorEntry { kind } => return format!("irq_vectors/{}_entry", trace.names.text(kind)),
        Body::VectorExit { kind } => return format!("irq_vectors/{}_exit", trace.names.text(kind)),
        Body::Other { event: kind, .. } => return trace.names.text(kind).to_owned(),
        _ => return format!("{:?}", event.body),
    };
    named.to_owned()
}
