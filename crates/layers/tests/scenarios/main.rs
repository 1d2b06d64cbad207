//! How the kernel records each cause, and how the analysis names it. Times are in microseconds. The
//! client (tid 10, process 1) is on CPU 0, the server (tid 20, process 2) on CPU 1.

mod causes;
mod groups;
mod incomplete;
mod phones;

use roundtrip_layers::{Explanation, Kind, RoundTrip, Side, Timeline, explain};
use roundtrip_tracefs::{Body, Event, EventContext, TaskState, ThreadRef, Trace};

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
        ThreadRef { tid, prio, comm: roundtrip_tracefs::Name(tid / 10) }
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
        self.wake_in(us, cpu, tid, target_cpu, EventContext::Unknown);
    }

    /// The same, with what the events' flags say.
    fn wake_in(&mut self, us: u64, cpu: u32, tid: u32, target_cpu: u32, context: EventContext) {
        let thread = self.thread(tid);
        self.event(us, cpu, Body::Waking { thread, target_cpu, context });
        self.event(us, cpu, Body::Wakeup { thread, target_cpu, new: false, context });
    }

    /// The timer interrupt wakes a thread.
    fn timer(&mut self, us: u64, cpu: u32, tid: u32) {
        let kind = roundtrip_tracefs::Name(5);
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

    /// The server replies, and the client runs 4 later.
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
        let sum: u64 = explanation.parts.iter().map(roundtrip_layers::Part::duration_ns).sum();
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
