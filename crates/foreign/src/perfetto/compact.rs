//! `CompactSched`: switches and wakings as columns. Omits what the previous switch implies.

use std::collections::BTreeMap;

use roundtrip_perfetto::read::{Message, Value, packed};
use roundtrip_tracefs::{Body, Event, EventContext, Name, Names, TaskState, ThreadRef};

/// An event of a bundle.
pub(super) enum Found {
    Whole(Event),
    Switch { time_ns: u64, prev_state: TaskState, next: ThreadRef },
    Waking { time_ns: u64, thread: ThreadRef, target_cpu: u32, context: EventContext },
}

impl Found {
    pub(super) fn time_ns(&self) -> u64 {
        match self {
            Self::Whole(event) => event.time_ns,
            Self::Switch { time_ns, .. } | Self::Waking { time_ns, .. } => *time_ns,
        }
    }

    /// The complete event, if the thread that ran on its CPU is known.
    pub(super) fn event(self, cpu: u32, running: &mut BTreeMap<u32, ThreadRef>) -> Option<Event> {
        let before = running.get(&cpu).copied();
        match self {
            Self::Whole(event) => {
                if let Body::Switch { next, .. } = event.body {
                    running.insert(cpu, next);
                } else if before.is_none_or(|before| before.tid != event.tid) {
                    // The thread's priority and name are unknown until the next switch to it.
                    running.insert(cpu, ThreadRef { tid: event.tid, prio: 120, comm: Name(0) });
                }
                Some(event)
            }
            Self::Switch { time_ns, prev_state, next } => {
                running.insert(cpu, next);
                let prev = before?;
                Some(Event { time_ns, cpu, tid: prev.tid, body: Body::Switch { prev, prev_state, next } })
            }
            Self::Waking { time_ns, thread, target_cpu, context } => {
                let body = Body::Waking { thread, target_cpu, context };
                Some(Event { time_ns, cpu, tid: before?.tid, body })
            }
        }
    }
}

/// Reads the columns.
#[expect(clippy::cast_possible_truncation, reason = "32-bit columns; negative ones are sent as 64 bits")]
pub(super) fn read(bytes: &[u8], old: bool, names: &mut Names, into: &mut Vec<Found>) -> Result<(), String> {
    let mut texts: Vec<Name> = Vec::new();
    let mut columns: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for field in Message::new(bytes) {
        match field? {
            (5, Value::Bytes(text)) => texts.push(names.intern(&String::from_utf8_lossy(text))),
            (number, Value::Bytes(bytes)) => columns.entry(number).or_default().extend(packed(bytes)?),
            (number, Value::Number(value)) => columns.entry(number).or_default().push(value),
        }
    }
    let column = |number: u32| columns.get(&number).map(Vec::as_slice).unwrap_or_default();
    let rows = |numbers: [u32; 5]| {
        let length = column(numbers[0]).len();
        let equal = numbers.iter().all(|&number| column(number).len() == length);
        equal.then_some(0..length).ok_or("its columns have different lengths")
    };
    let comm = |index: u64| {
        let found = usize::try_from(index).ok().and_then(|index| texts.get(index));
        found.copied().ok_or("it refers to a name that it does not have")
    };
    let mut time_ns = 0u64;
    for row in rows([1, 2, 3, 4, 6])? {
        let at = |number: u32| column(number)[row];
        time_ns = time_ns.wrapping_add(at(1));
        let next = ThreadRef { tid: at(3) as u32, prio: at(4) as i32, comm: comm(at(6))? };
        into.push(Found::Switch { time_ns, prev_state: state(at(2).cast_signed(), old), next });
    }
    time_ns = 0;
    for row in rows([7, 8, 9, 10, 11])? {
        let at = |number: u32| column(number)[row];
        time_ns = time_ns.wrapping_add(at(7));
        let thread = ThreadRef { tid: at(8) as u32, prio: at(10) as i32, comm: comm(at(11))? };
        // Older versions of Perfetto do not write the flags.
        let flags = column(12).get(row).map(|&flags| flags as u32);
        let context = flags.map_or(EventContext::Unknown, EventContext::of_flags);
        into.push(Found::Waking { time_ns, thread, target_cpu: at(9) as u32, context });
    }
    Ok(())
}

/// The kernel's bits of a state (its `sched.h`: `TASK_REPORT_MAX` from 4.14 on, before that
/// `TASK_STATE_MAX`).
#[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "bits")]
pub(super) fn state(bits: i64, old: bool) -> TaskState {
    let bits = bits as u32;
    let of = |known: u32| if known == 0 && bits != 0 { TaskState::UNKNOWN } else { TaskState(known) };
    if !old {
        return if bits & 0x100 != 0 { TaskState::PREEMPTED } else { of(bits & 0xff) };
    }
    if bits & !0x7ff != 0 {
        return TaskState::PREEMPTED;
    }
    // The bits of dead and zombie are swapped, and the bit of parked is another one.
    let moved = [(0x10, 0x20), (0x20, 0x10), (0x40, 0x10), (0x200, 0x40)];
    let rest = moved.iter().filter(|(from, _)| bits & from != 0).fold(0, |all, (_, to)| all | to);
    of(bits & 0xf | rest)
}
