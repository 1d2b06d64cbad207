//! What recordings of phones show although they lack events of interrupts, and of wakings.

use roundtrip_layers::reasons::ReasonKind;
use roundtrip_layers::storage::{Devices, Write, Writes};
use roundtrip_layers::{Explanation, Flag, Kind, RoundTrip, State, Unknown, What};
use roundtrip_tracefs::{Body, EventContext, TaskState};

use super::{CLIENT, HOLDER, SERVER, SLEEPS, Tape, blamed};

/// Without events of interrupts, and on request without `sched_waking`.
fn phone(wakings: bool) -> Tape {
    let mut tape = Tape::new();
    tape.trace.machine = "aarch64".into();
    let lacks = |event: &String| event.starts_with("irq") || !wakings && event.ends_with("sched_waking");
    tape.trace.recorded.retain(|event| !lacks(event));
    tape
}

/// The server waits for `HOLDER` from 108 to 4000; what `HOLDER` does until then is up to `holds`.
/// Flags say that threads do all of these wakeups.
fn held(mut tape: Tape, holds: impl Fn(&mut Tape)) -> Explanation {
    let thread = EventContext::Thread;
    tape.wake_in(101, 0, SERVER, 1, thread);
    tape.switch(102, 0, SLEEPS, 0);
    tape.switch(105, 1, TaskState(0), SERVER);
    tape.switch(108, 1, SLEEPS, 0);
    tape.switch(110, 0, TaskState(0), HOLDER);
    holds(&mut tape);
    tape.wake_in(4_000, 0, SERVER, 1, thread);
    tape.switch(4_002, 1, TaskState(0), SERVER);
    tape.wake_in(4_005, 1, CLIENT, 0, thread);
    tape.switch(4_006, 1, SLEEPS, 0);
    tape.switch(4_009, 0, SLEEPS, CLIENT);
    tape.event(4_059, 0, Body::SysEnter { number: 0, first: 0, third: 0, sixth: 0 });
    if !tape.trace.has("sched/sched_waking") {
        tape.trace.events.retain(|event| !matches!(event.body, Body::Waking { .. }));
    }
    tape.explain(4_011)
}

#[test]
fn an_events_own_flags_name_the_waker_without_events_of_interrupts() {
    for wakings in [true, false] {
        assert_eq!(blamed(&held(phone(wakings), |_| ())), (Kind::WaitedFor, Some(HOLDER)));
    }
    let mut tape = phone(true);
    tape.request();
    tape.switch(108, 1, SLEEPS, 0);
    tape.switch(110, 0, TaskState(0), HOLDER);
    tape.wake_in(4_000, 0, SERVER, 1, EventContext::Interrupt);
    tape.switch(4_002, 1, TaskState(0), SERVER);
    tape.reply(4_005);
    let explanation = tape.explain(4_011);
    assert_eq!(blamed(&explanation), (Kind::CannotTell, None), "the thread below it is no waker");
    assert_eq!(explanation.main().unwrap().what, Some(What::Unknown(Unknown::WakingInterrupt)));
}

#[test]
fn a_chain_up_to_an_unrecorded_interrupt_names_its_last_thread() {
    let explanation = held(phone(true), |tape| {
        tape.switch(120, 0, SLEEPS, 0);
        tape.wake_in(3_900, 0, HOLDER, 0, EventContext::Interrupt);
        tape.switch(3_901, 0, TaskState(0), HOLDER);
    });
    assert_eq!(blamed(&explanation), (Kind::WaitedFor, Some(HOLDER)));
    assert_eq!(explanation.main().unwrap().what, Some(What::Unknown(Unknown::WakingInterrupt)));
}

#[test]
fn without_wakings_a_wakeup_in_an_interrupt_of_its_own_cpu_may_be_another_cpus() {
    let woken_on = |cpu: u32| {
        held(phone(false), |tape| {
            tape.switch(120, 0, SLEEPS, 0);
            tape.wake_in(3_900, cpu, HOLDER, 0, EventContext::Interrupt);
            tape.switch(3_901, 0, TaskState(0), HOLDER);
        })
    };
    let lacks = |explanation: &Explanation| explanation.main().unwrap().what.clone();
    let (own, other) = (woken_on(0), woken_on(1));
    assert_eq!((blamed(&own), blamed(&other)), ((Kind::WaitedFor, Some(HOLDER)), blamed(&own)));
    assert_eq!(lacks(&own), Some(What::Unknown(Unknown::OtherCpu)));
    assert_eq!(lacks(&other), Some(What::Unknown(Unknown::WakingInterrupt)));
}

#[test]
fn the_next_event_shows_whether_a_thread_that_left_in_an_unknown_state_waited() {
    let explanation = held(phone(true), |tape| {
        tape.switch(120, 0, TaskState::UNKNOWN, 0);
        tape.wake_in(3_900, 0, HOLDER, 0, EventContext::Interrupt);
        tape.switch(3_901, 0, TaskState(0), HOLDER);
    });
    assert_eq!(explanation.main().unwrap().what, Some(What::Unknown(Unknown::WakingInterrupt)));
    let explanation = held(phone(true), |tape| {
        tape.switch(120, 0, TaskState::UNKNOWN, super::HOG);
        tape.switch(3_900, 0, SLEEPS, HOLDER);
    });
    assert_eq!(blamed(&explanation), (Kind::Competitor, Some(super::HOG)));
}

#[test]
fn a_number_that_two_programs_had_one_after_the_other_has_the_name_of_its_time() {
    let mut tape = phone(true);
    tape.request();
    tape.reply(3_010);
    let mut later = tape.thread(SERVER);
    later.comm = tape.trace.names.intern("newcomer");
    let prev = tape.thread(0);
    tape.event(9_000, 1, Body::Switch { prev, prev_state: TaskState(0), next: later });
    let explanation = tape.explain(3_016);
    assert_eq!(explanation.server.map(|thread| thread.comm).as_deref(), Some("server"));
}

/// A call of 3 ms of work on CPU 1, at this frequency of 2 GHz.
fn worked_at(khz: u32) -> Explanation {
    let mut tape = phone(true);
    tape.event(4, 1, Body::Frequency { cpu: 1, khz: 2_000_000 });
    tape.event(5, 1, Body::Frequency { cpu: 1, khz });
    tape.request();
    tape.reply(3_105);
    tape.explain(3_111)
}

#[test]
fn work_on_a_slow_cpu_says_how_much_its_frequency_cost() {
    assert_eq!(worked_at(1_900_000).flags, []);
    let lost_ns = 2_250_750;
    let flag = Flag::SlowCpu { cpu: 1, khz: 500_000, most_khz: 2_000_000, lost_ns };
    assert_eq!(worked_at(500_000).flags, [flag]);
}

#[test]
fn a_low_frequency_is_a_cause_of_the_work_that_it_made_longer_and_no_other_is() {
    let explanation = worked_at(500_000);
    let main = explanation.main().unwrap();
    assert_eq!((main.kind, main.cpu, main.excess_ns), (Kind::SlowCpu, Some(1), 2_250_750));
    assert_eq!(explanation.reasons.of_kind(ReasonKind::SlowCpu).unwrap().sum_ns, 2_250_750);
    assert_eq!(explanation.causes[1].kind, Kind::Work);
    let explanation = worked_at(1_900_000);
    assert_eq!(explanation.main().unwrap().kind, Kind::Work);
    assert!(explanation.reasons.of_kind(ReasonKind::SlowCpu).is_none());
}

#[test]
fn usual_work_is_taken_off_before_what_a_low_frequency_added() {
    let mut tape = phone(true);
    tape.event(4, 1, Body::Frequency { cpu: 1, khz: 1_500_000 });
    tape.event(5, 1, Body::Frequency { cpu: 1, khz: 500_000 });
    tape.request();
    tape.reply(3_105);
    let trip = RoundTrip { usual_ns: Some(1_100_000), ..super::trip(3_111) };
    let explanation = tape.explain_trip(&trip);
    let causes: Vec<_> = explanation.causes.iter().map(|cause| cause.kind).collect();
    assert_eq!(causes, [Kind::SlowCpu], "the same work at a third of the frequency");
}

#[test]
fn nothing_is_slow_while_it_waits_or_where_no_event_gives_a_frequency() {
    let explained = |of: u32| {
        let mut tape = phone(true);
        tape.event(4, 1, Body::Frequency { cpu: of, khz: 2_000_000 });
        tape.event(5, 1, Body::Frequency { cpu: of, khz: 500_000 });
        tape.request();
        tape.switch(108, 1, super::WAITS, 0);
        tape.wake_in(3_000, 1, SERVER, 1, EventContext::Interrupt);
        tape.switch(3_003, 1, TaskState(0), SERVER);
        tape.reply(3_010);
        tape.explain(3_016)
    };
    for cpu in [1, 3] {
        let explanation = explained(cpu);
        assert!(explanation.reasons.of_kind(ReasonKind::SlowCpu).is_none(), "{explanation:?}");
        assert_eq!(explanation.flags, []);
    }
}

/// A call that waits for a thread on CPU 0, which then has this frequency of 2 GHz.
fn held_at(khz: u32) -> (Tape, Explanation) {
    let mut tape = phone(true);
    tape.event(4, 0, Body::Frequency { cpu: 0, khz: 2_000_000 });
    tape.event(5, 0, Body::Frequency { cpu: 0, khz });
    tape.request();
    tape.switch(108, 1, SLEEPS, 0);
    tape.switch(110, 0, TaskState(0), HOLDER);
    tape.wake_in(4_110, 0, SERVER, 1, EventContext::Thread);
    tape.switch(4_112, 1, TaskState(0), SERVER);
    tape.wake_in(4_115, 1, CLIENT, 0, EventContext::Thread);
    tape.switch(4_116, 1, SLEEPS, 0);
    tape.switch(4_119, 0, SLEEPS, CLIENT);
    tape.event(4_169, 0, Body::SysEnter { number: 0, first: 0, third: 0, sixth: 0 });
    let explanation = tape.explain(4_121);
    (tape, explanation)
}

#[test]
fn a_low_frequency_also_slows_the_work_of_a_thread_that_a_call_waited_for() {
    let (_, explanation) = held_at(500_000);
    let main = explanation.main().unwrap();
    let via: Vec<u32> = main.via.iter().map(|thread| thread.tid).collect();
    assert_eq!((main.kind, main.cpu, via), (Kind::SlowCpu, Some(0), vec![HOLDER]));
    let sum_ns = explanation.reasons.of_kind(ReasonKind::SlowCpu).unwrap().sum_ns;
    assert!((3_000_000..3_010_000).contains(&sum_ns), "{sum_ns}");
    let (_, explanation) = held_at(1_900_000);
    assert_eq!(blamed(&explanation), (Kind::WaitedFor, Some(HOLDER)));
    assert!(explanation.reasons.of_kind(ReasonKind::SlowCpu).is_none());
}

#[test]
fn a_low_frequency_also_slows_writes_and_the_threads_that_they_wait_for() {
    for (khz, lost_ns) in [(500_000, Some(3_000_000)), (1_900_000, None)] {
        let (tape, _) = held_at(khz);
        let writes = Writes::new(&tape.trace, Devices::default());
        let lost = |tid, start_us: u64, end_us: u64| {
            let write = Write { start_ns: start_us * 1000, end_ns: end_us * 1000, tid };
            writes.layers(write).summed().of_kind(ReasonKind::SlowCpu).map(|of| of.sum_ns)
        };
        assert_eq!(lost(HOLDER, 110, 4_110), lost_ns, "its own work");
        assert_eq!(lost(SERVER, 106, 4_114), lost_ns, "the holder's");
    }
}

#[test]
fn the_idle_state_is_named_that_the_cpu_was_in_when_the_thread_was_woken() {
    let woken = |left_us: u64| {
        let mut tape = phone(true);
        tape.event(50, 1, Body::Idle { cpu: 1, state: Some(2) });
        tape.wake(101, 0, SERVER, 1);
        tape.switch(102, 0, SLEEPS, 0);
        tape.event(left_us, 1, Body::Idle { cpu: 1, state: None });
        tape.switch(500, 1, TaskState(0), SERVER);
        tape.reply(510);
        tape.trace.events.sort_by_key(|event| event.time_ns);
        let explanation = tape.explain(516);
        let states = explanation.parts.iter().filter_map(|part| match part.state {
            State::IdleExit { state } => Some((part.duration_ns() > 300_000, state)),
            _ => None,
        });
        let long = states.clone().find(|(long, _)| *long).expect("a long one");
        assert_eq!(explanation.main().unwrap().kind, Kind::WakeUp);
        long.1
    };
    assert_eq!(woken(450), Some(2));
    assert_eq!(woken(90), None, "the CPU had left it before");
}

#[test]
fn a_32_bit_programs_wait_is_named_by_its_own_numbers_or_not_at_all() {
    let waited_in = |known: Option<i64>| {
        let mut tape = phone(true);
        tape.trace.recorded.push("raw_syscalls/sys_enter".into());
        let enter = |number| Body::SysEnter { number, first: 0, third: 0, sixth: 0 };
        tape.event(90, 0, enter(322));
        tape.request();
        known.into_iter().for_each(|number| tape.event(106, 1, enter(number)));
        tape.event(107, 1, enter(162));
        tape.switch(108, 1, SLEEPS, 0);
        tape.wake_in(3_000, 1, SERVER, 1, EventContext::Interrupt);
        tape.switch(3_003, 1, TaskState(0), SERVER);
        tape.event(3_004, 1, Body::SysExit { number: 162, result: 0 });
        tape.reply(3_010);
        let explanation = tape.explain(3_016);
        let call = explanation.parts.iter().find_map(|part| match part.state {
            State::Blocked { system_call, .. } => system_call,
            _ => None,
        });
        call.expect("a system call").name
    };
    // 162 is nanosleep of a 32-bit program, and setdomainname of a 64-bit one.
    assert_eq!(waited_in(Some(322)), Some("nanosleep"));
    assert_eq!(waited_in(Some(98)), None);
    assert_eq!(waited_in(None), None);
}

#[test]
fn a_wait_that_the_kernel_counts_as_io_is_for_a_device_and_names_the_function() {
    let mut tape = phone(true);
    tape.request();
    tape.switch(108, 1, super::WAITS, 0);
    let caller = tape.trace.names.intern("wait_on_page_bit");
    tape.wake_in(3_000, 1, SERVER, 1, EventContext::Softirq);
    tape.event(3_001, 1, Body::BlockedReason { tid: SERVER, io_wait: true, caller });
    tape.switch(3_003, 1, TaskState(0), SERVER);
    tape.reply(3_010);
    let explanation = tape.explain(3_016);
    let main = explanation.main().unwrap();
    assert_eq!((main.kind, &main.what), (Kind::Io, &Some(What::BlockDevice)));
    assert_eq!(main.function.as_deref(), Some("wait_on_page_bit"));
}

#[test]
fn a_frozen_thread_is_stopped_and_whoever_thaws_it_is_not_to_blame() {
    let mut tape = phone(true);
    tape.request();
    tape.switch(108, 1, super::WAITS, 0);
    tape.switch(110, 0, TaskState(0), HOLDER);
    let caller = tape.trace.names.intern("__refrigerator");
    tape.wake_in(3_000, 0, SERVER, 1, EventContext::Thread);
    tape.event(3_001, 0, Body::BlockedReason { tid: SERVER, io_wait: false, caller });
    tape.switch(3_003, 1, TaskState(0), SERVER);
    tape.reply(3_010);
    let explanation = tape.explain(3_016);
    assert_eq!(blamed(&explanation), (Kind::Stopped, Some(HOLDER)));
    assert_eq!(explanation.main().unwrap().what, Some(What::Frozen("server".into())));
}
