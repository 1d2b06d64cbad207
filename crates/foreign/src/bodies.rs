//! Decodes an event from its name and fields. An unknown event, or one that lacks a field, has no
//! body. Must not know any file format.

use roundtrip_tracefs::{Body, Name, Names, ThreadRef, Trace};

use crate::fields::Fields;
use crate::kept;

/// An event's group in the kernel. Names are not unique across groups, but those in this file are.
pub(crate) fn system(event: &str) -> &'static str {
    match event {
        "sched_switch"
        | "sched_waking"
        | "sched_wakeup"
        | "sched_wakeup_new"
        | "sched_migrate_task"
        | "sched_pi_setprio"
        | "sched_stat_runtime"
        | "sched_blocked_reason"
        | "sched_process_fork"
        | "sched_process_exit" => "sched",
        "task_rename" => "task",
        "irq_handler_entry" | "irq_handler_exit" | "softirq_raise" | "softirq_entry" | "softirq_exit" => {
            "irq"
        }
        "ipi_raise" | "ipi_entry" | "ipi_exit" => "ipi",
        "cpu_idle" | "cpu_frequency" => "power",
        "sys_enter" | "sys_exit" => "raw_syscalls",
        "contention_begin" | "contention_end" => "lock",
        "workqueue_execute_start" | "workqueue_execute_end" => "workqueue",
        "print" => "ftrace",
        _ if event.starts_with("binder_") => "binder",
        _ if event.starts_with("rust_binder_") => "rust_binder",
        _ if vector(event).is_some() => "irq_vectors",
        _ => kept::system(event).unwrap_or("other"),
    }
}

/// Whether an event has a decoded form, or fields that are kept.
pub(crate) fn decodes(event: &str) -> bool {
    match system(event) {
        "other" => false,
        "binder" | "rust_binder" => BINDER.contains(&event.strip_prefix("rust_").unwrap_or(event)),
        _ => true,
    }
}

/// The binder driver's events that are decoded.
const BINDER: [&str; 5] = [
    "binder_transaction",
    "binder_transaction_received",
    "binder_wait_for_work",
    "binder_return",
    "binder_set_priority",
];

/// The interrupt vectors of x86: their kind, and whether the event is the entry.
fn vector(event: &str) -> Option<(&str, bool)> {
    const KINDS: [&str; 6] = [
        "local_timer",
        "reschedule",
        "call_function",
        "call_function_single",
        "irq_work",
        "x86_platform_ipi",
    ];
    let entry = event.strip_suffix("_entry").map(|kind| (kind, true));
    let found = entry.or_else(|| event.strip_suffix("_exit").map(|kind| (kind, false)))?;
    KINDS.contains(&found.0).then_some(found)
}

/// Decodes an event. Stores its texts in `trace`, and its record if it has no decoded form.
pub(crate) fn body(event: &str, fields: &dyn Fields, trace: &mut Trace) -> Option<Body> {
    let names = &mut trace.names;
    scheduling(event, fields, names)
        .or_else(|| interrupt(event, fields, names))
        .or_else(|| of_a_cpu(event, fields, names))
        .or_else(|| binder(event.strip_prefix("rust_").unwrap_or(event), fields))
        .or_else(|| kept::body(event, fields, trace))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the kernel's own numbers")]
fn number(fields: &dyn Fields, name: &str) -> Option<u32> {
    fields.int(name).map(|value| value as u32)
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel's own numbers")]
fn signed(fields: &dyn Fields, name: &str) -> Option<i32> {
    fields.int(name).map(|value| value as i32)
}

fn text(fields: &dyn Fields, name: &str, names: &mut Names) -> Name {
    fields.text(name).map_or(Name(0), |text| names.intern(text))
}

fn thread(fields: &dyn Fields, [tid, prio, comm]: [&str; 3], names: &mut Names) -> Option<ThreadRef> {
    Some(ThreadRef {
        tid: number(fields, tid)?,
        prio: signed(fields, prio)?,
        comm: text(fields, comm, names),
    })
}

fn scheduling(event: &str, fields: &dyn Fields, names: &mut Names) -> Option<Body> {
    let woken = |names: &mut Names| thread(fields, ["pid", "prio", "comm"], names);
    Some(match event {
        "sched_switch" => Body::Switch {
            prev: thread(fields, ["prev_pid", "prev_prio", "prev_comm"], names)?,
            prev_state: fields.state()?,
            next: thread(fields, ["next_pid", "next_prio", "next_comm"], names)?,
        },
        "sched_waking" => Body::Waking {
            thread: woken(names)?,
            target_cpu: number(fields, "target_cpu")?,
            context: fields.context(),
        },
        "sched_wakeup" | "sched_wakeup_new" => Body::Wakeup {
            thread: woken(names)?,
            target_cpu: number(fields, "target_cpu")?,
            new: event == "sched_wakeup_new",
            context: fields.context(),
        },
        "sched_migrate_task" => Body::Migrate {
            thread: woken(names)?,
            from_cpu: number(fields, "orig_cpu")?,
            to_cpu: number(fields, "dest_cpu")?,
        },
        "sched_pi_setprio" => Body::PiSetprio {
            tid: number(fields, "pid")?,
            old_prio: signed(fields, "oldprio")?,
            new_prio: signed(fields, "newprio")?,
        },
        "sched_stat_runtime" => Body::StatRuntime {
            tid: number(fields, "pid")?,
            runtime_ns: fields.int("runtime")?.cast_unsigned(),
        },
        "sched_blocked_reason" => Body::BlockedReason {
            tid: number(fields, "pid")?,
            io_wait: fields.int("io_wait").or_else(|| fields.int("iowait"))? != 0,
            caller: fields.function("caller", names),
        },
        "sched_process_fork" => {
            Body::Fork { child: number(fields, "child_pid")?, comm: text(fields, "child_comm", names) }
        }
        "sched_process_exit" => Body::Exit,
        "task_rename" => Body::Rename { tid: number(fields, "pid")?, comm: text(fields, "newcomm", names) },
        _ => return None,
    })
}

fn interrupt(event: &str, fields: &dyn Fields, names: &mut Names) -> Option<Body> {
    let vec = || number(fields, "vec");
    Some(match event {
        "irq_handler_entry" => {
            Body::IrqEntry { irq: number(fields, "irq")?, name: text(fields, "name", names) }
        }
        "irq_handler_exit" => {
            let handled = fields.int("ret").map(|ret| ret != 0);
            let handled = handled.or_else(|| fields.text("ret").map(|ret| ret == "handled"));
            Body::IrqExit { irq: number(fields, "irq")?, handled: handled? }
        }
        "softirq_raise" => Body::SoftirqRaise { vector: vec()? },
        "softirq_entry" => Body::SoftirqEntry { vector: vec()? },
        "softirq_exit" => Body::SoftirqExit { vector: vec()? },
        "ipi_entry" => Body::IpiEntry { reason: text(fields, "reason", names) },
        "ipi_exit" => Body::IpiExit { reason: text(fields, "reason", names) },
        "ipi_raise" => {
            // One bit for each CPU. The event type has room for one target only.
            let mask = fields.int("target_cpus").unwrap_or(0).cast_unsigned();
            let target_cpu = mask.is_power_of_two().then(|| mask.trailing_zeros());
            Body::IpiRaise { target_cpu, reason: text(fields, "reason", names) }
        }
        _ => match vector(event)? {
            (kind, true) => Body::VectorEntry { kind: names.intern(kind) },
            (kind, false) => Body::VectorExit { kind: names.intern(kind) },
        },
    })
}

fn of_a_cpu(event: &str, fields: &dyn Fields, names: &mut Names) -> Option<Body> {
    let unsigned = |name: &str| fields.int(name).map(i64::cast_unsigned);
    Some(match event {
        "cpu_idle" => Body::Idle {
            cpu: number(fields, "cpu_id")?,
            // All ones is `PWR_EVENT_EXIT`.
            state: Some(number(fields, "state")?).filter(|&state| state != u32::MAX),
        },
        "cpu_frequency" => Body::Frequency { cpu: number(fields, "cpu_id")?, khz: number(fields, "state")? },
        "sys_enter" => {
            let argument = |place| fields.argument(place).unwrap_or_default();
            Body::SysEnter {
                number: fields.int("id")?,
                first: argument(0),
                third: (argument(2) & u64::from(u32::MAX)) as u32,
                sixth: (argument(5) & u64::from(u32::MAX)) as u32,
            }
        }
        "sys_exit" => Body::SysExit { number: fields.int("id")?, result: fields.int("ret")? },
        "contention_begin" => Body::ContentionBegin {
            lock: unsigned("lock_addr")?,
            flags: number(fields, "flags").unwrap_or(0),
        },
        "contention_end" => Body::ContentionEnd { lock: unsigned("lock_addr")? },
        "workqueue_execute_start" => {
            Body::WorkStart { work: unsigned("work")?, function: fields.function("function", names) }
        }
        "workqueue_execute_end" => Body::WorkEnd { work: unsigned("work")? },
        "print" => Body::Print { text: names.intern(fields.text("buf")?.trim_end_matches('\n')) },
        _ => return None,
    })
}

/// The binder driver's events, in C and in Rust. The driver's text names some fields differently
/// from its format files.
fn binder(event: &str, fields: &dyn Fields) -> Option<Body> {
    let any = |names: [&str; 2]| names.iter().find_map(|name| signed(fields, name));
    let debug_id = || any(["debug_id", "transaction"]);
    let id = |names| any(names).map(i32::cast_unsigned);
    Some(match event {
        "binder_transaction" => Body::BinderTransaction {
            debug_id: debug_id()?,
            target_node: any(["target_node", "dest_node"])?,
            to_proc: id(["to_proc", "dest_proc"])?,
            to_thread: id(["to_thread", "dest_thread"]).unwrap_or(0),
            reply: fields.int("reply")? != 0,
            code: number(fields, "code")?,
            flags: number(fields, "flags")?,
        },
        "binder_transaction_received" => Body::BinderReceived { debug_id: debug_id()? },
        "binder_wait_for_work" => Body::BinderWait {
            proc_work: fields.int("proc_work")? != 0,
            transaction_stack: fields.int("transaction_stack")? != 0,
            thread_todo: fields.int("thread_todo")? != 0,
        },
        "binder_return" => {
            Body::BinderReturn { command: number(fields, "cmd").or_else(|| number(fields, "ret"))? }
        }
        "binder_set_priority" => Body::BinderSetPriority {
            tid: number(fields, "thread")?,
            old_prio: any(["old_prio", "old"])?,
            new_prio: any(["new_prio", "new"])?,
        },
        _ => return None,
    })
}
