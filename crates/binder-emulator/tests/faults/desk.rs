//! One thread of one participant: it makes calls, and serves nested calls while it waits, like
//! libbinder's threads.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Commands, Driver, Errno, Return, Returns};
use roundtrip_binder_emulator::Emulated;

use crate::message::{Arrived, Message};

/// Echoes the same bytes.
pub(crate) const ECHO: u32 = 1;
/// Carries descriptors. The reply carries one of them and a node.
pub(crate) const EXCHANGE: u32 = 2;
/// Oneway. The receiver releases everything.
pub(crate) const DROP: u32 = 3;
/// Carries handles, which the receiver calls before it replies.
pub(crate) const CALL_BACK: u32 = 4;
/// Carries a handle that the manager keeps, and calls or passes on.
pub(crate) const KEEP: u32 = 5;
/// Carries an index. The reply carries the manager's handle of that index, if there is one.
pub(crate) const GIVE: u32 = 6;
/// The reply carries the number of the serving process.
pub(crate) const WHO: u32 = 7;

/// The outcome of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    Reply(Arrived),
    /// A oneway call was accepted.
    Taken,
    Dead,
    Failed,
}

/// What a manager does with the handles that it gets.
#[derive(Default)]
pub(crate) enum Kept {
    #[default]
    Refused,
    /// Another thread calls and releases them.
    Announced(Sender<u32>),
    /// It keeps the last few for other processes.
    Given(Vec<u32>),
}

/// How many handles a manager keeps for others.
pub(crate) const MOST_KEPT: usize = 12;

pub(crate) struct Desk {
    pub(crate) driver: Arc<Emulated>,
    commands: Commands,
    returns: Returns,
    pub(crate) kept: Kept,
    /// Calls that were served.
    pub(crate) served: u64,
    /// Death notifications that arrived.
    pub(crate) deaths: u64,
    /// The driver acknowledged that a notification was cleared.
    pub(crate) cleared: bool,
    /// The driver has asked for another looper.
    pub(crate) looper_wanted: bool,
}

impl Desk {
    pub(crate) fn at(driver: Arc<Emulated>) -> Self {
        let (commands, returns) = (Commands::default(), Returns::with_room(1024));
        Self {
            driver,
            commands,
            returns,
            kept: Kept::default(),
            served: 0,
            deaths: 0,
            cleared: false,
            looper_wanted: false,
        }
    }

    /// Queues a command: it goes out with the next call.
    pub(crate) fn queue(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// Sends the queued commands without reading.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        self.driver
            .write_read(&mut self.commands, &[], None)
            .map_err(|error| error.errno().expect("an errno"))
    }

    /// Reads the next return. The queued commands may refer to `memory`.
    fn next(&mut self, memory: &[&[u8]]) -> Result<Return, Errno> {
        loop {
            if let Some(item) = self.returns.next() {
                return Ok(item);
            }
            self.driver
                .write_read(&mut self.commands, memory, Some(&mut self.returns))
                .map_err(|error| error.errno().expect("an errno"))?;
        }
    }

    /// Makes a call, and serves nested calls while it waits.
    pub(crate) fn call(&mut self, target: u32, code: u32, message: &Message) -> Result<Answer, Errno> {
        self.send(target, code, TF_ACCEPT_FDS, message)
    }

    /// A oneway call.
    pub(crate) fn call_oneway(&mut self, target: u32, code: u32, message: &Message) -> Result<Answer, Errno> {
        self.send(target, code, TF_ONE_WAY, message)
    }

    fn send(&mut self, target: u32, code: u32, flags: u32, message: &Message) -> Result<Answer, Errno> {
        let memory = message.memory();
        self.queue(Command::TransactionSg(message.describe(target, code, flags)));
        loop {
            match self.next(&memory)? {
                Return::Reply(transaction) => {
                    let arrived = Arrived::read(&*self.driver, &transaction);
                    // The handles end with the buffer unless this process takes references.
                    arrived.handles.iter().for_each(|&handle| self.queue(Command::Acquire(handle)));
                    self.queue(Command::FreeBuffer(transaction.buffer));
                    return Ok(Answer::Reply(arrived));
                }
                Return::DeadReply => return Ok(Answer::Dead),
                Return::FailedReply | Return::FrozenReply => return Ok(Answer::Failed),
                Return::TransactionComplete | Return::OnewaySpamSuspect if flags & TF_ONE_WAY != 0 => {
                    return Ok(Answer::Taken);
                }
                other => self.handle(other)?,
            }
        }
    }

    /// Releases the handles that came with a reply.
    pub(crate) fn release(&mut self, arrived: &Arrived) {
        arrived.handles.iter().for_each(|&handle| self.queue(Command::Release(handle)));
    }

    fn reply(&mut self, message: &Message) -> Result<(), Errno> {
        let memory = message.memory();
        self.queue(Command::ReplySg(message.describe(0, 0, 0)));
        loop {
            match self.next(&memory)? {
                Return::TransactionComplete | Return::DeadReply | Return::FailedReply => return Ok(()),
                other => self.handle(other)?,
            }
        }
    }

    /// Serves until the context has ended, with as many further threads as the driver requests.
    pub(crate) fn serve(&mut self) -> Errno {
        self.queue(Command::EnterLooper);
        self.loop_until_gone()
    }

    fn loop_until_gone(&mut self) -> Errno {
        loop {
            if let Err(errno) = self.serve_next() {
                return errno;
            }
            if std::mem::take(&mut self.looper_wanted) {
                let driver = Arc::clone(&self.driver);
                std::thread::spawn(move || {
                    let mut desk = Self::at(driver);
                    desk.queue(Command::RegisterLooper);
                    desk.loop_until_gone()
                });
            }
        }
    }

    /// Handles the next return.
    pub(crate) fn serve_next(&mut self) -> Result<(), Errno> {
        let item = self.next(&[])?;
        self.handle(item)
    }

    fn handle(&mut self, item: Return) -> Result<(), Errno> {
        match item {
            Return::Increfs(node) => self.queue(Command::IncrefsDone(node)),
            Return::Acquire(node) => self.queue(Command::AcquireDone(node)),
            Return::DeadBinder(cookie) => {
                self.deaths += 1;
                self.queue(Command::DeadBinderDone(cookie));
            }
            Return::FrozenBinder(state) => self.queue(Command::FreezeNotificationDone(state.cookie)),
            Return::ClearDeathNotificationDone(_) | Return::ClearFreezeNotificationDone(_) => {
                self.cleared = true;
            }
            Return::SpawnLooper => self.looper_wanted = true,
            Return::Transaction(transaction) => return self.transaction(&transaction),
            _ => {}
        }
        Ok(())
    }

    fn transaction(&mut self, transaction: &TransactionData) -> Result<(), Errno> {
        let arrived = Arrived::read(&*self.driver, transaction);
        arrived.handles.iter().for_each(|&handle| self.queue(Command::Acquire(handle)));
        self.queue(Command::FreeBuffer(transaction.buffer));
        let mut answer = Message::default();
        match transaction.code {
            ECHO => answer = Message::plain(&arrived.data),
            EXCHANGE => {
                if let Some(fd) = arrived.fds.first() {
                    answer = Message::default().node(7).descriptor(fd.as_fd()).array(&[fd.as_fd()]);
                }
            }
            CALL_BACK => {
                for &handle in &arrived.handles {
                    // The caller may have died meanwhile.
                    if let Answer::Reply(arrived) = self.call(handle, ECHO, &Message::plain(b"back"))? {
                        self.release(&arrived);
                    }
                }
            }
            KEEP => self.keep(&arrived.handles),
            GIVE => {
                let wanted = arrived.data.first_chunk().map(|&bytes| u32::from_ne_bytes(bytes) as usize);
                if let (Kept::Given(handles), Some(wanted)) = (&self.kept, wanted)
                    && let Some(&handle) = handles.get(wanted)
                {
                    answer = Message::default().handle(handle);
                }
            }
            WHO => answer = Message::plain(&self.driver.number().to_ne_bytes()),
            _ => {}
        }
        if transaction.flags & TF_ONE_WAY == 0 {
            self.reply(&answer)?;
        }
        self.served += 1;
        self.release(&arrived);
        Ok(())
    }

    fn keep(&mut self, handles: &[u32]) {
        for &handle in handles {
            match &mut self.kept {
                Kept::Refused => {}
                Kept::Announced(to) => {
                    self.commands.push(Command::Acquire(handle));
                    // Count it before other threads can see it.
                    if self.driver.write_read(&mut self.commands, &[], None).is_ok() {
                        let _ = to.send(handle);
                    }
                }
                Kept::Given(kept) => {
                    // A process that sends its node again becomes the latest one.
                    match kept.iter().position(|&known| known == handle) {
                        Some(at) => drop(kept.remove(at)),
                        None => self.commands.push(Command::Acquire(handle)),
                    }
                    kept.push(handle);
                    if kept.len() > MOST_KEPT {
                        let oldest = kept.remove(0);
                        self.commands.push(Command::Release(oldest));
                    }
                }
            }
        }
    }
}
