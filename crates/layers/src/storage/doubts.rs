//! What a recording of writes lacks that it must have had: an event that no write is without, an interrupt's beginning without
//! its end, a CPU of which others speak. Its figures are then not certain, however well they add up. Must not know any
//! layer's share.

use std::collections::{BTreeMap, BTreeSet};

use tracefs::{Body, Event, Trace};

use super::Devices;
use crate::timeline::Knows;

/// Without these, time would go from one layer to another: what, and what is not certain then.
const EXPECTED: [(&str, &str); 8] = [
    ("raw_syscalls/sys_enter", "platform and fs cannot be told apart"),
    ("raw_syscalls/sys_exit", "platform and fs cannot be told apart"),
    ("sched/sched_switch", "who ran is not known"),
    ("sched/sched_waking", "what ended a wait is not known"),
    ("sched/sched_wakeup", "wake is not certain"),
    ("block/block_bio_queue", "whose requests they were, and block, are not certain"),
    ("block/block_rq_issue", "device is not known"),
    ("block/block_rq_complete", "device is not known"),
];

/// x86's interrupts that no device raises, of which each leaves its two events.
const VECTORS: [&str; 5] = ["local_timer", "reschedule", "call_function", "call_function_single", "irq_work"];

#[derive(Default)]
struct Seen {
    kinds: BTreeSet<&'static str>,
    controllers: bool,
    /// Whether a request was for a device that has nothing below it.
    leaf: bool,
    /// Beginnings and ends of each kind of interrupt.
    pairs: BTreeMap<String, [u64; 2]>,
    cpus: BTreeSet<u32>,
    named_cpus: BTreeSet<u32>,
}

/// What is to be doubted, a sentence each; empty for a recording that has all it should.
pub(super) fn doubts(trace: &Trace, devices: &Devices, knows: Knows) -> Vec<String> {
    let mut seen = Seen::default();
    trace.events.iter().for_each(|event| seen.observe(trace, devices, event));
    let mut out = Vec::new();
    for (event, effect) in EXPECTED {
        // Coarser without it, and said by who recorded: not wrong.
        let needless = event == "sched/sched_wakeup" && !trace.has(event);
        // A file system without a device makes no requests.
        let no_device = event.starts_with("block/") && devices.leaves.is_empty();
        if !seen.kinds.contains(event) && !needless && !no_device {
            out.push(format!("the recording has no {event}: {effect}"));
        }
    }
    if !devices.leaves.is_empty() && seen.kinds.contains("block/block_rq_issue") && !seen.leaf {
        out.push("the recording has no request for the device itself: device is not known".to_owned());
    }
    if !devices.interrupts.is_empty() && !seen.controllers {
        out.push(format!(
            "the recording has no irq/irq_handler_entry of {}: device includes what irq should have",
            devices.interrupts.join(", ")
        ));
    }
    let x86 = trace.machine.starts_with("x86");
    let lacks = |kind: &&str| {
        let vector = |end: &str| trace.has(&format!("irq_vectors/{kind}_{end}"));
        !vector("entry") || !vector("exit")
    };
    let lacking: Vec<&str> = if x86 { VECTORS.into_iter().filter(lacks).collect() } else { Vec::new() };
    if !knows.interrupts || !lacking.is_empty() || !trace.has("irq/softirq_exit") {
        out.push(
            "not every kind of interrupt was recorded: what they did is taken for the work of threads, and held, helper \
             and block are not certain"
                .to_owned(),
        );
    }
    for (kind, [begun, ended]) in &seen.pairs {
        // One may last across either end of the recording, on each CPU.
        if begun.abs_diff(*ended) > seen.cpus.len() as u64 {
            out.push(format!(
                "{kind} began {begun} times and ended {ended}: how long they lasted is not certain"
            ));
        }
    }
    for cpu in seen.named_cpus.difference(&seen.cpus) {
        out.push(format!("CPU {cpu} has no events, and threads were woken there: what it did is not known"));
    }
    out
}

impl Seen {
    fn observe(&mut self, trace: &Trace, devices: &Devices, event: &Event) {
        self.cpus.insert(event.cpu);
        let mut pair = |kind: String, end: usize| {
            if let Some(count) = self.pairs.entry(kind).or_default().get_mut(end) {
                *count += 1;
            }
        };
        let kind = match event.body {
            Body::SysEnter { .. } => "raw_syscalls/sys_enter",
            Body::SysExit { .. } => "raw_syscalls/sys_exit",
            Body::Switch { .. } => "sched/sched_switch",
            Body::Waking { .. } => "sched/sched_waking",
            Body::Wakeup { target_cpu, .. } => {
                self.named_cpus.insert(target_cpu);
                "sched/sched_wakeup"
            }
            Body::Migrate { to_cpu, from_cpu, .. } => {
                self.named_cpus.extend([to_cpu, from_cpu]);
                return;
            }
            Body::IrqEntry { name, .. } => {
                let name = trace.names.text(name);
                self.controllers |= devices.interrupts.iter().any(|ours| ours == name);
                return pair("interrupts".to_owned(), 0);
            }
            Body::IrqExit { .. } => return pair("interrupts".to_owned(), 1),
            Body::SoftirqEntry { .. } => return pair("soft interrupts".to_owned(), 0),
            Body::SoftirqExit { .. } => return pair("soft interrupts".to_owned(), 1),
            Body::VectorEntry { kind } => return pair(trace.names.text(kind).to_owned() + " interrupts", 0),
            Body::VectorExit { kind } => return pair(trace.names.text(kind).to_owned() + " interrupts", 1),
            Body::Other { event: kind, .. } => {
                let name = trace.names.text(kind);
                if name == "block/block_rq_issue" && !self.leaf {
                    let dev = trace.field(event, "dev").and_then(|value| value.number());
                    self.leaf = dev.is_some_and(|dev| devices.is_leaf(devices.disk(dev as u32)));
                }
                match EXPECTED.iter().find(|expected| expected.0 == name) {
                    Some(expected) => expected.0,
                    None => return,
                }
            }
            _ => return,
        };
        self.kinds.insert(kind);
    }
}
