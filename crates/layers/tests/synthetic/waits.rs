//! What writes wait for: a worker that is late, the journal, and a CPU.

use roundtrip_layers::Unknown;
use roundtrip_layers::reasons::{Reason, ReasonKind, Role, Stretch};
use roundtrip_layers::storage::{Begin, End, Layer, Layers, Write};

use super::{
    COMPLETE, DISK, ISSUE, PARTITION, QUEUE, WRITE, WRITER, devices, found, layers, layers_of, switch,
    system_call, wake,
};
use crate::written::Is::{Int, Text};
use crate::written::Written;

/// A write that waits while a kernel worker does something else, until this worker queues it. The
/// write was held or not, depending on what wakes the worker. `other` has the worker's CPU first.
fn throttled(other: u32, wake_worker: impl FnOnce(&mut Written)) -> Layers {
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, 0), WRITER);
    for (time_ns, kind) in [(910, "irq/softirq_entry"), (920, "irq/softirq_exit")] {
        written.event(time_ns, 0, WRITER, kind, &[("vec", Int(7))]);
    }
    switch(&mut written, 905, 1, (99, 1), other);
    switch(&mut written, 1_200, 0, (WRITER, 2), 0);
    wake_worker(&mut written);
    written.block(6_000, 1, WORKER, QUEUE, PARTITION, (80, 8, "WS"));
    written.block(6_100, 1, WORKER, ISSUE, DISK, (80, 8, "WS"));
    switch(&mut written, 6_200, 1, (WORKER, 1), 0);
    written.interrupt((7_000, 7_300), 0, "virtio0-req.0");
    written.block(7_100, 0, 0, COMPLETE, DISK, (80, 8, "WS"));
    wake(&mut written, 7_200, 0, 0, WRITER);
    switch(&mut written, 7_400, 0, (0, 0), WRITER);
    switch(&mut written, 9_500, 0, (WRITER, 1), 0);
    layers(&mut written, devices(&[], &["virtio0-req.0"], 512))
}

const WORKER: u32 = 95;

#[test]
fn a_write_is_held_until_a_timer_wakes_the_worker_that_queues_it() {
    let layers = throttled(0, |written| {
        for (time_ns, kind) in [(5_000, "irq/softirq_entry"), (5_100, "irq/softirq_exit")] {
            written.event(time_ns, 1, 0, kind, &[("vec", Int(1))]);
        }
        wake(written, 5_050, 1, 0, WORKER);
        switch(written, 5_300, 1, (0, 0), WORKER);
    });
    let of = |layer| layers.total_ns(layer);
    assert_eq!((of(Layer::Held), of(Layer::Wake)), (5_050 - 1_200, 250));
    assert_eq!((of(Layer::Helper), of(Layer::Block), of(Layer::Device)), (700, 100, 900));
}

#[test]
fn a_write_is_held_as_long_as_the_worker_that_queues_it_does_others_work() {
    const OTHER: u32 = 96;
    // The worker is already awake when the timer expires: another thread has woken it, and it
    // reaches this write later.
    let layers = throttled(OTHER, |written| {
        wake(written, 2_000, 1, OTHER, WORKER);
        switch(written, 2_100, 1, (OTHER, 1), WORKER);
    });
    let of = |layer| layers.total_ns(layer);
    assert_eq!((of(Layer::Held), of(Layer::Helper)), (6_000 - 1_200, 0));
    // The worker has been awake since before the write.
    let layers = throttled(WORKER, |_| {});
    assert_eq!(layers.total_ns(Layer::Held), 6_000 - 1_200);
}

#[test]
fn a_switch_that_was_not_recorded_leaves_no_more_open_than_when_it_was() {
    const OTHER: u32 = 96;
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, 0), WRITER);
    let mut event = |time_ns, tid, kind: &'static str| {
        let fields: &[_] = match kind {
            "irq/softirq_entry" | "irq/softirq_exit" => &[("vec", Int(7))],
            _ => &[("comm", Text("c")), ("pid", Int(WRITER)), ("prio", Int(120)), ("target_cpu", Int(0))],
        };
        written.event(time_ns, 0, tid, kind, fields);
    };
    event(5_000, OTHER, "sched/sched_waking");
    event(5_100, OTHER, "sched/sched_wakeup");
    event(8_000, OTHER, "irq/softirq_entry");
    event(8_100, OTHER, "irq/softirq_exit");
    event(8_400, WRITER, "irq/softirq_entry");
    event(8_500, WRITER, "irq/softirq_exit");
    switch(&mut written, 1_200, 0, (WRITER, 2), OTHER);
    switch(&mut written, 9_500, 0, (WRITER, 1), 0);
    system_call(&mut written);
    let layers = layers(&mut written, devices(&[], &[], 512));
    let of = |layer| layers.total_ns(layer);
    // It waited for the CPU at least until another thread was last seen there.
    assert_eq!(of(Layer::Wake), 8_100 - 5_000);
    assert_eq!(of(Layer::Unexplained), (8_400 - 8_100) + (5_000 - 1_200));
    // The missing switch does not explain the rest, in which the writer waited for something.
    assert_eq!((layers.unrecorded_switches, layers.unexplained_for_switches_ns), (1, 8_400 - 8_100));
}

#[test]
fn a_wake_up_that_was_not_recorded_leaves_no_doubt_that_the_writer_had_been_woken() {
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, 0), WRITER);
    switch(&mut written, 1_200, 0, (WRITER, 2), 0);
    wake(&mut written, 5_000, 1, 96, WRITER);
    // The kernel records this event for other wakeups, but not for this one.
    let fields = [("comm", Text("c")), ("pid", Int(97)), ("prio", Int(120)), ("target_cpu", Int(0))];
    written.event(5_100, 1, 96, "sched/sched_wakeup", &fields);
    switch(&mut written, 6_000, 0, (0, 0), WRITER);
    switch(&mut written, 9_500, 0, (WRITER, 1), 0);
    system_call(&mut written);
    let layers = layers(&mut written, devices(&[], &[], 512));
    assert_eq!(layers.total_ns(Layer::Wake), 6_000 - 5_000);
    // What it waited for was not recorded, which is not due to a missing switch.
    assert_eq!(layers.total_ns(Layer::Unexplained), 5_000 - 1_200);
    assert_eq!((layers.unrecorded_switches, layers.unexplained_for_switches_ns), (0, 0));
}

#[test]
fn a_worker_that_the_application_woke_helps_and_holds_nothing() {
    let layers = throttled(0, |written| {
        wake(written, 1_150, 0, WRITER, WORKER);
        switch(written, 1_300, 1, (0, 0), WORKER);
    });
    let of = |layer| layers.total_ns(layer);
    assert_eq!((of(Layer::Held), of(Layer::Helper)), (0, 6_000 - 1_300));
}

#[test]
fn what_a_journal_was_set_to_before_the_application_waits_for_it_is_the_calls() {
    const JOURNAL: u32 = 90;
    const OTHER: u32 = 91;
    const SLEEPING: u64 = 1;
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, 0), WRITER);
    // A thread is only known to be the waker if softirqs are recorded as well.
    for (time_ns, kind) in [(910, "irq/softirq_entry"), (920, "irq/softirq_exit")] {
        written.event(time_ns, 0, WRITER, kind, &[("vec", Int(7))]);
    }
    // Another thread has already started the journal; then the application wakes it.
    wake(&mut written, 1_020, 1, OTHER, JOURNAL);
    switch(&mut written, 1_040, 1, (OTHER, SLEEPING), JOURNAL);
    written.block(1_060, 1, JOURNAL, QUEUE, PARTITION, (400, 8, "WS"));
    written.block(1_080, 1, JOURNAL, ISSUE, DISK, (400, 8, "WS"));
    switch(&mut written, 1_090, 1, (JOURNAL, SLEEPING), 0);
    wake(&mut written, 1_100, 0, WRITER, JOURNAL);
    switch(&mut written, 1_150, 1, (0, 0), JOURNAL);
    written.block(1_200, 1, JOURNAL, QUEUE, PARTITION, (80, 8, "WS"));
    written.block(1_250, 1, JOURNAL, ISSUE, DISK, (80, 8, "WS"));
    for (time_ns, kind) in [(2_000, "irq/irq_handler_entry"), (2_100, "irq/irq_handler_exit")] {
        let fields = [("irq", Int(9)), ("name", Text("virtio0-req.0")), ("ret", Int(1))];
        written.event(time_ns, 1, JOURNAL, kind, &fields);
    }
    written.block(2_050, 1, JOURNAL, COMPLETE, DISK, (80, 8, "WS"));
    written.block(2_060, 1, JOURNAL, COMPLETE, DISK, (400, 8, "WS"));
    switch(&mut written, 3_000, 0, (WRITER, SLEEPING), 0);
    wake(&mut written, 4_000, 1, JOURNAL, WRITER);
    switch(&mut written, 4_100, 0, (0, 0), WRITER);
    switch(&mut written, 9_500, 0, (WRITER, SLEEPING), 0);
    let layers = layers(&mut written, devices(&[], &["virtio0-req.0"], 512));
    assert_eq!(found(&layers), [(80, vec![(1_250, 2_000)], Begin::Issue, End::Interrupt)]);
    // The journal's own time belongs to the call only after the application starts to wait for it.
    let of = |layer| layers.total_ns(layer);
    assert_eq!((of(Layer::Device), of(Layer::Block), of(Layer::Irq)), (750, 50, 50));
    assert_eq!(of(Layer::Helper), 1_000);
}

#[test]
fn a_completion_may_take_long_to_wake_the_writer_within_one_interrupt() {
    const LONG: u64 = 3_000_000;
    let handled_ns = |until_ns: u64| {
        let mut written = Written::default();
        switch(&mut written, 900, 0, (0, 0), WRITER);
        written.block(1_000, 0, WRITER, QUEUE, PARTITION, (80, 8, "WS"));
        written.block(1_100, 0, WRITER, ISSUE, DISK, (80, 8, "WS"));
        switch(&mut written, 1_200, 0, (WRITER, 2), 0);
        written.interrupt((7_000, until_ns), 0, "virtio0-req.0");
        written.block(7_100, 0, 0, COMPLETE, DISK, (80, 8, "WS"));
        wake(&mut written, LONG, 0, 0, WRITER);
        switch(&mut written, LONG + 300, 0, (0, 0), WRITER);
        switch(&mut written, LONG + 9_500, 0, (WRITER, 1), 0);
        let write = Write { end_ns: LONG + 9_000, ..WRITE };
        layers_of(&mut written, devices(&[], &["virtio0-req.0"], 512), write).total_ns(Layer::Irq)
    };
    assert_eq!(handled_ns(LONG + 100), LONG - 7_000);
    // An interrupt that ended long before the wakeup did not cause it. So only the completion
    // itself counts as interrupt handling.
    assert_eq!(handled_ns(7_200), 100);
}

#[test]
fn a_request_may_complete_before_the_writer_has_left_its_cpu() {
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, 0), WRITER);
    system_call(&mut written);
    written.block(1_020, 0, WRITER, QUEUE, PARTITION, (80, 8, "WS"));
    written.block(1_100, 0, WRITER, ISSUE, DISK, (80, 8, "WS"));
    // The other CPU's interrupt completes the request while the writer is about to sleep.
    written.interrupt((7_000, 9_000), 1, "virtio0-req.0");
    written.block(7_100, 1, 0, COMPLETE, DISK, (80, 8, "WS"));
    switch(&mut written, 7_300, 0, (WRITER, 2), 0);
    wake(&mut written, 8_700, 1, 0, WRITER);
    switch(&mut written, 8_800, 0, (0, 0), WRITER);
    switch(&mut written, 9_500, 0, (WRITER, 1), 0);
    let layers = layers(&mut written, devices(&[], &["virtio0-req.0"], 512));
    assert_eq!(layers.total_ns(Layer::Unexplained), 0);
    assert_eq!(layers.total_ns(Layer::Irq), (7_100 - 7_000) + (8_700 - 7_300));
    let reasons = layers.summed();
    assert!(reasons.of_kind(ReasonKind::Unknown).is_none(), "{reasons:?}");
}

#[test]
fn a_request_that_the_journal_queued_is_in_the_block_layer_until_issued() {
    const JOURNAL: u32 = 80;
    const OTHER: u32 = 96;
    let mut written = Written::default();
    switch(&mut written, 500, 1, (99, 1), JOURNAL);
    written.block(600, 1, JOURNAL, QUEUE, PARTITION, (80, 8, "WS"));
    // Another thread preempts it before it issues its batch.
    switch(&mut written, 700, 1, (JOURNAL, 0), OTHER);
    switch(&mut written, 900, 0, (0, 0), WRITER);
    switch(&mut written, 1_200, 0, (WRITER, 2), 0);
    switch(&mut written, 5_000, 1, (OTHER, 1), JOURNAL);
    written.block(5_200, 1, JOURNAL, ISSUE, DISK, (80, 8, "WS"));
    switch(&mut written, 5_300, 1, (JOURNAL, 2), 0);
    written.interrupt((7_000, 7_300), 0, "virtio0-req.0");
    written.block(7_100, 0, 0, COMPLETE, DISK, (80, 8, "WS"));
    wake(&mut written, 7_200, 0, 0, WRITER);
    switch(&mut written, 7_400, 0, (0, 0), WRITER);
    switch(&mut written, 9_500, 0, (WRITER, 1), 0);
    let layers = layers(&mut written, devices(&[], &["virtio0-req.0"], 512));
    let of = |layer| layers.total_ns(layer);
    assert_eq!((of(Layer::Block), of(Layer::Device)), (5_200 - 1_200, 7_000 - 5_200));
    assert_eq!(layers.behind_others_ns, 5_000 - 1_200);
}

#[test]
fn without_switches_a_calls_time_is_unexplained_and_not_the_file_systems() {
    let mut written = Written::default();
    system_call(&mut written);
    wake(&mut written, 5_000, 0, WRITER, WORKER);
    let layers = layers(&mut written, devices(&[], &[], 512));
    assert_eq!(layers.total_ns(Layer::Fs), 0);
    assert!(layers.total_ns(Layer::Unexplained) >= 8_900 - 1_010);
}

#[test]
fn a_wait_for_another_program_says_what_that_program_waited_for() {
    const HOLDER: u32 = 96;
    const COMPILER: u32 = 97;
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, 0), WRITER);
    for (time_ns, kind) in [(910, "irq/softirq_entry"), (920, "irq/softirq_exit")] {
        written.event(time_ns, 0, WRITER, kind, &[("vec", Int(7))]);
    }
    // The holder of a lock is preempted, and releases the lock 200 ns after it is back.
    switch(&mut written, 950, 1, (99, 1), HOLDER);
    switch(&mut written, 1_100, 1, (HOLDER, 0), COMPILER);
    switch(&mut written, 1_200, 0, (WRITER, 2), 0);
    switch(&mut written, 7_000, 1, (COMPILER, 0), HOLDER);
    wake(&mut written, 7_200, 1, HOLDER, WRITER);
    switch(&mut written, 7_300, 0, (0, 0), WRITER);
    written.interrupt((8_000, 8_100), 0, "virtio0-req.0");
    switch(&mut written, 9_500, 0, (WRITER, 1), 0);
    let reasons = layers(&mut written, devices(&[], &[], 512)).summed();
    let of = |kind| {
        let of = reasons.of_kind(kind).unwrap();
        let (why, _) = of.why().next().unwrap();
        let tids =
            |threads: &[roundtrip_layers::Thread]| threads.iter().map(|one| one.tid).collect::<Vec<_>>();
        let delayed = why.delayed.as_ref().map(|thread| thread.tid);
        (of.sum_ns, why.role, delayed, tids(&why.chain), why.thread.as_ref().map(|thread| thread.tid))
    };
    assert_eq!(
        of(ReasonKind::Cpu),
        (5_800, Role::Writer, Some(WRITER), vec![HOLDER], Some(COMPILER)),
        "the writer waited for the holder, which waited for a CPU"
    );
    assert_eq!(of(ReasonKind::Thread), (200, Role::Writer, Some(WRITER), Vec::new(), Some(HOLDER)));
}

#[test]
fn a_queue_for_a_lock_is_a_wait_for_its_threads_however_long_it_is() {
    // Each thread has a CPU of its own, and ends the wait of the one before it, 100 ns apart.
    const THREADS: u32 = 30;
    let tid = |place: u32| if place == 0 { WRITER } else { 200 + place };
    let woken_ns = |place: u32| 8_000 - 100 * u64::from(place);
    let mut written = Written::default();
    // Interrupts are recorded, so a wakeup outside them is a thread's.
    written.interrupt((700, 710), 0, "virtio0-req.0");
    for (time_ns, kind) in [(720, "irq/softirq_entry"), (730, "irq/softirq_exit")] {
        written.event(time_ns, 0, 0, kind, &[("vec", Int(7))]);
    }
    for place in 0..THREADS {
        switch(&mut written, 900, place, (0, 0), tid(place));
        if place + 1 < THREADS {
            switch(&mut written, 1_200, place, (tid(place), 2), 0);
        }
    }
    for place in (0..THREADS - 1).rev() {
        wake(&mut written, woken_ns(place), place + 1, tid(place + 1), tid(place));
        switch(&mut written, woken_ns(place) + 10, place, (0, 0), tid(place));
    }
    let layers = layers(&mut written, devices(&[], &[], 512));
    let queue = |stretch: &&Stretch| stretch.why.reason == Reason::Thread { but: Some(Unknown::Queued) };
    let queued: Vec<_> = layers.reasons.iter().filter(queue).collect();
    assert_eq!(queued.iter().map(|one| one.duration_ns()).sum::<u64>(), woken_ns(7) - 1_200);
    // The threads that the writer waited for, and the one that ended the wait of the last of them.
    let why = &queued[0].why;
    assert_eq!(why.chain.iter().map(|thread| thread.tid).collect::<Vec<_>>(), (201..208).collect::<Vec<_>>());
    assert_eq!(why.thread.as_ref().map(|thread| thread.tid), Some(208));
}
