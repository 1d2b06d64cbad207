//! One kernel event as Perfetto's message for it; those that Perfetto has none for go as generic ones, with the fields
//! that are known. A field that the recording does not have is left out. Must not know of files or CPUs.

use tracefs::{Body, Event, Name, ThreadRef, Trace, Value};

use super::schema::{
    Kind, NAMED, binder_set_priority, binder_transaction, binder_transaction_received, cpu_frequency,
    cpu_idle, event as ftrace, generic, generic_field, ipi_entry, ipi_exit, ipi_raise, irq_handler_entry,
    irq_handler_exit, print, sched_blocked_reason, sched_migrate_task, sched_pi_setprio, sched_process_exit,
    sched_process_fork, sched_switch, sched_wakeup, sched_wakeup_new, sched_waking, softirq_entry,
    softirq_exit, softirq_raise, sys_enter, sys_exit, task_rename, workqueue_execute_end,
    workqueue_execute_start,
};
use super::state::Coding;
use super::wire::{Int, Message, Nested, Text, Uint};

/// `cpu_idle`'s state when a CPU leaves idling: -1 as `u32` (`PWR_EVENT_EXIT` of the kernel's `power.h`).
const NOT_IDLE: u32 = u32::MAX;

/// The kernel function that an event names: Perfetto wants it by number, and its name once.
pub(super) fn symbol(body: &Body) -> Option<Name> {
    match *body {
        Body::BlockedReason { caller: name, .. } | Body::WorkStart { function: name, .. } => {
            (name != Name::default()).then_some(name)
        }
        _ => None,
    }
}

/// The number of a function's name; 0 is none.
pub(super) fn symbol_id(name: Name) -> u32 {
    name.0
}

/// The fields of a `FtraceEvent`.
pub(super) fn event(message: &mut Message, trace: &Trace, event: &Event, coding: Coding) {
    message.uint(ftrace::timestamp, event.time_ns).uint(ftrace::pid, event.tid);
    let text = |name: Name| trace.names.text(name);
    let softirq = |message: &mut Message, field, vec, vector: u32| {
        message.nested(field, |one| _ = one.uint(vec, vector));
    };
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
        Body::Waking { thread, target_cpu } => {
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
        Body::Wakeup { thread, target_cpu, new: false } => {
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
        Body::Wakeup { thread, target_cpu, new: true } => {
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
        Body::IrqEntry { irq, name } => {
            _ = message.nested(ftrace::irq_handler_entry, |one| {
                one.int(irq_handler_entry::irq, irq).text(irq_handler_entry::name, text(name));
            })
        }
        Body::IrqExit { irq, handled } => {
            _ = message.nested(ftrace::irq_handler_exit, |one| {
                one.int(irq_handler_exit::irq, irq).int(irq_handler_exit::ret, handled);
            })
        }
        Body::SoftirqRaise { vector } => softirq(message, ftrace::softirq_raise, softirq_raise::vec, vector),
        Body::SoftirqEntry { vector } => softirq(message, ftrace::softirq_entry, softirq_entry::vec, vector),
        Body::SoftirqExit { vector } => softirq(message, ftrace::softirq_exit, softirq_exit::vec, vector),
        // Of x86's interrupt vectors Perfetto knows the timer's. The others have tracks of our own besides.
        Body::VectorEntry { kind } if text(kind) == "local_timer" => {
            message.nested(ftrace::local_timer_entry, |_| {});
        }
        Body::VectorExit { kind } if text(kind) == "local_timer" => {
            message.nested(ftrace::local_timer_exit, |_| {});
        }
        Body::VectorEntry { kind } => generic(message, &format!("{}_entry", text(kind)), |_| {}),
        Body::VectorExit { kind } => generic(message, &format!("{}_exit", text(kind)), |_| {}),
        Body::IpiRaise { target_cpu, reason } => {
            _ = message.nested(ftrace::ipi_raise, |one| {
                if let Some(bit) = target_cpu.and_then(|cpu| 1u32.checked_shl(cpu)) {
                    one.uint(ipi_raise::target_cpus, bit);
                }
                one.text(ipi_raise::reason, text(reason));
            })
        }
        Body::IpiEntry { reason } => {
            message.nested(ftrace::ipi_entry, |one| _ = one.text(ipi_entry::reason, text(reason)));
        }
        Body::IpiExit { reason } => {
            message.nested(ftrace::ipi_exit, |one| _ = one.text(ipi_exit::reason, text(reason)));
        }
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
        Body::SysEnter { number, first } => {
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
        // Perfetto takes the text for a slice's begin or end or a counter, and anything else for an error.
        Body::Print { text: written } if marks(text(written)) => {
            _ = message.nested(ftrace::print, |one| {
                one.text(print::buf, &format!("{}\n", text(written)));
            })
        }
        Body::Print { text: written } => generic(message, "print", |fields| {
            fields.text("buf", text(written));
        }),
        Body::Other { event: name, .. } => other(message, trace, event, text(name)),
        // A kind that is newer than this file is not left out of the trace in silence.
        _ => generic(message, "unknown_to_roundtrip", |_| {}),
    };
}

fn comm(trace: &Trace, thread: ThreadRef) -> &str {
    trace.names.text(thread.comm)
}

/// The three events that say who is woken and where.
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

/// Whether a text in `trace_marker` is one of the marks that Android's and Perfetto's tools agree on (`B|PID|NAME`, `E|PID`,
/// `C|PID|NAME|VALUE` and the like; Android's `libs/cutils/trace`).
fn marks(text: &str) -> bool {
    let mut parts = text.split('|');
    let (kind, pid, rest) = (parts.next(), parts.next(), parts.count());
    let enough = match kind {
        Some("E") => 0,
        Some("B" | "I") => 1,
        Some("C" | "S" | "F" | "N") => 2,
        Some("G" | "H" | "T") => 3,
        _ => return false,
    };
    pid.is_none_or(|pid| pid.parse::<u32>().is_ok()) && rest >= enough
}

/// An event without a decoded form: by its own message if Perfetto has one, else with all fields of its format.
fn other(message: &mut Message, trace: &Trace, event: &Event, name: &str) {
    let name = name.split_once('/').map_or(name, |(_, name)| name);
    if let Ok(at) = NAMED.binary_search_by_key(&name, |named| named.event) {
        message.nested(NAMED[at].field, |one| {
            for &(name, kind) in NAMED[at].fields {
                match (kind, trace.field(event, name)) {
                    (Kind::Int(number), Some(Value::Signed(value))) => _ = one.int(Int(number), value),
                    (Kind::Int(number), Some(Value::Unsigned(value))) => {
                        _ = one.int(Int(number), value.cast_signed())
                    }
                    (Kind::Uint(number), Some(value)) => {
                        if let Some(value) = value.number() {
                            one.uint(Uint(number), value);
                        }
                    }
                    (Kind::Text(number), Some(Value::Text(value))) => _ = one.text(Text(number), &value),
                    _ => {}
                }
            }
        });
        return;
    }
    generic(message, name, |fields| {
        let Some((format, _)) = trace.record(event) else { return };
        for field in format.fields.iter().filter(|field| !field.name.starts_with("common_")) {
            match trace.field(event, &field.name) {
                Some(Value::Signed(value)) => _ = fields.int(&field.name, value),
                Some(Value::Unsigned(value)) => _ = fields.uint(&field.name, value),
                Some(Value::Text(value)) => _ = fields.text(&field.name, &value),
                Some(Value::Bytes(bytes)) => {
                    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    fields.text(&field.name, &digits);
                }
                None => {}
            }
        }
    });
}

/// The fields of an event that Perfetto has no message for.
struct Fields<'a>(&'a mut Message);

impl Fields<'_> {
    fn field(&mut self, name: &str, value: impl FnOnce(&mut Message)) -> &mut Self {
        self.0.nested(generic::field, |one| {
            one.text(generic_field::name, name);
            value(one);
        });
        self
    }

    fn uint(&mut self, name: &str, value: u64) -> &mut Self {
        match i64::try_from(value) {
            Ok(_) => self.field(name, |one| _ = one.uint(generic_field::uint_value, value)),
            // An address of the kernel's: Perfetto would show it as a negative number.
            Err(_) => self.text(name, &format!("{value:#x}")),
        }
    }

    fn int(&mut self, name: &str, value: i64) -> &mut Self {
        self.field(name, |one| _ = one.int(generic_field::int_value, value))
    }

    fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.field(name, |one| _ = one.text(generic_field::str_value, value))
    }
}

fn generic(message: &mut Message, name: &str, fields: impl FnOnce(&mut Fields<'_>)) {
    message.nested(ftrace::generic, |one| {
        one.text(generic::event_name, name);
        fields(&mut Fields(one));
    });
}
