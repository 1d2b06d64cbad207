//! Who a thread is: its name and its process, as far as a recording shows them.

use std::collections::HashMap;

use crate::event::{Body, Event, ThreadRef};
use crate::name::Name;
use crate::trace::Trace;

impl Event {
    /// The threads that the event names, with their names. Idle threads (0) are not among them:
    /// every CPU has one.
    pub fn named(&self) -> impl Iterator<Item = (u32, Name)> + use<> {
        let of = |thread: ThreadRef| Some((thread.tid, thread.comm));
        let named = match self.body {
            Body::Switch { prev, next, .. } => [of(prev), of(next)],
            Body::Waking { thread, .. } | Body::Wakeup { thread, .. } | Body::Migrate { thread, .. } => {
                [of(thread), None]
            }
            Body::Fork { child: tid, comm } | Body::Rename { tid, comm } => [Some((tid, comm)), None],
            _ => [None, None],
        };
        named.into_iter().flatten().filter(|&(tid, name)| tid != 0 && name != Name::default())
    }
}

/// The threads of a recording.
#[derive(Clone, Debug)]
pub struct Threads<'t> {
    trace: &'t Trace,
    /// The names of each thread in the events, in order.
    named: HashMap<u32, Vec<Named>>,
}

/// A thread's name for some time.
#[derive(Clone, Copy, Debug)]
struct Named {
    from_ns: u64,
    last_seen_ns: u64,
    name: Name,
}

impl Trace {
    /// Who the recording's threads are.
    #[must_use]
    pub fn threads(&self) -> Threads<'_> {
        let mut named: HashMap<u32, Vec<Named>> = HashMap::new();
        for event in self.all() {
            let exact = matches!(event.body, Body::Fork { .. } | Body::Rename { .. });
            for (tid, name) in event.named() {
                let names = named.entry(tid).or_default();
                let last_seen_ns = event.time_ns;
                // Without an event of the change, each instant belongs to the nearest sighting.
                let from_ns = match names.last_mut() {
                    Some(last) if last.name == name => {
                        last.last_seen_ns = last_seen_ns;
                        continue;
                    }
                    Some(last) if !exact => last.last_seen_ns.midpoint(event.time_ns),
                    _ => event.time_ns,
                };
                names.push(Named { from_ns, last_seen_ns, name });
            }
        }
        Threads { trace: self, named }
    }

    /// Replaces strings before they are shown, those in events and the names of threads.
    pub fn change_names(&mut self, change: impl Fn(&str) -> String) {
        self.names.change(|name| Some(change(name)));
        self.comms.values_mut().for_each(|name| *name = change(name));
    }
}

impl<'t> Threads<'t> {
    /// A thread's name: the last one in the events or, without one, what the recorder noted. Empty
    /// if it is unknown.
    #[must_use]
    pub fn name(&self, tid: u32) -> &'t str {
        self.name_at(tid, u64::MAX)
    }

    /// The name that a thread had at an instant; before its first event, the first one.
    #[must_use]
    pub fn name_at(&self, tid: u32, time_ns: u64) -> &'t str {
        let named = self.names(tid).get(self.program_at(tid, time_ns));
        let named = named.map(|named| self.trace.names.text(named.name));
        named.or_else(|| self.noted(tid)).unwrap_or_default()
    }

    /// Which of its names a thread had at an instant, counted from 0. One number with several names
    /// was used by several programs.
    #[must_use]
    pub fn program_at(&self, tid: u32, time_ns: u64) -> usize {
        self.names(tid).partition_point(|named| named.from_ns <= time_ns).saturating_sub(1)
    }

    fn names(&self, tid: u32) -> &[Named] {
        self.named.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// A process's name: what the recorder noted, which may be its command, or else the name of its
    /// main thread. Empty if it is unknown.
    #[must_use]
    pub fn process_name(&self, pid: u32) -> &'t str {
        self.noted(pid).unwrap_or_else(|| self.name(pid))
    }

    /// A process's name at an instant. If its main thread had several names, what the recorder
    /// noted is only one of them.
    #[must_use]
    pub fn process_name_at(&self, pid: u32, time_ns: u64) -> &'t str {
        if self.names(pid).len() > 1 { self.name_at(pid, time_ns) } else { self.process_name(pid) }
    }

    /// A thread's process. If it is unknown, the thread itself, because most processes make calls
    /// from their main thread.
    #[must_use]
    pub fn process(&self, tid: u32) -> u32 {
        self.trace.processes.get(&tid).copied().unwrap_or(tid)
    }

    fn noted(&self, tid: u32) -> Option<&'t str> {
        self.trace.comms.get(&tid).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TaskState;

    #[test]
    fn a_thread_has_its_last_name_and_a_process_the_noted_one() {
        let mut trace = Trace::default();
        let [first, last, other] = ["first", "last", "other"].map(|name| trace.names.intern(name));
        let prev = ThreadRef { tid: 7, prio: 120, comm: first };
        let next = ThreadRef { tid: 8, prio: 120, comm: other };
        let switch = Body::Switch { prev, prev_state: TaskState(0), next };
        for (time_ns, body) in [(10, switch), (20, Body::Rename { tid: 7, comm: last })] {
            trace.events.push(Event { time_ns, cpu: 0, tid: 7, body });
        }
        trace.comms = [(7, "a command"), (9, "noted")].map(|(tid, name)| (tid, name.to_owned())).into();
        trace.processes = [(8, 7)].into();
        let threads = trace.threads();
        assert_eq!([7, 8, 9, 10].map(|tid| threads.name(tid)), ["last", "other", "noted", ""]);
        assert_eq!([7, 8, 9].map(|pid| threads.process_name(pid)), ["a command", "other", "noted"]);
        assert_eq!([7, 8].map(|tid| threads.process(tid)), [7, 7]);
        assert_eq!([0, 19, 20].map(|ns| threads.process_name_at(7, ns)), ["first", "first", "last"]);
        assert_eq!((threads.process_name_at(9, 0), threads.name_at(8, 0)), ("noted", "other"));
    }

    #[test]
    fn without_an_event_of_the_change_the_nearest_sighting_names_a_thread() {
        let mut trace = Trace::default();
        let [first, last] = ["first", "last"].map(|name| trace.names.intern(name));
        for (time_ns, comm) in [(10, first), (20, first), (40, last), (50, last)] {
            let body = Body::Waking {
                thread: ThreadRef { tid: 7, prio: 120, comm },
                target_cpu: 0,
                context: crate::EventContext::Unknown,
            };
            trace.events.push(Event { time_ns, cpu: 0, tid: 1, body });
        }
        let threads = trace.threads();
        assert_eq!([0, 29, 30, 60].map(|ns| threads.name_at(7, ns)), ["first", "first", "last", "last"]);
        assert_eq!([29, 30].map(|ns| threads.program_at(7, ns)), [0, 1]);
    }

    #[test]
    fn idle_threads_and_empty_names_name_nobody() {
        let prev = ThreadRef::default();
        let next = ThreadRef { tid: 8, ..prev };
        let body = Body::Switch { prev, prev_state: TaskState(0), next };
        assert_eq!(Event { time_ns: 0, cpu: 0, tid: 0, body }.named().count(), 0);
    }
}
