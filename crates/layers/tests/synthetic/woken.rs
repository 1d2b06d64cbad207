//! Writers that are woken before they have left their CPU. This happens now and then with a fast
//! device and other load.

use roundtrip_layers::storage::{Layer, Layers};

use super::{WRITER, devices, layers, switch, system_call, wake};
use crate::written::Is::{Int, Text};
use crate::written::Written;

const WAKER: u32 = 96;
const OTHER: u32 = 97;

fn wakeup(written: &mut Written, time_ns: u64) {
    let fields = [("comm", Text("c")), ("pid", Int(WRITER)), ("prio", Int(120)), ("target_cpu", Int(0))];
    written.event(time_ns, 1, WAKER, "sched/sched_wakeup", &fields);
}

/// The writer is woken at 2,000, leaves its CPU at 3,000 and runs again at 6,000. The wakeups are
/// at the given times.
fn woken(wakeups: &[u64]) -> Layers {
    let mut written = Written::default();
    switch(&mut written, 900, 0, (0, 0), WRITER);
    wake(&mut written, 2_000, 1, WAKER, WRITER);
    switch(&mut written, 3_000, 0, (WRITER, 2), OTHER);
    for &time_ns in wakeups {
        wakeup(&mut written, time_ns);
    }
    switch(&mut written, 6_000, 0, (OTHER, 1), WRITER);
    switch(&mut written, 9_500, 0, (WRITER, 1), 0);
    system_call(&mut written);
    layers(&mut written, devices(&[], &[], 512))
}

#[test]
fn a_writer_that_is_woken_before_it_leaves_its_cpu_waits_for_its_wake_up() {
    let layers = woken(&[4_000]);
    assert_eq!(layers.total_ns(Layer::Wake), 6_000 - 3_000);
    assert_eq!((layers.total_ns(Layer::Unexplained), layers.unrecorded_switches), (0, 0));
    // From then on it was runnable, but another thread had the CPU.
    assert_eq!(layers.behind_others_ns, 6_000 - 4_000);
}

#[test]
fn a_writer_whose_wake_up_found_it_awake_sleeps_all_the_same_when_it_leaves_its_cpu() {
    let layers = woken(&[2_500]);
    // What woke it the second time was not recorded.
    assert_eq!(layers.total_ns(Layer::Wake), 0);
    assert_eq!(layers.total_ns(Layer::Unexplained), 6_000 - 3_000);
}
