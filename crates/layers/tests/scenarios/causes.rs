//! What a complete recording blames.

use roundtrip_layers::reasons::{Reason, ReasonKind};
use roundtrip_layers::{CallCounters, Flag, Interrupt, Kind, Owner, RoundTrip, Softirq, State, What};
use roundtrip_tracefs::{Body, TaskState};

use super::{CLIENT, HOG, HOLDER, PREEMPTED, SERVER, SLEEPS, STOPPED, Tape, WAITS, blamed, trip};

#[test]
fn an_undisturbed_round_trip_is_cut_into_its_steps_and_nobody_is_blamed() {
    let mut tape = Tape::new();
    tape.request();
    tape.reply(110);
    let explanation = tape.explain(116);
    assert_eq!((explanation.request_ns, explanation.reply_ns), (101_000, 110_000));
    assert_eq!(blamed(&explanation), (Kind::Ordinary, None));
    let steps: Vec<_> =
        explanation.parts.iter().map(|part| (part.owner, part.duration_ns() / 1000, &part.state)).collect();
    assert!(
        matches!(
            steps[..],
            [
                (Owner::Client, 1, State::Running),
                (Owner::Server, 4, State::IdleExit { state: None }),
                (Owner::Server, 5, State::Running),
                (Owner::Client, 4, State::IdleExit { state: None }),
                (Owner::Client, 2, State::Running),
            ]
        ),
        "{steps:?}"
    );
}

#[test]
fn a_hog_on_the_servers_cpu_is_named_and_so_is_the_inversion() {
    let mut tape = Tape::new();
    tape.prios = vec![(CLIENT, 0), (HOG, 110), (SERVER, 120)];
    tape.switch(50, 1, SLEEPS, HOG);
    tape.wake(101, 0, SERVER, 1);
    tape.switch(102, 0, SLEEPS, 0);
    tape.switch(5_105, 1, PREEMPTED, SERVER);
    tape.reply(5_110);
    let mut trip = trip(5_116);
    trip.client.prio = Some(0);
    let explanation = tape.explain_trip(&trip);
    assert_eq!(blamed(&explanation), (Kind::Competitor, Some(HOG)));
    assert!(
        explanation
            .flags
            .iter()
            .any(|flag| matches!(flag, Flag::PriorityInversion { thread, .. } if thread.tid == HOG))
    );
    let main = explanation.main().unwrap();
    assert_eq!((main.owner, main.excess_ns / 10_000, main.cpu), (Owner::Server, 500, Some(1)));
    assert_eq!(main.thread.as_ref().unwrap().prio, Some(110));
}

#[test]
fn a_hog_that_takes_the_cpu_from_the_server_or_the_client_is_named() {
    let mut tape = Tape::new();
    tape.prios = vec![(HOG, 49)];
    tape.request();
    tape.wake(106, 0, HOG, 1);
    tape.switch(107, 1, PREEMPTED, HOG);
    tape.switch(3_107, 1, SLEEPS, SERVER);
    tape.reply(3_110);
    let explanation = tape.explain(3_116);
    assert_eq!(blamed(&explanation), (Kind::Competitor, Some(HOG)));
    assert!(explanation.flags.is_empty(), "an ordinary client is in nobody's debt");

    let mut tape = Tape::new();
    tape.request();
    tape.switch(108, 0, TaskState(0), HOG);
    tape.wake(110, 1, CLIENT, 0);
    tape.switch(111, 1, SLEEPS, 0);
    tape.switch(4_000, 0, SLEEPS, CLIENT);
    tape.event(4_100, 0, Body::SysEnter { number: 0, first: 0, third: 0, sixth: 0 });
    let explanation = tape.explain(4_010);
    assert_eq!(blamed(&explanation), (Kind::Competitor, Some(HOG)));
    assert_eq!(explanation.main().unwrap().owner, Owner::Client);
}

#[test]
fn a_lock_holder_is_named_and_so_is_who_kept_it_from_its_cpu() {
    let waits = |tape: &mut Tape| {
        tape.request();
        tape.switch(108, 1, SLEEPS, 0);
    };
    let goes_on = |tape: &mut Tape, us: u64| {
        tape.wake(us, 0, SERVER, 1);
        tape.switch(us + 2, 1, TaskState(0), SERVER);
        tape.reply(us + 5);
    };
    let mut tape = Tape::new();
    waits(&mut tape);
    tape.switch(110, 0, TaskState(0), HOLDER);
    goes_on(&mut tape, 4_000);
    assert_eq!(blamed(&tape.explain(4_011)), (Kind::WaitedFor, Some(HOLDER)));

    let mut tape = Tape::new();
    waits(&mut tape);
    tape.switch(110, 0, TaskState(0), HOLDER);
    tape.switch(120, 0, PREEMPTED, HOG);
    tape.switch(3_900, 0, SLEEPS, HOLDER);
    goes_on(&mut tape, 4_000);
    let explanation = tape.explain(4_011);
    assert_eq!(blamed(&explanation), (Kind::Competitor, Some(HOG)));
    let main = explanation.main().unwrap();
    assert_eq!(main.via.iter().map(|thread| thread.tid).collect::<Vec<_>>(), [HOLDER]);
    assert_eq!((main.owner, main.excess_ns), (Owner::Server, 3_780_000));

    // A lock holder that sleeps is to blame, not its timer.
    let mut tape = Tape::new();
    waits(&mut tape);
    tape.switch(110, 0, TaskState(0), HOLDER);
    tape.switch(120, 0, SLEEPS, 0);
    tape.timer(3_900, 0, HOLDER);
    tape.switch(3_901, 0, TaskState(0), HOLDER);
    goes_on(&mut tape, 4_000);
    let explanation = tape.explain(4_011);
    assert_eq!(blamed(&explanation), (Kind::WaitedFor, Some(HOLDER)));
    assert_eq!(explanation.main().unwrap().what, Some(What::Slept));
}

#[test]
fn a_timer_that_fires_soon_after_another_programs_request_completed_is_no_disk() {
    for (completed_by_timer, expected) in [(false, Kind::Sleep), (true, Kind::Io)] {
        let mut tape = Tape::new();
        let completed =
            Body::Other { event: tape.trace.names.intern("block/block_rq_complete"), at: 0, length: 0 };
        let (vector, disk) = (roundtrip_tracefs::Name(5), roundtrip_tracefs::Name(6));
        tape.request();
        tape.switch(108, 1, SLEEPS, 0);
        tape.event(2_980, 1, Body::IrqEntry { irq: 30, name: disk });
        if !completed_by_timer {
            tape.event(2_985, 1, completed);
        }
        tape.event(2_988, 1, Body::IrqExit { irq: 30, handled: true });
        tape.event(2_990, 1, Body::VectorEntry { kind: vector });
        if completed_by_timer {
            tape.event(2_995, 1, completed);
        }
        tape.wake(2_998, 1, SERVER, 1);
        tape.event(3_000, 1, Body::VectorExit { kind: vector });
        tape.switch(3_003, 1, TaskState(0), SERVER);
        tape.reply(3_010);
        assert_eq!(blamed(&tape.explain(3_016)), (expected, None));
    }
}

#[test]
fn sleep_work_a_signal_and_a_disk_are_told_apart() {
    let mut tape = Tape::new();
    tape.request();
    tape.switch(108, 1, SLEEPS, 0);
    tape.timer(3_000, 1, SERVER);
    tape.switch(3_003, 1, TaskState(0), SERVER);
    tape.reply(3_010);
    assert_eq!(blamed(&tape.explain(3_016)), (Kind::Sleep, None));

    let mut tape = Tape::new();
    tape.request();
    tape.reply(3_010);
    let explanation = tape.explain(3_016);
    assert_eq!(blamed(&explanation), (Kind::Work, Some(SERVER)));
    let trip = RoundTrip { virtualised: true, ..trip(3_016) };
    assert!(tape.explain_trip(&trip).virtualised && !explanation.virtualised);

    let mut tape = Tape::new();
    tape.request();
    tape.switch(108, 1, STOPPED, 0);
    tape.switch(2_990, 0, TaskState(0), HOLDER);
    tape.wake(3_000, 0, SERVER, 1);
    tape.switch(3_001, 0, SLEEPS, 0);
    tape.switch(3_003, 1, TaskState(0), SERVER);
    tape.reply(3_010);
    let explanation = tape.explain(3_016);
    assert_eq!(blamed(&explanation), (Kind::Stopped, Some(HOLDER)));
    let main = explanation.main().unwrap();
    assert_eq!((main.owner, main.excess_ns / 10_000), (Owner::Server, 289));
    assert_eq!(main.what, Some(What::Stopped("server".into())));

    let mut tape = Tape::new();
    tape.request();
    tape.switch(108, 1, WAITS, 0);
    tape.event(3_000, 1, Body::IrqEntry { irq: 9, name: roundtrip_tracefs::Name(6) });
    tape.wake(3_001, 1, SERVER, 1);
    tape.event(3_002, 1, Body::IrqExit { irq: 9, handled: true });
    tape.switch(3_003, 1, TaskState(0), SERVER);
    tape.reply(3_010);
    let explanation = tape.explain(3_016);
    assert_eq!(blamed(&explanation), (Kind::Io, None));
    let device = Interrupt::Device { irq: 9, name: "virtio0".into() };
    assert_eq!(explanation.main().unwrap().what, Some(What::Interrupt(device)));
}

#[test]
fn softirqs_that_take_the_cpu_are_named() {
    let mut tape = Tape::new();
    tape.request();
    for round in 0..30 {
        tape.event(110 + round * 100, 1, Body::SoftirqEntry { vector: 3 });
        tape.event(200 + round * 100, 1, Body::SoftirqExit { vector: 3 });
    }
    tape.reply(3_200);
    let explanation = tape.explain(3_206);
    assert_eq!(blamed(&explanation), (Kind::Interrupt, None));
    let softirq = What::Interrupt(Interrupt::Softirq(Softirq(3)));
    assert_eq!(explanation.main().unwrap().what, Some(softirq));
    assert_eq!(explanation.main().unwrap().excess_ns, 30 * 90_000);
}

#[test]
fn a_quota_is_blamed_where_its_counters_say_so_and_never_who_ran_meanwhile() {
    let mut tape = Tape::new();
    tape.request();
    tape.switch(108, 1, PREEMPTED, HOG);
    tape.switch(9_000, 1, SLEEPS, SERVER);
    tape.reply(9_010);
    let throttled = |since_ns, ns| {
        let mut trip = trip(9_016);
        let server = trip.server.as_mut().unwrap();
        let (throttled, throttled_ns) = (Some(1), Some(ns));
        server.counters =
            CallCounters { since_ns: Some(since_ns), throttled, throttled_ns, ..CallCounters::default() };
        trip
    };
    let explanation = tape.explain_trip(&throttled(99_000, 8_800_000));
    assert_eq!(blamed(&explanation), (Kind::Throttled, None));
    assert!(explanation.flags.contains(&Flag::Throttled));
    // Over a long counting period, another call may have been throttled.
    let mut early = throttled(0, 8_800_000);
    early.start_ns = 100_000;
    early.server.as_mut().unwrap().counters.throttled_ns = Some(100_000);
    assert_eq!(blamed(&tape.explain_trip(&early)), (Kind::CannotTell, None));
    assert_eq!(blamed(&tape.explain(9_016)), (Kind::Competitor, Some(HOG)));

    // If a thread leaves its CPU and the CPU is then idle, the cause is throttling or the
    // hypervisor.
    let mut tape = Tape::new();
    tape.request();
    tape.switch(108, 1, PREEMPTED, 0);
    tape.switch(9_000, 1, TaskState(0), SERVER);
    tape.reply(9_010);
    assert_eq!(blamed(&tape.explain(9_016)), (Kind::CannotTell, None));
    assert_eq!(blamed(&tape.explain_trip(&throttled(0, 1))), (Kind::Throttled, None));
}

#[test]
fn a_cpu_that_did_not_run_is_no_work() {
    // Its own clock did not advance.
    let mut tape = Tape::new();
    tape.request();
    tape.reply(8_010);
    let mut trip = trip(8_016);
    trip.server.as_mut().unwrap().counters.cpu_ns = Some(20_000);
    let explanation = tape.explain_trip(&trip);
    assert_eq!(blamed(&explanation), (Kind::Gap, None));
    assert!(explanation.flags.contains(&Flag::Gap));

    // The tick comes every 4 ms on a busy CPU, but none came for 30 ms.
    let mut tape = Tape::new();
    tape.switch(10, 1, TaskState(0), HOG);
    let kind = roundtrip_tracefs::Name(5);
    for tick in 1..=12 {
        tape.event(tick * 4_000, 1, Body::VectorEntry { kind });
        tape.event(tick * 4_000 + 1, 1, Body::VectorExit { kind });
    }
    let shifted = 49_000;
    tape.wake(shifted, 0, SERVER, 1);
    tape.switch(shifted + 2, 0, SLEEPS, 0);
    tape.switch(shifted + 3, 1, SLEEPS, SERVER);
    tape.event(shifted + 30_000, 1, Body::VectorEntry { kind });
    tape.event(shifted + 30_001, 1, Body::VectorExit { kind });
    tape.reply(shifted + 30_010);
    let start_ns = (shifted - 1) * 1000;
    let explanation = tape.explain_trip(&RoundTrip { start_ns, end_ns: (shifted + 30_016) * 1000, ..trip });
    assert_eq!(blamed(&explanation), (Kind::Gap, None));
}

#[test]
fn a_real_time_thread_that_waits_for_a_lesser_one_was_held_off() {
    let mut tape = Tape::new();
    tape.prios = vec![(CLIENT, 0), (SERVER, 0), (HOG, 120)];
    tape.switch(50, 1, SLEEPS, HOG);
    tape.wake(101, 0, SERVER, 1);
    tape.switch(102, 0, SLEEPS, 0);
    tape.switch(3_105, 1, PREEMPTED, SERVER);
    tape.reply(3_110);
    let explanation = tape.explain(3_116);
    assert_eq!(blamed(&explanation), (Kind::Competitor, Some(HOG)));
    assert!(explanation.flags.iter().any(|flag| matches!(flag, Flag::RealTimeHeldOff { .. })));
}

#[test]
fn a_server_that_serves_others_first_is_busy_and_only_then_asleep() {
    let mut tape = Tape::new();
    let transaction = |debug_id, to_proc, to_thread, reply| Body::BinderTransaction {
        debug_id,
        target_node: 5,
        to_proc,
        to_thread,
        reply,
        code: 1,
        flags: 0,
    };
    // Another caller's call sleeps in the server until 30 ms.
    tape.switch(10, 0, SLEEPS, HOLDER);
    tape.event(11, 0, transaction(7, 2, 0, false));
    tape.switch(12, 0, SLEEPS, CLIENT);
    tape.switch(13, 1, TaskState(0), SERVER);
    tape.event(14, 1, Body::BinderReceived { debug_id: 7 });
    tape.switch(20, 1, SLEEPS, 0);
    // The call is queued behind it, and sleeps for 20 ms in its turn.
    tape.event(101, 0, transaction(9, 2, 0, false));
    tape.switch(102, 0, SLEEPS, 0);
    tape.timer(30_000, 1, SERVER);
    tape.switch(30_003, 1, TaskState(0), SERVER);
    tape.event(30_005, 1, transaction(8, HOLDER, HOLDER, true));
    tape.event(30_010, 1, Body::BinderReceived { debug_id: 9 });
    tape.switch(30_020, 1, SLEEPS, 0);
    tape.timer(50_010, 1, SERVER);
    tape.switch(50_013, 1, TaskState(0), SERVER);
    tape.event(50_015, 1, transaction(10, 1, CLIENT, true));
    tape.reply(50_020);
    let mut trip = trip(50_026);
    (trip.received_ns, trip.replied_ns) = (Some(30_010_000), Some(50_015_000));
    let explanation = tape.explain_trip(&trip);
    let answer = explanation.reasons.answer();
    let named: Vec<_> =
        answer.named.iter().map(|named| (named.of.kind, named.of.lost_ns, named.then)).collect();
    assert_eq!(named, [(ReasonKind::BusyPool, 29_904_000, false), (ReasonKind::Sleep, 19_990_000, true)]);
    let busy = &answer.named[0].of.processes[0];
    assert_eq!(busy.process.as_ref().map(|process| process.name.as_str()), Some("holder"));
    assert_eq!(busy.reason(), &Reason::BusyPool { code: Some(1), call_ns: Some(29_991_000) });
}
