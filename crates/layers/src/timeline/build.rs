//! Builds the timeline in one pass over the events. Each event proves something about the instant
//! before it and changes something after it. Where these do not agree, events are missing, and the
//! time in between is unknown. Must not know what the result is used for.

mod proof;
mod wakeups;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use roundtrip_tracefs::{Body, Event, OffCpu, TaskState, ThreadRef, Trace};

use super::basis::{Knows, MAX_CPUS, knows};
use super::gaps::Gaps;
use super::within::Within;
use super::{Basis, Call, CpuLine, Current, Doing, ThreadLine, Timeline, Unrecorded, change, tick};
use crate::begins::Begins;
use crate::kernel_names;

/// How many events are read before what nobody asks for is dropped again.
const EVENTS_AT_ONCE: usize = if cfg!(test) { 1 << 6 } else { 1 << 16 };

impl<'t> Basis<'t> {
    /// The timeline of round trips within these stretches. Memory grows with them rather than with
    /// the recording.
    #[must_use]
    pub fn within(&self, stretches: &[(u64, u64)]) -> Timeline<'t> {
        timeline(self, Some(&Within::new(stretches)))
    }

    /// Like [`Basis::within`], but keeps only the events at the ends of the stretches.
    pub(crate) fn within_with_ends(&self, stretches: &[(u64, u64)]) -> Timeline<'t> {
        let ends_ns = stretches.iter().map(|stretch| stretch.1).collect();
        timeline(self, Some(&Within::new(stretches).with_events_at(ends_ns)))
    }
}

/// Builds the timeline, of the whole recording or for some stretches of it.
pub(super) fn timeline<'t>(basis: &Basis<'t>, within: Option<&Within>) -> Timeline<'t> {
    let trace = basis.trace;
    let mut builder = Builder {
        basis,
        trace,
        knows: knows(trace),
        threads: HashMap::new(),
        cpus: Vec::new(),
        last: Vec::new(),
        gaps: Gaps::of(trace),
        unrecorded: Vec::new(),
        switched: false,
    };
    let mut events = Cow::Borrowed(trace.events.as_slice());
    for (number, event) in (1..).zip(trace.all()) {
        if event.cpu < MAX_CPUS {
            builder.event(&event);
        }
        if !trace.packed.is_empty() && within.is_none_or(|within| within.keeps_event(event.time_ns)) {
            events.to_mut().push(event);
        }
        if let Some(within) = within.filter(|_| number % EVENTS_AT_ONCE == 0) {
            builder.keep_within(within);
        }
    }
    if let Some(within) = within {
        builder.keep_within(within);
    }
    builder.finish(events)
}

/// What the last event on a CPU showed.
#[derive(Clone, Copy, Default)]
struct Last {
    time_ns: u64,
    tid: u32,
    any: bool,
}

struct Builder<'b, 't> {
    basis: &'b Basis<'t>,
    trace: &'t Trace,
    knows: Knows,
    threads: HashMap<u32, ThreadLine>,
    cpus: Vec<CpuLine>,
    last: Vec<Last>,
    gaps: Gaps,
    /// See [`Timeline`].
    unrecorded: Vec<Unrecorded>,
    /// Whether the recording contains any context switch.
    switched: bool,
}

impl<'t> Builder<'_, 't> {
    fn event(&mut self, event: &Event) {
        let (time_ns, cpu) = (event.time_ns, event.cpu);
        self.have_cpu(cpu);
        let since_ns = self.last[cpu as usize].time_ns;
        if self.gaps.within(Some(cpu), since_ns, time_ns).is_some() {
            self.cpus[cpu as usize].interrupts.forget();
        }
        self.observe(event);
        let line = &mut self.cpus[cpu as usize];
        line.event_times.push(time_ns);
        line.interrupts.observe(time_ns, &event.body);
        self.body(event);
    }

    fn set(&mut self, tid: u32, time_ns: u64, doing: Doing) {
        if tid != 0 {
            change(&mut self.threads.entry(tid).or_default().doing, time_ns, doing);
        }
    }

    fn prio(&mut self, thread: ThreadRef, time_ns: u64) {
        if thread.tid == 0 {
            return;
        }
        let line = self.threads.entry(thread.tid).or_default();
        if line.prios.last().is_none_or(|last| last.1 != thread.prio) {
            line.prios.push((time_ns, thread.prio));
        }
    }

    fn body(&mut self, event: &Event) {
        let (time_ns, cpu) = (event.time_ns, event.cpu);
        match event.body {
            Body::Switch { prev, prev_state, next } => self.switch(event, prev, prev_state, next),
            Body::Waking { thread, target_cpu, context } => {
                self.prio(thread, time_ns);
                self.woken(event, thread.tid, context, false);
                self.waking(thread.tid, time_ns, target_cpu);
            }
            Body::Wakeup { thread, target_cpu, new, context } => {
                self.prio(thread, time_ns);
                if !self.knows.wakings {
                    self.woken(event, thread.tid, context, target_cpu == cpu && !new);
                }
                self.wakeup(thread.tid, time_ns, target_cpu, new);
            }
            Body::Migrate { thread, from_cpu, to_cpu } => {
                self.prio(thread, time_ns);
                self.migrate(thread.tid, time_ns, from_cpu, to_cpu);
            }
            Body::VectorEntry { kind } if kernel_names::is_timer_vector(self.trace.names.text(kind)) => {
                self.cpus[cpu as usize].ticks.push(time_ns);
            }
            Body::IrqEntry { name, .. } if kernel_names::is_timer_device(self.trace.names.text(name)) => {
                self.cpus[cpu as usize].ticks.push(time_ns);
            }
            Body::Other { event: name, .. }
                if kernel_names::is_block_completion(self.trace.names.text(name)) =>
            {
                self.cpus[cpu as usize].completed_io.push(time_ns);
            }
            // Another CPU may have changed it.
            Body::Frequency { cpu, khz } if cpu < MAX_CPUS => {
                self.have_cpu(cpu);
                change(&mut self.cpus[cpu as usize].frequencies, time_ns, khz);
            }
            Body::Idle { cpu, state } if cpu < MAX_CPUS => {
                self.have_cpu(cpu);
                change(&mut self.cpus[cpu as usize].idle, time_ns, state);
            }
            _ => self.of_thread(event),
        }
    }

    /// Facts about one thread in an event, other than its activity.
    fn of_thread(&mut self, event: &Event) {
        let time_ns = event.time_ns;
        match event.body {
            Body::PiSetprio { tid, new_prio, .. } | Body::BinderSetPriority { tid, new_prio, .. } => {
                self.threads.entry(tid).or_default().prios.push((time_ns, new_prio));
            }
            Body::StatRuntime { tid, runtime_ns } => {
                self.threads.entry(tid).or_default().accounted.push((time_ns, runtime_ns));
            }
            Body::BlockedReason { tid, caller, io_wait } => {
                self.threads.entry(tid).or_default().blocked_at.push((time_ns, (caller, io_wait)));
            }
            Body::SysEnter { number, .. } => {
                let call = Call { begin_ns: time_ns, end_ns: u64::MAX, number };
                begin(&mut self.threads.entry(event.tid).or_default().calls, call);
            }
            Body::SysExit { number, .. } => {
                end(&mut self.threads.entry(event.tid).or_default().calls, time_ns, number);
            }
            Body::ContentionBegin { lock, .. } => {
                let wait = Call { begin_ns: time_ns, end_ns: u64::MAX, number: lock.cast_signed() };
                begin(&mut self.threads.entry(event.tid).or_default().locks, wait);
            }
            Body::ContentionEnd { lock } => {
                end(&mut self.threads.entry(event.tid).or_default().locks, time_ns, lock.cast_signed());
            }
            _ => {}
        }
    }

    fn switch(&mut self, event: &Event, prev: ThreadRef, prev_state: TaskState, next: ThreadRef) {
        let (time_ns, cpu) = (event.time_ns, event.cpu);
        self.switched = true;
        self.prio(prev, time_ns);
        self.prio(next, time_ns);
        if prev.tid != event.tid {
            // The two differ only if the bytes are damaged.
            self.prove(prev.tid, time_ns, Doing::Running { cpu });
        }
        let after = if prev_state == TaskState::UNKNOWN {
            Doing::Left { cpu }
        } else if prev_state.runnable() {
            Doing::Runnable { cpu: Some(cpu), preempted: true }
        } else if matches!(prev_state.off(), Some(OffCpu::Dead | OffCpu::Zombie)) {
            Doing::Gone
        } else if let Some(cpu) = self.woken_early(prev.tid, time_ns) {
            Doing::Waking { cpu }
        } else {
            Doing::Blocked { state: Some(prev_state) }
        };
        self.set(prev.tid, time_ns, after);
        self.prove(next.tid, time_ns, Doing::Runnable { cpu: Some(cpu), preempted: false });
        self.set(next.tid, time_ns, Doing::Running { cpu });
        change(&mut self.cpus[cpu as usize].current, time_ns, Current::Thread(next.tid));
        self.last[cpu as usize].tid = next.tid;
    }

    /// Makes a line for each CPU up to this one.
    fn have_cpu(&mut self, cpu: u32) {
        while self.cpus.len() <= cpu as usize {
            self.cpus.push(CpuLine::default());
            self.last.push(Last::default());
        }
    }

    /// Drops what questions about these stretches do not need. What is used to find the tick's
    /// period stays.
    fn keep_within(&mut self, within: &Within) {
        self.threads.values_mut().for_each(|line| line.keep_within(within));
        for (line, last) in self.cpus.iter_mut().zip(&self.last) {
            if line.ticks.is_empty() {
                let decided = line.current.partition_point(|change| change.0 < last.time_ns);
                within.keep(&mut line.current, decided.saturating_sub(1), |change| change.0);
            }
            line.interrupts.keep_within(within);
            within.keep_final(&mut line.event_times, |&ns| ns);
            within.keep_final(&mut line.completed_io, |&ns| ns);
            within.keep_final(&mut line.idle, |change| change.0);
        }
        within.keep_unrecorded(&mut self.unrecorded);
    }

    fn finish(mut self, events: Cow<'t, [Event]>) -> Timeline<'t> {
        for line in self.threads.values_mut() {
            let same_cpu = match line.doing.last() {
                Some((_, Doing::Running { cpu })) => Some(*cpu),
                _ => None,
            };
            if let Some(gap) = self.gaps.within(same_cpu, line.confirmed_ns, u64::MAX) {
                change(&mut line.doing, gap.0, Doing::Unknown);
            }
            if let Some(stopped_ns) = self.trace.stopped_ns.filter(|&ns| ns >= line.confirmed_ns) {
                change(&mut line.doing, stopped_ns, Doing::Unknown);
            }
        }
        for (cpu, line) in (0..).zip(&mut self.cpus) {
            let last = self.last[cpu as usize];
            if let Some(gap) = self.gaps.within(Some(cpu), last.time_ns, u64::MAX) {
                change(&mut line.current, gap.0, Current::Unknown);
            }
            if let Some(stopped_ns) = self.trace.stopped_ns.filter(|&ns| ns >= last.time_ns) {
                change(&mut line.current, stopped_ns, Current::Unknown);
            }
        }
        let tick_ns = tick::length_ns(&self.cpus);
        if !self.switched {
            // Without any switch, the kernel did not just omit single ones.
            self.unrecorded.clear();
        }
        // An event that is described but never occurred was not recorded.
        self.knows.switches &= self.switched;
        let Builder { trace, knows, threads, cpus, gaps, unrecorded, .. } = self;
        let Basis { named, numbers, groups, .. } = self.basis.clone();
        let served = OnceCell::new();
        let unrecorded_after = Begins::new(unrecorded.iter().map(|switch| switch.after_ns));
        Timeline {
            trace,
            events,
            named,
            numbers,
            knows,
            threads,
            cpus,
            gaps,
            unrecorded,
            unrecorded_after,
            tick_ns,
            groups,
            served,
        }
    }
}

/// Notes a start. If another call is still open, its end was lost, and it is dropped.
fn begin(calls: &mut Vec<Call>, call: Call) {
    calls.pop_if(|last| last.end_ns == u64::MAX);
    calls.push(call);
}

fn end(calls: &mut Vec<Call>, time_ns: u64, number: i64) {
    match calls.last_mut() {
        Some(last) if last.end_ns == u64::MAX && last.number == number => last.end_ns = time_ns,
        _ => {
            calls.pop_if(|last| last.end_ns == u64::MAX);
        }
    }
}
