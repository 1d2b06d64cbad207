//! Events of the scheduler, and of the start and end of threads, as Perfetto's messages.

use roundtrip_perfetto::schema::{
    event as ftrace, sched_blocked_reason, sched_migrate_task, sched_pi_setprio, sched_process_exit,
    sched_process_fork, sched_switch, sched_wakeup, sched_wakeup_new, sched_waking, task_rename,
};
use roundtrip_perfetto::write::{Int, Message, Nested, Text};
use roundtrip_tracefs::{Body, Event, Name, ThreadRef, Trace};

use super::generic::generic;
use super::symbol_id;
use crate::perfetto::state::Coding;

/// Which thread has a CPU, and on which CPU a runnable one waits. Returns whether the event was
/// one.
pub(super) fn places(message: &mut Message, trace: &Trace, event: &Event, coding: Coding) -> bool {
    match event.body {
        Body::Switch { prev, prev_state, next } => {
            _ = message.nested(ftrace::sched_switch, |one| {
                one.text(sched_switch::prev_comm, comm(trace, prev))
                    .int(sched_switch::prev_pid, prev.tid)
                    .int(sched_switch::prev_prio, prev.prio)
                    .int(sched_switch::prev_state, coding.number(prev_state))
                    .text(sched_switch::next_comm, comm(trace, next))
                    .int(sched_switch::next_pid, next.tid)
                    .int(sched_switch::next_prio, next.prio);
            })
        }
        Body::Waking { thread, target_cpu, .. } => {
            use sched_waking as f;
            woken(
                message,
                ftrace::sched_waking,
                [f::pid, f::prio, f::target_cpu],
                f::comm,
                trace,
                thread,
                target_cpu,
            );
        }
        Body::Wakeup { thread, target_cpu, new: false, .. } => {
            use sched_wakeup as f;
            woken(
                message,
                ftrace::sched_wakeup,
                [f::pid, f::prio, f::target_cpu],
                f::comm,
                trace,
                thread,
                target_cpu,
            );
        }
        Body::Wakeup { thread, target_cpu, new: true, .. } => {
            use sched_wakeup_new as f;
            let fields = [f::pid, f::prio, f::target_cpu];
            woken(message, ftrace::sched_wakeup_new, fields, f::comm, trace, thread, target_cpu);
        }
        Body::Migrate { thread, from_cpu, to_cpu } => {
            _ = message.nested(ftrace::sched_migrate_task, |one| {
                one.text(sched_migrate_task::comm, comm(trace, thread))
                    .int(sched_migrate_task::pid, thread.tid)
                    .int(sched_migrate_task::prio, thread.prio)
                    .int(sched_migrate_task::orig_cpu, from_cpu)
                    .int(sched_migrate_task::dest_cpu, to_cpu);
            })
        }
        _ => return false,
    };
    true
}

/// What one thread does, or what happens to it. Returns whether the event was one.
pub(super) fn of_one_thread(message: &mut Message, trace: &Trace, event: &Event) -> bool {
    let text = |name: Name| trace.names.text(name);
    match event.body {
        Body::PiSetprio { tid, old_prio, new_prio } => {
            _ = message.nested(ftrace::sched_pi_setprio, |one| {
                one.int(sched_pi_setprio::newprio, new_prio)
                    .int(sched_pi_setprio::oldprio, old_prio)
                    .int(sched_pi_setprio::pid, tid);
            })
        }
        Body::StatRuntime { tid, runtime_ns } => generic(message, "sched_stat_runtime", |fields| {
            fields.uint("pid", u64::from(tid)).uint("runtime", runtime_ns);
        }),
        Body::BlockedReason { tid, io_wait, caller } => {
            _ = message.nested(ftrace::sched_blocked_reason, |one| {
                one.int(sched_blocked_reason::pid, tid)
                    .uint(sched_blocked_reason::caller, symbol_id(caller))
                    .uint(sched_blocked_reason::io_wait, io_wait);
            })
        }
        Body::Fork { child, comm } => {
            _ = message.nested(ftrace::sched_process_fork, |one| {
                one.int(sched_process_fork::parent_pid, event.tid)
                    .text(sched_process_fork::child_comm, text(comm))
                    .int(sched_process_fork::child_pid, child);
            })
        }
        Body::Exit => {
            _ = message.nested(ftrace::sched_process_exit, |one| {
                one.int(sched_process_exit::pid, event.tid);
            })
        }
        Body::Rename { tid, comm } => {
            _ = message.nested(ftrace::task_rename, |one| {
                one.int(task_rename::pid, tid).text(task_rename::newcomm, text(comm));
            })
        }
        _ => return false,
    };
    true
}

fn comm(trace: &Trace, thread: ThreadRef) -> &str {
    trace.names.text(thread.comm)
}

/// The three events that show which thread is woken, and where.
fn woken(
    message: &mut Message,
    field: Nested,
    [pid, prio, cpu]: [Int; 3],
    name: Text,
    trace: &Trace,
    thread: ThreadRef,
    target_cpu: u32,
) {
    message.nested(field, |one| {
        one.text(name, comm(trace, thread)).int(pid, thread.tid).int(prio, thread.prio).int(cpu, target_cpu);
    });
}
