//! How real recordings of writes are divided, and what changes if something is missing. If an event
//! type or a CPU is missing, the time is unexplained, or the lack is reported. Time never moves
//! from one layer to another unnoticed.

mod recorded;

use std::collections::BTreeSet;

use proptest::prelude::*;
use recorded::{Recorded, kind, total_ns};
use roundtrip_layers::reasons::{Place, Stretch};
use roundtrip_layers::storage::{Layer, Layers, Missing, Write, Writes};
use roundtrip_tracefs::Loss;

const NAMES: [&str; 2] = ["disk", "journalled"];

/// How much time may move to another layer without a report, in thousandths.
const UNNOTICED_PER_MILLE: u64 = 1;

/// Compares the result of an incomplete recording with that of the complete one. Returns whether
/// anything changed.
fn check(whole: &Recorded, less: &Recorded, what: &str) -> bool {
    let (before, after) = (whole.layers(), less.layers());
    for (layers, write) in after.iter().zip(&less.writes) {
        assert!(adds_up(layers, write), "without {what}: {layers:#?}");
    }
    let all: u64 = whole.writes.iter().map(|write| write.end_ns - write.start_ns).sum();
    let doubts = Writes::new(&less.trace, less.devices.clone()).doubts();
    let mut changed = false;
    for layer in Layer::ALL {
        let (then, now) = (total_ns(&before, layer), total_ns(&after, layer));
        changed |= then.abs_diff(now) * 1000 > all * UNNOTICED_PER_MILLE;
        let gained = now.saturating_sub(then);
        assert!(
            layer == Layer::Unexplained || !doubts.is_empty() || gained * 1000 <= all * UNNOTICED_PER_MILLE,
            "without {what}, {} has {gained} ns more of {all}, and nothing is said",
            layer.name()
        );
    }
    changed
}

#[test]
fn a_whole_recording_is_not_doubted_and_explains_all_but_a_thousandth() {
    for name in NAMES {
        let whole = Recorded::load(name);
        assert_eq!(Writes::new(&whole.trace, whole.devices.clone()).doubts(), []);
        let calls = whole.layers();
        let all: u64 = whole.writes.iter().map(|write| write.end_ns - write.start_ns).sum();
        assert!(total_ns(&calls, Layer::Unexplained) * 1000 <= all, "{name}");
        assert!(calls.iter().all(|call| call.missing.is_none()), "{name}");
    }
}

#[test]
fn no_event_type_can_be_missing_unnoticed() {
    for name in NAMES {
        let whole = Recorded::load(name);
        let kinds: BTreeSet<String> =
            whole.trace.events.iter().map(|event| kind(&whole.trace, event)).collect();
        let mut changed = 0;
        for dropped in &kinds {
            let mut less = whole.clone();
            less.trace.events.retain(|event| kind(&whole.trace, event) != *dropped);
            // As if the recorder had lost them.
            changed += u32::from(check(&whole, &less, dropped));
            // As if the kernel lacked them.
            less.trace.recorded.retain(|event| event != dropped);
            check(&whole, &less, &format!("{dropped}, which this kernel has not"));
        }
        // Otherwise, an analysis that ignores all events would pass.
        assert!(kinds.len() > 10 && changed >= 8, "{name}: {changed} of {kinds:?}");
    }
}

#[test]
fn no_cpu_can_be_missing_unnoticed() {
    for name in NAMES {
        let whole = Recorded::load(name);
        let mut changed = 0;
        for cpu in 0..2 {
            let mut less = whole.clone();
            less.trace.events.retain(|event| event.cpu != cpu);
            changed += u32::from(check(&whole, &less, &format!("CPU {cpu}")));
            less.trace.complete_from_ns.remove(&cpu);
            check(&whole, &less, &format!("CPU {cpu}, of which nothing is known"));
        }
        assert!(changed >= 1, "{name}");
    }
}

#[test]
fn without_a_cpus_events_what_it_did_is_unexplained_and_no_layers() {
    let whole = Recorded::load("journalled");
    let mut less = whole.clone();
    // The writer's CPU.
    less.trace.events.retain(|event| event.cpu != 1);
    let calls = less.layers();
    let all: u64 = whole.writes.iter().map(|write| write.end_ns - write.start_ns).sum();
    assert!(total_ns(&calls, Layer::Unexplained) * 100 > all * 90);
    assert_eq!(total_ns(&calls, Layer::Platform), 0);
}

#[test]
fn a_loss_that_the_kernel_reports_is_told_by_the_calls_in_it() {
    let whole = Recorded::load("disk");
    let mut less = whole.clone();
    let call = whole.writes[5];
    less.trace.events.retain(|event| !(call.start_ns..call.end_ns).contains(&event.time_ns));
    less.trace.losses.push(Loss {
        cpu: 1,
        after_ns: call.start_ns,
        before_ns: call.end_ns,
        events: None,
        damaged: false,
    });
    let calls = less.layers();
    let lost: Vec<usize> =
        (0..calls.len()).filter(|&index| calls[index].missing == Some(Missing::Lost)).collect();
    assert_eq!(lost, [5]);
    assert!(calls[5].total_ns(Layer::Unexplained) * 100 > (call.end_ns - call.start_ns) * 90);
}

#[test]
fn what_lies_outside_the_recording_was_not_lost() {
    let whole = Recorded::load("disk");
    let mut later = whole.clone();
    let call = whole.writes[5];
    let begins_ns = call.start_ns.midpoint(call.end_ns);
    later.trace.events.retain(|event| event.cpu != 1 || event.time_ns >= begins_ns);
    later.trace.complete_from_ns.insert(1, begins_ns);
    let missing: Vec<Option<Missing>> = later.layers().iter().map(|layers| layers.missing).collect();
    assert_eq!(missing[..6], [Some(Missing::OutsideRecording); 6]);
    assert!(missing[6..].iter().all(Option::is_none), "{missing:?}");
}

#[test]
fn a_journals_requests_are_found_and_the_devices_below_it() {
    let journalled = Recorded::load("journalled");
    for (call, write) in journalled.layers().iter().zip(&journalled.writes) {
        let on = |leaf: bool, flush: bool| {
            let of = |request: &&roundtrip_layers::storage::Request| {
                (request.leaf, request.flush) == (leaf, flush)
            };
            call.requests.iter().filter(of).count()
        };
        // The data, the journal's blocks, and its commit; a flush before the commit and one after.
        assert!(on(false, false) >= 2 && on(false, true) >= 1, "{write:?}: {:?}", call.requests);
        assert!(on(true, false) >= 2 && on(true, true) >= 1, "{write:?}: {:?}", call.requests);
        let upper = call.requests.iter().filter(|request| request.dev == journalled.device).count();
        assert_eq!(upper, call.requests.iter().filter(|request| !request.leaf).count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn layers_are_contiguous_and_add_up_whatever_is_missing_or_moved(
        name in 0_usize..2, seed: u64, keep in 1_u64..100, moved in 0_u64..30,
    ) {
        let mut recorded = Recorded::load(NAMES[name]);
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let first_ns = recorded.trace.events.first().map_or(0, |event| event.time_ns);
        let length_ns = recorded.trace.events.last().map_or(0, |event| event.time_ns) - first_ns;
        recorded.trace.events.retain(|_| random() % 100 < keep);
        for event in &mut recorded.trace.events {
            if random() % 100 < moved {
                event.time_ns = first_ns + random() % length_ns;
                event.cpu = (random() % 3) as u32;
            }
        }
        recorded.trace.events.sort_by_key(|event| event.time_ns);
        // Including stretches in which no call was made.
        let tid = recorded.writes[0].tid;
        for _ in 0..4 {
            let start_ns = first_ns + random() % length_ns;
            recorded.writes.push(Write { start_ns, end_ns: start_ns + random() % length_ns, tid });
        }
        for (call, write) in recorded.layers().iter().zip(&recorded.writes) {
            let mut at_ns = write.start_ns;
            for piece in &call.pieces {
                prop_assert_eq!(piece.begin_ns, at_ns);
                prop_assert!(piece.end_ns > piece.begin_ns);
                at_ns = piece.end_ns;
            }
            prop_assert_eq!(at_ns, write.end_ns);
            let sum: u64 = Layer::ALL.into_iter().map(|layer| call.total_ns(layer)).sum();
            prop_assert_eq!(sum, write.end_ns - write.start_ns);
            prop_assert!(adds_up(call, write), "{:#?}", call);
        }
    }
}

/// Whether the reasons of a call are contiguous, and add up to each of its layers.
fn adds_up(layers: &Layers, write: &Write) -> bool {
    let reasons = &layers.reasons;
    let of_layer = |layer: Layer| {
        let place = Some(Place::Layer(layer.name()));
        reasons.iter().filter(|stretch| stretch.why.place == place).map(Stretch::duration_ns).sum::<u64>()
    };
    reasons.first().is_none_or(|first| first.begin_ns == write.start_ns)
        && reasons.last().map_or(write.start_ns, |last| last.end_ns) == write.end_ns
        && reasons.iter().all(|stretch| stretch.begin_ns < stretch.end_ns)
        && reasons.windows(2).all(|pair| pair[0].end_ns == pair[1].begin_ns)
        && Layer::ALL.into_iter().all(|layer| of_layer(layer) == layers.total_ns(layer))
}

#[test]
fn most_of_a_busy_machines_writes_is_waiting_for_a_cpu_whatever_the_layer() {
    let calls = Recorded::load("journalled").layers();
    let sum = |layer: Layer| calls.iter().map(|call| call.behind_ns(layer)).sum::<u64>();
    let behind_ns: u64 = Layer::ALL.into_iter().map(sum).sum();
    let all_ns: u64 = Layer::ALL.into_iter().map(|layer| total_ns(&calls, layer)).sum();
    assert!(behind_ns * 10 > all_ns * 7, "{behind_ns} of {all_ns}");
    assert!(sum(Layer::Block) * 10 > total_ns(&calls, Layer::Block) * 7, "{}", sum(Layer::Block));
}
