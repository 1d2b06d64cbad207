//! What a recording of writes lacks that it must have had: an event that no write is without, an
//! interrupt's beginning without its end, a CPU of which others speak. Its figures are then not
//! certain, however well they add up. Must not know any layer's share, nor how a doubt is told.

use std::collections::{BTreeMap, BTreeSet};

use tracefs::{Body, Event, Trace};

use super::Devices;
use crate::timeline::Knows;

/// Why the figures of a recording are not certain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Doubt {
    /// An event that no write is without is not in the recording.
    Lacks(Expected),
    /// No request is for a device that has nothing below it.
    NoRequestForDevice,
    /// None of these interrupts of the devices' controllers is in the recording.
    NoInterruptOf(Vec<String>),
    /// Not every kind of interrupt was recorded: what they did is taken for the work of threads.
    NotEveryInterrupt,
    /// One kind of interrupt did not end as often as it began.
    Unpaired {
        /// Which kind.
        of: InterruptKind,
        /// How many beginnings.
        begun: u64,
        /// How many ends.
        ended: u64,
    },
    /// Threads were woken on this CPU, or moved to or from it, and it has no events.
    SilentCpu(u32),
}

/// The events without which time would go from one layer to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expected {
    /// The begin of a system call.
    SysEnter,
    /// The end of a system call.
    SysExit,
    /// A CPU going from one thread to another.
    Switch,
    /// One thread waking another.
    Waking,
    /// A woken thread on a run queue.
    Wakeup,
    /// A part of a request, as it is queued.
    BioQueue,
    /// A request, as the driver gets it.
    RequestIssue,
    /// A request that is done.
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

    /// The kernel's name for it, with its group.
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

    /// Whether it is one of the block layer's, which a file system without a device does not cause.
    fn is_of_block_layer(self) -> bool {
        matches!(self, Self::BioQueue | Self::RequestIssue | Self::RequestComplete)
    }
}

/// A kind of interrupt whose begin and end leave events.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterruptKind {
    /// The devices'.
    Device,
    /// Softirqs.
    Softirq,
    /// A vector of the CPU's, by the kernel's name for it.
    Vector(String),
}

/// x86's interrupts that no device raises, of which each leaves its two events.
const VECTORS: [&str; 5] = ["local_timer", "reschedule", "call_function", "call_function_single", "irq_work"];

#[derive(Default)]
struct Seen {
    kinds: BTreeSet<Expected>,
    controllers: bool,
    /// Whether a request was for a device that has nothing below it.
    leaf: bool,
    /// Beginnings and ends of each kind of interrupt.
    pairs: BTreeMap<InterruptKind, [u64; 2]>,
    cpus: BTreeSet<u32>,
    named_cpus: BTreeSet<u32>,
}

/// What is to be doubted; empty for a recording that has all it should.
pub(super) fn doubts(trace: &Trace, devices: &Devices, knows: Knows) -> Vec<Doubt> {
    let mut seen = Seen::default();
    trace.events.iter().for_each(|event| seen.observe(trace, devices, event));
    let mut out = Vec::new();
    for expected in Expected::ALL {
        // Coarser without it, and said by who recorded: not wrong.
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
        // One may last across either end of the recording, on each CPU.
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
                    let dev = trace.field(event, "dev").and_then(|value| value.number());
                    self.leaf = dev.is_some_and(|dev| devices.is_leaf(devices.disk(dev as u32)));
                }
                kind
            }
            _ => return,
        };
        self.kinds.insert(kind);
    }
}
