//! Keeps only what questions about some stretches of a recording may need, so that memory does not
//! grow with the recording. Must not know the questions.

use super::{ThreadLine, Unrecorded};

/// How much of the recording is kept before and after each stretch, in nanoseconds.
const AROUND_NS: u64 = 50_000_000;

/// The stretches that questions may be about, in order and without overlap.
#[derive(Clone, Debug)]
pub(super) struct Within {
    stretches: Vec<(u64, u64)>,
    /// Sorted. If set, only events at these times are kept.
    event_times: Option<Vec<u64>>,
}

impl Within {
    pub(super) fn new(stretches: &[(u64, u64)]) -> Self {
        let around = |&(from_ns, to_ns): &(u64, u64)| {
            (from_ns.saturating_sub(AROUND_NS), to_ns.saturating_add(AROUND_NS))
        };
        Self::united(stretches.iter().map(around).collect())
    }

    /// Keeps only the events of these times.
    pub(super) fn with_events_at(mut self, mut times_ns: Vec<u64>) -> Self {
        times_ns.sort_unstable();
        self.event_times = Some(times_ns);
        self
    }

    fn united(mut stretches: Vec<(u64, u64)>) -> Self {
        stretches.sort_unstable();
        let mut united: Vec<(u64, u64)> = Vec::new();
        for (from_ns, to_ns) in stretches {
            match united.last_mut() {
                Some(last) if from_ns <= last.1 => last.1 = last.1.max(to_ns),
                _ => united.push((from_ns, to_ns)),
            }
        }
        Self { stretches: united, event_times: None }
    }

    /// Whether an event of this time is kept.
    pub(super) fn keeps_event(&self, time_ns: u64) -> bool {
        match &self.event_times {
            Some(times_ns) => times_ns.binary_search(&time_ns).is_ok(),
            None => self.touches(time_ns, time_ns),
        }
    }

    fn touches(&self, from_ns: u64, to_ns: u64) -> bool {
        let first = self.stretches.partition_point(|stretch| stretch.1 < from_ns);
        self.stretches.get(first).is_some_and(|stretch| stretch.0 <= to_ns)
    }

    /// Of the first `decided` entries, keeps those within the stretches, and for each stretch the
    /// last entry before it and the first one after it. Entries are in order of their times.
    pub(super) fn keep<T>(&self, entries: &mut Vec<T>, decided: usize, time_ns: impl Fn(&T) -> u64) {
        let (mut kept, mut before_ns) = (0, 0);
        for index in 0..entries.len() {
            let own_ns = time_ns(&entries[index]);
            let after_ns = entries.get(index + 1).map_or(u64::MAX, &time_ns);
            if index >= decided || self.touches(before_ns, after_ns) {
                entries.swap(kept, index);
                kept += 1;
            }
            before_ns = own_ns;
        }
        entries.truncate(kept);
    }

    /// Like [`Self::keep`], for entries that later events do not change, except for the last one.
    pub(super) fn keep_final<T>(&self, entries: &mut Vec<T>, time_ns: impl Fn(&T) -> u64) {
        let decided = entries.len().saturating_sub(1);
        self.keep(entries, decided, time_ns);
    }

    pub(super) fn keep_unrecorded(&self, entries: &mut Vec<Unrecorded>) {
        entries.retain(|switch| self.touches(switch.after_ns, switch.before_ns));
    }

    /// The stretches, each as long as what a thread did at its ends.
    fn of(&self, line: &ThreadLine) -> Self {
        let lengthened = self.stretches.iter().map(|&(from_ns, to_ns)| {
            let before = line.doing.partition_point(|change| change.0 <= from_ns).checked_sub(1);
            let after = line.doing.partition_point(|change| change.0 <= to_ns);
            (
                before.map_or(from_ns, |index| line.doing[index].0),
                line.doing.get(after).map_or(to_ns, |change| change.0),
            )
        });
        Self::united(lengthened.collect())
    }
}

impl ThreadLine {
    /// Drops what questions about these stretches do not need. Later events may still change what
    /// the thread did since it was last known.
    pub(super) fn keep_within(&mut self, within: &Within) {
        let known_ns = self.doubted_ns.map_or(self.confirmed_ns, |ns| ns.min(self.confirmed_ns));
        let decided = self.doing.partition_point(|change| change.0 < known_ns).saturating_sub(1);
        let since_ns = self.doing.get(decided).map_or(0, |change| change.0);
        let lengthened = within.of(self);
        within.keep(&mut self.doing, decided, |change| change.0);
        let earlier = |ns: u64| ns < since_ns;
        let decided = self.wakings.partition_point(|waking| earlier(waking.time_ns)).saturating_sub(1);
        lengthened.keep(&mut self.wakings, decided, |waking| waking.time_ns);
        let decided = self.prios.partition_point(|prio| earlier(prio.0)).saturating_sub(1);
        lengthened.keep(&mut self.prios, decided, |prio| prio.0);
        let decided = self.blocked_at.partition_point(|at| earlier(at.0)).saturating_sub(1);
        lengthened.keep(&mut self.blocked_at, decided, |at| at.0);
        for calls in [&mut self.calls, &mut self.locks] {
            let decided = calls.partition_point(|call| earlier(call.end_ns)).saturating_sub(1);
            lengthened.keep(calls, decided, |call| call.begin_ns);
        }
        within.keep_final(&mut self.accounted, |account| account.0);
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_tracefs::{Body, Event, EventContext, Name, TaskState, ThreadRef, Trace};

    use super::*;
    use crate::timeline::{Basis, Timeline};
    use crate::{RoundTrip, Side, explain};

    #[test]
    fn each_stretch_keeps_its_entries_and_one_on_each_side() {
        let within = Within::united(vec![(100, 200), (400, 500)]);
        let mut entries: Vec<u64> = (0..80).map(|index| index * 10).collect();
        within.keep(&mut entries, 60, |&ns| ns);
        let inside = |from: u64, to: u64| (from..=to).step_by(10);
        let expected: Vec<u64> = inside(90, 210).chain(inside(390, 510)).chain(inside(600, 790)).collect();
        assert_eq!(entries, expected);
        within.keep(&mut entries, 60, |&ns| ns);
        assert_eq!(entries[..13], expected[..13], "what was kept stays");
    }

    /// Calls of two threads on four CPUs, one every 20 ms, with threads in their way.
    fn busy_trace(calls: u64) -> (Trace, Vec<RoundTrip>) {
        let mut trace = Trace { recorded: RECORDED.map(str::to_owned).to_vec(), ..Trace::default() };
        let mut trips = Vec::new();
        let thread = |tid| ThreadRef { tid, prio: 120 - (tid % 3).cast_signed(), ..ThreadRef::default() };
        let mut push = |time_ns, cpu, tid, body| trace.events.push(Event { time_ns, cpu, tid, body });
        let switch = |prev, state, next| Body::Switch {
            prev: thread(prev),
            prev_state: TaskState(state),
            next: thread(next),
        };
        for number in 0..calls {
            let (start_ns, random) =
                (number * 20_000_000 + 1, number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
            let (from, to) = ((random % 2) as u32, 2 + (random / 2 % 2) as u32);
            let (client, server, other) = (10 + from, 20 + to, 30 + (random % 5) as u32);
            let delay_ns = 1_000 + random % 900_000;
            let woken =
                |tid| Body::Waking { thread: thread(tid), target_cpu: to, context: EventContext::default() };
            let queued = |tid, cpu| Body::Wakeup {
                thread: thread(tid),
                target_cpu: cpu,
                new: false,
                context: EventContext::default(),
            };
            push(start_ns, from, 0, switch(0, 0, client));
            push(start_ns + 10, to, 0, switch(0, 0, other));
            push(start_ns + 20, from, client, woken(server));
            push(start_ns + 30, from, client, queued(server, to));
            push(start_ns + 40, from, client, switch(client, 1, 0));
            if random % 3 > 0 {
                push(start_ns + 50, to, other, Body::IrqEntry { irq: 7, name: Name(0) });
                push(start_ns + 60 + delay_ns / 2, to, other, Body::IrqExit { irq: 7, handled: true });
            }
            push(start_ns + 100 + delay_ns, to, other, switch(other, 1 << (random % 2), server));
            push(start_ns + 200 + delay_ns, to, server, woken(client));
            push(start_ns + 210 + delay_ns, to, server, queued(client, from));
            push(start_ns + 300 + delay_ns, from, 0, switch(0, 0, client));
            push(start_ns + 400 + delay_ns, from, client, switch(client, 1, 0));
            push(start_ns + 500 + delay_ns, to, server, switch(server, 1, 0));
            let side = |tid| Side { pid: tid, tid: Some(tid), ..Side::default() };
            trips.push(RoundTrip {
                start_ns: start_ns + 15,
                end_ns: start_ns + 350 + delay_ns,
                client: side(client),
                server: Some(side(server)),
                ..RoundTrip::default()
            });
        }
        (trace, trips)
    }

    const RECORDED: [&str; 5] = [
        "sched/sched_switch",
        "sched/sched_waking",
        "sched/sched_wakeup",
        "irq/irq_handler_entry",
        "irq/softirq_entry",
    ];

    #[test]
    fn a_call_has_the_same_explanation_without_the_rest_of_the_recording() {
        let (trace, trips) = busy_trace(400);
        let whole = Timeline::new(&trace);
        for chosen in [&trips[..1], &trips[200..203], &trips[399..]] {
            let stretches: Vec<_> = chosen.iter().map(|trip| (trip.start_ns, trip.end_ns)).collect();
            let part = Basis::of(&trace).within(&stretches);
            for trip in chosen {
                assert_eq!(explain(&part, trip), explain(&whole, trip));
                assert!(explain(&whole, trip).parts.len() > 3, "{:?}", explain(&whole, trip));
            }
            let kept: usize = part.threads.values().map(|line| line.doing.len() + line.wakings.len()).sum();
            let all: usize = whole.threads.values().map(|line| line.doing.len() + line.wakings.len()).sum();
            assert!(kept * 8 < all, "{kept} of {all}");
        }
    }

    #[test]
    fn stretches_that_overlap_are_one() {
        let within = Within::new(&[(AROUND_NS * 9, AROUND_NS * 10), (0, AROUND_NS), (5, AROUND_NS * 2)]);
        assert_eq!(within.stretches, [(0, AROUND_NS * 3), (AROUND_NS * 8, AROUND_NS * 11)]);
    }
}
