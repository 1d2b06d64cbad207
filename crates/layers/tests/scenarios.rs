//! How the kernel records each cause, and how it is named. Times are in microseconds. The client
//! (tid 10, process 1) is on CPU 0, the server (20, process 2) on CPU 1.

use layers::{
    Counters, Explanation, Flag, Interrupt, Kind, Leg, Owner, RoundTrip, Side, Softirq, State, Timeline,
    Unknown, What, explain, explain_without_events,
};
use tracefs::{Body, Event, Loss, TaskState, ThreadRef, Trace};

const CLIENT: u32 = 10;
const SERVER: u32 = 20;
const HOG: u32 = 30;
const HOLDER: u32 = 40;

const SLEEPS: TaskState = TaskState(1);
const WAITS: TaskState = TaskState(2);
const STOPPED: TaskState = TaskState(4);
const PREEMPTED: TaskState = TaskState::PREEMPTED;

/// A recording in progress.
struct Tape {
    trace: Trace,
    current: [u32; 2],
    prios: Vec<(u32, i32)>,
}

impl Tape {
    /// The client runs, and the server sleeps.
    fn new() -> Self {
        let recorded = [
            "sched/sched_switch",
            "sched/sched_waking",
            "sched/sched_wakeup",
            "sched/sched_migrate_task",
            "irq/irq_handler_entry",
            "irq/softirq_entry",
            "irq_vectors/local_timer_entry",
        ];
        let mut trace = Trace {
            recorded: recorded.map(str::to_owned).into(),
            machine: "x86_64".into(),
            processes: [(CLIENT, 1), (SERVER, 2)].into(),
            ..Trace::default()
        };
        for name in ["client", "server", "hog", "holder", "local_timer", "virtio0"] {
            trace.names.intern(name);
        }
        let mut tape = Self { trace, current: [0, 0], prios: Vec::new() };
        tape.switch(1, 0, SLEEPS, CLIENT);
        tape.switch(2, 1, SLEEPS, SERVER);
        tape.switch(3, 1, SLEEPS, 0);
        tape
    }

    fn thread(&self, tid: u32) -> ThreadRef {
        let prio = self.prios.iter().rfind(|(of, _)| *of == tid).map_or(120, |(_, prio)| *prio);
        ThreadRef { tid, prio, comm: tracefs::Name(tid / 10) }
    }

    fn event(&mut self, us: u64, cpu: u32, body: Body) {
        let tid = self.current[cpu as usize];
        self.trace.events.push(Event { time_ns: us * 1000, cpu, tid, body });
    }

    fn switch(&mut self, us: u64, cpu: u32, prev_state: TaskState, next: u32) {
        let prev = self.thread(self.current[cpu as usize]);
        let next = self.thread(next);
        self.event(us, cpu, Body::Switch { prev, prev_state, next });
        self.current[cpu as usize] = next.tid;
    }

    /// Woken on one CPU, and queued on another.
    fn wake(&mut self, us: u64, cpu: u32, tid: u32, target_cpu: u32) {
        let thread = self.thread(tid);
        self.event(us, cpu, Body::Waking { thread, target_cpu });
        self.event(us, cpu, Body::Wakeup { thread, target_cpu, new: false });
    }

    /// The timer interrupt wakes a thread.
    fn timer(&mut self, us: u64, cpu: u32, tid: u32) {
        let kind = tracefs::Name(5);
        self.event(us, cpu, Body::VectorEntry { kind });
        self.wake(us, cpu, tid, cpu);
        self.event(us, cpu, Body::VectorExit { kind });
    }

    /// The client calls at 100 and sleeps from 102 on; the server runs from 105 on.
    fn request(&mut self) {
        self.wake(101, 0, SERVER, 1);
        self.switch(102, 0, SLEEPS, 0);
        self.switch(105, 1, TaskState(0), SERVER);
    }

    /// The server replies; the client runs 4 later.
    fn reply(&mut self, us: u64) {
        self.wake(us, 1, CLIENT, 0);
        self.switch(us + 1, 1, SLEEPS, 0);
        self.switch(us + 4, 0, TaskState(0), CLIENT);
        self.event(us + 50, 0, Body::SysEnter { number: 0, first: 0, third: 0, sixth: 0 });
    }

    fn explain(&self, end_us: u64) -> Explanation {
        self.explain_trip(&trip(end_us))
    }

    fn explain_trip(&self, trip: &RoundTrip) -> Explanation {
        let explanation = explain(&Timeline::new(&self.trace), trip);
        let sum: u64 = explanation.parts.iter().map(layers::Part::duration_ns).sum();
        assert_eq!(sum, trip.duration_ns());
        explanation
    }
}

fn trip(end_us: u64) -> RoundTrip {
    RoundTrip {
        start_ns: 100_000,
        end_ns: end_us * 1000,
        client: Side { pid: 1, tid: Some(CLIENT), ..Side::default() },
        server: Some(Side { pid: 2, tid: Some(SERVER), ..Side::default() }),
        usual_ns: Some(20_000),
        ..RoundTrip::default()
    }
}

fn blamed(explanation: &Explanation) -> (Kind, Option<u32>) {
    let main = explanation.main().expect("there is always an answer");
    (main.kind, main.thread.as_ref().map(|thread| thread.tid))
}

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
                (Owner::Server, 4, State::IdleExit),
                (Owner::Server, 5, State::Running),
                (Owner::Client, 4, State::IdleExit),
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
            .any(|flag| matches!(flag, Flag::PriorityInversion { thread } if thread.tid == HOG))
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
    tape.event(3_000, 1, Body::IrqEntry { irq: 9, name: tracefs::Name(6) });
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
            Counters { since_ns: Some(since_ns), throttled, throttled_ns, ..Counters::default() };
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

    // The tick comes every 4 ms on a busy CPU, and was missing for 30 ms.
    let mut tape = Tape::new();
    tape.switch(10, 1, TaskState(0), HOG);
    let kind = tracefs::Name(5);
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
    // A recording without any switches was made or stored without them.
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
fn without_events_only_counters_and_stamps_are_told_and_that_is_said() {
    let mut trip = trip(9_000);
    (trip.received_ns, trip.replied_ns) = (Some(110_000), Some(8_990_000));
    let server = trip.server.as_mut().unwrap();
    server.counters = Counters { run_delay_ns: Some(8_000_000), ..Counters::default() };
    let explanation = explain_without_events(&trip);
    assert_eq!(explanation.flags, [Flag::NoEvents]);
    assert_eq!(explanation.parts.len(), 3);
    let waited = What::Unknown(Unknown::WaitedForCpu(Owner::Server));
    assert_eq!(blamed(&explanation), (Kind::CannotTell, None));
    assert_eq!(explanation.main().unwrap().what, Some(waited));
    let server = trip.server.as_mut().unwrap();
    server.counters = Counters { cpu_ns: Some(8_500_000), ..Counters::default() };
    assert_eq!(blamed(&explain_without_events(&trip)).0, Kind::Work);
    server_asleep(&mut trip);
    let explanation = explain_without_events(&trip);
    assert_eq!(blamed(&explanation).0, Kind::CannotTell);
    let longest = What::Unknown(Unknown::LongestLeg(Leg::Handling));
    assert_eq!(explanation.main().unwrap().what, Some(longest));
    // A recording without the scheduler's events counts as none.
    let trace = Trace::default();
    assert_eq!(explain(&Timeline::new(&trace), &trip), explanation);
}

fn server_asleep(trip: &mut RoundTrip) {
    trip.server.as_mut().unwrap().counters = Counters { cpu_ns: Some(5_000), ..Counters::default() };
}
