//! Binder compared with hwbinder, from the outside: what holds for the emulated driver under either
//! kernel's rules, and what is reported if something is not permitted.

use roundtrip_bench::ipc::traits;
use roundtrip_bench::sched::realtime_permission;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::ipc::Profile;
use roundtrip_run::ipc::traits::{Aspect, Finding, TraitsPlan, TraitsResult};
use roundtrip_run::ipc::{DriverChoice, DriverPlan, Stack};

fn run(profile: Profile) -> TraitsResult {
    let plan = TraitsPlan {
        driver: DriverPlan { choice: DriverChoice::Emulated, profile, ..DriverPlan::default() },
        calls: 21,
    };
    let spawner = Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"));
    traits::run(&plan, &spawner, &mut |_| {}).unwrap()
}

fn finding(result: &TraitsResult, aspect: Aspect, stack: Stack) -> &Finding {
    result.rows.iter().find(|row| row.aspect == aspect).unwrap().of(stack)
}

/// Whether an aspect holds; `None` if it was not tried.
fn holds(result: &TraitsResult, aspect: Aspect, stack: Stack) -> Option<bool> {
    match finding(result, aspect, stack) {
        Finding::Served { holds, calls, held, at_rest, afterwards, .. } => {
            assert_eq!(*holds, calls == held, "{aspect:?} {stack}");
            assert_eq!(at_rest, afterwards, "what was inherited is given back: {aspect:?} {stack}");
            Some(*holds)
        }
        Finding::NotTried { reason } => {
            assert!(!reason.is_empty());
            None
        }
        other => panic!("{aspect:?} {stack}: {other:?}"),
    }
}

#[test]
fn every_aspect_has_a_row_and_every_smallest_call_is_counted() {
    let result = run(Profile::Ack);
    assert_eq!(result.rows.iter().map(|row| row.aspect).collect::<Vec<_>>(), Aspect::ALL);
    for stack in Stack::ALL {
        let Finding::RoundTrip { latency } = finding(&result, Aspect::RoundTrip, stack) else {
            panic!("a round trip is timed");
        };
        assert_eq!(latency.count(), 21);
    }
    let stored = serde_json::to_string(&result).unwrap();
    assert!(serde_json::from_str::<TraitsResult>(&stored).unwrap() == result);
}

#[test]
fn binder_copies_a_payload_into_a_parcel_and_hwbinder_names_where_it_lies() {
    let result = run(Profile::Ack);
    for (stack, by_stack, in_place) in [(Stack::Binder, 1.0, false), (Stack::Hwbinder, 0.0, true)] {
        for aspect in [Aspect::RequestCopies, Aspect::ReplyCopies] {
            let expected = Finding::Copies { payload_bytes: 4096, stack: by_stack, driver: 1.0 };
            assert_eq!(finding(&result, aspect, stack), &expected, "{aspect:?} {stack}");
        }
        let Finding::Arguments { scatter_gather, buffers, payload_in_place } =
            finding(&result, Aspect::ArgumentPassing, stack)
        else {
            panic!("arguments are seen");
        };
        assert_eq!((*scatter_gather, *buffers > 0, *payload_in_place), (in_place, in_place, in_place));
    }
}

#[test]
fn by_androids_rules_only_hwbinder_inherits_and_only_binder_goes_to_the_background() {
    let result = run(Profile::Ack);
    for (aspect, binder, hwbinder) in [
        (Aspect::RealtimeInheritance, false, true),
        (Aspect::LeastPolicy, true, true),
        (Aspect::NiceRaised, true, false),
        (Aspect::NiceLowered, true, true),
        (Aspect::BackgroundPolicy, true, false),
    ] {
        for (stack, expected) in [(Stack::Binder, binder), (Stack::Hwbinder, hwbinder)] {
            // Without permission there is nothing to check.
            if let Some(holds) = holds(&result, aspect, stack) {
                assert_eq!(holds, expected, "{aspect:?} {stack}");
            }
        }
    }
    let may = realtime_permission().max_priority().is_some();
    assert_eq!(holds(&result, Aspect::RealtimeInheritance, Stack::Hwbinder).is_some(), may);
    if !may {
        roundtrip_skips::skip(
            roundtrip_skips::Need::Root,
            "this user has no real-time callers: their priorities were not looked at",
        );
    }
}

#[test]
fn by_the_mainline_rules_nobody_inherits_and_no_least_policy_holds() {
    let result = run(Profile::Mainline);
    for aspect in [Aspect::RealtimeInheritance, Aspect::LeastPolicy] {
        for stack in Stack::ALL {
            assert_ne!(holds(&result, aspect, stack), Some(true), "{aspect:?} {stack}");
        }
    }
}
