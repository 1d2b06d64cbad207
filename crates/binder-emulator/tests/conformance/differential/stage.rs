//! The stage: replays sequences on one device, and reports the result of each step and the state
//! after it.
//!
//! Work may reach a sleeping thread in pieces (a dying process releases its objects one by one).
//! The scheduler decides how many pieces the thread's read finds, so the rest is read immediately.
//! For the same reason commands run one by one while threads sleep.

use std::sync::Arc;
use std::time::Duration;

use binder_driver::sched_attr::SchedAttr;
use binder_driver::uapi::{BR_OK, FrozenStatusInfo};
use binder_driver::{Commands, Return, Returns};

use super::exchange::{Outcome, attr_of, errno, exchange_now, schedule};
use super::orders::{MARK, number_of, queue};
use super::payload::Built;
use super::sleepers::{Place, Sleepers};
use super::state::{self, Names};
use super::steps::{Act, Order, PROCESSES, Reading, Step, THREADS};
use super::telling::{self, Array, Holdings};
use super::worker::Worker;
use crate::{Device, Sequential};

/// Small, so that areas run full.
const AREA_BYTES: u64 = 16 << 10;

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Results, returns, the policy and nice value that the thread has now; and what threads that
    /// slept have read.
    pub(super) brought: String,
    /// What the driver holds afterwards, if that was looked at.
    pub(super) state: String,
    /// The scheduler decides the result of this step: see [`sleepers`](super::sleepers).
    pub(super) undetermined: bool,
}

/// After which steps the state is looked at, and told: that is not without effects, so it must be
/// the same for both.
#[derive(Clone, Copy, Debug)]
pub(super) enum Looking {
    Never,
    /// After every third one, each death and the last.
    Sometimes,
    Always,
}

/// What is told of an exchange that has not ended.
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
    /// What the driver knows it by, also when it has closed.
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
    pub(super) fn replay(&self, steps: &[Step], looking: Looking) -> Vec<Told> {
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
        let mut told = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let mut brought = run.step(step, at);
            let looks = match looking {
                Looking::Never => false,
                Looking::Sometimes => at % 3 == 2 || at + 1 == steps.len() || matches!(step.act, Act::Close),
                Looking::Always => true,
            };
            let state = if looks { run.look(&mut brought) } else { String::new() };
            let undetermined = run.undetermined;
            told.push(Told { brought, state, undetermined });
            if undetermined {
                break;
            }
        }
        (0..PROCESSES).for_each(|index| drop(run.close(index)));
        if steps.iter().any(|step| matches!(step.act, Act::Nice(_) | Act::Policy(_))) {
            for worker in self.workers.iter().flatten() {
                worker.run(|_| schedule(&SchedAttr::default())).expect("the right to");
            }
        }
        told
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

    /// Closes a process's device; tells what its sleeping threads have read.
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

    /// Sends a process's sleeping threads home, as a signal would; tells what they have read.
    fn interrupt(&mut self, index: usize) -> String {
        if !self.sleepers.any_of(index) {
            return String::new();
        }
        self.driver(index).interrupt();
        let ended = self.sleepers.end_all_of(index);
        // Of several, the one that the scheduler runs last finds that nobody waits any more.
        let asked = |ended: &(Place, Outcome)| ended.1.returns.contains(&Return::SpawnLooper);
        self.undetermined |= ended.len() > 1 && ended.iter().any(asked);
        ended.into_iter().map(|ended| self.tell_of_sleeper(ended, "interrupted")).collect()
    }

    fn tell_of_sleeper(&mut self, (place, outcome): (Place, Outcome), how: &str) -> String {
        format!(" | t{} {how}: {}", place.0 * THREADS + place.1, self.tell(place.0, &outcome))
    }

    /// The state. To look at it may make work for threads that sleep (see `Guard::state` in the
    /// emulated driver); `brought` is told if that ends their sleep.
    fn look(&mut self, brought: &mut String) -> String {
        let sleep: Vec<usize> = (0..PROCESSES).filter(|&index| self.sleepers.any_of(index)).collect();
        let state = state::of_sequence(&self.stage.device.state(), &self.names, &sleep);
        *brought += &self.tell_of_woken();
        state
    }

    /// One step, told with what it woke.
    fn step(&mut self, step: &Step, at: usize) -> String {
        let place = (step.process, step.thread);
        let mut others = String::new();
        if self.sleepers.has(place) && !matches!(step.act, Act::Close) {
            others = self.interrupt(step.process);
        }
        let before = self.sleepers.counts();
        let own = match &step.act {
            Act::Exchange { orders, read } if self.must_part(orders, *read, place) => {
                let single = orders.iter().map(std::slice::from_ref);
                let writes = single.map(|order| (order, Reading::Nothing));
                let reads = (*read != Reading::Nothing).then_some((&[][..], *read));
                let mut own = String::new();
                for (orders, read) in writes.chain(reads) {
                    own += &self.exchange(place, orders, read, 8 * at);
                    others += &self.tell_of_woken();
                }
                own
            }
            _ => self.carry_out(step, at),
        };
        others += &self.tell_of_woken();
        self.undetermined |= self.sleepers.both_woke(&before);
        own + &others
    }

    /// Whether another thread may take what an exchange brings to its own process, or find it in
    /// pieces.
    fn must_part(&self, orders: &[Order], read: Reading, place: Place) -> bool {
        let parts = orders.len() + usize::from(read != Reading::Nothing);
        let reads_too = !orders.is_empty() && read != Reading::Nothing;
        parts > 1
            && ((orders.len() > 1 && !self.sleepers.is_empty())
                || (reads_too && self.sleepers.any_of(place.0)))
    }

    /// What the threads have read that were woken by now, and what came after that.
    fn tell_of_woken(&mut self) -> String {
        let mut text = String::new();
        for (place, mut outcome) in self.sleepers.ended() {
            // No work makes more of itself: this ends.
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
            text += &self.tell_of_sleeper((place, outcome), "woke");
        }
        text
    }

    fn driver(&self, process: usize) -> Arc<dyn Sequential> {
        Arc::clone(&self.processes[process].opened.as_ref().expect("an opened device").driver)
    }

    fn worker(&self, place: Place) -> &Worker {
        &self.stage.workers[place.0][place.1]
    }

    #[expect(clippy::too_many_lines, reason = "one match with an arm for each act")]
    fn carry_out(&mut self, step: &Step, at: usize) -> String {
        if matches!(step.act, Act::Close) {
            return "closed".to_owned() + &self.close(step.process);
        }
        if self.processes[step.process].opened.is_none() {
            self.open(step.process);
        }
        let place = (step.process, step.thread);
        let (driver, worker) = (self.driver(step.process), self.worker(place));
        let holdings = &self.processes[step.process].holdings;
        match step.act {
            Act::Exchange { ref orders, read } => self.exchange(place, orders, read, 8 * at),
            Act::LeaveThread => {
                worker.run(move |_| driver.exit_thread());
                String::new()
            }
            Act::BecomeManager(flags) => {
                format!("{:?}", worker.run(move |_| driver.become_context_manager(flags).map_err(errno)))
            }
            Act::MaxThreads(most) => {
                format!("{:?}", worker.run(move |_| driver.set_max_threads(most).map_err(errno)))
            }
            Act::NodeCounts(target) => {
                let handle = number_of(target, holdings);
                format!("{:?}", worker.run(move |_| driver.node_counts(handle).map_err(errno)))
            }
            Act::ListNodes => {
                let all = worker.run(move |_| {
                    let mut after = 0;
                    std::iter::from_fn(|| {
                        let found = driver.node_after(after).expect("an answer")?;
                        after = found.ptr;
                        Some(found)
                    })
                    .collect::<Vec<_>>()
                });
                format!("{all:?}")
            }
            Act::Nice(nice) => {
                worker.run(move |_| rustix::process::setpriority_process(None, nice)).expect("the right to");
                String::new()
            }
            Act::Policy(policy) => format!("{:?}", worker.run(move |_| schedule(&attr_of(policy)))),
            Act::Freeze { process, frozen } => {
                let pid = self.processes[process].pid;
                format!("{:?}", worker.run(move |_| driver.set_frozen(pid, frozen, 0).map_err(errno)))
            }
            Act::FrozenInfo(process) => {
                let pid = self.processes[process].pid;
                let info = worker.run(move |_| driver.frozen_info(pid).map_err(errno));
                format!("{:?}", info.map(|info| FrozenStatusInfo { pid: 0, ..info }))
            }
            Act::DetectSpam(on) => {
                format!("{:?}", worker.run(move |_| driver.set_oneway_spam_detection(on).map_err(errno)))
            }
            Act::ExtendedError => {
                let error = worker.run(move |_| driver.extended_error().map_err(errno));
                let fine = error.is_ok_and(|error| error.command == BR_OK);
                // Numbers are each driver's own.
                let error = error.map(|error| (error.id != 0, format!("{:#x}", error.command), error.param));
                format!("{error:?}{}", if fine { " BR_OK" } else { "" })
            }
            Act::Poll => {
                let found = worker.run(move |_| driver.poll(Some(Duration::ZERO)).map_err(errno));
                format!("poll {found:?}")
            }
            Act::Close => unreachable!("done above"),
        }
    }

    /// One `BINDER_WRITE_READ`. What is sent gets `padding` bytes more.
    fn exchange(&mut self, place: Place, orders: &[Order], read: Reading, padding: usize) -> String {
        if self.processes[place.0].opened.is_none() {
            self.open(place.0);
        }
        let (driver, holdings) = (self.driver(place.0), &mut self.processes[place.0].holdings);
        let mut commands = Commands::default();
        let mut sent = Vec::new();
        let mut given_back: Vec<Array> = Vec::new();
        for order in orders {
            if let Some(freed) = queue(order, holdings, &mut commands, &mut sent, padding) {
                let brought = |array: &&Array| array.buffer == freed;
                given_back.extend(holdings.arrays.iter().filter(brought).cloned());
                holdings.arrays.retain(|array| !brought(&array));
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
        let mut text = self.tell(place.0, &outcome);
        text.extend(given_back.iter().map(Array::tell));
        text
    }

    /// An exchange that has ended.
    fn tell(&mut self, process: usize, outcome: &Outcome) -> String {
        let driver = self.driver(process);
        let Outcome { result, left, returns, scheduled } = outcome;
        let mut text = format!("{result:?}, {left} bytes left,{scheduled}; ");
        for item in returns.iter().filter(|item| **item != Return::Noop) {
            text += &telling::tell(&*driver, item, &mut self.processes[process].holdings);
        }
        text
    }
}
