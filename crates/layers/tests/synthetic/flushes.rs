//! Which flushes belong to a write.

use roundtrip_layers::storage::{Begin, End, Layer, Layers};

use super::{
    COMPLETE, DISK, ISSUE, PARTITION, QUEUE, WRITER, devices, found, layers, switch, switch_to, system_call,
    wake,
};
use crate::written::Is::{Int, Text};
use crate::written::Written;

const OTHER: u32 = 96;
const LAST: u64 = u64::MAX;

fn flush(written: &mut Written, (issued_ns, completed_ns): (u64, u64)) {
    written.block(issued_ns, 1, OTHER, ISSUE, DISK, (0, 0, "FF"));
    written.block(completed_ns, 1, OTHER, COMPLETE, DISK, (LAST, 0, "FF"));
}

/// Another thread requests a flush at 950, the writer at 1,100. The flushes are issued and
/// completed at the given times.
fn flushed(flushes: &[(u64, u64)]) -> Layers {
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, 0), WRITER);
    written.block(950, 1, OTHER, QUEUE, DISK, (0, 0, "FWS"));
    written.block(1_100, 0, WRITER, QUEUE, DISK, (0, 0, "FWS"));
    switch(&mut written, 1_200, 0, (WRITER, 2), 0);
    let last_ns = flushes.iter().map(|flush| flush.1).max().unwrap_or_default();
    flushes.iter().for_each(|&times| flush(&mut written, times));
    wake(&mut written, last_ns + 100, 1, OTHER, WRITER);
    switch(&mut written, last_ns + 200, 0, (0, 0), WRITER);
    switch(&mut written, 9_500, 0, (WRITER, 1), 0);
    system_call(&mut written);
    layers(&mut written, devices(&[], &[], 512))
}

#[test]
fn who_asks_for_a_flush_when_one_is_ready_waits_for_the_next() {
    let layers = flushed(&[(3_000, 4_000), (6_000, 7_000)]);
    let of = |layer| layers.total_ns(layer);
    assert_eq!(of(Layer::Device), 7_000 - 6_000);
    assert_eq!(of(Layer::Block), 6_000 - 1_100);
    assert_eq!((layers.requests.len(), of(Layer::Unexplained)), (1, 0));
}

#[test]
fn a_flush_that_no_other_follows_has_served_all_who_had_asked() {
    let layers = flushed(&[(3_000, 4_000)]);
    assert_eq!(layers.total_ns(Layer::Device), 4_000 - 3_000);
    assert_eq!(layers.total_ns(Layer::Block), 3_000 - 1_100);
}

#[test]
fn a_request_whose_worker_waits_for_a_cpu_waits_behind_who_has_it() {
    const KWORKER: u32 = 44;
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, 0), WRITER);
    switch(&mut written, 910, 1, (0, 0), OTHER);
    written.block(1_100, 0, WRITER, QUEUE, DISK, (80, 8, "WS"));
    wake_up(&mut written, (1_150, 1_160), KWORKER);
    switch(&mut written, 1_200, 0, (WRITER, 2), 0);
    switch_to(&mut written, 5_000, 1, (OTHER, 0), (KWORKER, "kworker/1:1H"));
    written.block(5_100, 1, KWORKER, ISSUE, DISK, (80, 8, "WS"));
    written.block(6_000, 1, KWORKER, COMPLETE, DISK, (80, 8, "WS"));
    wake_up(&mut written, (6_100, 6_110), WRITER);
    switch(&mut written, 6_200, 0, (0, 0), WRITER);
    switch(&mut written, 9_500, 0, (WRITER, 1), 0);
    system_call(&mut written);
    let layers = layers(&mut written, devices(&[], &[], 512));
    assert_eq!(layers.total_ns(Layer::Block), 5_100 - 1_100);
    assert_eq!(layers.behind_others_ns, 5_000 - 1_160);
}

/// A waking and its wakeup, on the CPU where the woken thread will run.
fn wake_up(written: &mut Written, (waking_ns, wakeup_ns): (u64, u64), tid: u32) {
    let cpu = u32::from(tid != WRITER);
    let fields = [("comm", Text("c")), ("pid", Int(tid)), ("prio", Int(120)), ("target_cpu", Int(cpu))];
    written.event(waking_ns, 0, WRITER, "sched/sched_waking", &fields);
    written.event(wakeup_ns, 0, WRITER, "sched/sched_wakeup", &fields);
}

#[test]
fn both_flushes_of_a_write_without_data_are_the_calls_and_no_later_one() {
    let mut written = Written::default();
    // As the device mapper requests: a flush before data, and one after data, without data.
    written.block(1_100, 0, WRITER, QUEUE, PARTITION, (640, 0, "FWFS"));
    for (from_ns, to_ns) in [(1_200, 2_000), (2_500, 3_000), (5_000, 6_000)] {
        if from_ns == 5_000 {
            written.block(4_900, 0, WRITER + 1, QUEUE, PARTITION, (0, 0, "FWS"));
        }
        written.block(from_ns, 0, WRITER, ISSUE, DISK, (0, 0, "FF"));
        written.block(to_ns, 0, 0, COMPLETE, DISK, (u64::MAX, 0, "FF"));
        if to_ns == 3_000 {
            written.block(3_001, 0, 0, COMPLETE, DISK, (640, 0, "WS"));
        }
    }
    let layers = layers(&mut written, devices(&[], &[], 512));
    let flush = |from_ns, to_ns| (0, vec![(from_ns, to_ns)], Begin::Issue, End::Complete);
    assert_eq!(found(&layers), [flush(1_200, 2_000), flush(2_500, 3_000)]);
    assert_eq!((layers.total_ns(Layer::Device), layers.total_ns(Layer::Block)), (800 + 500, 100 + 500));
}

#[test]
fn a_write_that_the_device_makes_durable_itself_has_no_part_in_the_next_flush() {
    let mut written = Written::default();
    written.block(1_100, 0, WRITER, QUEUE, PARTITION, (640, 8, "WFS"));
    written.block(1_200, 0, WRITER, ISSUE, DISK, (640, 8, "WFS"));
    written.block(2_000, 0, 0, COMPLETE, DISK, (640, 8, "WFS"));
    written.block(4_900, 0, WRITER + 1, QUEUE, PARTITION, (0, 0, "FWS"));
    written.block(5_000, 0, WRITER + 1, ISSUE, DISK, (0, 0, "FF"));
    written.block(6_000, 0, 0, COMPLETE, DISK, (u64::MAX, 0, "FF"));
    let layers = layers(&mut written, devices(&[], &[], 512));
    assert_eq!(found(&layers), [(640, vec![(1_200, 2_000)], Begin::Issue, End::Complete)]);
}
