//! Which events a flight recorder takes, chosen by what the kernel has. Pure but for the question
//! whether an event is there; must not know how events are switched on.

use run::storage::WriteEvents;
use tracefs::{Error, Result, Selection};

/// Without these nothing can be explained.
const NECESSARY: [&str; 4] =
    ["sched/sched_switch", "sched/sched_waking", "sched/sched_wakeup", "sched/sched_wakeup_new"];

/// How much a kernel without an event can be blamed for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// Said: explanations are coarser without it.
    IsSaid,
    /// Not worth a word: other machines have it.
    IsNormal,
}

/// Interrupts that no device raises. Without them, what such an interrupt does would be taken for
/// the work of the thread beneath it.
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

/// These make explanations finer. They are rare beside the scheduler's, or cost nothing unless what
/// they tell of happens.
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
            // Whether a wait was for a disk.
            "block/block_rq_complete",
            // Android's kernels.
            "sched/sched_blocked_reason",
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
        ],
    ),
];

/// Every system call of the threads that the filter lets through. They make each system call of the
/// whole machine slower, which a short round trip feels: not without being asked for.
const SYSTEM_CALLS: [&str; 2] = ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"];

/// Without these, and system calls, a write cannot be divided among layers at all.
const NECESSARY_FOR_WRITES: [&str; 4] =
    ["sched/sched_switch", "sched/sched_waking", "block/block_rq_issue", "block/block_rq_complete"];

/// These tell a write's layers apart: whose request it was, when the controller had it, what ended
/// a wait.
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
    (Lack::IsNormal, COMMANDS),
];

/// What buses say of their controllers' commands.
const COMMANDS: &[&str] = &[
    "mmc/mmc_request_start",
    "mmc/mmc_request_done",
    "nvme/nvme_setup_cmd",
    "nvme/nvme_complete_rq",
    "scsi/scsi_dispatch_cmd_start",
    "scsi/scsi_dispatch_cmd_done",
    "ufs/ufshcd_command",
];

/// The least that divides writes; what a waking was for is then told by the request that was
/// completed before it only.
const LEAST_FOR_WRITES: &[(Lack, &[&str])] =
    &[(Lack::IsSaid, &["block/block_bio_queue", "irq/irq_handler_entry"]), (Lack::IsNormal, COMMANDS)];

/// For a look at a recording in a viewer: no layer needs them.
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
        "jbd2/jbd2_start_commit",
        "jbd2/jbd2_commit_flushing",
        "jbd2/jbd2_commit_logging",
        "jbd2/jbd2_end_commit",
        "ext4/ext4_sync_file_enter",
        "ext4/ext4_sync_file_exit",
        "f2fs/f2fs_sync_file_enter",
        "f2fs/f2fs_sync_file_exit",
        "vmscan/mm_vmscan_direct_reclaim_begin",
        "vmscan/mm_vmscan_direct_reclaim_end",
        "power/cpu_idle",
    ],
)];

/// The scheduler's events and whatever tells more at little cost.
///
/// # Errors
/// [`Error::MissingEvent`] without one of the scheduler's.
pub fn flight_recorder(has: impl Fn(&str) -> bool) -> Result<Selection> {
    of(&NECESSARY, WANTED, has)
}

/// What tells of other programs' transactions beside what a flight recorder takes: when a thread of
/// a server is ready, and which calls failed.
const WANTED_FOR_TRANSACTIONS: &[(Lack, &[&str])] = &[
    (Lack::IsSaid, &["binder/binder_wait_for_work", "binder/binder_return"]),
    (Lack::IsNormal, &["rust_binder/rust_binder_wait_for_work", "rust_binder/binder_wait_for_work"]),
];

/// The events of binder's transactions, in C or in Rust; a kernel has one of the pairs.
const TRANSACTIONS: [&str; 3] =
    ["binder/binder_transaction", "rust_binder/binder_transaction", "rust_binder/rust_binder_transaction"];

/// The filter for `binder_return`: a thread reads several returns in each call, and only those that
/// say that it failed are to be recorded.
fn only_failures() -> String {
    transactions::FAILURES.map(|command| format!("cmd == {command:#x}")).join(" || ")
}

/// The events needed to reconstruct other programs' transactions and to explain what delayed them.
///
/// # Errors
/// [`Error::MissingEvent`] without one of the scheduler's, or without binder's.
pub fn transactions(has: impl Fn(&str) -> bool) -> Result<Selection> {
    if !TRANSACTIONS.iter().any(|event| has(event)) {
        return Err(Error::MissingEvent { event: TRANSACTIONS[0].to_owned() });
    }
    let mut selection = of(&NECESSARY, &[WANTED, WANTED_FOR_TRANSACTIONS].concat(), has)?;
    let failures = "binder/binder_return";
    if selection.events.iter().any(|event| event == failures) {
        selection.filters.push((failures.to_owned(), only_failures()));
    }
    Ok(selection)
}

/// The events that divide synchronous writes among layers. System calls are recorded of these
/// threads only.
///
/// # Errors
/// [`Error::MissingEvent`] without one of those that this needs.
pub fn writes(tids: &[u32], how_much: WriteEvents, has: impl Fn(&str) -> bool) -> Result<Selection> {
    let all = [WANTED_FOR_WRITES, DIAGNOSIS_OF_WRITES].concat();
    let wanted = match how_much {
        WriteEvents::Least => LEAST_FOR_WRITES,
        WriteEvents::Usual => WANTED_FOR_WRITES,
        WriteEvents::Diagnosis => &all,
    };
    let mut selection = of(&[&SYSTEM_CALLS[..], &NECESSARY_FOR_WRITES].concat(), wanted, has)?;
    let filter: Vec<_> = tids.iter().map(|tid| format!("common_pid == {tid}")).collect();
    for event in SYSTEM_CALLS {
        selection.filters.push((event.to_owned(), filter.join(" || ")));
    }
    Ok(selection)
}

/// What tells of other programs' writes beside what divides them: which process a thread belongs
/// to, the file, the journal's commits, pauses for dirty pages, and io_uring's operations.
const WANTED_FOR_OTHERS: &[(Lack, &[&str])] = &[
    (
        Lack::IsSaid,
        &[
            "sched/sched_process_fork",
            "sched/sched_process_exit",
            "sched/sched_wakeup_new",
            "task/task_rename",
            "writeback/balance_dirty_pages",
        ],
    ),
    (
        Lack::IsNormal,
        &[
            "ext4/ext4_sync_file_enter",
            "f2fs/f2fs_sync_file_enter",
            "xfs/xfs_file_fsync",
            "btrfs/btrfs_sync_file",
            "jbd2/jbd2_start_commit",
            "jbd2/jbd2_end_commit",
            "io_uring/io_uring_submit_req",
            "io_uring/io_uring_submit_sqe",
            "io_uring/io_uring_file_get",
            "io_uring/io_uring_complete",
        ],
    ),
];

/// The events that tell of other programs' synchronous writes, and divide them. Of system calls
/// only these, by name and number, are recorded, and none of this process.
///
/// # Errors
/// [`Error::MissingEvent`] without one of those that this needs.
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
        // The kernel passes over other calls before it looks at any filter: programs that make many
        // feel the difference.
        selection = of(&NECESSARY_FOR_WRITES, &wanted, &has)?;
        selection.filters.extend(named.iter().map(|event| (event.clone(), not_own.clone())));
        selection.events.extend(named);
    }
    let pauses = "writeback/balance_dirty_pages";
    if selection.events.iter().any(|event| event == pauses) {
        selection.filters.push((pauses.to_owned(), "pause > 0".to_owned()));
    }
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

/// Also the system calls of threads that are called like one of these; a `*` stands for any text.
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
mod tests {
    use super::*;

    #[test]
    fn of_the_returns_only_those_of_failed_calls_are_recorded() {
        assert_eq!(only_failures(), "cmd == 0x7205 || cmd == 0x7211 || cmd == 0x7212");
    }

    #[test]
    fn events_are_taken_by_what_the_kernel_has() {
        let all = flight_recorder(|_| true).unwrap();
        assert!(all.missing.is_empty() && all.events.len() > 30);
        let small =
            flight_recorder(|event| NECESSARY.contains(&event) || event == "irq_vectors/local_timer_entry")
                .unwrap();
        assert_eq!(small.events.len(), 5);
        assert!(small.missing.contains(&"power/cpu_idle".to_owned()));
        assert!(!small.missing.iter().any(|event| event.starts_with("binder")), "{:?}", small.missing);
    }

    #[test]
    fn writes_are_recorded_with_the_writers_system_calls_only() {
        let all = writes(&[7, 8], WriteEvents::Usual, |_| true).unwrap();
        assert_eq!(
            all.filters[0],
            ("raw_syscalls/sys_enter".into(), "common_pid == 7 || common_pid == 8".into())
        );
        let necessary = [&SYSTEM_CALLS[..], &NECESSARY_FOR_WRITES].concat();
        let few = writes(&[7], WriteEvents::Usual, |event| necessary.contains(&event)).unwrap();
        assert_eq!(few.events, necessary);
        assert!(few.missing.contains(&"block/block_bio_queue".to_owned()));
        let least = writes(&[7], WriteEvents::Least, |_| true).unwrap();
        let diagnosis = writes(&[7], WriteEvents::Diagnosis, |_| true).unwrap();
        assert_eq!(least.events.len(), necessary.len() + 2 + COMMANDS.len());
        assert!(all.events.iter().all(|event| diagnosis.events.contains(event)));
        assert!(diagnosis.events.len() > all.events.len() && all.events.len() > least.events.len());
        assert!(writes(&[7], WriteEvents::Usual, |event| !event.starts_with("block/")).is_err());
    }

    #[test]
    fn of_others_only_calls_that_write_are_recorded_by_name_where_the_kernel_has_such_events() {
        let calls = [("fsync", 74), ("write", 1)];
        let named = writes_of_others(&calls, 7, |_| true).unwrap();
        assert!(!named.events.iter().any(|event| event.starts_with("raw_syscalls")), "{:?}", named.events);
        for event in ["syscalls/sys_enter_fsync", "syscalls/sys_exit_write"] {
            assert!(named.filters.contains(&(event.to_owned(), "common_pid != 7".to_owned())), "{event}");
        }
        let raw = writes_of_others(&calls, 7, |event| !event.starts_with("syscalls/")).unwrap();
        let filter = "common_pid != 7 && (id == 74 || id == 1)".to_owned();
        assert!(raw.filters.contains(&("raw_syscalls/sys_exit".to_owned(), filter)), "{:?}", raw.filters);
        assert!(writes_of_others(&calls, 7, |event| !event.contains("sys")).is_err());
    }

    #[test]
    fn without_the_schedulers_events_it_says_which_is_missing() {
        let error = flight_recorder(|event| event != "sched/sched_waking").unwrap_err().to_string();
        assert!(error.contains("sched/sched_waking") && error.contains("CONFIG_TRACING"), "{error}");
    }

    #[test]
    fn system_calls_are_filtered_by_name() {
        let selection = with_system_calls(Selection::default(), &["client-*", "looper-*"], |_| true);
        assert_eq!(selection.events, SYSTEM_CALLS);
        assert_eq!(selection.filters[0].1, "COMM ~ \"client-*\" || COMM ~ \"looper-*\"");
        let without = with_system_calls(Selection::default(), &["x"], |_| false);
        assert!(without.events.is_empty() && without.missing == SYSTEM_CALLS);
    }
}
