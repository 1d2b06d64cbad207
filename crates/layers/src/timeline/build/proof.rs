//! What an event proves about the time before it. If two proofs do not agree, the time between them
//! is unknown. Must not know what the events change.

use roundtrip_tracefs::Event;

use super::{Builder, Last};
use crate::timeline::{Current, Doing, Knows, Unrecorded, change};

impl Builder<'_, '_> {
    /// An event proves which thread had its CPU.
    pub(super) fn observe(&mut self, event: &Event) {
        let (time_ns, cpu, tid) = (event.time_ns, event.cpu, event.tid);
        let last = self.last[cpu as usize];
        let gap = self.gaps.within(Some(cpu), last.time_ns, time_ns);
        let current = Current::Thread(tid);
        if !last.any {
            // Before its first event, a CPU was in the state that the event shows, back to where
            // the recording is complete.
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

    /// A CPU has another thread than before, although no event showed a switch. Some virtual
    /// machines do not record switches out of idle. In all other cases, an event was lost without a
    /// mark.
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

    /// A thread on a CPU's run queue was still there when an event proved that another thread had
    /// the CPU.
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

    /// An event proves what a thread did just before an instant. The last known activity either
    /// agrees with the proof, or the time since the previous proof is unknown.
    pub(super) fn prove(&mut self, tid: u32, time_ns: u64, now: Doing) {
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
}

enum Agreement {
    Yes,
    /// Yes, and the proof adds information about the time before it.
    Rather(Doing),
    No,
}

/// Whether the last known activity of a thread agrees with the proved one.
fn agree(before: Doing, now: Doing, knows: Knows) -> Agreement {
    match (before, now) {
        (Doing::Running { cpu: one }, Doing::Running { cpu: other }) if one == other => Agreement::Yes,
        (Doing::Runnable { cpu: one, .. }, Doing::Runnable { cpu: other, .. }) if one == other => {
            Agreement::Yes
        }
        // An unrecorded migration by another CPU: when it happened is unknown.
        (Doing::Runnable { preempted, .. }, Doing::Runnable { .. }) if !knows.migrations => {
            Agreement::Rather(Doing::Runnable { cpu: None, preempted })
        }
        (Doing::Blocked { .. }, Doing::Blocked { .. }) | (Doing::Waking { .. }, Doing::Waking { .. }) => {
            Agreement::Yes
        }
        (Doing::Waking { .. }, Doing::Runnable { .. }) if !knows.wakeups => Agreement::Rather(now),
        // An unrecorded wakeup: whether the thread waited for it or for the CPU is unknown.
        (Doing::Waking { .. }, Doing::Runnable { cpu: Some(cpu), .. }) => {
            Agreement::Rather(Doing::Moved { cpu })
        }
        (Doing::Gone, Doing::Gone) => Agreement::Yes,
        (Doing::Left { .. }, Doing::Blocked { .. }) => Agreement::Rather(now),
        (Doing::Left { cpu: one }, Doing::Runnable { cpu: Some(other), .. }) if one == other => {
            Agreement::Rather(Doing::Runnable { cpu: Some(one), preempted: true })
        }
        (Doing::Moved { .. }, Doing::Runnable { .. } | Doing::Waking { .. }) => Agreement::Rather(now),
        _ => Agreement::No,
    }
}
