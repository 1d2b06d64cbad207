//! The scheduler's events, and the start and end of threads.

use super::Reader;
use super::slots::{Number, Text, Thread};
use crate::context::EventContext;
use crate::event::{Body, TaskState};
use crate::format::Format;

pub(super) fn reader(format: &Format) -> Option<Reader> {
    let number = |name| Number::of(format, name);
    Some(match (format.system.as_str(), format.name.as_str()) {
        ("sched", "sched_switch") => {
            let (prev, next) = (Thread::of(format, "prev_")?, Thread::of(format, "next_")?);
            let (prev_state, states) = (number("prev_state")?, States::of(format)?);
            Box::new(move |r, t| {
                let prev_state = states.state(prev_state.u64(r)?);
                Some(Body::Switch { prev: prev.get(r, t)?, prev_state, next: next.get(r, t)? })
            })
        }
        ("sched", "sched_waking") => {
            let (thread, target_cpu) = (Thread::of(format, "")?, number("target_cpu")?);
            let flags = number("common_flags");
            Box::new(move |r, t| {
                let (thread, target_cpu) = (thread.get(r, t)?, target_cpu.u32(r)?);
                Some(Body::Waking { thread, target_cpu, context: context(flags, r) })
            })
        }
        ("sched", name @ ("sched_wakeup" | "sched_wakeup_new")) => {
            let (thread, target_cpu) = (Thread::of(format, "")?, number("target_cpu")?);
            let (flags, new) = (number("common_flags"), name == "sched_wakeup_new");
            Box::new(move |r, t| {
                let (thread, target_cpu) = (thread.get(r, t)?, target_cpu.u32(r)?);
                Some(Body::Wakeup { thread, target_cpu, new, context: context(flags, r) })
            })
        }
        ("sched", "sched_migrate_task") => {
            let (thread, from, to) = (Thread::of(format, "")?, number("orig_cpu")?, number("dest_cpu")?);
            Box::new(move |r, t| {
                Some(Body::Migrate { thread: thread.get(r, t)?, from_cpu: from.u32(r)?, to_cpu: to.u32(r)? })
            })
        }
        ("sched", "sched_pi_setprio") => {
            let (tid, old, new) = (number("pid")?, number("oldprio")?, number("newprio")?);
            Box::new(move |r, _| {
                Some(Body::PiSetprio { tid: tid.u32(r)?, old_prio: old.i32(r)?, new_prio: new.i32(r)? })
            })
        }
        ("sched", "sched_stat_runtime") => {
            let (tid, runtime) = (number("pid")?, number("runtime")?);
            Box::new(move |r, _| Some(Body::StatRuntime { tid: tid.u32(r)?, runtime_ns: runtime.u64(r)? }))
        }
        ("sched", "sched_blocked_reason") => {
            let (tid, io_wait, caller) = (number("pid")?, number("io_wait")?, number("caller")?);
            Box::new(move |r, t| {
                Some(Body::BlockedReason {
                    tid: tid.u32(r)?,
                    io_wait: io_wait.u64(r)? != 0,
                    caller: t.address(caller.u64(r)?),
                })
            })
        }
        _ => return of_lives(format),
    })
}

/// The context of a record.
#[inline]
fn context(flags: Option<Number>, record: &[u8]) -> EventContext {
    flags.and_then(|flags| flags.u32(record)).map_or(EventContext::Unknown, EventContext::of_flags)
}

/// Threads that start, end or change their names.
fn of_lives(format: &Format) -> Option<Reader> {
    let number = |name| Number::of(format, name);
    let text = |name| Text::of(format, name);
    Some(match (format.system.as_str(), format.name.as_str()) {
        ("sched", "sched_process_fork") => {
            let (child, comm) = (number("child_pid")?, text("child_comm")?);
            Box::new(move |r, t| Some(Body::Fork { child: child.u32(r)?, comm: comm.name(r, t)? }))
        }
        ("sched", "sched_process_exit") => Box::new(|_, _| Some(Body::Exit)),
        ("task", "task_rename") => {
            // Newer kernels omit the thread, because a thread nearly always renames itself. Then it
            // is the current thread.
            let (tid, comm) = (number("pid").or_else(|| number("common_pid"))?, text("newcomm")?);
            Box::new(move |r, t| Some(Body::Rename { tid: tid.u32(r)?, comm: comm.name(r, t)? }))
        }
        _ => return None,
    })
}

/// The recording kernel's bits of `prev_state`. They differ between kernels, and each print format
/// lists them.
struct States {
    preempted: u64,
    /// Pairs of the kernel's bit and that of [`TaskState`].
    bits: Vec<(u64, u32)>,
}

impl States {
    /// `None` for a kernel that does not list its bits, because a wrong state is worse than none.
    fn of(format: &Format) -> Option<Self> {
        const LETTERS: [(&str, u32); 9] = [
            ("S", 1),
            ("D", 2),
            ("T", 4),
            ("t", 8),
            ("X", 0x10),
            ("x", 0x10),
            ("Z", 0x20),
            ("P", 0x40),
            ("I", 0x80),
        ];
        let ours = |letter: &str| LETTERS.iter().find(|(known, _)| *known == letter).map(|&(_, bit)| bit);
        let bits: Vec<_> = format
            .symbols("prev_state")
            .iter()
            .filter_map(|(bit, letter)| Some((*bit, ours(letter)?)))
            .collect();
        let preempted = format.bits_choosing("prev_state", "+")?;
        (!bits.is_empty()).then_some(Self { preempted, bits })
    }

    #[inline]
    fn state(&self, kernels: u64) -> TaskState {
        if kernels == 0 {
            return TaskState(0);
        }
        if kernels & self.preempted != 0 {
            return TaskState::PREEMPTED;
        }
        match self.bits.iter().filter(|(bit, _)| kernels & bit != 0).fold(0, |state, (_, ours)| state | ours)
        {
            0 => TaskState::UNKNOWN,
            bits => TaskState(bits),
        }
    }
}
