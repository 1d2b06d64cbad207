//! What is known if events are missing.

use roundtrip_layers::{
    CallCounters, Flag, Kind, Leg, RoundTrip, State, Timeline, Unknown, What, explain, explain_without_events,
};
use roundtrip_tracefs::{Body, Loss, Trace};

use super::{CLIENT, HOG, SERVER, SLEEPS, Tape, blamed, trip};

#[test]
fn where_events_were_lost_nobody_is_accused() {
    let mut tape = Tape::new();
    tape.request();
    tape.reply(9_010);
    tape.trace.losses.push(Loss {
        cpu: 1,
        after_ns: 106_000,
        before_ns: 9_000_000,
        events: Some(7),
        damaged: false,
    });
    let explanation = tape.explain(9_016);
    assert_eq!(blamed(&explanation), (Kind::CannotTell, None));
    assert!(explanation.flags.contains(&Flag::EventsLost));
    assert_eq!(explanation.main().unwrap().what, Some(What::Unknown(Unknown::EventsLost)));
}

#[test]
fn switches_that_the_kernel_did_not_record_are_counted() {
    let mut whole = Tape::new();
    whole.request();
    whole.reply(130);
    assert_eq!(Timeline::new(&whole.trace).unrecorded_switches(), 0);
    assert_eq!(whole.explain(136).flags, []);

    let mut tape = Tape::new();
    tape.request();
    // At 112 the server's CPU has another thread, and at 130 the server again, without switch
    // events.
    tape.current[1] = HOG;
    tape.event(112, 1, Body::SysEnter { number: 0, first: 0, third: 0, sixth: 0 });
    tape.current[1] = SERVER;
    tape.reply(130);
    assert_eq!(Timeline::new(&tape.trace).unrecorded_switches(), 2);
    assert_eq!(tape.explain(136).flags, [Flag::SwitchesUnrecorded { count: 2 }]);
    let before = tape.explain_trip(&RoundTrip { start_ns: 50_000, end_ns: 100_000, ..trip(136) });
    assert_eq!(before.flags, []);
    // If a recording has no switches at all, it was made or stored without them.
    tape.trace.events.retain(|event| !matches!(event.body, Body::Switch { .. }));
    assert_eq!(Timeline::new(&tape.trace).unrecorded_switches(), 0);
}

#[test]
fn the_serving_thread_is_found_by_its_wake_ups() {
    let mut tape = Tape::new();
    tape.request();
    tape.reply(3_010);
    let mut unknown = trip(3_016);
    unknown.server.as_mut().unwrap().tid = None;
    let explanation = tape.explain_trip(&unknown);
    assert_eq!(explanation.server.as_ref().map(|thread| thread.tid), Some(SERVER));
    assert_eq!(explanation, tape.explain(3_016));
}

#[test]
fn binders_own_events_mark_request_and_reply() {
    let mut tape = Tape::new();
    let transaction = |debug_id, to_proc, to_thread, reply| Body::BinderTransaction {
        debug_id,
        target_node: 3,
        to_proc,
        to_thread,
        reply,
        code: 1,
        flags: 0,
    };
    tape.event(100, 0, transaction(7, 2, 0, false));
    tape.request();
    tape.event(106, 1, Body::BinderReceived { debug_id: 7 });
    tape.event(3_009, 1, transaction(8, 1, CLIENT, true));
    tape.reply(3_010);
    let mut unknown = trip(3_016);
    unknown.server.as_mut().unwrap().tid = None;
    let explanation = tape.explain_trip(&unknown);
    assert_eq!(explanation.server.as_ref().map(|thread| thread.tid), Some(SERVER));
    assert_eq!((explanation.request_ns, explanation.reply_ns), (100_000, 3_009_000));
}

#[test]
fn a_cpu_that_records_no_switch_out_of_idle_is_believed_by_its_next_event() {
    let mut tape = Tape::new();
    tape.wake(101, 0, SERVER, 1);
    tape.switch(102, 0, SLEEPS, 0);
    // There is no switch to the server; it just runs.
    tape.current[1] = SERVER;
    tape.reply(3_010);
    let explanation = tape.explain(3_016);
    assert_eq!(blamed(&explanation), (Kind::Work, Some(SERVER)));
    assert!(explanation.parts.iter().all(|part| !matches!(part.state, State::Unknown { .. })));
}

#[test]
fn without_events_only_counters_and_stamps_are_told_and_that_is_said() {
    let mut trip = trip(9_000);
    (trip.received_ns, trip.replied_ns) = (Some(110_000), Some(8_990_000));
    let server = trip.server.as_mut().unwrap();
    server.counters = CallCounters { run_delay_ns: Some(8_000_000), ..CallCounters::default() };
    let explanation = explain_without_events(&trip);
    assert_eq!(explanation.flags, [Flag::NoEvents]);
    assert_eq!(explanation.parts.len(), 3);
    // It waited for a CPU; no event shows behind which thread.
    assert_eq!(blamed(&explanation), (Kind::Competitor, None));
    assert_eq!(explanation.reasons.answer().unknown_ns, 900_000);
    let server = trip.server.as_mut().unwrap();
    server.counters = CallCounters { cpu_ns: Some(8_500_000), ..CallCounters::default() };
    assert_eq!(blamed(&explain_without_events(&trip)).0, Kind::Work);
    server_asleep(&mut trip);
    let explanation = explain_without_events(&trip);
    assert_eq!(blamed(&explanation).0, Kind::CannotTell);
    let unknown = What::Unknown(Unknown::NoEventsFor(Leg::Handling));
    assert_eq!(explanation.main().unwrap().what, Some(unknown));
    // A recording without the scheduler's events counts as no recording.
    let trace = Trace::default();
    assert_eq!(explain(&Timeline::new(&trace), &trip), explanation);
}

fn server_asleep(trip: &mut RoundTrip) {
    trip.server.as_mut().unwrap().counters = CallCounters { cpu_ns: Some(5_000), ..CallCounters::default() };
}

#[test]
fn what_was_before_the_recording_began_is_not_lost() {
    let mut tape = Tape::new();
    tape.request();
    tape.reply(9_010);
    // The recording of the server's CPU begins when most of the call is over.
    tape.trace.events.retain(|event| event.cpu == 0 || event.time_ns >= 8_000_000);
    tape.trace.complete_from_ns = [(0, 0), (1, 8_000_000)].into();
    let explanation = tape.explain(9_016);
    assert!(explanation.flags.contains(&Flag::OutsideRecording), "{:?}", explanation.flags);
    assert!(!explanation.flags.contains(&Flag::EventsLost));
    assert_eq!(explanation.main().unwrap().what, Some(What::Unknown(Unknown::OutsideRecording)));
}
