//! What a recording of writes lacks although it must have it: an event that occurs in every write,
//! the end of an interrupt, or a CPU that other events mention. The figures are then uncertain,
//! even if they add up. Must not know any layer's share, nor how a doubt is described.

use std::collections::{BTreeMap, BTreeSet};

use roundtrip_tracefs::{Body, Event, Trace};

use super::Devices;
use crate::timeline::Knows;

/// Why the figures of a recording are uncertain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Doubt {
    /// An event that occurs in every write is missing.
    Lacks(Expected),
    /// No request is for a device with nothing below it.
    NoRequestForDevice,
    /// None of these interrupts of the devices' controllers was recorded.
    NoInterruptOf(Vec<String>),
    /// Not every kind of interrupt was recorded, so their time is attributed to threads.
    NotEveryInterrupt,
    /// A kind of interrupt started and ended different numbers of times.
    Unpaired {
        /// The kind.
        of: InterruptKind,
        /// The number of starts.
        begun: u64,
        /// The number of ends.
        ended: u64,
    },
    /// Threads were woken on this CPU, or migrated to or from it, but it has no events.
    SilentCpu(u32),
}

/// The events without which time would be attributed to the wrong layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expected {
    /// The start of a system call.
    SysEnter,
    /// The end of a system call.
    SysExit,
    /// A context switch.
    Switch,
    /// One thread waking another.
    Waking,
    /// A woken thread enters a run queue.
    Wakeup,
    /// A bio is queued.
    BioQueue,
    /// A request is passed to the driver.
    RequestIssue,
    /// A request completes.
    RequestComplete,
}

impl Expected {
    const ALL: [Self; 8] = [
        Self::SysEnter,
        Self::SysExit,
        Self::Switch,
        Self::Waking,
        Self::Wakeup,
        Self::BioQueue,
        Self::RequestIssue,
        Self::RequestComplete,
    ];

    /// The kernel's name for it, with its system.
    #[must_use]
    pub fn event(self) -> &'static str {
        match self {
            Self::SysEnter => "raw_syscalls/sys_enter",
            Self::SysExit => "raw_syscalls/sys_exit",
            Self::Switch => "sched/sched_switch",
            Self::Waking => "sched/sched_waking",
            Self::Wakeup => "sched/sched_wakeup",
            Self::BioQueue => "block/block_bio_queue",
            Self::RequestIssue => "block/block_rq_issue",
            Self::RequestComplete => "block/block_rq_complete",
        }
    }

    /// Whether it belongs to the block layer. A file system without a device does not cause it.
    fn is_of_block_layer(self) -> bool {
        matches!(self, Self::BioQueue | Self::RequestIssue | Self::RequestComplete)
    }
}

/// A kind of interrupt with events at its start and end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterruptKind {
    /// Device interrupts.
    Device,
    /// Softirqs.
    Softirq,
    /// An interrupt vector of the CPU, by the kernel's name.
    Vector(String),
}

/// x86's interrupts that no device raises, each of which has two events.
const VECTORS: [&str; 5] = ["local_timer", "reschedule", "call_function", "call_function_single", "irq_work"];

#[derive(Default)]
struct Seen {
    kinds: BTreeSet<Expected>,
    controllers: bool,
    /// Whether a request was for a device with nothing below it.
    leaf: bool,
    /// Starts and ends of each kind of interrupt.
    pairs: BTreeMap<InterruptKind, [u64; 2]>,
    cpus: BTreeSet<u32>,
    named_cpus: BTreeSet<u32>,
}

/// The doubts; empty for a complete recording.
pub(super) fn doubts(trace: &Trace, devices: &Devices, knows: Knows) -> Vec<Doubt> {
    let mut seen = Seen::default();
    for event in trace.all() {
        seen.observe(trace, devices, &event);
    }
    let mut out = Vec::new();
    for expected in Expected::ALL {
        // Without wakeups, results are less precise, but not wrong. The recorder reports the lack.
        let needless = expected == Expected::Wakeup && !trace.has(expected.event());
        // A file system without a device makes no requests.
        let no_device = expected.is_of_block_layer() && devices.leaves.is_empty();
        if !seen.kinds.contains(&expected) && !needless && !no_device {
            out.push(Doubt::Lacks(expected));
        }
    }
    if !devices.leaves.is_empty() && seen.kinds.contains(&Expected::RequestIssue) && !seen.leaf {
        out.push(Doubt::NoRequestForDevice);
    }
    if !devices.interrupts.is_empty() && !seen.controllers {
        out.push(Doubt::NoInterruptOf(devices.interrupts.clone()));
    }
    let x86 = trace.machine.starts_with("x86");
    let lacks = |kind: &&str| {
        let vector = |end: &str| trace.has(&format!("irq_vectors/{kind}_{end}"));
        !vector("entry") || !vector("exit")
    };
    let lacking: Vec<&str> = if x86 { VECTORS.into_iter().filter(lacks).collect() } else { Vec::new() };
    if !knows.interrupts || !lacking.is_empty() || !trace.has("irq/softirq_exit") {
        out.push(Doubt::NotEveryInterrupt);
    }
    for (kind, &[begun, ended]) in &seen.pairs {
        // On each CPU, one interrupt may extend beyond either end of the recording.
        if begun.abs_diff(ended) > seen.cpus.len() as u64 {
            out.push(Doubt::Unpaired { of: kind.clone(), begun, ended });
        }
    }
    out.extend(seen.named_cpus.difference(&seen.cpus).map(|&cpu| Doubt::SilentCpu(cpu)));
    out
}

impl Seen {
    fn observe(&mut self, trace: &Trace, devices: &Devices, event: &Event) {
        self.cpus.insert(event.cpu);
        let mut pair = |kind: InterruptKind, end: usize| {
            if let Some(count) = self.pairs.entry(kind).or_default().get_mut(end) {
                *count += 1;
            }
        };
        let kind = match event.body {
            Body::SysEnter { .. } => Expected::SysEnter,
            Body::SysExit { .. } => Expected::SysExit,
            Body::Switch { .. } => Expected::Switch,
            Body::Waking { .. } => Expected::Waking,
            Body::Wakeup { target_cpu, .. } => {
                self.named_cpus.insert(target_cpu);
                Expected::Wakeup
            }
            Body::Migrate { to_cpu, from_cpu, .. } => {
                self.named_cpus.extend([to_cpu, from_cpu]);
                return;
            }
            Body::IrqEntry { name, .. } => {
                let name = trace.names.text(name);
                self.controllers |= devices.interrupts.iter().any(|ours| ours == name);
                return pair(InterruptKind::Device, 0);
            }
            Body::IrqExit { .. } => return pair(InterruptKind::Device, 1),
            Body::SoftirqEntry { .. } => return pair(InterruptKind::Softirq, 0),
            Body::SoftirqExit { .. } => return pair(InterruptKind::Softirq, 1),
            Body::VectorEntry { kind } => {
                return pair(InterruptKind::Vector(trace.names.text(kind).to_owned()), 0);
            }
            Body::VectorExit { kind } => {
                return pair(InterruptKind::Vector(trace.names.text(kind).to_owned()), 1);
            }
            Body::Other { event: kind, .. } => {
                let name = trace.names.text(kind);
                let Some(kind) = Expected::ALL.into_iter().find(|expected| expected.event() == name) else {
                    return;
                };
                if kind == Expected::RequestIssue && !self.leaf {
                    let dev = trace.number(event, "dev");
                    self.leaf = dev.is_some_and(|dev| devices.is_leaf(devices.disk(dev as u32)));
                }
                kind
            }
            _ => return,
        };
        self.kinds.insert(kind);
    }
}
