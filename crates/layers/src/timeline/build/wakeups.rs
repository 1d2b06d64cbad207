//! How a waiting thread gets onto a run queue, and from one run queue to another: which thread woke
//! it, where it goes, and whether it slept at all. Must not know what a thread does on its CPU.

use roundtrip_tracefs::{Event, EventContext};

use super::Builder;
use crate::timeline::{Doing, Source, Waking, WakingBy};

impl Builder<'_, '_> {
    /// A thread is woken. If an interrupt wakes it, the interrupted thread is not the waker. The
    /// event's own flags show that. Without them, the interrupts' events do. `may_be_asked`: the
    /// event also occurs if another CPU sends an interrupt to ask for it.
    pub(super) fn woken(&mut self, event: &Event, tid: u32, context: EventContext, may_be_asked: bool) {
        let interrupts = &self.cpus[event.cpu as usize].interrupts;
        let outside = self.knows.interrupts && interrupts.is_outside();
        let from_cpus = |source: Source| source.is_from_cpus(&self.trace.names);
        let by = match (context, interrupts.current(), event.tid) {
            (EventContext::Thread, _, waker) if waker != 0 => WakingBy::Thread(waker),
            (_, Some(source), _) if !(may_be_asked && from_cpus(source)) => WakingBy::Interrupt(Some(source)),
            (_, Some(_), _) => WakingBy::OtherCpu,
            (EventContext::Interrupt, ..) | (_, _, 0) if may_be_asked => WakingBy::OtherCpu,
            (EventContext::Interrupt, ..) | (_, _, 0) => WakingBy::Interrupt(None),
            // Before Linux 4.7, this flag is also set if a thread only keeps softirqs off.
            (EventContext::Softirq, _, waker) if outside => WakingBy::Thread(waker),
            (EventContext::Softirq, ..) => WakingBy::Interrupt(None),
            (_, _, waker) if outside => WakingBy::Thread(waker),
            _ => WakingBy::Unknown,
        };
        let waking = Waking { time_ns: event.time_ns, cpu: event.cpu, by };
        self.threads.entry(tid).or_default().wakings.push(waking);
    }

    pub(super) fn waking(&mut self, tid: u32, time_ns: u64, target_cpu: u32) {
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

    /// A thread may be woken after it has decided to sleep, but before it has left its CPU. Then
    /// the waker waits for that (`try_to_wake_up` in kernel/sched/core.c), and the wakeup follows
    /// the switch. In between, the thread is being woken on this CPU.
    pub(super) fn woken_early(&mut self, tid: u32, time_ns: u64) -> Option<u32> {
        let (woken_ns, cpu) = self.threads.get_mut(&tid)?.woken_early.take()?;
        self.gaps.within(None, woken_ns, time_ns).is_none().then_some(cpu)
    }

    pub(super) fn wakeup(&mut self, tid: u32, time_ns: u64, target_cpu: u32, new: bool) {
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
            // Every wakeup follows a waking, so the waking of this one was lost.
            _ => self.doubt(tid, time_ns),
        }
        self.set(tid, time_ns, Doing::Runnable { cpu: Some(target_cpu), preempted: false });
    }

    /// Whether a woken thread slept; `None` if unknown. A thread that is still on a CPU, about to
    /// sleep, is woken without having slept. So is a thread that was preempted at that moment.
    /// Threads that only wait for a CPU are not woken, and have no such event.
    fn sleeping(&self, tid: u32, time_ns: u64) -> Option<bool> {
        if let Some(line) = self.threads.get(&tid).filter(|line| line.seen) {
            let complete = |cpu| self.gaps.within(cpu, line.confirmed_ns, time_ns).is_none();
            match line.doing.last()?.1 {
                Doing::Running { cpu } if complete(Some(cpu)) => return Some(false),
                Doing::Runnable { .. } if complete(None) => return Some(false),
                Doing::Blocked { .. } | Doing::Left { .. } if complete(None) => return Some(true),
                _ => {}
            }
        }
        let elsewhere = (0..).zip(self.basis.firsts.iter()).all(|(cpu, first)| {
            let (known_ns, current) = match self.last.get(cpu as usize).filter(|last| last.any) {
                Some(last) => (last.time_ns, last.tid),
                // A CPU's first event shows which thread was there before.
                None => match first {
                    Some((first_ns, first)) => {
                        (self.gaps.within(Some(cpu), 0, *first_ns).map_or(0, |gap| gap.1), *first)
                    }
                    // If the CPU was recorded but has no events, one thread may have run all the
                    // time.
                    None => return !self.trace.complete_from_ns.contains_key(&cpu),
                },
            };
            current != tid && known_ns <= time_ns && self.gaps.within(Some(cpu), known_ns, time_ns).is_none()
        });
        elsewhere.then_some(true)
    }

    /// A thread is woken, and it is unknown whether it slept. It is assumed to have slept, and to
    /// be runnable next. Its next activity confirms or undoes this assumption.
    fn doubt(&mut self, tid: u32, time_ns: u64) {
        self.prove(tid, time_ns, Doing::Unknown);
        if let Some(line) = self.threads.get_mut(&tid) {
            line.doubted_ns = Some(time_ns);
        }
    }

    pub(super) fn migrate(&mut self, tid: u32, time_ns: u64, from_cpu: u32, to_cpu: u32) {
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
                // Runnable, or still being woken. The next event shows which.
                self.prove(tid, time_ns, Doing::Unknown);
                self.set(tid, time_ns, Doing::Moved { cpu: to_cpu });
            }
        }
    }
}
