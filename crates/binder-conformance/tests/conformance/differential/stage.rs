//! The stage: replays sequences on one device, and reports the result of each step and the state
//! after it.
//!
//! Work may reach a sleeping thread in pieces (a dying process releases its objects one by one).
//! The scheduler decides how many pieces the thread's read finds, so the rest is read immediately.
//! For the same reason commands run one by one while threads sleep.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use roundtrip_binder_driver::sched_attr::SchedAttr;
use roundtrip_binder_driver::uapi::{BR_OK, FrozenStatusInfo};
use roundtrip_binder_driver::{Commands, Error, NodeInfo, Return, Returns};

use super::describe::{self, Array, Holdings};
use super::exchange::{Outcome, attr_of, errno, exchange_now, schedule};
use super::orders::{MARK, number_of, queue};
use super::payload::Built;
use super::sleepers::{Place, Sleepers};
use super::state::{self, Names};
use super::steps::{Act, Order, PROCESSES, Reading, Step, THREADS};
use super::worker::Worker;
use crate::{Device, Sequential};

/// Small, so that areas run full.
const AREA_BYTES: u64 = 16 << 10;

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepResult {
    /// The returns and errors, the thread's policy and nice value afterwards, and what sleeping
    /// threads have read, as text.
    pub(super) text: String,
    /// The driver's state afterwards; empty if it was not read.
    pub(super) state: String,
    /// The scheduler decides the result of this step: see [`sleepers`](super::sleepers).
    pub(super) undetermined: bool,
}

/// After which steps the driver's state is read. Reading it has side effects, so it must happen
/// after the same steps on both drivers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Looking {
    Never,
    /// After every third step, each death and the last step.
    Sometimes,
    Always,
}

/// The text for an exchange that has not ended.
pub(super) const ASLEEP: &str = "asleep";

pub(super) struct Stage<D> {
    pub(super) device: D,
    workers: Vec<Vec<Worker>>,
}

/// One process of a sequence.
#[derive(Default)]
struct Process {
    opened: Option<Opened>,
    holdings: Holdings,
    /// Its process id in the driver, even after it has closed.
    pid: u32,
}

struct Opened {
    driver: Arc<dyn Sequential>,
    number: String,
}

impl<D: Device> Stage<D> {
    pub(super) fn new() -> Self {
        let workers = (0..PROCESSES).map(|_| (0..THREADS).map(|_| Worker::start()).collect()).collect();
        Self { device: D::new(), workers }
    }

    /// Replays a sequence from the beginning: all processes opened, the first one the context
    /// manager.
    pub(super) fn replay(&self, steps: &[Step], looking: Looking) -> Vec<StepResult> {
        let mut run = Run {
            stage: self,
            processes: Vec::new(),
            names: Names::default(),
            sleepers: Sleepers::default(),
            undetermined: false,
        };
        for (index, threads) in self.workers.iter().enumerate() {
            let tids = threads.iter().map(|worker| worker.tid.to_string());
            run.names.threads.extend(tids.zip(index * THREADS..));
            run.processes.push(Process::default());
            run.open(index);
        }
        let manager = Step { process: 0, thread: 0, act: Act::BecomeManager(0x100) };
        run.carry_out(&manager, 0);
        let mut results = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let mut text = run.step(step, at);
            let looks = match looking {
                Looking::Never => false,
                Looking::Sometimes => at % 3 == 2 || at + 1 == steps.len() || matches!(step.act, Act::Close),
                Looking::Always => true,
            };
            let state = if looks { run.look(&mut text) } else { String::new() };
            let undetermined = run.undetermined;
            results.push(StepResult { text, state, undetermined });
            if undetermined {
                break;
            }
        }
        (0..PROCESSES).for_each(|index| drop(run.close(index)));
        if steps.iter().any(|step| matches!(step.act, Act::Nice(_) | Act::Policy(_))) {
            for worker in self.workers.iter().flatten() {
                worker.run(|_| schedule(&SchedAttr::default())).expect("permission to schedule");
            }
        }
        results
    }
}

struct Run<'s, D> {
    stage: &'s Stage<D>,
    processes: Vec<Process>,
    names: Names,
    sleepers: Sleepers,
    /// The scheduler decides the result of this step.
    undetermined: bool,
}

impl<D: Device> Run<'_, D> {
    fn open(&mut self, index: usize) {
        let driver = self.stage.device.open_for_sequences(AREA_BYTES);
        driver.set_waiting(false);
        let number = self.stage.device.last_number();
        self.names.processes.insert(number.clone(), index);
        let pid = self.stage.device.last_opener().cast_unsigned();
        self.processes[index] =
            Process { opened: Some(Opened { driver, number }), holdings: Holdings::default(), pid };
    }

    /// Closes a process's device. Returns what its sleeping threads have read.
    fn close(&mut self, index: usize) -> String {
        let text = self.interrupt(index);
        if let Some(Opened { driver, number }) = self.processes[index].opened.take() {
            assert_eq!(Arc::strong_count(&driver), 1, "a worker still holds the driver");
            drop(driver);
            self.stage.device.wait_until_released(&number);
            self.names.processes.remove(&number);
        }
        self.processes[index].holdings.arrays.drain(..).for_each(|array| array.close());
        text
    }

    /// Ends the reads of a process's sleeping threads, as a signal would. Returns what they have
    /// read.
    fn interrupt(&mut self, index: usize) -> String {
        if !self.sleepers.any_of(index) {
            return String::new();
        }
        self.driver(index).interrupt();
        let ended = self.sleepers.end_all_of(index);
        // If several threads return, the last one finds no waiting thread and gets BR_SPAWN_LOOPER.
        // The scheduler decides which thread that is.
        let asked = |ended: &(Place, Outcome)| ended.1.returns.contains(&Return::SpawnLooper);
        self.undetermined |= ended.len() > 1 && ended.iter().any(asked);
        ended.into_iter().map(|ended| self.describe_sleeper(ended, "interrupted")).collect()
    }

    fn describe_sleeper(&mut self, (place, outcome): (Place, Outcome), how: &str) -> String {
        format!(" | t{} {how}: {}", place.0 * THREADS + place.1, self.describe(place.0, &outcome))
    }

    /// The state. Reading it may queue work for sleeping threads (see `Guard::state` in the
    /// emulated driver). What the threads that this wakes have read is appended to `text`.
    fn look(&mut self, text: &mut String) -> String {
        let sleep: Vec<usize> = (0..PROCESSES).filter(|&index| self.sleepers.any_of(index)).collect();
        let state = state::of_sequence(&self.stage.device.state(), &self.names, &sleep);
        *text += &self.take_woken();
        state
    }

    /// Carries out one step. Returns its result, and what the threads that it woke have read.
    fn step(&mut self, step: &Step, at: usize) -> String {
        let place = (step.process, step.thread);
        let mut others = String::new();
        if self.sleepers.has(place) && !matches!(step.act, Act::Close) {
            others = self.interrupt(step.process);
        }
        let before = self.sleepers.counts();
        let own = match &step.act {
            Act::Exchange { orders, read } if self.must_split(orders, *read, place) => {
                let single = orders.iter().map(std::slice::from_ref);
                let writes = single.map(|order| (order, Reading::Nothing));
                let reads = (*read != Reading::Nothing).then_some((&[][..], *read));
                let mut own = String::new();
                for (orders, read) in writes.chain(reads) {
                    own += &self.exchange(place, orders, read, 8 * at);
                    others += &self.take_woken();
                }
                own
            }
            _ => self.carry_out(step, at),
        };
        others += &self.take_woken();
        self.undetermined |= self.sleepers.both_woke(&before);
        own + &others
    }

    /// Whether an exchange must be split into single commands: another thread could take the work
    /// that it queues for its own process, or find that work in pieces.
    fn must_split(&self, orders: &[Order], read: Reading, place: Place) -> bool {
        let parts = orders.len() + usize::from(read != Reading::Nothing);
        let reads_too = !orders.is_empty() && read != Reading::Nothing;
        parts > 1
            && ((orders.len() > 1 && !self.sleepers.is_empty())
                || (reads_too && self.sleepers.any_of(place.0)))
    }

    /// What the woken threads have read. They also read the rest, until nothing is left.
    fn take_woken(&mut self) -> String {
        let mut text = String::new();
        for (place, mut outcome) in self.sleepers.ended() {
            // This ends, because reading work queues no further work.
            loop {
                let (driver, worker) = (self.driver(place.0), self.worker(place));
                let read = move |returns: &mut Returns| {
                    exchange_now(&*driver, Commands::default(), &[], Some(returns))
                };
                let more = worker.run(read);
                outcome.scheduled = more.scheduled;
                outcome.returns.extend(more.returns);
                if more.result.is_err() {
                    break;
                }
            }
            text += &self.describe_sleeper((place, outcome), "woke");
        }
        text
    }

    fn driver(&self, process: usize) -> Arc<dyn Sequential> {
        Arc::clone(&self.processes[process].opened.as_ref().expect("an opened device").driver)
    }

    fn worker(&self, place: Place) -> &Worker {
        &self.stage.workers[place.0][place.1]
    }

    /// Carries out a step whose exchange, if it is one, needs no splitting.
    fn carry_out(&mut self, step: &Step, at: usize) -> String {
        if matches!(step.act, Act::Close) {
            return "closed".to_owned() + &self.close(step.process);
        }
        if self.processes[step.process].opened.is_none() {
            self.open(step.process);
        }
        let place = (step.process, step.thread);
        match step.act {
            Act::Close => unreachable!("done above"),
            Act::Exchange { ref orders, read } => self.exchange(place, orders, read, 8 * at),
            Act::LeaveThread | Act::Nice(_) | Act::Policy(_) => self.change_thread(place, &step.act),
            Act::BecomeManager(flags) => {
                self.ioctl(place, move |driver| driver.become_context_manager(flags))
            }
            Act::MaxThreads(most) => self.ioctl(place, move |driver| driver.set_max_threads(most)),
            Act::DetectSpam(on) => self.ioctl(place, move |driver| driver.set_oneway_spam_detection(on)),
            Act::Freeze { process, frozen } => {
                let pid = self.processes[process].pid;
                self.ioctl(place, move |driver| driver.set_frozen(pid, frozen, 0))
            }
            Act::NodeCounts(target) => {
                let handle = number_of(target, &self.processes[step.process].holdings);
                self.ioctl(place, move |driver| driver.node_counts(handle))
            }
            Act::FrozenInfo(process) => {
                let pid = self.processes[process].pid;
                self.ioctl(place, move |driver| {
                    driver.frozen_info(pid).map(|info| FrozenStatusInfo { pid: 0, ..info })
                })
            }
            Act::ListNodes => format!("{:?}", self.list_nodes(place)),
            Act::ExtendedError => self.extended_error(place),
            Act::Poll => format!("poll {}", self.ioctl(place, |driver| driver.poll(Some(Duration::ZERO)))),
        }
    }

    /// Makes one ioctl on a worker. Returns its result as text.
    fn ioctl<T: fmt::Debug + Send + 'static>(
        &self,
        place: Place,
        act: impl FnOnce(&dyn Sequential) -> Result<T, Error> + Send + 'static,
    ) -> String {
        let driver = self.driver(place.0);
        format!("{:?}", self.worker(place).run(move |_| act(&*driver).map_err(errno)))
    }

    /// The thread leaves the driver, or changes how it is scheduled.
    fn change_thread(&self, place: Place, act: &Act) -> String {
        let worker = self.worker(place);
        match *act {
            Act::Policy(policy) => return format!("{:?}", worker.run(move |_| schedule(&attr_of(policy)))),
            Act::Nice(nice) => worker
                .run(move |_| rustix::process::setpriority_process(None, nice))
                .expect("permission to set a nice value"),
            _ => {
                let driver = self.driver(place.0);
                worker.run(move |_| driver.exit_thread());
            }
        }
        String::new()
    }

    /// All nodes of a process.
    fn list_nodes(&self, place: Place) -> Vec<NodeInfo> {
        let driver = self.driver(place.0);
        self.worker(place).run(move |_| {
            let mut after = 0;
            std::iter::from_fn(|| {
                let found = driver.node_after(after).expect("an answer")?;
                after = found.ptr;
                Some(found)
            })
            .collect()
        })
    }

    fn extended_error(&self, place: Place) -> String {
        let driver = self.driver(place.0);
        let error = self.worker(place).run(move |_| driver.extended_error().map_err(errno));
        let fine = error.is_ok_and(|error| error.command == BR_OK);
        // Each driver has its own transaction numbers.
        let error = error.map(|error| (error.id != 0, format!("{:#x}", error.command), error.param));
        format!("{error:?}{}", if fine { " BR_OK" } else { "" })
    }

    /// One `BINDER_WRITE_READ`. Each payload is followed by `padding` bytes.
    fn exchange(&mut self, place: Place, orders: &[Order], read: Reading, padding: usize) -> String {
        if self.processes[place.0].opened.is_none() {
            self.open(place.0);
        }
        let (driver, holdings) = (self.driver(place.0), &mut self.processes[place.0].holdings);
        let mut commands = Commands::default();
        let mut sent = Vec::new();
        let mut freed_arrays: Vec<Array> = Vec::new();
        for order in orders {
            if let Some(freed) = queue(order, holdings, &mut commands, &mut sent, padding) {
                let in_freed = |array: &&Array| array.buffer == freed;
                freed_arrays.extend(holdings.arrays.iter().filter(in_freed).cloned());
                holdings.arrays.retain(|array| !in_freed(&array));
            }
        }
        if let Some(Order::Send(_)) = orders.last() {
            commands.push(MARK);
        }
        driver.set_waiting(read == Reading::Waiting);
        let used = Arc::clone(&driver);
        let begun = self.worker(place).begin(move |returns| {
            let memory: Vec<&[u8]> = sent.iter().flat_map(Built::memory).collect();
            exchange_now(&*used, commands, &memory, (read != Reading::Nothing).then_some(returns))
        });
        let outcome = if read == Reading::Waiting { begun.end_or_sleep() } else { Some(begun.wait()) };
        driver.set_waiting(false);
        let Some(outcome) = outcome else {
            self.sleepers.add(place, begun);
            return ASLEEP.into();
        };
        let mut text = self.describe(place.0, &outcome);
        text.extend(freed_arrays.iter().map(Array::describe));
        text
    }

    /// Describes an exchange that has ended.
    fn describe(&mut self, process: usize, outcome: &Outcome) -> String {
        let driver = self.driver(process);
        let Outcome { result, left, returns, scheduled } = outcome;
        let mut text = format!("{result:?}, {left} bytes left,{scheduled}; ");
        for item in returns.iter().filter(|item| **item != Return::Noop) {
            text += &describe::describe(&*driver, item, &mut self.processes[process].holdings);
        }
        text
    }
}
