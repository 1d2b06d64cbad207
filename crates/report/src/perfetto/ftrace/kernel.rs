//! Idle states, frequencies, system calls, locks, work queues and the binder driver, as Perfetto's
//! messages.

use roundtrip_perfetto::schema::{
    binder_set_priority, binder_transaction, binder_transaction_received, cpu_frequency, cpu_idle,
    event as ftrace, sys_enter, sys_exit, workqueue_execute_end, workqueue_execute_start,
};
use roundtrip_perfetto::write::Message;
use roundtrip_tracefs::{Body, Event};

use super::generic::generic;
use super::symbol_id;

/// `cpu_idle`'s state when a CPU leaves idle: -1 as `u32` (`PWR_EVENT_EXIT` in the kernel's
/// `power.h`).
const NOT_IDLE: u32 = u32::MAX;

/// Events of CPUs and kernel code. Returns whether the event was one.
pub(super) fn on_a_cpu(message: &mut Message, event: &Event) -> bool {
    match event.body {
        Body::Idle { cpu, state } => {
            _ = message.nested(ftrace::cpu_idle, |one| {
                one.uint(cpu_idle::state, state.unwrap_or(NOT_IDLE)).uint(cpu_idle::cpu_id, cpu);
            })
        }
        Body::Frequency { cpu, khz } => {
            _ = message.nested(ftrace::cpu_frequency, |one| {
                one.uint(cpu_frequency::state, khz).uint(cpu_frequency::cpu_id, cpu);
            })
        }
        Body::SysEnter { number, first, .. } => {
            _ = message.nested(ftrace::sys_enter, |one| {
                one.int(sys_enter::id, number).uint(sys_enter::args, first);
            })
        }
        Body::SysExit { number, result } => {
            _ = message.nested(ftrace::sys_exit, |one| {
                one.int(sys_exit::id, number).int(sys_exit::ret, result);
            })
        }
        Body::ContentionBegin { lock, flags } => generic(message, "contention_begin", |fields| {
            fields.uint("lock_addr", lock).uint("flags", u64::from(flags));
        }),
        Body::ContentionEnd { lock } => generic(message, "contention_end", |fields| {
            fields.uint("lock_addr", lock);
        }),
        Body::WorkStart { work, function } => {
            _ = message.nested(ftrace::workqueue_execute_start, |one| {
                one.uint(workqueue_execute_start::work, work)
                    .uint(workqueue_execute_start::function, symbol_id(function));
            })
        }
        Body::WorkEnd { work } => {
            message
                .nested(ftrace::workqueue_execute_end, |one| _ = one.uint(workqueue_execute_end::work, work));
        }
        _ => return false,
    };
    true
}

/// Events of the binder driver. Returns whether the event was one.
pub(super) fn binder(message: &mut Message, event: &Event) -> bool {
    match event.body {
        Body::BinderTransaction { debug_id, target_node, to_proc, to_thread, reply, code, flags } => {
            message.nested(ftrace::binder_transaction, |one| {
                one.int(binder_transaction::debug_id, debug_id)
                    .int(binder_transaction::target_node, target_node)
                    .int(binder_transaction::to_proc, to_proc)
                    .int(binder_transaction::to_thread, to_thread)
                    .int(binder_transaction::reply, reply)
                    .uint(binder_transaction::code, code)
                    .uint(binder_transaction::flags, flags);
            });
        }
        Body::BinderReceived { debug_id } => {
            _ = message.nested(ftrace::binder_transaction_received, |one| {
                one.int(binder_transaction_received::debug_id, debug_id);
            })
        }
        Body::BinderSetPriority { tid, old_prio, new_prio } => {
            message.nested(ftrace::binder_set_priority, |one| {
                one.int(binder_set_priority::thread, tid)
                    .uint(binder_set_priority::old_prio, i64::from(old_prio).cast_unsigned())
                    .uint(binder_set_priority::new_prio, i64::from(new_prio).cast_unsigned());
            });
        }
        _ => return false,
    };
    true
}
