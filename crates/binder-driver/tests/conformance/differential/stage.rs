//! The stage: replays sequences on one device, and tells what each step brought and left behind.

use std::sync::Arc;

use binder_driver::uapi::{HandleCookie, PtrCookie, TransactionData, TransactionDataSg};
use binder_driver::{Command, Commands, Driver, Errno, Error, Return};

use super::payload::Built;
use super::state::{self, Names};
use super::steps::{Act, Counting, Order, PROCESSES, Send, Step, THREADS, Target};
use super::telling::{self, Holdings};
use super::worker::Worker;
use crate::Device;

/// Small, so that areas run full.
const AREA_BYTES: u64 = 16 << 10;

/// What a step brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Results, returns, and the nice value that the thread has now.
    pub(super) brought: String,
    /// What the driver holds afterwards, if that was looked at.
    pub(super) state: String,
}

pub(super) struct Stage<D> {
    device: D,
    workers: Vec<Vec<Worker>>,
}

/// One process of a sequence.
#[derive(Default)]
struct Process {
    opened: Option<Opened>,
    holdings: Holdings,
}

struct Opened {
    driver: Arc<dyn Driver>,
    number: String,
}

impl<D: Device> Stage<D> {
    pub(super) fn new() -> Self {
        let workers = (0..PROCESSES).map(|_| (0..THREADS).map(|_| Worker::start()).collect()).collect();
        Self { device: D::new(), workers }
    }

    /// Replays a sequence from the beginning: all processes opened, the first one the context manager. Looks at the state
    /// after every third step and each death, or, with `often`, after every step; the other texts are empty.
    pub(super) fn replay(&self, steps: &[Step], often: bool) -> Vec<Told> {
        let mut run = Run { stage: self, processes: Vec::new(), names: Names::default() };
        for (index, threads) in self.workers.iter().enumerate() {
            let tids = threads.iter().map(|worker| worker.tid.to_string());
            run.names.threads.extend(tids.zip(index * THREADS..));
            run.processes.push(Process::default());
            run.open(index);
        }
        let manager = Step { process: 0, thread: 0, act: Act::BecomeManager(0x100) };
        run.carry_out(&manager, 0);
        let told = steps.iter().enumerate().map(|(at, step)| {
            let brought = run.carry_out(step, at);
            let looks = often || at % 3 == 2 || at + 1 == steps.len() || matches!(step.act, Act::Close);
            let look = || state::of_sequence(&self.device.state(), &run.names);
            Told { brought, state: if looks { look() } else { String::new() } }
        });
        let told = told.collect();
        (0..PROCESSES).for_each(|index| run.close(index));
        if steps.iter().any(|step| matches!(step.act, Act::Nice(_))) {
            for worker in self.workers.iter().flatten() {
                worker.run(|_| rustix::process::setpriority_process(None, 0)).expect("the right to");
            }
        }
        told
    }
}

struct Run<'s, D> {
    stage: &'s Stage<D>,
    processes: Vec<Process>,
    names: Names,
}

impl<D: Device> Run<'_, D> {
    fn open(&mut self, index: usize) {
        let driver = self.stage.device.open_without_waiting(AREA_BYTES);
        let number = self.stage.device.last_number();
        self.names.processes.insert(number.clone(), index);
        self.processes[index] =
            Process { opened: Some(Opened { driver, number }), holdings: Holdings::default() };
    }

    fn close(&mut self, index: usize) {
        if let Some(Opened { driver, number }) = self.processes[index].opened.take() {
            assert_eq!(Arc::strong_count(&driver), 1, "a worker still holds the driver");
            drop(driver);
            self.stage.device.wait_until_released(&number);
            self.names.processes.remove(&number);
        }
    }

    fn carry_out(&mut self, step: &Step, at: usize) -> String {
        if matches!(step.act, Act::Close) {
            self.close(step.process);
            return "closed".into();
        }
        if self.processes[step.process].opened.is_none() {
            self.open(step.process);
        }
        let process = &mut self.processes[step.process];
        let driver = Arc::clone(&process.opened.as_ref().expect("opened just now").driver);
        let worker = &self.stage.workers[step.process][step.thread];
        match &step.act {
            Act::Exchange { orders, read } => {
                exchange(worker, driver, &mut process.holdings, orders, *read, 8 * at)
            }
            Act::LeaveThread => {
                worker.run(move |_| driver.exit_thread());
                String::new()
            }
            Act::BecomeManager(flags) => {
                let flags = *flags;
                let result = worker.run(move |_| driver.become_context_manager(flags).map_err(errno));
                format!("{result:?}")
            }
            Act::MaxThreads(most) => {
                let most = *most;
                let result = worker.run(move |_| driver.set_max_threads(most).map_err(errno));
                format!("{result:?}")
            }
            Act::NodeCounts(target) => {
                let handle = number_of(*target, &process.holdings);
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
                let nice = *nice;
                worker.run(move |_| rustix::process::setpriority_process(None, nice)).expect("the right to");
                String::new()
            }
            Act::Close => unreachable!("done above"),
        }
    }
}

fn errno(error: Error) -> Errno {
    error.errno().expect("an errno")
}

/// Comes after a transaction and does nothing, but after a refused one it is not taken. Bytes: [`MARK_BYTES`].
const MARK: Command = Command::IncrefsDone(PtrCookie { ptr: 0xdead_0000, cookie: 0 });
pub(super) const MARK_BYTES: usize = 4 + PtrCookie::SIZE;

/// One `BINDER_WRITE_READ`.
fn exchange(
    worker: &Worker,
    driver: Arc<dyn Driver>,
    holdings: &mut Holdings,
    orders: &[Order],
    read: bool,
    padding: usize,
) -> String {
    let mut commands = Commands::default();
    let mut sent = Vec::new();
    for order in orders {
        queue(order, holdings, &mut commands, &mut sent, padding);
    }
    if let Some(Order::Send(_)) = orders.last() {
        commands.push(MARK);
    }
    let reader = Arc::clone(&driver);
    let (result, left, returns, nice) = worker.run(move |returns| {
        let memory: Vec<&[u8]> = sent.iter().flat_map(Built::memory).collect();
        let result = driver.write_read(&mut commands, &memory, read.then_some(&mut *returns)).map_err(errno);
        let items: Vec<Return> = match (result, read) {
            (Ok(()), true) => returns.collect(),
            _ => Vec::new(),
        };
        let nice = rustix::process::getpriority_process(None).expect("one's own");
        (result, commands.pending().len(), items, nice)
    });
    let mut text = format!("{result:?}, {left} bytes left, nice {nice}; ");
    for item in returns.iter().filter(|item| **item != Return::Noop) {
        text.push_str(&telling::tell(&*reader, item, holdings));
    }
    text
}

fn number_of(target: Target, holdings: &Holdings) -> u32 {
    match target {
        Target::Number(handle) => handle,
        Target::Held(back) => holdings.handles.iter().rev().nth(back).copied().unwrap_or(0),
    }
}

/// Turns an order into a command, with what its process holds at this moment. What is sent gets so many bytes more.
fn queue(
    order: &Order,
    holdings: &mut Holdings,
    commands: &mut Commands,
    sent: &mut Vec<Built>,
    padding: usize,
) {
    let handle = |target| number_of(target, holdings);
    let command = match order {
        Order::Send(send) => {
            let built = Built::new(&send.payload, padding, handle);
            let command = command_of(send, built.description(handle(send.target), send.flags));
            sent.push(built);
            command
        }
        Order::FreeLast => Command::FreeBuffer(holdings.buffers.pop().unwrap_or(0x1000)),
        Order::Free(which) => Command::FreeBuffer(match holdings.buffers.len() {
            0 => 0x1000,
            some => holdings.buffers.swap_remove(which % some),
        }),
        Order::Count(Counting::Increfs, target) => Command::Increfs(handle(*target)),
        Order::Count(Counting::Acquire, target) => Command::Acquire(handle(*target)),
        Order::Count(Counting::Release, target) => Command::Release(handle(*target)),
        Order::Count(Counting::Decrefs, target) => Command::Decrefs(handle(*target)),
        Order::Done { strong, ptr, cookie } => {
            let named = PtrCookie { ptr: *ptr, cookie: *cookie };
            if *strong { Command::AcquireDone(named) } else { Command::IncrefsDone(named) }
        }
        Order::RequestDeath(target, cookie) => {
            Command::RequestDeathNotification(HandleCookie { handle: handle(*target), cookie: *cookie })
        }
        Order::ClearDeath(target, cookie) => {
            Command::ClearDeathNotification(HandleCookie { handle: handle(*target), cookie: *cookie })
        }
        Order::DeadBinderDone(cookie) => Command::DeadBinderDone(*cookie),
        Order::EnterLooper => Command::EnterLooper,
        Order::RegisterLooper => Command::RegisterLooper,
        Order::ExitLooper => Command::ExitLooper,
        Order::Nonsense => return commands.raw(&0x1234_5678_u32.to_ne_bytes()),
    };
    commands.push(command);
}

fn command_of(send: &Send, data: TransactionDataSg) -> Command {
    if send.payload.needs_buffers() {
        return if send.reply { Command::ReplySg(data) } else { Command::TransactionSg(data) };
    }
    let plain = TransactionData {
        target: data.target,
        code: data.code,
        flags: data.flags,
        data_size: data.data_size,
        offsets_size: data.offsets_size,
        buffer: data.buffer,
        offsets: data.offsets,
        ..Default::default()
    };
    if send.reply { Command::Reply(plain) } else { Command::Transaction(plain) }
}
