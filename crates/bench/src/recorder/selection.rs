//! Selects the events of a flight recorder from those that the kernel has. Pure, except for asking
//! whether an event exists. Must not know how events are enabled.

use roundtrip_run::storage::WriteEvents;
use roundtrip_tracefs::{Error, Result, Selection};

/// Events without which nothing can be explained.
const NECESSARY: [&str; 4] =
    ["sched/sched_switch", "sched/sched_waking", "sched/sched_wakeup", "sched/sched_wakeup_new"];

/// How to treat a missing event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// Reported: explanations are less precise without it.
    IsSaid,
    /// Not reported: it exists on other kinds of machines.
    IsNormal,
}

/// Interrupts that no device raises. Without these events, their time would be attributed to the
/// interrupted thread.
const CPU_INTERRUPTS: &[&str] = &[
    // x86.
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
    "irq_vectors/reschedule_entry",
    "irq_vectors/reschedule_exit",
    "irq_vectors/call_function_entry",
    "irq_vectors/call_function_exit",
    "irq_vectors/call_function_single_entry",
    "irq_vectors/call_function_single_exit",
    "irq_vectors/irq_work_entry",
    "irq_vectors/irq_work_exit",
    // arm, arm64.
    "ipi/ipi_raise",
    "ipi/ipi_entry",
    "ipi/ipi_exit",
];

/// Events that make explanations more precise. They are rare compared with the scheduler's, or cost
/// nothing until they occur.
const WANTED: &[(Lack, &[&str])] = &[
    (
        Lack::IsSaid,
        &[
            "sched/sched_migrate_task",
            "sched/sched_pi_setprio",
            "sched/sched_process_fork",
            "sched/sched_process_exit",
            "task/task_rename",
            "irq/irq_handler_entry",
            "irq/irq_handler_exit",
            "irq/softirq_raise",
            "irq/softirq_entry",
            "irq/softirq_exit",
            "power/cpu_idle",
            "power/cpu_frequency",
            "workqueue/workqueue_execute_start",
            "workqueue/workqueue_execute_end",
            // Linux 5.19.
            "lock/contention_begin",
            "lock/contention_end",
        ],
    ),
    (Lack::IsNormal, CPU_INTERRUPTS),
    (
        Lack::IsNormal,
        &[
            // Whether a thread waited for a disk.
            "block/block_rq_complete",
            // Android's kernels.
            "sched/sched_blocked_reason",
            // Moves between control groups, and the freezer (Linux 5.2). A few a second at most.
            "cgroup/cgroup_attach_task",
            "cgroup/cgroup_transfer_tasks",
            "cgroup/cgroup_freeze",
            "cgroup/cgroup_unfreeze",
            "cgroup/cgroup_notify_frozen",
            // Linux 6.4.
            "ipi/ipi_send_cpu",
            "ipi/ipi_send_cpumask",
            // The binder driver, in C or in Rust.
            "binder/binder_transaction",
            "binder/binder_transaction_received",
            "binder/binder_set_priority",
            "rust_binder/binder_transaction",
            "rust_binder/binder_transaction_received",
            "rust_binder/rust_binder_transaction",
            "rust_binder/rust_binder_transaction_received",
            "rust_binder/binder_set_priority",
            "rust_binder/rust_binder_set_priority",
        ],
    ),
];

/// All system calls of the threads that match the filter. These events slow down every system call
/// on the machine, which noticeably lengthens a short round trip. So they are enabled only on
/// request.
const SYSTEM_CALLS: [&str; 2] = ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"];

/// The events, besides system calls, without which writes cannot be divided into layers.
const NECESSARY_FOR_WRITES: [&str; 4] =
    ["sched/sched_switch", "sched/sched_waking", "block/block_rq_issue", "block/block_rq_complete"];

/// Events that separate a write's layers: whose request it was, when the controller had it, and
/// what ended a wait.
const WANTED_FOR_WRITES: &[(Lack, &[&str])] = &[
    (
        Lack::IsSaid,
        &[
            "block/block_bio_queue",
            "sched/sched_wakeup",
            "sched/sched_migrate_task",
            "irq/irq_handler_entry",
            "irq/irq_handler_exit",
            "irq/softirq_entry",
            "irq/softirq_exit",
        ],
    ),
    (Lack::IsNormal, CPU_INTERRUPTS),
    (Lack::IsNormal, &["power/cpu_frequency"]),
    // The freezer.
    (Lack::IsNormal, &["cgroup/cgroup_attach_task", "cgroup/cgroup_freeze", "cgroup/cgroup_unfreeze"]),
    (Lack::IsNormal, COMMANDS),
];

/// The events of buses that show their controllers' commands.
const COMMANDS: &[&str] = &[
    "mmc/mmc_request_start",
    "mmc/mmc_request_done",
    "nvme/nvme_setup_cmd",
    "nvme/nvme_complete_rq",
    "scsi/scsi_dispatch_cmd_start",
    "scsi/scsi_dispatch_cmd_done",
    "ufs/ufshcd_command",
];

/// The minimum that divides writes. With these events, only the request that completed before a
/// wakeup shows the reason for it.
const LEAST_FOR_WRITES: &[(Lack, &[&str])] =
    &[(Lack::IsSaid, &["block/block_bio_queue", "irq/irq_handler_entry"]), (Lack::IsNormal, COMMANDS)];

/// Why a write of ours is held back, or waits for another's commit.
const REASONS_OF_WRITES: &[(Lack, &[&str])] =
    &[(Lack::IsNormal, &[PAUSES, "jbd2/jbd2_start_commit", "jbd2/jbd2_end_commit"])];

/// The check of the limit on dirty pages. Only those that pause the writer are recorded.
const PAUSES: &str = "writeback/balance_dirty_pages";

/// Events for viewing a recording. No layer needs them.
const DIAGNOSIS_OF_WRITES: &[(Lack, &[&str])] = &[(
    Lack::IsNormal,
    &[
        "block/block_rq_insert",
        "block/block_split",
        "block/block_bio_backmerge",
        "block/block_bio_frontmerge",
        "block/block_rq_merge",
        "workqueue/workqueue_execute_start",
        "workqueue/workqueue_execute_end",
        "jbd2/jbd2_commit_flushing",
        "jbd2/jbd2_commit_logging",
        "ext4/ext4_sync_file_enter",
        "ext4/ext4_sync_file_exit",
        "f2fs/f2fs_sync_file_enter",
        "f2fs/f2fs_sync_file_exit",
        "vmscan/mm_vmscan_direct_reclaim_begin",
        "vmscan/mm_vmscan_direct_reclaim_end",
        "power/cpu_idle",
    ],
)];

/// The scheduler's events, and all others that add information at little cost.
///
/// # Errors
/// [`Error::MissingEvent`] if one of the scheduler's is missing.
pub fn flight_recorder(has: impl Fn(&str) -> bool) -> Result<Selection> {
    of(&NECESSARY, WANTED, has)
}

/// The binder driver's names for one event: in C, in Rust, and in Rust in Android's kernels.
fn names(event: &str) -> [String; 3] {
    [format!("binder/{event}"), format!("rust_binder/{event}"), format!("rust_binder/rust_{event}")]
}

/// The filter for `binder_return`. A thread reads several returns per call; only those that end the
/// call with an error are recorded.
fn only_failures(field: &str) -> String {
    roundtrip_observed::calls::FAILURES.map(|command| format!("{field} == {command:#x}")).join(" || ")
}

/// Events of the creation, end and names of threads.
const LIVES: &[(Lack, &[&str])] =
    &[(Lack::IsSaid, &["sched/sched_process_fork", "sched/sched_process_exit", "task/task_rename"])];

/// The events needed to reconstruct other programs' transactions and, if `explained`, to find out
/// what delayed them. Observing costs less without the scheduler's events. `has_field` returns
/// whether an event has a field.
///
/// # Errors
/// [`Error::MissingEvent`] if an event of the scheduler, or one of a transaction, is missing.
pub fn transactions(
    explained: bool,
    has: impl Fn(&str) -> bool,
    has_field: impl Fn(&str, &str) -> bool,
) -> Result<Selection> {
    let any = |event| names(event).into_iter().filter(|event| has(event)).collect::<Vec<_>>();
    for event in ["binder_transaction", "binder_transaction_received"] {
        if any(event).is_empty() {
            return Err(Error::MissingEvent { event: format!("binder/{event}") });
        }
    }
    let mut selection = if explained { of(&NECESSARY, WANTED, &has)? } else { of(&[], LIVES, &has)? };
    if !explained {
        let both = ["binder_transaction", "binder_transaction_received"];
        selection.events.extend(both.into_iter().flat_map(any));
    }
    // These show when a thread of a server is ready.
    let waits = any("binder_wait_for_work");
    // These show which calls failed. The driver in Rust has another name for the field.
    let returns = any("binder_return").into_iter();
    let returns: Vec<(String, &str)> = returns
        .filter_map(|event| {
            let field = ["cmd", "ret"].into_iter().find(|field| has_field(&event, field))?;
            Some((event, field))
        })
        .collect();
    let lacks = [("binder_wait_for_work", waits.is_empty()), ("binder_return", returns.is_empty())];
    let lacks = lacks.into_iter().filter(|(_, lacks)| *lacks);
    selection.missing.extend(lacks.map(|(event, _)| format!("binder/{event}")));
    selection.events.extend(waits);
    for (event, field) in returns {
        selection.filters.push((event.clone(), only_failures(field)));
        selection.events.push(event);
    }
    Ok(selection)
}

/// The events that divide synchronous writes into layers. System calls are recorded only for these
/// threads.
///
/// # Errors
/// [`Error::MissingEvent`] if a necessary event is missing.
pub fn writes(tids: &[u32], how_much: WriteEvents, has: impl Fn(&str) -> bool) -> Result<Selection> {
    let wanted = match how_much {
        WriteEvents::Least => LEAST_FOR_WRITES.to_vec(),
        WriteEvents::Usual => [WANTED_FOR_WRITES, REASONS_OF_WRITES].concat(),
        WriteEvents::Diagnosis => [WANTED_FOR_WRITES, REASONS_OF_WRITES, DIAGNOSIS_OF_WRITES].concat(),
    };
    let mut selection = of(&[&SYSTEM_CALLS[..], &NECESSARY_FOR_WRITES].concat(), &wanted, has)?;
    let filter: Vec<_> = tids.iter().map(|tid| format!("common_pid == {tid}")).collect();
    for event in SYSTEM_CALLS {
        selection.filters.push((event.to_owned(), filter.join(" || ")));
    }
    only_pauses(&mut selection);
    Ok(selection)
}

/// Leaves out the checks of the limit on dirty pages that pause nobody.
fn only_pauses(selection: &mut Selection) {
    if selection.events.iter().any(|event| event == PAUSES) {
        selection.filters.push((PAUSES.to_owned(), "pause > 0".to_owned()));
    }
}

/// Additional events for other programs' writes: the process of a thread, the file, journal
/// commits, pauses for dirty pages, and the operations of io_uring and Linux AIO.
const WANTED_FOR_OTHERS: &[(Lack, &[&str])] = &[
    (
        Lack::IsSaid,
        &[
            "sched/sched_process_fork",
            "sched/sched_process_exit",
            "sched/sched_wakeup_new",
            "task/task_rename",
            PAUSES,
        ],
    ),
    (
        Lack::IsNormal,
        &[
            "ext4/ext4_sync_file_enter",
            "ext4/ext4_sync_file_exit",
            "f2fs/f2fs_sync_file_enter",
            "f2fs/f2fs_sync_file_exit",
            "xfs/xfs_file_fsync",
            "btrfs/btrfs_sync_file",
            "jbd2/jbd2_start_commit",
            "jbd2/jbd2_end_commit",
            "io_uring/io_uring_submit_req",
            "io_uring/io_uring_submit_sqe",
            "io_uring/io_uring_file_get",
            "io_uring/io_uring_queue_async_work",
            "io_uring/io_uring_complete",
            "io_uring/io_uring_req_failed",
        ],
    ),
];

/// Events with their filters: asynchronous durable direct writes (Linux 6.6), and the work items
/// that perform the fsyncs of Linux AIO (Linux 6.3).
const ASYNCHRONOUS: [(&str, &str); 5] = [
    ("iomap/iomap_dio_rw_begin", DURABLE),
    ("iomap/iomap_dio_complete", DURABLE),
    ("workqueue/workqueue_queue_work", FSYNC),
    ("workqueue/workqueue_execute_start", FSYNC),
    ("workqueue/workqueue_execute_end", FSYNC),
];
/// 0x2 is `IOCB_DSYNC` (`include/linux/fs.h`).
const DURABLE: &str = "aio == 1 && ki_flags & 0x2";
const FSYNC: &str = "function.function == aio_fsync_work";

/// The events that show and divide other programs' synchronous writes. Only the system calls in
/// `calls`, by name and number, are recorded, and none of the process `own`.
///
/// # Errors
/// [`Error::MissingEvent`] if a necessary event is missing.
pub fn writes_of_others(calls: &[(&str, i64)], own: u32, has: impl Fn(&str) -> bool) -> Result<Selection> {
    let both = |(name, _): &(&str, i64)| ["enter", "exit"].map(|end| format!("syscalls/sys_{end}_{name}"));
    let named: Vec<String> = calls.iter().flat_map(both).filter(|event| has(event)).collect();
    let wanted = [WANTED_FOR_WRITES, WANTED_FOR_OTHERS].concat();
    let not_own = format!("common_pid != {own}");
    let mut selection;
    if named.is_empty() {
        selection = of(&[&SYSTEM_CALLS[..], &NECESSARY_FOR_WRITES].concat(), &wanted, &has)?;
        let numbers: Vec<_> = calls.iter().map(|(_, number)| format!("id == {number}")).collect();
        let filter = format!("{not_own} && ({})", numbers.join(" || "));
        selection.filters.extend(SYSTEM_CALLS.map(|event| (event.to_owned(), filter.clone())));
    } else {
        // For other system calls, the kernel then evaluates no filter, which matters for programs
        // that make many of them.
        selection = of(&NECESSARY_FOR_WRITES, &wanted, &has)?;
        selection.filters.extend(named.iter().map(|event| (event.clone(), not_own.clone())));
        selection.events.extend(named);
    }
    let asynchronous = ASYNCHRONOUS.into_iter().filter(|(event, _)| has(event));
    selection.filtered = asynchronous.map(|(event, filter)| (event.to_owned(), filter.to_owned())).collect();
    only_pauses(&mut selection);
    Ok(selection)
}

/// All system calls, and the processes that make them: of the threads that the recorder follows, or
/// of all processes but `own`.
///
/// # Errors
/// [`Error::MissingEvent`] if the kernel does not show system calls.
pub fn system_calls(own: Option<u32>, has: impl Fn(&str) -> bool) -> Result<Selection> {
    let mut selection = of(&SYSTEM_CALLS, LIVES, has)?;
    selection.followed_only = own.is_none();
    let filter = own.map(|own| format!("common_pid != {own}"));
    let filters =
        filter.iter().flat_map(|filter| SYSTEM_CALLS.map(|event| (event.to_owned(), filter.clone())));
    selection.filters.extend(filters);
    Ok(selection)
}

fn of(necessary: &[&str], wanted: &[(Lack, &[&str])], has: impl Fn(&str) -> bool) -> Result<Selection> {
    let mut selection = Selection::default();
    for &event in necessary {
        if !has(event) {
            return Err(Error::MissingEvent { event: event.to_owned() });
        }
        selection.events.push(event.to_owned());
    }
    for &(lack, events) in wanted {
        for &event in events {
            match (has(event), lack) {
                (true, _) => selection.events.push(event.to_owned()),
                (false, Lack::IsSaid) => selection.missing.push(event.to_owned()),
                (false, Lack::IsNormal) => {}
            }
        }
    }
    Ok(selection)
}

/// Adds the system calls of threads whose name matches one of these patterns; `*` matches any text.
#[must_use]
pub fn with_system_calls(mut selection: Selection, comms: &[&str], has: impl Fn(&str) -> bool) -> Selection {
    let filter: Vec<_> = comms.iter().map(|comm| format!("COMM ~ \"{comm}\"")).collect();
    for event in SYSTEM_CALLS {
        if has(event) {
            selection.events.push(event.to_owned());
            selection.filters.push((event.to_owned(), filter.join(" || ")));
        } else {
            selection.missing.push(event.to_owned());
        }
    }
    selection
}

#[cfg(test)]
mod tests;
