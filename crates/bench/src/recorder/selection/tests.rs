//! Which events are selected on kernels with different events.

use super::*;

/// The selection for a driver with these events, and with this field in its returns.
fn transactions_of(binder: &[&str], field: &str) -> Result<Selection> {
    let has = |event: &str| event.starts_with("sched/") || binder.contains(&event);
    transactions(true, has, |event, asked| has(event) && asked == field)
}

#[test]
fn only_returns_of_failed_calls_are_recorded() {
    let c = [
        "binder/binder_transaction",
        "binder/binder_transaction_received",
        "binder/binder_wait_for_work",
        "binder/binder_return",
    ];
    let selection = transactions_of(&c, "cmd").unwrap();
    assert!(c.iter().all(|event| selection.events.iter().any(|one| one == event)));
    let filter = "cmd == 0x7205 || cmd == 0x7211 || cmd == 0x7212";
    assert_eq!(selection.filters, [("binder/binder_return".to_owned(), filter.to_owned())]);
}

#[test]
fn without_explanations_the_scheduler_records_only_new_and_ended_threads() {
    let selection = transactions(false, |event| !event.starts_with("rust"), |_, field| field == "cmd");
    let expected = [
        "sched/sched_process_fork",
        "sched/sched_process_exit",
        "task/task_rename",
        "binder/binder_transaction",
        "binder/binder_transaction_received",
        "binder/binder_wait_for_work",
        "binder/binder_return",
    ];
    assert_eq!(selection.unwrap().events, expected);
}

#[test]
fn events_of_the_driver_in_rust_are_selected_by_availability() {
    // Linux 6.18 has no events of transactions; later mainline kernels have only their sending.
    assert!(transactions_of(&["rust_binder/rust_binder_ioctl"], "").is_err());
    assert!(transactions_of(&["rust_binder/rust_binder_transaction"], "").is_err());
    let later = [
        "rust_binder/binder_transaction",
        "rust_binder/binder_transaction_received",
        "rust_binder/binder_wait_for_work",
    ];
    let selection = transactions_of(&later, "").unwrap();
    assert!(later.iter().all(|event| selection.events.iter().any(|one| one == event)));
    assert!(selection.missing.contains(&"binder/binder_return".to_owned()));
    assert!(!selection.missing.contains(&"binder/binder_wait_for_work".to_owned()));
    let androids = [
        "rust_binder/rust_binder_transaction",
        "rust_binder/rust_binder_transaction_received",
        "rust_binder/rust_binder_wait_for_work",
        "rust_binder/rust_binder_return",
    ];
    let selection = transactions_of(&androids, "ret").unwrap();
    assert!(androids.iter().all(|event| selection.events.iter().any(|one| one == event)));
    assert_eq!(selection.filters[0].0, androids[3]);
    assert!(selection.filters[0].1.starts_with("ret == 0x7205 || "), "{:?}", selection.filters);
}

#[test]
fn events_are_selected_by_availability() {
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
fn pauses_for_dirty_pages_and_commits_are_recorded_where_reasons_are_wanted() {
    let of = |how_much| writes(&[7], how_much, |_| true).unwrap();
    for (how_much, wanted) in
        [(WriteEvents::Least, false), (WriteEvents::Usual, true), (WriteEvents::Diagnosis, true)]
    {
        let selection = of(how_much);
        for event in [PAUSES, "jbd2/jbd2_start_commit", "jbd2/jbd2_end_commit"] {
            let times = selection.events.iter().filter(|one| *one == event).count();
            assert_eq!(times, usize::from(wanted), "{event}");
        }
        let filter = (PAUSES.to_owned(), "pause > 0".to_owned());
        assert_eq!(selection.filters.contains(&filter), wanted);
    }
}

#[test]
fn only_writing_calls_of_other_programs_are_recorded_by_name_or_number() {
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
fn system_calls_of_followed_threads_need_no_filter() {
    let followed = system_calls(None, |_| true).unwrap();
    assert!(followed.followed_only && followed.filters.is_empty());
    let others = system_calls(Some(7), |_| true).unwrap();
    assert!(!others.followed_only && others.filters.len() == 2, "{:?}", others.filters);
}

#[test]
fn the_error_names_the_missing_event_of_the_scheduler() {
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
