//! Made-up schedules of writes, and why each did not move: what is said of a write is what
//! happened, also if events are missing.

use proptest::prelude::*;
use roundtrip_layers::reasons::{Io, Reason, Stretch};
use roundtrip_layers::storage::{Layer, Layers, Write, Writes};

use roundtrip_tracefs::{Body, Event, Trace};

use super::{COMPLETE, DISK, ISSUE, PARTITION, QUEUE, WRITER, devices};
use crate::written::Is::{Int, Long, Text};
use crate::written::Written;

const COMPILER: u32 = 200;
const LINKER: u32 = 201;
const WORKER: u32 = 95;
const JOURNAL: u32 = 90;
const DATABASE: u32 = 91;
const SOFTIRQS: u32 = 22;

fn name(tid: u32) -> &'static str {
    match tid {
        0 => "swapper",
        WRITER => "writer",
        COMPILER => "rustc",
        LINKER => "lld",
        WORKER => "kworker/1:1H",
        JOURNAL => "jbd2/sda3-8",
        DATABASE => "postgres",
        SOFTIRQS => "ksoftirqd/1",
        _ => "",
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Work(u32),
    Behind(u32),
    Device,
    Completion,
    Others(u32),
    OthersCommit(u32),
    Wakeup,
    /// Nothing is said.
    Unknown,
}

/// One step of a write.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The writer runs.
    Work(u64),
    /// The compiler preempts it.
    Preempted(u64),
    /// It writes, and sleeps until the device has answered.
    Request { issue: Issue, device: u64, finished: Finished, behind: u64 },
    /// It sleeps until the journal has written.
    Journal { behind: u64, works: u64, device: u64, late: u64, behind_after: u64 },
}

#[derive(Clone, Copy, Debug)]
enum Issue {
    Direct,
    /// A worker issues it, and is behind the linker before.
    ByWorker(u64),
    /// The device first finishes a request of the database.
    AfterOthers(u64),
}

#[derive(Clone, Copy, Debug)]
enum Finished {
    InInterrupt,
    /// The softirq thread completes it, and is behind the linker before.
    InThread(u64),
}

/// A schedule while it is made up. The writer is on CPU 0, its helpers on CPU 1.
struct Schedule {
    written: Written,
    now_ns: u64,
    sector: u64,
    truth: Vec<(u64, u64, Truth)>,
}

/// The state of a thread that waits for a device.
const SLEEPS: u64 = 2;

/// The time between two events of one action.
const TICK: u64 = 100;

impl Schedule {
    fn new() -> Self {
        let written = Written::default();
        let mut new = Self { written, now_ns: 10_000, sector: 0, truth: Vec::new() };
        new.switch(0, (0, 0), WRITER);
        new.switch(1, (0, 0), LINKER);
        // Threads and interrupts can be told apart only if softirqs are recorded.
        new.written.event(new.now_ns, 0, WRITER, "irq/softirq_entry", &[("vec", Int(7))]);
        new.now_ns += TICK;
        new.written.event(new.now_ns, 0, WRITER, "irq/softirq_exit", &[("vec", Int(7))]);
        new.now_ns += TICK;
        let fields = [("__syscall_nr", Int(1)), ("fd", Int(3))];
        new.written.event(new.now_ns, 0, WRITER, "syscalls/sys_enter_write", &fields);
        new.now_ns += TICK;
        new
    }

    fn pass(&mut self, ns: u64, truth: Truth) {
        self.truth.push((self.now_ns, self.now_ns + ns, truth));
        self.now_ns += ns;
    }

    fn switch(&mut self, cpu: u32, (prev, state): (u32, u64), next: u32) {
        let fields = [
            ("prev_comm", Text(name(prev))),
            ("prev_pid", Int(prev)),
            ("prev_prio", Int(120)),
            ("prev_state", Long(state)),
            ("next_comm", Text(name(next))),
            ("next_pid", Int(next)),
            ("next_prio", Int(120)),
        ];
        self.written.event(self.now_ns, cpu, prev, "sched/sched_switch", &fields);
    }

    /// A thread is woken, by what runs on a CPU, and is on its CPU's queue at once.
    fn wake(&mut self, cpu: u32, by: u32, woken: u32) {
        let target = u32::from(woken != WRITER);
        let fields = [
            ("comm", Text(name(woken))),
            ("pid", Int(woken)),
            ("prio", Int(120)),
            ("target_cpu", Int(target)),
        ];
        self.written.event(self.now_ns, cpu, by, "sched/sched_waking", &fields);
        self.written.event(self.now_ns, cpu, by, "sched/sched_wakeup", &fields);
    }

    fn block(&mut self, cpu: u32, tid: u32, kind: &'static str, sector: u64) {
        let dev = if kind == QUEUE { PARTITION } else { DISK };
        self.written.block(self.now_ns, cpu, tid, kind, dev, (sector, 8, "WS"));
    }

    /// Until a thread on CPU 1 has run behind the linker, which has the CPU.
    fn behind_linker(&mut self, thread: u32, ns: u64) {
        self.pass(ns, Truth::Behind(LINKER));
        self.switch(1, (LINKER, 0), thread);
    }

    fn interrupt(&mut self, kind: &'static str) {
        let fields = [("irq", Int(9)), ("name", Text("virtio0-req.0")), ("ret", Int(1))];
        self.written.event(self.now_ns, 1, LINKER, kind, &fields);
    }

    fn add(&mut self, step: Step) {
        match step {
            Step::Work(ns) => self.pass(ns, Truth::Work(WRITER)),
            Step::Preempted(ns) => {
                self.switch(0, (WRITER, 0), COMPILER);
                self.pass(ns, Truth::Behind(COMPILER));
                self.switch(0, (COMPILER, 0), WRITER);
            }
            Step::Request { issue, device, finished, behind } => {
                let sector = self.issue(issue);
                self.pass(device, Truth::Device);
                self.finish(sector, finished, behind);
            }
            Step::Journal { .. } => self.journal(step),
        }
    }

    /// The writer queues a request, which is issued. Returns its sector.
    fn issue(&mut self, issue: Issue) -> u64 {
        self.pass(TICK, Truth::Work(WRITER));
        self.sector += 100;
        let sector = self.sector;
        if let Issue::AfterOthers(_) = issue {
            self.block(1, DATABASE, QUEUE, sector + 50);
            self.block(1, DATABASE, ISSUE, sector + 50);
        }
        self.block(0, WRITER, QUEUE, sector);
        if let Issue::ByWorker(_) = issue {
            self.wake(0, WRITER, WORKER);
        }
        if let Issue::Direct = issue {
            self.block(0, WRITER, ISSUE, sector);
        }
        self.switch(0, (WRITER, SLEEPS), COMPILER);
        match issue {
            Issue::Direct => {}
            Issue::ByWorker(ns) => {
                self.behind_linker(WORKER, ns);
                self.pass(TICK, Truth::Work(WORKER));
                self.block(1, WORKER, ISSUE, sector);
                self.switch(1, (WORKER, 1), LINKER);
            }
            Issue::AfterOthers(ns) => {
                self.pass(ns, Truth::Others(DATABASE));
                self.interrupt("irq/irq_handler_entry");
                self.pass(TICK, Truth::Unknown);
                self.block(1, LINKER, COMPLETE, sector + 50);
                self.block(1, LINKER, ISSUE, sector);
                self.interrupt("irq/irq_handler_exit");
            }
        }
        sector
    }

    fn finish(&mut self, sector: u64, finished: Finished, behind: u64) {
        self.interrupt("irq/irq_handler_entry");
        match finished {
            Finished::InInterrupt => {
                self.pass(TICK, Truth::Completion);
                self.block(1, LINKER, COMPLETE, sector);
                self.wake(1, LINKER, WRITER);
                self.interrupt("irq/irq_handler_exit");
            }
            Finished::InThread(ns) => {
                self.pass(TICK, Truth::Completion);
                self.wake(1, LINKER, SOFTIRQS);
                self.interrupt("irq/irq_handler_exit");
                self.behind_linker(SOFTIRQS, ns);
                self.pass(TICK, Truth::Completion);
                self.block(1, SOFTIRQS, COMPLETE, sector);
                self.wake(1, SOFTIRQS, WRITER);
                self.switch(1, (SOFTIRQS, 1), LINKER);
            }
        }
        self.pass(behind, Truth::Behind(COMPILER));
        self.switch(0, (COMPILER, 0), WRITER);
        self.pass(TICK, Truth::Work(WRITER));
    }

    fn journal(&mut self, step: Step) {
        let Step::Journal { behind, works, device, late, behind_after } = step else { return };
        self.pass(TICK, Truth::Work(WRITER));
        self.wake(0, WRITER, JOURNAL);
        self.switch(0, (WRITER, SLEEPS), COMPILER);
        self.behind_linker(JOURNAL, behind);
        self.pass(works, Truth::Work(JOURNAL));
        self.sector += 100;
        let sector = self.sector;
        self.block(1, JOURNAL, QUEUE, sector);
        self.block(1, JOURNAL, ISSUE, sector);
        self.switch(1, (JOURNAL, SLEEPS), LINKER);
        self.pass(device, Truth::Device);
        self.interrupt("irq/irq_handler_entry");
        self.pass(TICK, Truth::Completion);
        self.block(1, LINKER, COMPLETE, sector);
        self.wake(1, LINKER, JOURNAL);
        self.interrupt("irq/irq_handler_exit");
        self.behind_linker(JOURNAL, late);
        self.pass(TICK, Truth::Work(JOURNAL));
        self.wake(1, JOURNAL, WRITER);
        self.switch(1, (JOURNAL, 1), LINKER);
        self.pass(behind_after, Truth::Behind(COMPILER));
        self.switch(0, (COMPILER, 0), WRITER);
        self.pass(TICK, Truth::Work(WRITER));
    }
}

/// What is said of a stretch.
fn said(stretch: &Stretch) -> Truth {
    let why = &stretch.why;
    let tid = why.thread.as_ref().map(|thread| thread.tid);
    match (&why.reason, tid) {
        (Reason::OwnWork, Some(tid)) => Truth::Work(tid),
        (Reason::Cpu, Some(tid)) => Truth::Behind(tid),
        (Reason::WakeUp { .. }, _) => Truth::Wakeup,
        (Reason::Interrupted { .. } | Reason::SoftirqThread { .. }, _) => Truth::Completion,
        (Reason::Device { .. }, _) => Truth::Device,
        (Reason::BehindIo { what: Io::Requests, .. }, Some(tid)) => Truth::Others(tid),
        (Reason::BehindIo { what: Io::Commit, .. }, Some(tid)) => Truth::OthersCommit(tid),
        _ => Truth::Unknown,
    }
}

/// A schedule of these steps, as its recording, and the write in it.
fn made(steps: &[Step]) -> (Schedule, Write) {
    let mut schedule = Schedule::new();
    let start_ns = schedule.now_ns;
    steps.iter().for_each(|&step| schedule.add(step));
    let write = Write { start_ns, end_ns: schedule.now_ns, tid: WRITER };
    schedule.now_ns += TICK;
    let fields = [("__syscall_nr", Int(1)), ("ret", Long(0))];
    schedule.written.event(schedule.now_ns, 0, WRITER, "syscalls/sys_exit_write", &fields);
    schedule.now_ns += TICK;
    schedule.switch(0, (WRITER, 1), 0);
    (schedule, write)
}

/// How long each thing happened and was said, of those for which both differ from one another. The
/// instants at which events happen at once are left out.
fn wrong(schedule: &Schedule, layers: &Layers) -> Vec<(u64, u64, Truth, Truth)> {
    let mut wrong = Vec::new();
    for &(begin_ns, end_ns, truth) in &schedule.truth {
        for stretch in &layers.reasons {
            let (from, to) = (stretch.begin_ns.max(begin_ns), stretch.end_ns.min(end_ns));
            let said = said(stretch);
            if from < to && said != truth && said != Truth::Unknown && truth != Truth::Unknown {
                wrong.push((from, to, truth, said));
            }
        }
    }
    wrong
}

fn unknown_ns(layers: &Layers) -> u64 {
    let unknown = layers.reasons.iter().filter(|stretch| said(stretch) == Truth::Unknown);
    unknown.map(|stretch| stretch.end_ns - stretch.begin_ns).sum()
}

fn explained(schedule: &mut Schedule, write: Write) -> Layers {
    explained_without(schedule, write, "")
}

/// From a recording without the events of one kind.
fn explained_without(schedule: &mut Schedule, write: Write, kind: &str) -> Layers {
    let mut trace = schedule.written.read();
    let is = |trace: &Trace, event: &Event| match event.body {
        Body::Switch { .. } => kind == "sched/sched_switch",
        Body::Waking { .. } => kind == "sched/sched_waking",
        Body::Wakeup { .. } => kind == "sched/sched_wakeup",
        Body::IrqEntry { .. } | Body::IrqExit { .. } => kind == "irq/irq_handler_entry",
        Body::SoftirqEntry { .. } | Body::SoftirqExit { .. } => kind == "irq/softirq_entry",
        Body::Other { event: name, .. } => trace.names.text(name) == kind,
        _ => false,
    };
    let (kept, dropped): (Vec<_>, Vec<_>) =
        trace.events.clone().into_iter().partition(|event| !is(&trace, event));
    assert_eq!(dropped.is_empty(), kind.is_empty(), "{kind}");
    trace.events = kept;
    trace.recorded.retain(|event| event != kind);
    Writes::new(&trace, devices(&[], &["virtio0-req.0"], 512)).layers(write)
}

fn any_step() -> impl Strategy<Value = Step> {
    let long = || 1_000_u64..3_000_000;
    let issue = prop_oneof![
        Just(Issue::Direct),
        long().prop_map(Issue::ByWorker),
        long().prop_map(Issue::AfterOthers)
    ];
    let finished = prop_oneof![Just(Finished::InInterrupt), long().prop_map(Finished::InThread)];
    prop_oneof![
        long().prop_map(Step::Work),
        long().prop_map(Step::Preempted),
        (issue, long(), finished, long()).prop_map(|(issue, device, finished, behind)| Step::Request {
            issue,
            device,
            finished,
            behind
        }),
        (long(), long(), long(), long(), long()).prop_map(|(behind, works, device, late, behind_after)| {
            Step::Journal { behind, works, device, late, behind_after }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_said_of_a_write_is_what_happened(steps in prop::collection::vec(any_step(), 1..8)) {
        let (mut schedule, write) = made(&steps);
        let layers = explained(&mut schedule, write);
        prop_assert_eq!(wrong(&schedule, &layers), []);
        // Except around the instants of events, nothing is unknown.
        prop_assert!(unknown_ns(&layers) <= 2 * TICK * steps.len() as u64, "{:#?}", layers.reasons);
    }
}

#[test]
fn without_an_event_less_is_said_and_nothing_wrong() {
    let steps = [
        Step::Work(5_000),
        Step::Request {
            issue: Issue::Direct,
            device: 300_000,
            finished: Finished::InInterrupt,
            behind: 70_000,
        },
        Step::Preempted(90_000),
        Step::Request {
            issue: Issue::ByWorker(400_000),
            device: 100_000,
            finished: Finished::InThread(200_000),
            behind: 80_000,
        },
        Step::Journal {
            behind: 500_000,
            works: 60_000,
            device: 90_000,
            late: 100_000,
            behind_after: 110_000,
        },
        Step::Request {
            issue: Issue::AfterOthers(600_000),
            device: 200_000,
            finished: Finished::InInterrupt,
            behind: 60_000,
        },
    ];
    let kinds = [
        "sched/sched_switch",
        "sched/sched_waking",
        "sched/sched_wakeup",
        "irq/irq_handler_entry",
        "irq/softirq_entry",
        QUEUE,
        ISSUE,
        COMPLETE,
    ];
    for kind in kinds {
        let (mut schedule, write) = made(&steps);
        let layers = explained_without(&mut schedule, write, kind);
        let wrong = wrong(&schedule, &layers);
        // Without the interrupt, the device seems to answer when the request is completed.
        let expected = |one: &(u64, u64, Truth, Truth)| {
            kind == "irq/irq_handler_entry" && (one.2, one.3) == (Truth::Completion, Truth::Device)
        };
        assert!(wrong.iter().all(expected), "without {kind}: {wrong:?}");
        let all_ns = write.end_ns - write.start_ns;
        let needed = ["sched/sched_switch", QUEUE, ISSUE, COMPLETE].contains(&kind);
        assert_eq!(unknown_ns(&layers) * 10 > all_ns, needed, "without {kind}: {:#?}", layers.reasons);
    }
}

#[test]
fn no_layer_hides_that_a_thread_waits_for_a_cpu() {
    const LONG: u64 = 5_000_000;
    let request = |issue, finished, behind| Step::Request { issue, device: 2_000, finished, behind };
    let cases = [
        (request(Issue::ByWorker(LONG), Finished::InInterrupt, 2_000), Layer::Block, LINKER),
        (request(Issue::Direct, Finished::InThread(LONG), 2_000), Layer::Irq, LINKER),
        (request(Issue::Direct, Finished::InInterrupt, LONG), Layer::Wake, COMPILER),
        (Step::Preempted(LONG), Layer::Preempted, COMPILER),
        (
            Step::Journal { behind: LONG, works: 2_000, device: 2_000, late: 2_000, behind_after: 2_000 },
            Layer::Wake,
            LINKER,
        ),
    ];
    for (step, layer, thread) in cases {
        let (mut schedule, write) = made(&[step]);
        let layers = explained(&mut schedule, write);
        assert!(layers.total_ns(layer) >= LONG, "{step:?}: {layers:#?}");
        let behind = layers.reasons.iter().filter(|stretch| said(stretch) == Truth::Behind(thread));
        let behind_ns: u64 = behind.map(|stretch| stretch.end_ns - stretch.begin_ns).sum();
        assert!(behind_ns >= LONG, "{step:?}: {layers:#?}");
    }
}
