//! What a whole recording shows, whichever part of it is asked about.

use std::rc::Rc;

use roundtrip_tracefs::{Numbers, Threads, Trace};

use super::groups::Groups;

/// The largest CPU number in an event. Larger ones come from damaged bytes.
pub(super) const MAX_CPUS: u32 = 1 << 14;

/// What a whole recording shows of its threads, for any number of timelines of parts of it.
#[derive(Clone, Debug)]
pub struct Basis<'t> {
    pub(super) trace: &'t Trace,
    pub(super) named: Rc<Threads<'t>>,
    pub(super) numbers: Rc<Numbers>,
    pub(super) groups: Rc<Groups>,
    /// The time and thread of each CPU's first event.
    pub(super) firsts: Rc<[Option<(u64, u32)>]>,
}

impl<'t> Basis<'t> {
    /// Reads a recording.
    #[must_use]
    pub fn of(trace: &'t Trace) -> Self {
        Self {
            trace,
            named: Rc::new(trace.threads()),
            numbers: Rc::new(Numbers::of(trace, &trace.machine)),
            groups: Rc::new(Groups::of(trace)),
            firsts: firsts(trace).into(),
        }
    }

    /// The recording.
    #[must_use]
    pub fn trace(&self) -> &'t Trace {
        self.trace
    }

    /// The recording's threads.
    #[must_use]
    pub fn threads(&self) -> &Threads<'t> {
        &self.named
    }
}

/// The time and thread of each CPU's first event.
fn firsts(trace: &Trace) -> Vec<Option<(u64, u32)>> {
    let cpus = trace.complete_from_ns.keys().filter(|&&cpu| cpu < MAX_CPUS).max().map_or(0, |cpu| cpu + 1);
    let mut firsts: Vec<Option<(u64, u32)>> = vec![None; cpus as usize];
    for event in trace.all().filter(|event| event.cpu < MAX_CPUS) {
        let index = event.cpu as usize;
        if index >= firsts.len() {
            firsts.resize(index + 1, None);
        }
        firsts[index].get_or_insert((event.time_ns, event.tid));
    }
    firsts
}

/// What a recording can show.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Knows {
    pub(crate) switches: bool,
    pub(crate) wakings: bool,
    pub(crate) wakeups: bool,
    pub(crate) migrations: bool,
    /// Whether wakeups by an interrupt can be distinguished from wakeups by the thread below it.
    pub(crate) interrupts: bool,
    pub(crate) system_calls: bool,
}

pub(super) fn knows(trace: &Trace) -> Knows {
    // On x86 the timer is an interrupt vector, elsewhere a device interrupt.
    let vectors = !trace.machine.starts_with("x86") || trace.has("irq_vectors/local_timer_entry");
    Knows {
        switches: trace.has("sched/sched_switch"),
        wakings: trace.has("sched/sched_waking"),
        wakeups: trace.has("sched/sched_wakeup"),
        migrations: trace.has("sched/sched_migrate_task"),
        interrupts: trace.has("irq/irq_handler_entry") && trace.has("irq/softirq_entry") && vectors,
        system_calls: trace
            .recorded
            .iter()
            .any(|event| event == "raw_syscalls/sys_enter" || event.starts_with("syscalls/sys_enter")),
    }
}
