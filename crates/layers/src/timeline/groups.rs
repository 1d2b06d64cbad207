//! Control groups: which threads were moved to which group, and when groups were frozen. Must not
//! know whom that delayed.

use std::collections::HashMap;

use roundtrip_tracefs::{Body, Event, EventContext, OffCpu, TaskState, Trace};

use super::Timeline;
use crate::explanation::Stop;
use crate::kernel_names;

/// The most groups that are told apart. A device has a few for each application.
const MAX_GROUPS: usize = 1 << 16;

/// The most moves of a thread that are looked at to find the groups that it is in. There is one
/// group for each hierarchy.
const MAX_MOVES: usize = 32;

/// The longest time in which a thread that thaws a group wakes the threads in it, in nanoseconds.
const THAWS_NS: u64 = 10_000_000;

/// A thread was moved to a group: by the main thread of a process, perhaps all of its threads were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) time_ns: u64,
    /// The thread that moved it.
    pub(crate) by: u32,
    group: usize,
}

/// A group was frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frozen {
    /// 0 if that was before the recording.
    pub(crate) begin_ns: u64,
    /// `u64::MAX` if it was not thawed.
    pub(crate) end_ns: u64,
    /// The thread that froze it, if an event shows it.
    pub(crate) by: Option<u32>,
}

/// A group: the number of its hierarchy, and its path there.
type Group = (u64, String);

/// The groups of a recording.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    numbers: HashMap<Group, usize>,
    all: Vec<Group>,
    moves: HashMap<u32, Vec<Move>>,
    /// By group.
    frozen: HashMap<usize, Vec<Frozen>>,
    /// The group of each process that has one by its name: Android's `uid_N/pid_N`.
    of_process: HashMap<u32, usize>,
    /// The thread that thaws a group, the group, and since when.
    thaws: Option<(u32, usize, u64)>,
    /// By thread: when it was thawed, and the group.
    thawed: HashMap<u32, Vec<(u64, usize)>>,
}

impl Groups {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut groups = Self::default();
        if trace.recorded.iter().any(|event| event.starts_with("cgroup/cgroup_")) {
            trace.all().for_each(|event| groups.observe(trace, &event));
        }
        groups
    }

    fn observe(&mut self, trace: &Trace, event: &Event) {
        let name = match event.body {
            Body::Other { event: name, .. } => name,
            Body::Waking { thread, context, .. } | Body::Wakeup { thread, context, .. } => {
                return self.woken(event, thread.tid, context);
            }
            _ => return,
        };
        let number = |field: &str| trace.number(event, field);
        match trace.names.text(name).strip_prefix("cgroup/") {
            Some("cgroup_attach_task" | "cgroup_transfer_tasks") => {
                let group = self.number(trace, event, ["dst_root", "dst_path", "cname"]);
                if let (Some(group), Some(tid)) = (group, number("pid").and_then(|tid| tid.try_into().ok())) {
                    let moved = Move { time_ns: event.time_ns, by: event.tid, group };
                    self.moves.entry(tid).or_default().push(moved);
                }
            }
            Some("cgroup_freeze") => self.freeze(trace, event, true, Some(event.tid)),
            Some("cgroup_unfreeze") => self.freeze(trace, event, false, Some(event.tid)),
            // All of its threads are frozen, or one is no longer.
            Some("cgroup_notify_frozen") => self.freeze(trace, event, number("val") == Some(1), None),
            _ => {}
        }
    }

    /// A thread that thaws a group wakes those in it, between two events of the group
    /// (`cgroup_do_freeze` in kernel/cgroup/freezer.c).
    fn woken(&mut self, event: &Event, tid: u32, context: EventContext) {
        if let Some((by, group, since_ns)) = self.thaws
            && by == event.tid
            && !matches!(context, EventContext::Interrupt | EventContext::Softirq)
            && event.time_ns - since_ns <= THAWS_NS
        {
            self.thawed.entry(tid).or_default().push((event.time_ns, group));
        }
    }

    /// `by`: the thread that asked for it, if the event shows that.
    fn freeze(&mut self, trace: &Trace, event: &Event, frozen: bool, by: Option<u32>) {
        let Some(group) = self.number(trace, event, ["root", "path", "cname"]) else { return };
        self.thaws = by.filter(|_| !frozen).map(|by| (by, group, event.time_ns));
        let all = self.frozen.entry(group).or_default();
        let first = all.is_empty();
        let begun = match (all.last_mut().filter(|last| last.end_ns == u64::MAX), frozen) {
            (Some(last), false) => return last.end_ns = event.time_ns,
            (None, true) => Frozen { begin_ns: event.time_ns, end_ns: u64::MAX, by },
            // The kernel thaws only a group that was frozen: before the recording.
            (None, false) if first && by.is_some() => Frozen { begin_ns: 0, end_ns: event.time_ns, by: None },
            _ => return,
        };
        all.push(begun);
    }

    fn number(&mut self, trace: &Trace, event: &Event, [root, path, older]: [&str; 3]) -> Option<usize> {
        let root = trace.number(event, root)?;
        let path = trace.field(event, path).or_else(|| trace.field(event, older))?.text()?.to_owned();
        let number = self.all.len();
        if let Some(&known) = self.numbers.get(&(root, path.clone())) {
            return Some(known);
        }
        if number >= MAX_GROUPS {
            return None;
        }
        if let Some(pid) = process_in(&path) {
            self.of_process.insert(pid, number);
        }
        self.all.push((root, path.clone()));
        self.numbers.insert((root, path), number);
        Some(number)
    }

    fn moves_until(&self, tid: u32, time_ns: u64) -> impl Iterator<Item = &Move> {
        let moves = self.moves.get(&tid).map_or(&[][..], |moves| moves);
        let after = moves.partition_point(|moved| moved.time_ns <= time_ns);
        moves[..after].iter().rev().take(MAX_MOVES)
    }

    /// For each hierarchy of control groups, a thread's last move up to an instant, with the path
    /// of its new group; the latest move first. Groups for a single process are left out, because
    /// they say nothing about CPUs.
    pub(crate) fn last_moves(&self, tid: u32, time_ns: u64) -> Vec<(Move, &str)> {
        let mut roots = Vec::new();
        let mut out = Vec::new();
        for moved in self.moves_until(tid, time_ns) {
            let (root, path) = &self.all[moved.group];
            if !roots.contains(root) && process_in(path).is_none() {
                roots.push(*root);
                out.push((*moved, path.as_str()));
            }
        }
        out
    }

    /// Whether the group of a thread was frozen at an instant, at which a wait began that ended at
    /// `until_ns`.
    pub(super) fn frozen_at(
        &self,
        tid: u32,
        pid: Option<u32>,
        time_ns: u64,
        until_ns: u64,
    ) -> Option<Frozen> {
        if self.frozen.is_empty() {
            return None;
        }
        let thawed = self.thawed.get(&tid).into_iter().flatten();
        let thawed = thawed.filter(|(at_ns, _)| *at_ns == until_ns).map(|(_, group)| *group);
        let by_name = pid.and_then(|pid| self.of_process.get(&pid)).copied();
        let moved = [Some(tid), pid].into_iter().flatten();
        let moved = moved.flat_map(|tid| self.moves_until(tid, time_ns)).map(|moved| moved.group);
        let within = |group| {
            let all: &Vec<Frozen> = self.frozen.get(&group)?;
            let after = all.partition_point(|frozen| frozen.begin_ns <= time_ns);
            all[..after].last().filter(|frozen| time_ns < frozen.end_ns).copied()
        };
        by_name.into_iter().chain(thawed).chain(moved).find_map(within)
    }
}

impl Timeline<'_> {
    /// How a thread was stopped during the wait since an instant, if it was, and the thread that
    /// froze it, if an event shows it. `state`: that of the wait, if known. `function`: where it
    /// waited, if known.
    pub(crate) fn stopped(
        &self,
        tid: u32,
        state: Option<TaskState>,
        since_ns: u64,
        function: Option<&str>,
    ) -> Option<(Stop, Option<u32>)> {
        // A frozen thread waits for a signal in the freezer. Any other wait that a signal ends, it
        // leaves to get there (`do_freezer_trap` in kernel/signal.c).
        match state.and_then(TaskState::off) {
            Some(OffCpu::Stopped | OffCpu::Traced) => Some((Stop::Signal, None)),
            _ if function.is_some_and(kernel_names::is_freezer) => Some((Stop::Frozen, None)),
            None | Some(OffCpu::Interruptible) => {
                let pid = self.trace.processes.get(&tid).copied();
                let until_ns = self.until(tid, since_ns);
                let frozen = self.groups.frozen_at(tid, pid, since_ns, until_ns)?;
                // A thread that ran since the recording began was frozen later.
                let ran = frozen.begin_ns == 0 && until_ns < frozen.end_ns;
                (!ran).then_some((Stop::Frozen, frozen.by))
            }
            Some(_) => None,
        }
    }
}

/// The process that a group is for by its name.
fn process_in(path: &str) -> Option<u32> {
    path.rsplit('/').next()?.strip_prefix("pid_")?.parse().ok()
}
