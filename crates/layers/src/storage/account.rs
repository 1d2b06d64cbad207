//! The interrupts during a call: their number, CPUs and duration. Must not know whose time they
//! took.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Write, Writes};
use crate::explanation::Softirq;
use crate::kernel_names::is_from_cpus;
use crate::timeline::Source;

/// Interrupts of one kind on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InterruptUse {
    /// The number of interrupts.
    pub count: u32,
    /// Their total duration, in nanoseconds.
    pub handled_ns: u64,
}

impl InterruptUse {
    /// Adds other interrupts.
    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.handled_ns += other.handled_ns;
    }
}

/// The interrupts of a call, by CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interruptions {
    /// Interrupts of its devices' controllers.
    pub controller: BTreeMap<u32, InterruptUse>,
    /// Interrupts that other CPUs sent (function calls and rescheduling).
    pub from_cpus: BTreeMap<u32, InterruptUse>,
    /// The block layer's softirq.
    pub block_softirq: BTreeMap<u32, InterruptUse>,
}

pub(super) fn count(writes: &Writes<'_>, write: Write) -> Interruptions {
    let mut out = Interruptions::default();
    let names = &writes.timeline.trace.names;
    for cpu in 0..writes.timeline.cpu_count() {
        let Some(line) = writes.timeline.cpu(cpu) else { continue };
        for stretch in line.interrupts.within(write.start_ns, write.end_ns) {
            let by_cpu = match stretch.source {
                Source::Device { name, .. }
                    if writes.devices.interrupts.iter().any(|ours| ours == names.text(name)) =>
                {
                    &mut out.controller
                }
                Source::Softirq(Softirq::BLOCK) => &mut out.block_softirq,
                Source::Vector(kind) if is_from_cpus(names.text(kind)) => &mut out.from_cpus,
                _ => continue,
            };
            let handled_ns = stretch.end_ns - stretch.begin_ns;
            by_cpu.entry(cpu).or_default().add(InterruptUse { count: 1, handled_ns });
        }
    }
    out
}
