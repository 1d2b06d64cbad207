//! `CompactSched`: switches and wakings as columns. Omits what the previous switch implies.

use std::collections::BTreeMap;

use roundtrip_perfetto::read::{Message, Value, packed, packed_length};
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

/// More rows than a bundle has, even of the longest page.
pub(super) const MAX_ROWS: usize = 2_000_000;

/// What is wrong with a bundle of more than [`MAX_ROWS`] events.
pub(super) const TOO_LONG: &str = "a bundle has more than two million events";

/// More parts than a column is sent in.
const MAX_PARTS: usize = 1 << 12;

/// More different names of threads than a bundle has.
const MAX_TEXTS: usize = 1 << 16;

/// The parts of a column in the order in which they were sent: packed numbers, or a single one.
#[derive(Clone, Default)]
struct Column<'a>(Vec<Part<'a>>);

#[derive(Clone, Copy)]
enum Part<'a> {
    Packed(&'a [u8]),
    One(u64),
}

impl<'a> Column<'a> {
    fn len(&self) -> usize {
        let length = |part: &Part| if let Part::Packed(bytes) = part { packed_length(bytes) } else { 1 };
        self.0.iter().map(length).sum()
    }

    fn numbers(self) -> impl Iterator<Item = Result<u64, String>> + 'a {
        self.0.into_iter().flat_map(|part| {
            let (bytes, one) = match part {
                Part::Packed(bytes) => (bytes, None),
                Part::One(number) => (&[][..], Some(Ok(number))),
            };
            packed(bytes).chain(one)
        })
    }
}

/// The numbers of five columns, and of an optional one.
type Row = ([u64; 5], Option<u64>);

/// The columns by field number. Their numbers are decoded when they are needed, because they take
/// eight times as much memory.
struct Columns<'a>(BTreeMap<u32, Column<'a>>);

impl<'a> Columns<'a> {
    /// The rows of five columns of equal length, at most `room`. Each comes with its number in the
    /// column `optional`, or `None` if that column is shorter.
    fn rows(
        &mut self,
        numbers: [u32; 5],
        optional: Option<u32>,
        room: usize,
    ) -> Result<impl Iterator<Item = Result<Row, String>> + use<'a>, String> {
        let columns = numbers.map(|number| self.0.remove(&number).unwrap_or_default());
        let length = columns[0].len();
        if columns.iter().any(|column| column.len() != length) {
            return Err("its columns have different lengths".to_owned());
        }
        if length > room {
            return Err(TOO_LONG.to_owned());
        }
        let extra = optional.and_then(|number| self.0.remove(&number)).unwrap_or_default();
        let mut columns = columns.map(Column::numbers);
        let mut extra = extra.numbers();
        let mut row = move || -> Result<Row, String> {
            let mut row = [0; 5];
            for (value, column) in row.iter_mut().zip(&mut columns) {
                *value = column.next().ok_or("a column ends early")??;
            }
            Ok((row, extra.next().transpose()?))
        };
        Ok((0..length).map(move |_| row()))
    }
}

/// Reads the columns.
#[expect(clippy::cast_possible_truncation, reason = "32-bit columns; negative ones are sent as 64 bits")]
pub(super) fn read(bytes: &[u8], old: bool, names: &mut Names, into: &mut Vec<Found>) -> Result<(), String> {
    let mut texts: Vec<Name> = Vec::new();
    let mut columns = Columns(BTreeMap::new());
    for field in Message::new(bytes) {
        let (number, part) = match field? {
            (5, Value::Bytes(_)) if texts.len() >= MAX_TEXTS => {
                return Err("a bundle names too many threads".to_owned());
            }
            (5, Value::Bytes(text)) => {
                texts.push(names.intern(&String::from_utf8_lossy(text)));
                continue;
            }
            // The columns of switches and wakings.
            (number @ (1..=4 | 6..=12), value) => match value {
                Value::Bytes(bytes) => (number, Part::Packed(bytes)),
                Value::Number(value) => (number, Part::One(value)),
            },
            _ => continue,
        };
        let parts = &mut columns.0.entry(number).or_default().0;
        parts.push(part);
        if parts.len() > MAX_PARTS {
            return Err("its columns are in too many parts".to_owned());
        }
    }
    let comm = |index: u64| {
        let found = usize::try_from(index).ok().and_then(|index| texts.get(index));
        found.copied().ok_or("it refers to a name that it does not have")
    };
    let mut time_ns = 0u64;
    for row in columns.rows([1, 2, 3, 4, 6], None, MAX_ROWS.saturating_sub(into.len()))? {
        let ([after_ns, bits, tid, prio, name], _) = row?;
        time_ns = time_ns.wrapping_add(after_ns);
        let next = ThreadRef { tid: tid as u32, prio: prio as i32, comm: comm(name)? };
        into.push(Found::Switch { time_ns, prev_state: state(bits.cast_signed(), old), next });
    }
    time_ns = 0;
    // Older versions of Perfetto do not write the flags, the optional column.
    for row in columns.rows([7, 8, 9, 10, 11], Some(12), MAX_ROWS.saturating_sub(into.len()))? {
        let ([after_ns, tid, target_cpu, prio, name], flags) = row?;
        time_ns = time_ns.wrapping_add(after_ns);
        let thread = ThreadRef { tid: tid as u32, prio: prio as i32, comm: comm(name)? };
        let context = flags.map_or(EventContext::Unknown, |flags| EventContext::of_flags(flags as u32));
        into.push(Found::Waking { time_ns, thread, target_cpu: target_cpu as u32, context });
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
