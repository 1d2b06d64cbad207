//! Properties of all explanations: parts are contiguous and add up exactly, and what is reported as
//! known really happened, whatever the recording has lost.

mod common;

use common::{Machine, Random, Truth};
use proptest::prelude::*;
use roundtrip_layers::{Explanation, Part, RoundTrip, Side, State, Timeline, Waker, explain};
use roundtrip_tracefs::{Body, Event, EventContext, TaskState, ThreadRef, Trace};

fn trip(random: &mut Random, end_ns: u64, threads: u32) -> RoundTrip {
    let (one, other) = (random.below(end_ns), random.below(end_ns));
    let side = |tid| Side { pid: tid + 1000, tid: Some(tid), ..Side::default() };
    let client = 1 + random.below(threads.into()) as u32;
    let server = 1 + random.below(threads.into()) as u32;
    RoundTrip {
        start_ns: one.min(other),
        end_ns: one.max(other),
        client: side(client),
        server: Some(side(server)),
        ..RoundTrip::default()
    }
}

fn contiguous(parts: &[Part], start_ns: u64, end_ns: u64) {
    let mut at_ns = start_ns;
    for part in parts {
        assert_eq!(part.begin_ns, at_ns, "contiguous");
        assert!(part.end_ns > part.begin_ns, "not empty");
        at_ns = part.end_ns;
        if !part.because.is_empty() {
            contiguous(&part.because, part.begin_ns, part.end_ns);
        }
    }
    assert_eq!(at_ns, end_ns, "up to the end");
}

fn exact(explanation: &Explanation) {
    contiguous(&explanation.parts, explanation.start_ns, explanation.end_ns);
    let sum_ns: u64 = explanation.parts.iter().map(Part::duration_ns).sum();
    assert_eq!(sum_ns, explanation.duration_ns());
    assert!(!explanation.causes.is_empty());
}

/// Checks that a part is true at an instant within it.
fn true_at(machine: &Machine, part: &Part, time_ns: u64) {
    let Some(thread) = &part.thread else { return };
    let truth = machine.truth_at(thread.tid, time_ns);
    let said = format!("{part:?}\nat {time_ns}: {truth:?}");
    match (&part.state, truth) {
        (State::Unknown { .. }, _) => {}
        (State::User | State::Running | State::SystemCall { .. }, Truth::Running(cpu)) => {
            assert_eq!(part.cpu, Some(cpu), "{said}");
        }
        (State::Stolen { .. }, Truth::Running(cpu) | Truth::Runnable(cpu)) => {
            assert_eq!(part.cpu, Some(cpu), "{said}");
        }
        (
            State::Behind { thread } | State::Preempted { thread } | State::HandOver { thread },
            Truth::Runnable(cpu),
        ) => {
            assert_eq!(part.cpu, Some(cpu), "{said}");
            assert_eq!(machine.had_cpu(cpu, time_ns), thread.tid, "{said}");
        }
        (State::IdleExit { .. } | State::RunnableOnIdle, Truth::Runnable(cpu)) => {
            assert_eq!((part.cpu, machine.had_cpu(cpu, time_ns)), (Some(cpu), 0), "{said}");
        }
        (State::WakeUpPending, Truth::Waking) => {}
        (State::Blocked { waker, .. } | State::Stopped { waker, .. }, Truth::Blocked) => {
            let woken = machine.woken.iter().find(|(at, tid, _)| *at > time_ns && *tid == thread.tid);
            match (waker, woken) {
                (Waker::Unknown | Waker::OtherCpu, _) => {}
                (Waker::Thread { thread }, Some((_, _, by))) => assert_eq!(*by, Some(thread.tid), "{said}"),
                (Waker::Interrupt { .. }, Some((_, _, by))) => assert_eq!(*by, None, "{said}"),
                (_, None) => panic!("nobody woke it: {said}"),
            }
        }
        _ => panic!("wrong: {said}"),
    }
    for inner in part.because.iter().filter(|inner| inner.begin_ns <= time_ns && time_ns < inner.end_ns) {
        true_at(machine, inner, time_ns);
    }
}

fn all_true(machine: &Machine, explanation: &Explanation) {
    for part in &explanation.parts {
        for time_ns in [part.begin_ns, part.begin_ns + part.duration_ns() / 2, part.end_ns - 1] {
            true_at(machine, part, time_ns);
        }
    }
}

fn unknown_ns(explanation: &Explanation) -> u64 {
    let unknown = |part: &&Part| matches!(part.state, State::Unknown { .. });
    explanation.parts.iter().filter(unknown).map(Part::duration_ns).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_complete_recording_is_explained_exactly_and_truly(seed: u64, cpus in 1_u32..4, threads in 2_u32..7) {
        let machine = Machine::run(seed, cpus, threads, 300);
        let timeline = Timeline::new(&machine.trace);
        let mut random = Random(seed ^ 1);
        for _ in 0..8 {
            let explanation = explain(&timeline, &trip(&mut random, machine.end_ns(), threads));
            exact(&explanation);
            all_true(&machine, &explanation);
        }
    }

    #[test]
    fn what_a_recording_with_losses_is_said_to_show_has_happened(
        seed: u64, cpus in 1_u32..4, threads in 2_u32..7, losses in 1_u32..5,
    ) {
        let mut machine = Machine::run(seed, cpus, threads, 300);
        let mut random = Random(seed ^ 2);
        (0..losses).for_each(|_| machine.lose(&mut random));
        let timeline = Timeline::new(&machine.trace);
        for _ in 0..8 {
            let explanation = explain(&timeline, &trip(&mut random, machine.end_ns(), threads));
            exact(&explanation);
            all_true(&machine, &explanation);
        }
    }

    #[test]
    fn a_recording_that_begins_late_is_unknown_before(seed: u64, cpus in 1_u32..4, threads in 2_u32..7) {
        let mut machine = Machine::run(seed, cpus, threads, 300);
        let mut random = Random(seed ^ 3);
        for cpu in 0..cpus {
            let from_ns = random.below(machine.end_ns());
            machine.trace.events.retain(|event| event.cpu != cpu || event.time_ns >= from_ns);
            machine.trace.complete_from_ns.insert(cpu, from_ns);
        }
        let timeline = Timeline::new(&machine.trace);
        for _ in 0..8 {
            let explanation = explain(&timeline, &trip(&mut random, machine.end_ns(), threads));
            exact(&explanation);
            all_true(&machine, &explanation);
        }
    }

    #[test]
    fn events_that_vanish_without_a_trace_never_break_the_sum(seed: u64, share in 1_u64..60) {
        let mut machine = Machine::run(seed, 2, 5, 300);
        let mut random = Random(seed ^ 4);
        machine.trace.events.retain(|_| random.below(100) >= share);
        let timeline = Timeline::new(&machine.trace);
        for _ in 0..8 {
            exact(&explain(&timeline, &trip(&mut random, machine.end_ns(), 5)));
        }
    }

    #[test]
    fn no_events_make_it_panic_or_miscount(raw in prop::collection::vec(any::<[u16; 6]>(), 0..200), seed: u64) {
        let mut events: Vec<Event> = raw.iter().map(|raw| nonsense(*raw)).collect();
        events.sort_by_key(|event| event.time_ns);
        let recorded = common::ALL_EVENTS.map(str::to_owned).into();
        let trace = Trace { events, recorded, machine: "x86_64".into(), ..Trace::default() };
        let timeline = Timeline::new(&trace);
        let mut random = Random(seed);
        for _ in 0..4 {
            exact(&explain(&timeline, &trip(&mut random, 70_000, 6)));
        }
    }
}

fn nonsense([time, cpu, tid, kind, one, other]: [u16; 6]) -> Event {
    let thread = |tid: u16| ThreadRef {
        tid: u32::from(tid % 7),
        prio: i32::from(tid) - 300,
        comm: roundtrip_tracefs::Name(9),
    };
    let body = match kind % 10 {
        0..=2 => {
            Body::Switch { prev: thread(tid), prev_state: TaskState(u32::from(one)), next: thread(other) }
        }
        3 => {
            Body::Waking { thread: thread(one), target_cpu: u32::from(other), context: EventContext::Unknown }
        }
        4 => Body::Wakeup {
            thread: thread(one),
            target_cpu: u32::from(other),
            new: other % 5 == 0,
            context: EventContext::Unknown,
        },
        5 => Body::Migrate { thread: thread(one), from_cpu: 0, to_cpu: u32::from(other) },
        6 => Body::SoftirqEntry { vector: u32::from(one) },
        7 => Body::SoftirqExit { vector: u32::from(one) },
        8 => Body::SysEnter { number: i64::from(one), first: 0, third: 0, sixth: 0 },
        _ => Body::StatRuntime { tid: u32::from(one % 7), runtime_ns: u64::from(other) },
    };
    Event { time_ns: time.into(), cpu: u32::from(cpu % 5), tid: u32::from(tid % 7), body }
}

#[test]
fn losses_cost_knowledge_only_where_they_are() {
    // An explanation that knows nothing would satisfy the properties above.
    let (mut complete_ns, mut known_ns, mut kept_ns) = (0, 0, 0);
    for seed in 0..40 {
        let mut machine = Machine::run(seed, 2, 5, 400);
        let trips: Vec<RoundTrip> = {
            let mut random = Random(seed);
            (0..8).map(|_| trip(&mut random, machine.end_ns(), 5)).collect()
        };
        let timeline = Timeline::new(&machine.trace);
        let known = |explanation: Explanation| explanation.duration_ns() - unknown_ns(&explanation);
        complete_ns += trips.iter().map(RoundTrip::duration_ns).sum::<u64>();
        known_ns += trips.iter().map(|trip| known(explain(&timeline, trip))).sum::<u64>();
        machine.lose(&mut Random(seed));
        let timeline = Timeline::new(&machine.trace);
        kept_ns += trips.iter().map(|trip| known(explain(&timeline, trip))).sum::<u64>();
    }
    assert!(known_ns * 100 >= complete_ns * 98, "{known_ns} of {complete_ns}");
    assert!(kept_ns * 100 >= complete_ns * 80, "{kept_ns} of {complete_ns}");
}
