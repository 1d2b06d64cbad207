//! One pass over the events. Each event proves something about the instant before it and changes something after it; where the two
//! do not meet, events are missing, and the time between is unknown. Must not know what the result is used for.

use std::collections::HashMap;

use tracefs::{Body, Event, OffCpu, TaskState, ThreadRef, Trace};

use super::gaps::Gaps;
use super::{
    Call, CpuLine, Current, Doing, Knows, ThreadLine, Timeline, Unrecorded, Waking, WakingBy, change, tick,
};
use crate::kernel_names;

/// The most CPUs that an event may name: what is above comes from damaged bytes.
const MAX_CPUS: u32 = 1 << 14;

pub(super) fn timeline(trace: &Trace) -> Timeline<'_> {
    let mut builder = Builder {
        trace,
        knows: knows(trace),
        threads: HashMap::new(),
        cpus: Vec::new(),
        last: Vec::new(),
        firsts: firsts(trace),
        gaps: Gaps::of(trace),
        unrecorded: Vec::new(),
        switched: false,
    };
    for event in &trace.events {
        if event.cpu < MAX_CPUS {
            builder.event(event);
        }
    }
    builder.finish()
}

fn firsts(trace: &Trace) -> Vec<Option<(u64, u32)>> {
    let cpus = trace.complete_from_ns.keys().filter(|&&cpu| cpu < MAX_CPUS).max().map_or(0, |cpu| cpu + 1);
    let mut firsts: Vec<Option<(u64, u32)>> = vec![None; cpus as usize];
    for event in trace.events.iter().filter(|event| event.cpu < MAX_CPUS) {
        let index = event.cpu as usize;
        if index >= firsts.len() {
            firsts.resize(index + 1, None);
        }
        firsts[index].get_or_insert((event.time_ns, event.tid));
    }
    firsts
}

fn knows(trace: &Trace) -> Knows {
    // x86 has its timer among its own vectors, all others among the devices' interrupts.
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

/// What the last event on a CPU said.
#[derive(Clone, Copy, Default)]
struct Last {
    time_ns: u64,
    tid: u32,
    any: bool,
}

struct Builder<'t> {
    trace: &'t Trace,
    knows: Knows,
    threads: HashMap<u32, ThreadLine>,
    cpus: Vec<CpuLine>,
    last: Vec<Last>,
    /// The first event of each CPU: when, and whose.
    firsts: Vec<Option<(u64, u32)>>,
    gaps: Gaps,
    /// See [`Timeline`].
    unrecorded: Vec<Unrecorded>,
    /// Whether any switch is in the recording.
    switched: bool,
}

impl<'t> Builder<'t> {
    fn event(&mut self, event: &Event) {
        let (time_ns, cpu) = (event.time_ns, event.cpu);
        while self.cpus.len() <= cpu as usize {
            self.cpus.push(CpuLine::default());
            self.last.push(Last::default());
        }
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

    /// An event proves which thread had its CPU.
    fn observe(&mut self, event: &Event) {
        let (time_ns, cpu, tid) = (event.time_ns, event.cpu, event.tid);
        let last = self.last[cpu as usize];
        let gap = self.gaps.within(Some(cpu), last.time_ns, time_ns);
        let current = Current::Thread(tid);
        if !last.any {
            // Before its first event a CPU is as that event finds it, back to where the recording is complete.
            let from_ns = gap.map_or(0, |gap| gap.1);
            change(&mut self.cpus[cpu as usize].current, from_ns, current);
            self.prove(tid, time_ns, Doing::Running { cpu });
        } else if let Some(gap) = gap {
            change(&mut self.cpus[cpu as usize].current, gap.0, Current::Unknown);
            change(&mut self.cpus[cpu as usize].current, gap.1, current);
            self.prove(tid, time_ns, Doing::Running { cpu });
        } else if last.tid != tid {
            self.missed_switch(cpu, last, tid, time_ns);
        } else if tid != 0
            && let Some(line) = self.threads.get_mut(&tid)
            && line.seen
        {
            line.confirmed_ns = line.confirmed_ns.max(time_ns);
        } else {
            self.prove(tid, time_ns, Doing::Running { cpu });
        }
        self.last[cpu as usize] = Last { time_ns, tid, any: true };
    }

    /// A CPU has another thread than it had, and no event said so. Some virtual machines record no switch out of idling; all
    /// else is an event that was lost without a trace.
    fn missed_switch(&mut self, cpu: u32, last: Last, tid: u32, time_ns: u64) {
        let doing = self.threads.get(&tid).and_then(|line| line.doing.last().copied());
        let from_idle = last.tid == 0 && tid != 0;
        let begin_ns = match doing {
            Some((since_ns, Doing::Runnable { cpu: Some(queue), .. })) if from_idle && queue == cpu => {
                Some(since_ns.max(last.time_ns))
            }
            Some((since_ns, Doing::Waking { .. })) if from_idle => Some(since_ns.max(last.time_ns)),
            _ => None,
        };
        let (after_ns, before_ns) = (last.time_ns, time_ns);
        self.unrecorded.push(Unrecorded { after_ns, before_ns, inferred: begin_ns.is_some() });
        match begin_ns {
            Some(begin_ns) => {
                change(&mut self.cpus[cpu as usize].current, begin_ns, Current::Thread(tid));
                let line = self.threads.entry(tid).or_default();
                change(&mut line.doing, begin_ns, Doing::Running { cpu });
                line.confirmed_ns = time_ns;
            }
            None => {
                change(&mut self.cpus[cpu as usize].current, last.time_ns, Current::Unknown);
                change(&mut self.cpus[cpu as usize].current, time_ns, Current::Thread(tid));
                if let Some(gone) = self.threads.get_mut(&last.tid)
                    && matches!(gone.doing.last(), Some((_, Doing::Running { cpu: on })) if *on == cpu)
                {
                    change(&mut gone.doing, last.time_ns.max(1), Doing::Unknown);
                }
                self.waited_until(last.time_ns, tid, cpu);
                self.prove(tid, time_ns, Doing::Running { cpu });
            }
        }
    }

    /// A thread that was on a CPU's run queue was still there when an event proved that another had the CPU.
    fn waited_until(&mut self, time_ns: u64, tid: u32, cpu: u32) {
        let Some(line) = self.threads.get_mut(&tid) else { return };
        let queued =
            matches!(line.doing.last(), Some((_, Doing::Runnable { cpu: Some(queue), .. })) if *queue == cpu);
        if queued
            && line.confirmed_ns < time_ns
            && self.gaps.within(None, line.confirmed_ns, time_ns).is_none()
        {
            line.confirmed_ns = time_ns;
        }
    }

    /// Something is proved about a thread just before an instant: what lies between this and the proof before it either agrees, or is
    /// unknown.
    fn prove(&mut self, tid: u32, time_ns: u64, now: Doing) {
        if tid == 0 {
            return;
        }
        let (gaps, knows) = (&self.gaps, self.knows);
        let line = self.threads.entry(tid).or_default();
        let since_ns = line.confirmed_ns;
        let before = line.doing.last().map(|last| last.1);
        let same_cpu = match (before, now) {
            (Some(Doing::Running { cpu: one }), Doing::Running { cpu }) if one == cpu => Some(cpu),
            _ => None,
        };
        if let Some(gap) = gaps.within(same_cpu, since_ns, time_ns) {
            change(&mut line.doing, gap.0, Doing::Unknown);
            change(&mut line.doing, gap.1, now);
        } else if !line.seen {
            change(&mut line.doing, 0, now);
        } else if let Some(&(begin_ns, before)) = line.doing.last() {
            match agree(before, now, knows) {
                Agreement::Yes => {}
                Agreement::Rather(better) => change(&mut line.doing, begin_ns, better),
                Agreement::No => {
                    let from_ns = line.doubted_ns.map_or(since_ns, |doubted_ns| doubted_ns.min(since_ns));
                    change(&mut line.doing, from_ns, Doing::Unknown);
                    change(&mut line.doing, time_ns, now);
                }
            }
        }
        if matches!(now, Doing::Running { .. } | Doing::Runnable { .. }) {
            line.doubted_ns = None;
        }
        line.confirmed_ns = time_ns;
        line.seen = true;
    }

    fn set(&mut self, tid: u32, time_ns: u64, doing: Doing) {
        if tid != 0 {
            change(&mut self.threads.entry(tid).or_default().doing, time_ns, doing);
        }
    }

    fn name(&mut self, thread: ThreadRef, time_ns: u64) {
        if thread.tid == 0 {
            return;
        }
        let line = self.threads.entry(thread.tid).or_default();
        line.comm = thread.comm;
        if line.prios.last().is_none_or(|last| last.1 != thread.prio) {
            line.prios.push((time_ns, thread.prio));
        }
    }

    fn body(&mut self, event: &Event) {
        let (time_ns, cpu) = (event.time_ns, event.cpu);
        match event.body {
            Body::Switch { prev, prev_state, next } => self.switch(event, prev, prev_state, next),
            Body::Waking { thread, target_cpu } => {
                self.name(thread, time_ns);
                self.woken(event, thread.tid);
                self.waking(thread.tid, time_ns, target_cpu);
            }
            Body::Wakeup { thread, target_cpu, new } => {
                self.name(thread, time_ns);
                if !self.knows.wakings {
                    self.woken(event, thread.tid);
                }
                self.wakeup(thread.tid, time_ns, target_cpu, new);
            }
            Body::Migrate { thread, from_cpu, to_cpu } => {
                self.name(thread, time_ns);
                self.migrate(thread.tid, time_ns, from_cpu, to_cpu);
            }
            Body::PiSetprio { tid, new_prio, .. } | Body::BinderSetPriority { tid, new_prio, .. } => {
                self.threads.entry(tid).or_default().prios.push((time_ns, new_prio));
            }
            Body::StatRuntime { tid, runtime_ns } => {
                self.threads.entry(tid).or_default().accounted.push((time_ns, runtime_ns));
            }
            Body::BlockedReason { tid, caller, .. } => {
                self.threads.entry(tid).or_default().blocked_at.push((time_ns, caller));
            }
            Body::Rename { tid, comm } => self.threads.entry(tid).or_default().comm = comm,
            Body::Fork { child, comm } => {
                let line = self.threads.entry(child).or_default();
                line.comm = comm;
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
            _ => {}
        }
    }

    fn switch(&mut self, event: &Event, prev: ThreadRef, prev_state: TaskState, next: ThreadRef) {
        let (time_ns, cpu) = (event.time_ns, event.cpu);
        self.switched = true;
        self.name(prev, time_ns);
        self.name(next, time_ns);
        if prev.tid != event.tid {
            // Only damaged bytes contradict themselves.
            self.prove(prev.tid, time_ns, Doing::Running { cpu });
        }
        let after = if prev_state.runnable() {
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

    /// Who woke it. A thread beneath an interrupt has nothing to do with what the interrupt does.
    fn woken(&mut self, event: &Event, tid: u32) {
        let interrupts = &self.cpus[event.cpu as usize].interrupts;
        let by = match (interrupts.current(), event.tid) {
            (Some(source), _) => WakingBy::Interrupt(Some(source)),
            (None, 0) => WakingBy::Interrupt(None),
            (None, waker) if self.knows.interrupts && interrupts.is_outside() => WakingBy::Thread(waker),
            (None, _) => WakingBy::Unknown,
        };
        let waking = Waking { time_ns: event.time_ns, cpu: event.cpu, by };
        self.threads.entry(tid).or_default().wakings.push(waking);
    }

    fn waking(&mut self, tid: u32, time_ns: u64, target_cpu: u32) {
        match self.sleeping(tid, time_ns) {
            Some(false) if self.knows.wakeups => {
                self.threads.entry(tid).or_default().woken_early = Some((time_ns, target_cpu));
            }
            Some(false) => {}
            Some(true) => {
                self.prove(tid, time_ns, Doing::Blocked { state: None });
                self.set(tid, time_ns, Doing::Waking { cpu: target_cpu });
            }
            None => self.doubt(tid, time_ns),
        }
    }

    /// A thread may be woken after it has said that it will sleep, and before it has left its CPU: then whoever wakes it waits for that
    /// (`try_to_wake_up` in kernel/sched/core.c), and the wake-up follows the switch. In between it is being woken, to this CPU.
    fn woken_early(&mut self, tid: u32, time_ns: u64) -> Option<u32> {
        let (woken_ns, cpu) = self.threads.get_mut(&tid)?.woken_early.take()?;
        self.gaps.within(None, woken_ns, time_ns).is_none().then_some(cpu)
    }

    fn wakeup(&mut self, tid: u32, time_ns: u64, target_cpu: u32, new: bool) {
        if let Some(line) = self.threads.get_mut(&tid) {
            line.woken_early = None;
        }
        let line = self.threads.get(&tid);
        let doing = line.and_then(|line| line.doing.last().copied());
        let confirmed_ns = line.map_or(0, |line| line.confirmed_ns);
        let complete = self.gaps.within(None, confirmed_ns, time_ns).is_none();
        match (doing, self.sleeping(tid, time_ns)) {
            (_, Some(false)) => return,
            (Some((_, Doing::Waking { cpu })), _) if complete => {
                self.prove(tid, time_ns, Doing::Waking { cpu })
            }
            (Some((_, Doing::Moved { .. })), _) if complete => {
                self.prove(tid, time_ns, Doing::Waking { cpu: target_cpu });
            }
            _ if new => self.prove(tid, time_ns, Doing::Gone),
            (_, Some(true)) if !self.knows.wakings => {
                self.prove(tid, time_ns, Doing::Blocked { state: None });
            }
            (_, Some(true)) if !complete => self.prove(tid, time_ns, Doing::Waking { cpu: target_cpu }),
            // Every wake-up has a waking before it: this one's was lost.
            _ => self.doubt(tid, time_ns),
        }
        self.set(tid, time_ns, Doing::Runnable { cpu: Some(target_cpu), preempted: false });
    }

    /// Whether a thread that is woken slept. One that is on a CPU, about to sleep, is woken without having slept. (So is one that was
    /// preempted in that moment; but threads that simply wait for a CPU are not woken, and have no such event.) `None`: it
    /// cannot be told.
    fn sleeping(&self, tid: u32, time_ns: u64) -> Option<bool> {
        if let Some(line) = self.threads.get(&tid).filter(|line| line.seen) {
            let complete = |cpu| self.gaps.within(cpu, line.confirmed_ns, time_ns).is_none();
            match line.doing.last()?.1 {
                Doing::Running { cpu } if complete(Some(cpu)) => return Some(false),
                Doing::Runnable { .. } if complete(None) => return Some(false),
                Doing::Blocked { .. } if complete(None) => return Some(true),
                _ => {}
            }
        }
        let elsewhere = (0..).zip(&self.firsts).all(|(cpu, first)| {
            let (known_ns, current) = match self.last.get(cpu as usize).filter(|last| last.any) {
                Some(last) => (last.time_ns, last.tid),
                // What a CPU's first event finds was there before.
                None => match first {
                    Some((first_ns, first)) => {
                        (self.gaps.within(Some(cpu), 0, *first_ns).map_or(0, |gap| gap.1), *first)
                    }
                    // Where events were recorded and none came, a thread may have run all the while.
                    None => return !self.trace.complete_from_ns.contains_key(&cpu),
                },
            };
            current != tid && known_ns <= time_ns && self.gaps.within(Some(cpu), known_ns, time_ns).is_none()
        });
        elsewhere.then_some(true)
    }

    /// A thread is woken of which it is not known whether it slept. If it did, it is runnable next; what it is seen to do then
    /// tells, and takes back what was assumed.
    fn doubt(&mut self, tid: u32, time_ns: u64) {
        self.prove(tid, time_ns, Doing::Unknown);
        if let Some(line) = self.threads.get_mut(&tid) {
            line.doubted_ns = Some(time_ns);
        }
    }

    fn migrate(&mut self, tid: u32, time_ns: u64, from_cpu: u32, to_cpu: u32) {
        let line = self.threads.entry(tid).or_default();
        let complete = line.seen && self.gaps.within(None, line.confirmed_ns, time_ns).is_none();
        match line.doing.last().copied() {
            Some((_, Doing::Runnable { preempted, .. })) if complete => {
                self.prove(tid, time_ns, Doing::Runnable { cpu: Some(from_cpu), preempted });
                self.set(tid, time_ns, Doing::Runnable { cpu: Some(to_cpu), preempted });
            }
            Some((_, Doing::Waking { cpu })) if complete => {
                self.prove(tid, time_ns, Doing::Waking { cpu });
                self.set(tid, time_ns, Doing::Waking { cpu: to_cpu });
            }
            Some((_, Doing::Moved { .. })) if complete => {
                self.set(tid, time_ns, Doing::Moved { cpu: to_cpu });
            }
            _ if complete => {}
            _ => {
                // Runnable, or still being woken: what comes next will tell.
                self.prove(tid, time_ns, Doing::Unknown);
                self.set(tid, time_ns, Doing::Moved { cpu: to_cpu });
            }
        }
    }

    fn finish(mut self) -> Timeline<'t> {
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
            // It is not the kernel that left them out.
            self.unrecorded.clear();
        }
        let Builder { trace, knows, threads, cpus, gaps, unrecorded, .. } = self;
        Timeline { trace, knows, threads, cpus, gaps, unrecorded, tick_ns }
    }
}

enum Agreement {
    Yes,
    /// Yes, and the proof tells more of the time before it.
    Rather(Doing),
    No,
}

/// Whether what a thread was last known to be doing is what it is proved to be doing now.
fn agree(before: Doing, now: Doing, knows: Knows) -> Agreement {
    match (before, now) {
        (Doing::Running { cpu: one }, Doing::Running { cpu: other }) if one == other => Agreement::Yes,
        (Doing::Runnable { cpu: one, .. }, Doing::Runnable { cpu: other, .. }) if one == other => {
            Agreement::Yes
        }
        // A pull by another CPU that no event tells: when it moved is not known.
        (Doing::Runnable { preempted, .. }, Doing::Runnable { .. }) if !knows.migrations => {
            Agreement::Rather(Doing::Runnable { cpu: None, preempted })
        }
        (Doing::Blocked { .. }, Doing::Blocked { .. }) | (Doing::Waking { .. }, Doing::Waking { .. }) => {
            Agreement::Yes
        }
        (Doing::Waking { .. }, Doing::Runnable { .. }) if !knows.wakeups => Agreement::Rather(now),
        // A wake-up that left no event: whether it waited for this or for the CPU cannot be told.
        (Doing::Waking { .. }, Doing::Runnable { cpu: Some(cpu), .. }) => {
            Agreement::Rather(Doing::Moved { cpu })
        }
        (Doing::Gone, Doing::Gone) => Agreement::Yes,
        (Doing::Moved { .. }, Doing::Runnable { .. } | Doing::Waking { .. }) => Agreement::Rather(now),
        _ => Agreement::No,
    }
}

/// Notes that something begins; what was open has lost its end then, and is dropped.
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
