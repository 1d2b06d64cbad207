//! Writes of io_uring that a worker performs. The worker completes them before it wakes the
//! submitter.

use roundtrip_layers::reasons::ReasonKind;
use roundtrip_layers::storage::{Layer, Layers};

use super::{COMPLETE, DISK, ISSUE, QUEUE, WRITER, devices, layers, switch, switch_to, wake};
use crate::written::Is::Int;
use crate::written::Written;

const WORKER: u32 = 71;
/// Another operation's worker, whose completion wakes the submitter meanwhile.
const OTHER: u32 = 72;
const SLEEPS: u64 = 1;

/// A write that ends when `completed_by` completes it.
fn performed(completed_by: u32) -> Layers {
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, SLEEPS), WRITER);
    for (time_ns, kind) in [(950, "irq/softirq_entry"), (960, "irq/softirq_exit")] {
        written.event(time_ns, 0, WRITER, kind, &[("vec", Int(7))]);
        written.event(time_ns, 1, 0, kind, &[("vec", Int(7))]);
    }
    wake(&mut written, 1_100, 0, WRITER, WORKER);
    switch(&mut written, 1_200, 0, (WRITER, SLEEPS), 0);
    switch_to(&mut written, 1_210, 1, (0, SLEEPS), (WORKER, "iou-wrk-70"));
    written.block(1_300, 1, WORKER, QUEUE, DISK, (80, 8, "WS"));
    written.block(1_400, 1, WORKER, ISSUE, DISK, (80, 8, "WS"));
    switch(&mut written, 1_500, 1, (WORKER, SLEEPS), OTHER);
    wake(&mut written, 2_000, 1, OTHER, WRITER);
    switch(&mut written, 2_010, 1, (OTHER, SLEEPS), 0);
    switch(&mut written, 2_100, 0, (0, SLEEPS), WRITER);
    switch(&mut written, 2_200, 0, (WRITER, SLEEPS), 0);
    written.interrupt((8_000, 8_020), 1, "nvme0q1");
    written.block(8_010, 1, 0, COMPLETE, DISK, (80, 8, "WS"));
    wake(&mut written, 8_015, 1, 0, WORKER);
    switch_to(&mut written, 8_100, 1, (0, SLEEPS), (WORKER, "iou-wrk-70"));
    written.event(9_000, 1, completed_by, "io_uring/io_uring_complete", &[("req", Int(1))]);
    wake(&mut written, 9_010, 1, WORKER, WRITER);
    layers(&mut written, devices(&[], &["nvme0q1"], 512))
}

#[test]
fn a_submitters_wait_is_for_the_worker_that_completes_its_write() {
    let layers = performed(WORKER);
    assert_eq!(layers.requests.len(), 1);
    assert_eq!(layers.total_ns(Layer::Device), 8_000 - 1_400, "{layers:?}");
    assert_eq!(layers.total_ns(Layer::Unexplained), 0, "{layers:?}");
    let reasons = layers.summed();
    let device_ns = reasons.of_kind(ReasonKind::Device).unwrap().sum_ns;
    assert!(device_ns > 6_000, "{device_ns}");
}

#[test]
fn without_a_worker_nothing_ends_the_wait() {
    let layers = performed(WRITER);
    assert!(layers.total_ns(Layer::Unexplained) > 5_000, "{layers:?}");
}
