//! Writes whose caller polls for completion, so that it neither sleeps nor is woken. Few machines
//! have a queue that supports polling.

use roundtrip_layers::storage::{Completion, Context, Layer, Layers, Writes};

use super::{COMPLETE, DISK, ISSUE, QUEUE, WRITE, WRITER, devices, layers, switch, wake};
use crate::written::Is::{Int, Text};
use crate::written::Written;

/// io_uring's worker, which submits what the caller could not submit without blocking.
const WORKER: u32 = 71;
const JOURNAL: u32 = 72;
/// A thread that waited for the journal, and continues with its own write.
const STRANGER: u32 = 73;
const SLEEPS: u64 = 1;

fn request(written: &mut Written, by: u32, (queued_ns, issued_ns): (u64, u64), sector: u64) {
    written.block(queued_ns, 1, by, QUEUE, DISK, (sector, 8, "WS"));
    written.block(issued_ns, 1, by, ISSUE, DISK, (sector, 8, "WS"));
}

/// `completed_by` completes the worker's request on CPU 0, which the writer uses all the time.
fn polled(completed_by: impl FnOnce(&mut Written)) -> (Layers, Option<Completion>) {
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, SLEEPS), WRITER);
    for (time_ns, kind) in [(910, "irq/softirq_entry"), (920, "irq/softirq_exit")] {
        written.event(time_ns, 0, WRITER, kind, &[("vec", Int(7))]);
    }
    wake(&mut written, 1_100, 0, WRITER, WORKER);
    switch(&mut written, 1_200, 1, (0, SLEEPS), WORKER);
    request(&mut written, WORKER, (1_300, 1_400), 80);
    completed_by(&mut written);
    // The journal makes the write durable. Its request ends with an interrupt.
    wake(&mut written, 3_100, 1, WORKER, JOURNAL);
    switch(&mut written, 3_200, 1, (WORKER, SLEEPS), JOURNAL);
    request(&mut written, JOURNAL, (3_300, 3_400), 800);
    switch(&mut written, 3_500, 1, (JOURNAL, SLEEPS), 0);
    written.interrupt((5_400, 5_420), 1, "nvme0q1");
    written.block(5_410, 1, 0, COMPLETE, DISK, (800, 8, "WS"));
    switch(&mut written, 5_500, 1, (0, SLEEPS), JOURNAL);
    wake(&mut written, 5_600, 1, JOURNAL, STRANGER);
    switch(&mut written, 5_700, 1, (JOURNAL, SLEEPS), STRANGER);
    request(&mut written, STRANGER, (5_800, 5_900), 4_000);
    written.block(8_000, 1, STRANGER, COMPLETE, DISK, (4_000, 8, "WS"));
    written.event(9_500, 0, WRITER, "irq/softirq_entry", &[("vec", Int(7))]);
    let devices = devices(&[], &["nvme0q1"], 512);
    let layers = layers(&mut written, devices.clone());
    let trace = written.read();
    let completion = Writes::new(&trace, devices).completion(WRITE, &layers);
    (layers, completion)
}

fn sectors(layers: &Layers) -> Vec<u64> {
    layers.requests.iter().map(|request| request.sector).collect()
}

#[test]
fn the_requests_of_whom_a_polling_writer_has_set_to_work_are_the_writes() {
    let (layers, completion) = polled(|written| {
        written.block(3_000, 0, WRITER, COMPLETE, DISK, (80, 8, "WS"));
    });
    assert_eq!(sectors(&layers), [80, 800]);
    // The writer does not poll for the journal's request, which an interrupt ends.
    let polled =
        Completion { interrupt: false, completed_in: Context::Thread, elsewhere: false, woken_in: None };
    assert_eq!(completion, Some(polled));
    assert_eq!(layers.total_ns(Layer::Device), (3_000 - 1_400) + (5_400 - 3_400));
    assert_eq!(layers.total_ns(Layer::Block), 100 + 100);
}

#[test]
fn a_writer_that_an_interrupt_finds_awake_has_not_polled() {
    let (layers, _) = polled(|written| {
        let entry = [("irq", Int(9)), ("name", Text("nvme0q1"))];
        written.event(2_990, 0, WRITER, "irq/irq_handler_entry", &entry);
        written.block(3_000, 0, WRITER, COMPLETE, DISK, (80, 8, "WS"));
        written.event(3_010, 0, WRITER, "irq/irq_handler_exit", &[("irq", Int(9)), ("ret", Int(1))]);
    });
    assert!(sectors(&layers).is_empty(), "{:?}", sectors(&layers));
}
