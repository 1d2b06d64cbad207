//! What every thread and every CPU in a recording did at each instant, determined in one pass over
//! the events. What the events do not prove is unknown. Must not know round trips.

mod basis;
mod build;
mod gaps;
mod groups;
mod interrupts;
mod power;
mod served;
mod tick;
mod within;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use roundtrip_tracefs::{Event, Name, Numbers, TaskState, Threads, Trace};

use crate::begins::Begins;
use crate::system_calls::SystemCall;
pub use basis::Basis;
pub(crate) use basis::Knows;
use gaps::Gaps;
use groups::Groups;
use interrupts::Interrupts;
pub(crate) use interrupts::Source;
pub(crate) use served::Served;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Unknown.
    Unknown,
    /// Either runnable or being woken.
    Moved { cpu: u32 },
    /// On a CPU.
    Running { cpu: u32 },
    /// On a run queue, of this CPU if known. `preempted`: it lost the CPU involuntarily.
    Runnable { cpu: Option<u32>, preempted: bool },
    /// Off its CPU, in a state that this program does not know: runnable on that CPU, or waiting.
    Left { cpu: u32 },
    /// Between `sched_waking` and `sched_wakeup`.
    Waking { cpu: u32 },
    /// Waiting; `None`: the kind of wait is unknown.
    Blocked { state: Option<TaskState> },
    /// Not created yet, or ended.
    Gone,
}

/// The waker of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waking {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
    pub(crate) by: WakingBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakingBy {
    Thread(u32),
    Interrupt(Option<Source>),
    /// Perhaps another CPU, which asked this one to wake the thread. Only `sched_waking` shows it.
    OtherCpu,
    Unknown,
}

/// A system call, or a wait for a kernel lock. `end_ns` is `u64::MAX` while it continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) number: i64,
}

/// One thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadLine {
    /// Its activities with start times. Each lasts until the next.
    doing: Vec<(u64, Doing)>,
    prios: Vec<(u64, i32)>,
    wakings: Vec<Waking>,
    calls: Vec<Call>,
    locks: Vec<Call>,
    blocked_at: Vec<(u64, (Name, bool))>,
    /// `sched_stat_runtime`: when, and how many nanoseconds.
    accounted: Vec<(u64, u64)>,
    /// The last instant at which an event proved the thread's activity.
    confirmed_ns: u64,
    /// From when on its activity depends on the assumption that it slept before it was woken.
    doubted_ns: Option<u64>,
    /// The time and target CPU of a waking that came while the thread still had a CPU, until its
    /// wakeup follows.
    woken_early: Option<(u64, u32)>,
    seen: bool,
}

/// Which thread had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Current {
    Unknown,
    Thread(u32),
}

/// One CPU.
#[derive(Debug, Default)]
pub(crate) struct CpuLine {
    current: Vec<(u64, Current)>,
    pub(crate) interrupts: Interrupts,
    event_times: Vec<u64>,
    completed_io: Vec<u64>,
    ticks: Vec<u64>,
    /// Its frequencies in kHz, with start times.
    frequencies: Vec<(u64, u32)>,
    /// Its idle states, each with its start; `None` while the CPU is awake.
    idle: Vec<(u64, Option<u32>)>,
}

/// A stretch of time, and what applied during it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct During<T> {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) what: T,
}

/// An unrecorded context switch, between two events of its CPU.
#[derive(Clone, Copy, Debug)]
struct Unrecorded {
    after_ns: u64,
    before_ns: u64,
    /// Whether its time is known nevertheless: an idle CPU ran the thread when the thread was
    /// woken.
    inferred: bool,
}

/// An indexed recording, built once for any number of round trips.
#[derive(Debug)]
pub struct Timeline<'t> {
    pub(crate) trace: &'t Trace,
    /// The events, or those around the round trips that it is for.
    pub(crate) events: Cow<'t, [Event]>,
    named: Rc<Threads<'t>>,
    numbers: Rc<Numbers>,
    pub(crate) knows: Knows,
    threads: HashMap<u32, ThreadLine>,
    cpus: Vec<CpuLine>,
    gaps: Gaps,
    /// Context switches that were not recorded although nothing was lost, in the order of the
    /// events that reveal them.
    unrecorded: Vec<Unrecorded>,
    /// The earliest time of each.
    unrecorded_after: Begins,
    tick_ns: Option<u64>,
    pub(crate) groups: Rc<Groups>,
    /// By thread: the calls that it served. Found when they are first asked for.
    served: OnceCell<HashMap<u32, Vec<Served>>>,
}

impl<'t> Timeline<'t> {
    /// Indexes a recording.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        build::timeline(&Basis::of(trace), None)
    }

    /// The calls that a thread served, in the order of their ends, without those that it served
    /// within another one.
    pub(crate) fn served(&self, tid: u32) -> &[Served] {
        let served = self.served.get_or_init(|| served::served(&self.events));
        served.get(&tid).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn thread(&self, tid: u32) -> Option<&ThreadLine> {
        self.threads.get(&tid)
    }

    /// The system call of a number in a thread.
    pub(crate) fn system_call(&self, tid: u32, number: i64) -> SystemCall {
        SystemCall::of(self.numbers.machine(tid), number)
    }

    /// A thread's name; empty if it is unknown.
    pub(crate) fn name(&self, tid: u32) -> &'t str {
        self.named.name(tid)
    }

    /// The name that a thread had at an instant.
    pub(crate) fn name_at(&self, tid: u32, time_ns: u64) -> &'t str {
        self.named.name_at(tid, time_ns)
    }

    /// The name that a process had at an instant; empty if it is unknown.
    pub(crate) fn process_name_at(&self, pid: u32, time_ns: u64) -> &'t str {
        self.named.process_name_at(pid, time_ns)
    }

    /// One more than the highest CPU number.
    pub(crate) fn cpu_count(&self) -> u32 {
        self.cpus.len() as u32
    }

    pub(crate) fn cpu(&self, cpu: u32) -> Option<&CpuLine> {
        self.cpus.get(cpu as usize)
    }

    /// Whether anything during this stretch was lost, on any CPU.
    pub(crate) fn lost_within(&self, from_ns: u64, to_ns: u64) -> bool {
        self.gaps.lost_within(from_ns, to_ns)
    }

    /// Whether the recording lacks events of this stretch on any CPU: lost ones, or those from
    /// before its start or after its end.
    pub(crate) fn incomplete_within(&self, from_ns: u64, to_ns: u64) -> bool {
        self.gaps.within(None, from_ns, to_ns).is_some()
    }

    /// The least number of context switches that the kernel did not record although no event was
    /// lost. At each, the CPU had another thread than the previous event had left on it. If a
    /// switch was reverted before the CPU's next event, it goes unnoticed.
    #[must_use]
    pub fn unrecorded_switches(&self) -> u64 {
        self.unrecorded.len() as u64
    }

    /// The number of those that may have happened during this stretch, on any CPU.
    pub(crate) fn unrecorded_within(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.unrecorded_between(from_ns, to_ns).count() as u64
    }

    /// How much of a stretch is unknown because some CPU switched threads at an unknown time
    /// between two of its events, in nanoseconds.
    pub(crate) fn unknown_for_switches_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let unknown = self.unrecorded_between(from_ns, to_ns).filter(|switch| !switch.inferred);
        let mut stretches: Vec<(u64, u64)> =
            unknown.map(|switch| (switch.after_ns.max(from_ns), switch.before_ns.min(to_ns))).collect();
        stretches.sort_unstable();
        let (mut sum_ns, mut until_ns) = (0, from_ns);
        for (begin_ns, end_ns) in stretches {
            sum_ns += end_ns.saturating_sub(begin_ns.max(until_ns));
            until_ns = until_ns.max(end_ns);
        }
        sum_ns
    }

    fn unrecorded_between(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &Unrecorded> {
        let first = self.unrecorded.partition_point(|switch| switch.before_ns <= from_ns);
        let until = to_ns.checked_sub(1).map(|to_ns| self.unrecorded_after.until(first, to_ns));
        until.into_iter().flatten().map(|index| &self.unrecorded[index])
    }

    /// Every waking during a stretch, with the woken thread, in no particular order.
    pub(crate) fn wakings(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (u32, Waking)> {
        let of =
            move |&tid: &u32| self.wakings_of(tid, from_ns, to_ns).iter().map(move |waking| (tid, *waking));
        self.threads.keys().flat_map(of)
    }

    /// A thread's activities, without gaps; unknown where no event shows them.
    pub(crate) fn doing(&self, tid: u32, from_ns: u64, to_ns: u64) -> Vec<During<Doing>> {
        let line = self.threads.get(&tid).map_or(&[][..], |line| &line.doing);
        during(line, from_ns, to_ns, Doing::Unknown)
    }

    /// The activity at one instant, and since when.
    pub(crate) fn doing_at(&self, tid: u32, time_ns: u64) -> (u64, Doing) {
        let line = self.threads.get(&tid).map_or(&[][..], |line| &line.doing);
        let after = line.partition_point(|change| change.0 <= time_ns);
        after.checked_sub(1).map_or((0, Doing::Unknown), |index| line[index])
    }

    /// The end of the activity at an instant; `u64::MAX` if no event changes it.
    pub(crate) fn until(&self, tid: u32, time_ns: u64) -> u64 {
        let line = self.threads.get(&tid).map_or(&[][..], |line| &line.doing);
        let after = line.partition_point(|change| change.0 <= time_ns);
        line.get(after).map_or(u64::MAX, |change| change.0)
    }

    /// The threads on a CPU, without gaps.
    pub(crate) fn on_cpu(&self, cpu: u32, from_ns: u64, to_ns: u64) -> Vec<During<Current>> {
        let line = self.cpu(cpu).map_or(&[][..], |line| &line.current);
        during(line, from_ns, to_ns, Current::Unknown)
    }

    /// A thread's priority at an instant, from the last event before it or, without one, the first
    /// after it.
    pub(crate) fn prio_at(&self, tid: u32, time_ns: u64) -> Option<i32> {
        let prios = &self.threads.get(&tid)?.prios;
        let after = prios.partition_point(|change| change.0 <= time_ns);
        prios.get(after.saturating_sub(1)).map(|change| change.1)
    }

    /// The waking that ended a wait at an instant. A thread that wakes itself did not wait.
    pub(crate) fn waking_at(&self, tid: u32, time_ns: u64) -> Option<Waking> {
        let mut wakings = self.wakings_of(tid, time_ns, time_ns).iter();
        wakings.find(|waking| waking.by != WakingBy::Thread(tid)).copied()
    }

    /// The last waking of a thread up to an instant.
    pub(crate) fn last_waking(&self, tid: u32, time_ns: u64) -> Option<Waking> {
        self.wakings_of(tid, 0, time_ns).last().copied()
    }

    /// All wakings of a thread during a stretch.
    pub(crate) fn wakings_of(&self, tid: u32, from_ns: u64, to_ns: u64) -> &[Waking] {
        let wakings = self.threads.get(&tid).map_or(&[][..], |line| &line.wakings);
        let first = wakings.partition_point(|waking| waking.time_ns < from_ns);
        let after = wakings.partition_point(|waking| waking.time_ns <= to_ns);
        &wakings[first.min(after)..after]
    }

    /// Whether a block request that completed at most `within_ns` before a waking explains it: the
    /// same interrupt completed it. If the interrupt is not recorded, any on the same CPU does.
    pub(crate) fn io_completed(&self, waking: &Waking, within_ns: u64) -> bool {
        let Some(line) = self.cpu(waking.cpu) else { return false };
        let after = line.completed_io.partition_point(|&time| time <= waking.time_ns);
        let last = line.completed_io[..after].last();
        last.is_some_and(|&completed_ns| {
            waking.time_ns - completed_ns <= within_ns
                && line.interrupts.may_be_one(completed_ns, waking.time_ns)
        })
    }
}

impl ThreadLine {
    /// System calls that overlap a stretch.
    pub(crate) fn calls_within(&self, from_ns: u64, to_ns: u64) -> &[Call] {
        calls_within(&self.calls, from_ns, to_ns)
    }

    /// Waits for kernel locks that overlap a stretch.
    pub(crate) fn locks_within(&self, from_ns: u64, to_ns: u64) -> &[Call] {
        calls_within(&self.locks, from_ns, to_ns)
    }

    /// Where the thread was blocked, and whether it waited for a device, from the event at its
    /// wakeup.
    pub(crate) fn blocked_at(&self, from_ns: u64, to_ns: u64) -> Option<(Name, bool)> {
        let after = self.blocked_at.partition_point(|at| at.0 <= to_ns);
        self.blocked_at[..after].last().filter(|at| at.0 >= from_ns).map(|at| at.1)
    }

    /// The CPU time that the scheduler accounted to the thread during a stretch: the time from the
    /// first to the last accounting event, and the CPU time between them, in nanoseconds.
    pub(crate) fn accounted_within(&self, from_ns: u64, to_ns: u64) -> Option<(During<()>, u64)> {
        let first = self.accounted.partition_point(|at| at.0 < from_ns);
        let after = self.accounted.partition_point(|at| at.0 <= to_ns);
        let accounts = self.accounted.get(first..after).filter(|accounts| accounts.len() >= 2)?;
        let (first, rest) = accounts.split_first()?;
        let during = During { begin_ns: first.0, end_ns: rest.last()?.0, what: () };
        Some((during, rest.iter().map(|account| account.1).sum()))
    }
}

fn calls_within(calls: &[Call], from_ns: u64, to_ns: u64) -> &[Call] {
    let first = calls.partition_point(|call| call.end_ns <= from_ns);
    let after = calls.partition_point(|call| call.begin_ns < to_ns);
    &calls[first.min(after)..after]
}

/// The changes that apply during a stretch, as stretches without gaps.
fn during<T: Copy>(changes: &[(u64, T)], from_ns: u64, to_ns: u64, before_first: T) -> Vec<During<T>> {
    let mut out = Vec::new();
    if from_ns >= to_ns {
        return out;
    }
    let mut index = changes.partition_point(|change| change.0 <= from_ns);
    let mut what = index.checked_sub(1).map_or(before_first, |index| changes[index].1);
    let mut begin_ns = from_ns;
    while let Some(&(time_ns, next)) = changes.get(index).filter(|change| change.0 < to_ns) {
        if begin_ns < time_ns {
            out.push(During { begin_ns, end_ns: time_ns, what });
        }
        (begin_ns, what) = (time_ns, next);
        index += 1;
    }
    out.push(During { begin_ns, end_ns: to_ns, what });
    out
}

/// Records a change. If it is earlier than others, later changes are dropped.
fn change<T: Copy + PartialEq>(changes: &mut Vec<(u64, T)>, time_ns: u64, what: T) {
    while changes.last().is_some_and(|last| last.0 >= time_ns) {
        changes.pop();
    }
    if changes.last().is_none_or(|last| last.1 != what) {
        changes.push((time_ns, what));
    }
}
