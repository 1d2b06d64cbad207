//! Maps fields of `FtraceEvent` to events, and their fields to the kernel's names.

use super::wire::{Fields, Message, Value};

/// The message of an event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) name: &'static str,
    /// The kernel's field names, by field number.
    pub(super) fields: &'static [(u32, &'static str)],
}

const WOKEN: &[(u32, &str)] = &[(1, "comm"), (2, "pid"), (3, "prio"), (5, "target_cpu")];
const VEC: &[(u32, &str)] = &[(1, "vec")];
const REASON: &[(u32, &str)] = &[(1, "reason")];
const STATE: &[(u32, &str)] = &[(1, "state"), (2, "cpu_id")];
const QUEUED: &[(u32, &str)] = &[(1, "dev"), (2, "sector"), (3, "nr_sector"), (4, "rwbs")];
const REQUEST: &[(u32, &str)] = &[(1, "dev"), (2, "sector"), (3, "nr_sector"), (5, "rwbs")];

/// The event with a field number of `FtraceEvent`.
pub(super) fn event(number: u32) -> Option<Event> {
    let of = |name, fields| Some(Event { name, fields });
    match number {
        3 => of("print", &[(2, "buf")]),
        11 => of("cpu_frequency", STATE),
        13 => of("cpu_idle", STATE),
        329 => of("sys_enter", &[(1, "id")]),
        330 => of("sys_exit", &[(1, "id"), (2, "ret")]),
        _ => scheduler(number)
            .or_else(|| interrupt(number))
            .or_else(|| binder(number))
            .or_else(|| storage(number)),
    }
}

/// The events of the scheduler and of tasks.
fn scheduler(number: u32) -> Option<Event> {
    let of = |name, fields| Some(Event { name, fields });
    match number {
        4 => of(
            "sched_switch",
            &[
                (1, "prev_comm"),
                (2, "prev_pid"),
                (3, "prev_prio"),
                (4, "prev_state"),
                (5, "next_comm"),
                (6, "next_pid"),
                (7, "next_prio"),
            ],
        ),
        17 => of("sched_wakeup", WOKEN),
        18 => of("sched_blocked_reason", &[(1, "pid"), (2, "caller"), (3, "io_wait")]),
        20 => of("sched_waking", WOKEN),
        114 => of("sched_wakeup_new", WOKEN),
        236 => of("task_rename", &[(1, "pid"), (2, "oldcomm"), (3, "newcomm")]),
        238 => of("sched_process_exit", &[(2, "pid")]),
        239 => of("sched_process_fork", &[(2, "parent_pid"), (3, "child_comm"), (4, "child_pid")]),
        353 => of("sched_pi_setprio", &[(2, "newprio"), (3, "oldprio"), (4, "pid")]),
        491 => of(
            "sched_migrate_task",
            &[(1, "comm"), (2, "pid"), (3, "prio"), (4, "orig_cpu"), (5, "dest_cpu")],
        ),
        _ => None,
    }
}

/// The events of interrupts and of work that they defer.
fn interrupt(number: u32) -> Option<Event> {
    let of = |name, fields| Some(Event { name, fields });
    match number {
        21 => of("ipi_entry", REASON),
        22 => of("ipi_exit", REASON),
        23 => of("ipi_raise", &[(1, "target_cpus"), (2, "reason")]),
        24 => of("softirq_entry", VEC),
        25 => of("softirq_exit", VEC),
        26 => of("softirq_raise", VEC),
        36 => of("irq_handler_entry", &[(1, "irq"), (2, "name")]),
        37 => of("irq_handler_exit", &[(1, "irq"), (2, "ret")]),
        57 => of("workqueue_execute_end", &[(1, "work")]),
        58 => of("workqueue_execute_start", &[(1, "work"), (2, "function")]),
        559 => of("local_timer_entry", &[(1, "vector")]),
        560 => of("local_timer_exit", &[(1, "vector")]),
        _ => None,
    }
}

/// The events of the binder driver.
fn binder(number: u32) -> Option<Event> {
    let of = |name, fields| Some(Event { name, fields });
    match number {
        50 => of(
            "binder_transaction",
            &[
                (1, "debug_id"),
                (2, "target_node"),
                (3, "to_proc"),
                (4, "to_thread"),
                (5, "reply"),
                (6, "code"),
                (7, "flags"),
            ],
        ),
        51 => of("binder_transaction_received", &[(1, "debug_id")]),
        52 => of("binder_set_priority", &[(2, "thread"), (3, "old_prio"), (4, "new_prio")]),
        486 => of("binder_return", &[(1, "cmd")]),
        _ => None,
    }
}

/// The events of file systems and the block layer.
fn storage(number: u32) -> Option<Event> {
    let of = |name, fields| Some(Event { name, fields });
    match number {
        43 => of("ext4_sync_file_enter", &[(1, "dev"), (2, "ino"), (3, "parent"), (4, "datasync")]),
        44 => of("ext4_sync_file_exit", &[(1, "dev"), (2, "ino"), (3, "ret")]),
        45 => of("block_rq_issue", REQUEST),
        119 => of("block_bio_queue", QUEUED),
        125 => of("block_rq_complete", REQUEST),
        255 => of("f2fs_sync_file_enter", &[(1, "dev"), (2, "ino"), (3, "pino")]),
        256 => of("f2fs_sync_file_exit", &[(1, "dev"), (2, "ino"), (4, "datasync"), (5, "ret")]),
        _ => None,
    }
}

/// The number of the field for events without their own message, in traces before Perfetto 50.
pub(super) const GENERIC: u32 = 327;

/// An event that the trace itself describes: its name, and its fields' names by number.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) fields: Vec<(u32, String)>,
}

/// `GenericEventDescriptor`: the number of the event's field, and a `DescriptorProto`.
pub(super) fn described(bytes: &[u8]) -> Result<Option<(u32, Described)>, String> {
    let fields = Fields::read(bytes)?;
    let (Some(number), Some(Value::Bytes(descriptor))) = (fields.u32(1), fields.value(2)) else {
        return Ok(None);
    };
    let mut found = Described { name: String::new(), fields: Vec::new() };
    for field in Message::new(descriptor) {
        match field? {
            (1, Value::Bytes(name)) => found.name = String::from_utf8_lossy(name).into_owned(),
            (2, Value::Bytes(field)) if found.fields.len() < 64 => {
                let field = Fields::read(field)?;
                if let (Some(name), Some(number)) = (field.text(1), field.u32(3)) {
                    found.fields.push((number, name.to_owned()));
                }
            }
            _ => {}
        }
    }
    Ok(Some((number, found)))
}
