//! Events in a few bytes each, for recordings of millions of events. They can only be read in
//! order. Must not know what an event means.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::event::{Body, Event};

/// The size of a block of packed events, in bytes.
const BLOCK_BYTES: usize = 1 << 20;

/// More bytes than any packed event has.
const MOST_BYTES: usize = 128;

/// Events are merged run by run if a run has at least this many events on average.
const LEAST_IN_RUN: usize = 8;

/// How many events are unpacked at once, to sort them.
const EVENTS_AT_ONCE: usize = if cfg!(test) { 100 } else { 1 << 20 };

/// An event as it is stored: its time follows from the previous event.
#[derive(Serialize, Deserialize)]
struct Stored {
    after_ns: i64,
    cpu: u32,
    tid: u32,
    body: Body,
}

/// Packed events.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    blocks: Vec<Vec<u8>>,
    count: usize,
    last_ns: u64,
    /// Where an event is earlier than the one before it.
    later_runs: Vec<Place>,
}

/// Where an event is: its block, its first byte there, and the time of the event before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    block: usize,
    at: usize,
    before_ns: u64,
}

impl Packed {
    /// Adds an event. Returns how many bytes it takes.
    pub fn push(&mut self, event: &Event) -> usize {
        let Event { time_ns, cpu, tid, body } = *event;
        let after_ns = time_ns.wrapping_sub(self.last_ns).cast_signed();
        let mut bytes = [0; MOST_BYTES];
        let stored = Stored { after_ns, cpu, tid, body };
        let bytes = postcard::to_slice(&stored, &mut bytes).expect("longer than any event");
        if self.blocks.last().is_none_or(|block| block.len() + bytes.len() > BLOCK_BYTES) {
            // The first block grows, because most recordings are small.
            let capacity = if self.blocks.is_empty() { 0 } else { BLOCK_BYTES };
            self.blocks.push(Vec::with_capacity(capacity));
        }
        let block = self.blocks.len() - 1;
        if time_ns < self.last_ns {
            let at = self.blocks[block].len();
            self.later_runs.push(Place { block, at, before_ns: self.last_ns });
        }
        self.blocks[block].extend_from_slice(bytes);
        self.count += 1;
        self.last_ns = time_ns;
        bytes.len()
    }

    /// The number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The time of the event that was added last, in nanoseconds.
    #[must_use]
    pub fn last_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.last_ns)
    }

    /// The events, in the order in which they were added.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { rest: &[], later: &self.blocks, time_ns: 0 }
    }

    /// The events, in the order in which they were added. Frees those that were read.
    pub fn into_events(self) -> impl Iterator<Item = Event> {
        let (mut runs, mut run) = (Runs::of(self), 0);
        std::iter::from_fn(move || {
            while run < runs.all.len() {
                if let Some(event) = runs.next(run) {
                    return Some(event);
                }
                run += 1;
            }
            None
        })
    }

    /// The events in chronological order. Events of the same time stay in their order.
    #[must_use]
    pub fn sorted(self) -> Self {
        if self.later_runs.is_empty() {
            return self;
        }
        if self.later_runs.len() * LEAST_IN_RUN > self.count {
            return self.sorted_in_parts().sorted();
        }
        let mut sorted = Self::default();
        let mut runs = Runs::of(self);
        let mut next: Vec<Option<Event>> = (0..runs.all.len()).map(|run| runs.next(run)).collect();
        let turn = |run: usize, next: &[Option<Event>]| next[run].map(|event| Reverse((event.time_ns, run)));
        let mut turns: BinaryHeap<_> = (0..next.len()).filter_map(|run| turn(run, &next)).collect();
        while let Some(Reverse((_, run))) = turns.pop() {
            let until = turns.peek().map(|Reverse(turn)| *turn);
            // A run goes on until another one has an earlier event, most often for many events.
            while let Some(event) =
                next[run].filter(|event| until.is_none_or(|until| (event.time_ns, run) < until))
            {
                sorted.push(&event);
                next[run] = runs.next(run);
            }
            turns.extend(turn(run, &next));
        }
        sorted
    }
}

impl Packed {
    /// The events, so many of them in chronological order at a time that the rest need not be
    /// unpacked.
    fn sorted_in_parts(self) -> Self {
        let mut sorted = Self::default();
        let mut part = Vec::new();
        let mut add = |part: &mut Vec<Event>| {
            part.sort_by_key(|event: &Event| event.time_ns);
            for event in part.drain(..) {
                sorted.push(&event);
            }
        };
        for event in self.into_events() {
            part.push(event);
            if part.len() == EVENTS_AT_ONCE {
                add(&mut part);
            }
        }
        add(&mut part);
        sorted
    }
}

/// Runs of events in chronological order, which are read at the same time. A block is freed once
/// all runs in it were read.
struct Runs {
    blocks: Vec<Vec<u8>>,
    /// How many runs still need each block.
    users: Vec<u32>,
    /// Where each run is, and where it ends.
    all: Vec<(Place, Place)>,
}

impl Runs {
    fn of(packed: Packed) -> Self {
        let Packed { blocks, later_runs, .. } = packed;
        let end = Place { block: blocks.len(), ..Place::default() };
        let ends = later_runs.iter().copied().chain([end]);
        let all: Vec<(Place, Place)> =
            [Place::default()].into_iter().chain(later_runs.iter().copied()).zip(ends).collect();
        let mut users = vec![0; blocks.len()];
        for (begin, end) in &all {
            let after = end.block + usize::from(end.at > 0);
            users[begin.block..after].iter_mut().for_each(|users| *users += 1);
        }
        Self { blocks, users, all }
    }

    /// The next event of a run; `None` after the last one.
    fn next(&mut self, run: usize) -> Option<Event> {
        loop {
            let (place, end) = self.all.get_mut(run)?;
            let block = place.block;
            if (block, place.at) >= (end.block, end.at) {
                // A run that ends within a block frees it once.
                let within = std::mem::take(&mut end.at) > 0;
                place.at = 0;
                if within {
                    self.free(block);
                }
                return None;
            }
            let rest = self.blocks.get(block)?.get(place.at..)?;
            if let Some((event, after)) = unpacked(rest, place.before_ns) {
                (place.at, place.before_ns) = (place.at + rest.len() - after.len(), event.time_ns);
                return Some(event);
            }
            (place.block, place.at) = (block + 1, 0);
            self.free(block);
        }
    }

    fn free(&mut self, block: usize) {
        self.users[block] -= 1;
        if self.users[block] == 0 {
            self.blocks[block] = Vec::new();
        }
    }
}

/// The first of these events, and the bytes after it.
fn unpacked(bytes: &[u8], before_ns: u64) -> Option<(Event, &[u8])> {
    let (stored, rest) = postcard::take_from_bytes::<Stored>(bytes).ok()?;
    let Stored { after_ns, cpu, tid, body } = stored;
    Some((Event { time_ns: before_ns.wrapping_add_signed(after_ns), cpu, tid, body }, rest))
}

/// Packed events, one after the other.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: &'a [u8],
    later: &'a [Vec<u8>],
    time_ns: u64,
}

impl Iterator for Iter<'_> {
    type Item = Event;

    #[inline(never)] // There are many callers.
    fn next(&mut self) -> Option<Event> {
        while self.rest.is_empty() {
            let (block, later) = self.later.split_first()?;
            (self.rest, self.later) = (block, later);
        }
        let (event, rest) = unpacked(self.rest, self.time_ns)?;
        (self.rest, self.time_ns) = (rest, event.time_ns);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, TaskState, ThreadRef};

    fn events() -> Vec<Event> {
        let thread = ThreadRef { tid: u32::MAX, prio: -1, comm: Name(u32::MAX) };
        let bodies = [
            Body::Exit,
            Body::Switch { prev: thread, prev_state: TaskState::PREEMPTED, next: thread },
            Body::SysEnter { number: i64::MIN, first: u64::MAX, third: u32::MAX, sixth: u32::MAX },
            Body::SysExit { number: -1, result: i64::MIN },
            Body::Idle { cpu: 3, state: None },
            Body::IpiRaise { target_cpu: Some(9), reason: Name(1) },
        ];
        let times = [5, 5, 0, u64::MAX, 7, 6];
        let of = |(body, time_ns)| Event { time_ns, cpu: u32::MAX, tid: u32::MAX, body };
        bodies.into_iter().zip(times).map(of).collect()
    }

    fn packed(events: &[Event]) -> Packed {
        let mut packed = Packed::default();
        for event in events {
            packed.push(event);
        }
        packed
    }

    #[test]
    fn events_come_back_as_they_were() {
        let events = events();
        let packed = packed(&events);
        assert_eq!(packed.iter().collect::<Vec<_>>(), events);
        assert_eq!((packed.len(), packed.is_empty(), Packed::default().is_empty()), (6, false, true));
        assert_eq!(Packed::default().iter().next(), None);
    }

    #[test]
    fn sorting_keeps_the_order_of_events_of_the_same_time() {
        // Each event earlier than the one before, runs of each CPU, and more than one block.
        for (count, run) in [(100, 2), (5_000, 100), (200_000, 5_000)] {
            let of = |index: u32| Event {
                time_ns: u64::from(index % run / 3 * 1000 + (count - index) / run),
                cpu: index / run,
                tid: index,
                body: Body::Exit,
            };
            let mut events: Vec<Event> = (0..count).map(of).collect();
            let sorted = packed(&events).sorted();
            events.sort_by_key(|event| event.time_ns);
            assert!(sorted.iter().eq(events), "{count} {run}");
        }
        let mut events = events();
        let sorted = packed(&events).sorted();
        events.sort_by_key(|event| event.time_ns);
        assert_eq!(sorted.iter().collect::<Vec<_>>(), events);
    }

    #[test]
    fn a_switch_takes_less_than_half_of_its_size_in_memory() {
        let thread = |tid| ThreadRef { tid, prio: 120, comm: Name(tid) };
        let switch = |index: u32| Event {
            time_ns: u64::from(index) * 20_000,
            cpu: index % 8,
            tid: 2000 + index % 500,
            body: Body::Switch {
                prev: thread(2000 + index % 500),
                prev_state: TaskState(1),
                next: thread(2001 + index % 500),
            },
        };
        let events: Vec<Event> = (0..10_000).map(switch).collect();
        let bytes: usize = packed(&events).blocks.iter().map(Vec::len).sum();
        assert!(bytes / events.len() <= size_of::<Event>() * 2 / 5, "{bytes}");
    }
}
