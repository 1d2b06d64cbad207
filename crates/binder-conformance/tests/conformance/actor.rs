//! An actor: one thread of one process at the device. The driver identifies a thread by the calling
//! thread, so cases run their steps on actors.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use roundtrip_binder_driver::uapi::TransactionData;
use roundtrip_binder_driver::{Command, Commands, Driver, Errno, Return, Returns};

use crate::begun::Begun;

type Step = Box<dyn FnOnce(&mut Desk) + Send>;

/// One thread at a device.
pub(crate) struct Actor {
    steps: Option<Sender<Step>>,
    thread: Option<JoinHandle<()>>,
    /// The thread id.
    pub(crate) tid: i32,
    pub(crate) driver: Arc<dyn Driver>,
}

/// An actor's state, on its own thread.
pub(crate) struct Desk {
    pub(crate) driver: Arc<dyn Driver>,
    returns: Returns,
}

/// A step that is still running.
pub(crate) struct Pending<T>(Begun<T>);

impl<T> Pending<T> {
    /// Waits for the step's result.
    pub(crate) fn wait(self) -> T {
        self.0.wait()
    }

    /// True once its thread sleeps in the driver, false when it has ended.
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.end_or_sleep().is_none()
    }

    /// The step's result, if it ends within this time.
    pub(crate) fn ended_within(&self, time: Duration) -> Option<T> {
        self.0.result.recv_timeout(time).ok()
    }

    /// Sends signals with a handler to its thread whenever it sleeps, until the step ends.
    pub(crate) fn end_by_signals(self) -> T {
        for _ in 0..1000 {
            match self.0.end_or_sleep() {
                Some(result) => return result,
                None => roundtrip_binder_conformance::signals::signal(self.0.tid),
            }
            // Let its signal handler run.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        panic!("a thousand signals did not end the wait");
    }
}

impl Actor {
    /// Starts a thread that the driver already knows, so that its reads wait.
    pub(crate) fn new(driver: &Arc<dyn Driver>) -> Self {
        let actor = Self::unknown(driver);
        actor.read();
        actor
    }

    /// Starts a thread that is new to the driver.
    pub(crate) fn unknown(driver: &Arc<dyn Driver>) -> Self {
        let (steps, received) = channel::<Step>();
        let mut desk = Desk { driver: Arc::clone(driver), returns: Returns::with_room(4096) };
        let (tid_sender, tid) = channel();
        let thread = std::thread::spawn(move || {
            let _ = tid_sender.send(rustix::thread::gettid().as_raw_nonzero().get());
            for step in received {
                step(&mut desk);
            }
        });
        let tid = tid.recv().expect("a thread");
        Self { steps: Some(steps), thread: Some(thread), tid, driver: Arc::clone(driver) }
    }

    /// Starts a step.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Desk) -> T + Send + 'static,
    ) -> Pending<T> {
        let (done, result) = channel();
        let step: Step = Box::new(move |desk| {
            let _ = done.send(act(desk));
        });
        self.steps.as_ref().expect("a living actor").send(step).expect("the actor panicked earlier");
        Pending(Begun { result, tid: self.tid })
    }

    /// Runs a step and waits for it.
    pub(crate) fn run<T: Send + 'static>(&self, act: impl FnOnce(&mut Desk) -> T + Send + 'static) -> T {
        self.start(act).wait()
    }

    /// Writes commands without reading.
    pub(crate) fn write(&self, commands: &[Command]) -> Result<(), Errno> {
        let commands = commands.to_vec();
        self.run(move |desk| desk.write(&commands))
    }

    /// Reads until the driver returns, without `BR_NOOP`.
    pub(crate) fn read(&self) -> Vec<Return> {
        self.run(Desk::read)
    }

    /// Writes commands, then reads.
    pub(crate) fn write_read(&self, commands: &[Command]) -> Vec<Return> {
        let commands = commands.to_vec();
        self.run(move |desk| desk.write_read(&commands, &[]))
    }

    /// Starts a synchronous call with `bytes` as data. Its result is what it reads.
    pub(crate) fn call(&self, handle: u32, code: u32, bytes: &[u8]) -> Pending<Vec<Return>> {
        let bytes = bytes.to_vec();
        self.start(move |desk| {
            desk.write_read(&[Command::Transaction(data(handle, code, 0, &bytes))], &[&bytes])
        })
    }

    /// Enters the loop and waits for a transaction.
    pub(crate) fn serve(&self) -> TransactionData {
        transaction(&self.write_read(&[Command::EnterLooper]))
    }

    /// Waits for a transaction, and skips all other returns.
    pub(crate) fn next_call(&self) -> TransactionData {
        loop {
            if let Some(found) = find_transaction(&self.read()) {
                return found;
            }
        }
    }

    /// These returns, and further ones up to the reply.
    pub(crate) fn until_reply(&self, mut seen: Vec<Return>) -> Vec<Return> {
        while !seen.iter().any(|item| matches!(item, Return::Reply(_))) {
            seen.extend(self.read());
        }
        seen
    }

    /// Replies with `bytes`, and does not read.
    pub(crate) fn reply(&self, bytes: &[u8]) -> Result<(), Errno> {
        let bytes = bytes.to_vec();
        self.run(move |desk| {
            let mut commands = Commands::default();
            commands.push(Command::Reply(data(0, 0, 0, &bytes)));
            desk.send(&mut commands, &[&bytes])
        })
    }

    /// A copy of received bytes.
    pub(crate) fn bytes(&self, received: &TransactionData) -> Vec<u8> {
        self.driver.received(received.buffer, received.data_size).expect("inside the area").to_vec()
    }

    /// The thread leaves the driver and ends.
    pub(crate) fn leave(mut self) {
        self.run(|desk| desk.driver.exit_thread());
        self.steps = None;
        self.thread.take().expect("a living actor").join().expect("no panic");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.steps = None;
        // A step that waits in the driver ends only when its case drops the device, so joining it
        // here would hang.
        drop(self.thread.take());
    }
}

impl Desk {
    pub(crate) fn send(&mut self, commands: &mut Commands, memory: &[&[u8]]) -> Result<(), Errno> {
        self.driver.write_read(commands, memory, None).map_err(|error| error.errno().expect("an errno"))
    }

    /// Sends a synchronous call without data, and does not read.
    pub(crate) fn send_call(&mut self, handle: u32, code: u32) {
        self.write(&[Command::Transaction(data(handle, code, 0, b""))]).expect("a command that is taken");
    }

    pub(crate) fn write(&mut self, commands: &[Command]) -> Result<(), Errno> {
        self.send(&mut queue(commands), &[])
    }

    pub(crate) fn read(&mut self) -> Vec<Return> {
        self.write_read(&[], &[])
    }

    pub(crate) fn write_read(&mut self, commands: &[Command], memory: &[&[u8]]) -> Vec<Return> {
        let result = self.driver.write_read(&mut queue(commands), memory, Some(&mut self.returns));
        match result {
            Ok(()) => self.returns.by_ref().filter(|item| *item != Return::Noop).collect(),
            Err(error) => vec![Return::Error(error.errno().expect("an errno").raw_os_error())],
        }
    }
}

fn queue(commands: &[Command]) -> Commands {
    let mut queued = Commands::default();
    commands.iter().for_each(|&command| queued.push(command));
    queued
}

/// A transaction's description, with `bytes` as data and no objects.
pub(crate) fn data(handle: u32, code: u32, flags: u32, bytes: &[u8]) -> TransactionData {
    TransactionData { target: handle.into(), flags, ..TransactionData::new(code, bytes) }
}

/// Finds the transaction in the returns.
pub(crate) fn find_transaction(returns: &[Return]) -> Option<TransactionData> {
    returns.iter().find_map(|item| match item {
        Return::Transaction(data) => Some(*data),
        _ => None,
    })
}

/// As [`find_transaction`], but panics if there is none.
pub(crate) fn transaction(returns: &[Return]) -> TransactionData {
    find_transaction(returns).unwrap_or_else(|| panic!("no transaction in {returns:?}"))
}

/// Finds the reply in the returns.
pub(crate) fn reply(returns: &[Return]) -> TransactionData {
    let found = returns.iter().find_map(|item| match item {
        Return::Reply(data) => Some(*data),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no reply in {returns:?}"))
}

/// The names of the returns in order, for comparing sequences.
pub(crate) fn names(returns: &[Return]) -> Vec<String> {
    let name = |item: &Return| format!("{item:?}").split(['(', ' ']).next().unwrap_or_default().to_owned();
    returns.iter().map(name).collect()
}
