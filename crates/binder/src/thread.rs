//! One thread's conversation with the driver: commands out, returns in, a call and what arrives while it waits.
//!
//! A thread has one [`ThreadState`] for each process that it calls from or serves. A call takes no lock and makes no
//! allocation; it knows neither kind of parcel, only bytes, offsets and buffers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use binder_driver::uapi::{
    BR_NOOP, BR_TRANSACTION_COMPLETE, TF_ACCEPT_FDS, TF_ONE_WAY, TF_STATUS_CODE, TransactionData,
};
use binder_driver::{Command, Commands, Errno, Lent, Return, Returns};

use crate::hwbinder::{HwReader, HwStore};
use crate::outgoing::Outgoing;
use crate::parcel::{Parcel, ParcelReader};
use crate::received::Received;
use crate::{Binder, Dialect, Error, Process, Proxy};

/// Payload bytes copied by one thread. Only that thread adds, others read.
#[derive(Debug, Default)]
pub(crate) struct Copies(AtomicU64);

impl Copies {
    /// Not a read-modify-write: there is one writer.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ThreadState {
    process: Weak<Process>,
    dialect: Dialect,
    copies: Arc<Copies>,
    io: RefCell<Io>,
    // Boxed, because each call takes one and gives it back.
    #[expect(clippy::vec_box)]
    parcels: RefCell<Vec<Box<Parcel>>>,
    #[expect(clippy::vec_box)]
    stores: RefCell<Vec<Box<HwStore>>>,
    /// True inside the looper's loop.
    pub(crate) looper: Cell<bool>,
    /// How many calls this thread serves, one inside the other.
    pub(crate) serving: Cell<u32>,
    /// Replies whose `BR_TRANSACTION_COMPLETE` has not come.
    unacknowledged: Cell<u32>,
    /// What those replies named: until the driver has said that it holds references, this thread does.
    in_flight: RefCell<Vec<Binder>>,
    /// Proxies that queued commands take references for: until the driver has taken these, this thread holds them.
    until_sent: RefCell<Vec<Proxy>>,
    /// How many calls this thread waits for, one inside the other.
    calling: Cell<u32>,
}

#[derive(Debug)]
struct Io {
    commands: Commands,
    returns: Returns,
}

thread_local! {
    /// This thread's states, by process. One or two, so a list is quickest.
    static STATES: RefCell<Vec<(u64, Rc<ThreadState>)>> = const { RefCell::new(Vec::new()) };
    /// True when `STATES` has been used, or is about to be.
    static STARTED: Cell<bool> = const { Cell::new(false) };
}

impl ThreadState {
    /// The calling thread's state for `process`.
    pub(crate) fn current(process: &Arc<Process>) -> Rc<Self> {
        if !STARTED.replace(true) {
            // A driver may keep data of its own for each thread. An ending thread drops what it used last first: the
            // driver comes first here, so that these states can still use it when they are dropped.
            if !process.forked() {
                let _ = process.driver().write_read(&mut Commands::default(), &[], None);
            }
        }
        let found = STATES.try_with(|states| {
            if let Some((_, state)) = states.borrow().iter().find(|(id, _)| *id == process.id()) {
                return state.clone();
            }
            let new = Self::new(process);
            let gone = |(_, state): &mut (u64, Rc<Self>)| state.process.strong_count() == 0;
            let gone: Vec<_> = states.borrow_mut().extract_if(.., gone).collect();
            states.borrow_mut().push((process.id(), new.clone()));
            drop(gone); // not under the borrow: it may drop objects that come here for a state
            new
        });
        // A thread that is ending has no list any more: what it still does gets a state of its own.
        found.unwrap_or_else(|_| Self::new(process))
    }

    fn new(process: &Arc<Process>) -> Rc<Self> {
        Rc::new(Self {
            process: Arc::downgrade(process),
            dialect: process.dialect(),
            copies: process.new_copies(),
            io: RefCell::new(Io { commands: Commands::with_capacity(512), returns: Returns::default() }),
            parcels: RefCell::default(),
            stores: RefCell::default(),
            looper: Cell::new(false),
            serving: Cell::new(0),
            unacknowledged: Cell::new(0),
            in_flight: RefCell::default(),
            until_sent: RefCell::default(),
            calling: Cell::new(0),
        })
    }

    /// An empty parcel with the room that its last use left.
    pub(crate) fn take_parcel(&self) -> Box<Parcel> {
        let kept = self.parcels.borrow_mut().pop();
        kept.unwrap_or_else(|| Box::new(Parcel::in_dialect(self.dialect)))
    }

    pub(crate) fn give_parcel(&self, mut parcel: Box<Parcel>) {
        parcel.clear();
        self.parcels.borrow_mut().push(parcel);
    }

    pub(crate) fn take_store(&self) -> Box<HwStore> {
        self.stores.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_store(&self, mut store: Box<HwStore>) {
        store.clear();
        self.stores.borrow_mut().push(store);
    }

    pub(crate) fn copies(&self) -> &Copies {
        &self.copies
    }

    pub(crate) fn count_copies(&self, bytes: u64) {
        self.copies.add(bytes);
    }

    /// Keeps a proxy until what is queued now is handed over.
    pub(crate) fn keep_until_sent(&self, proxy: &Proxy) {
        self.until_sent.borrow_mut().push(proxy.clone());
    }

    /// Hands over what is queued, unless this thread soon goes to the driver anyway. Any other might never.
    pub(crate) fn flush_unless_soon(&self, process: &Process) {
        if !(self.looper.get() || self.serving.get() > 0 || self.calling.get() > 0) {
            let _ = self.flush(process); // a driver that is out of order holds no references
        }
    }

    fn push_outgoing(&self, outgoing: &Outgoing<'_>, reply: bool, target: u32, code: u32, flags: u32) {
        outgoing.push(&mut self.io.borrow_mut().commands, reply, target, code, flags);
    }

    /// Queues a command for the next exchange.
    #[inline]
    pub(crate) fn push(&self, command: Command) {
        self.io.borrow_mut().commands.push(command);
    }

    /// Lets a received buffer be given back with the next exchange.
    // In line, for every call does it: what is known of the command leaves few instructions of `push`.
    #[inline(always)]
    pub(crate) fn with_commands<T>(&self, queue: impl FnOnce(&mut Commands) -> T) -> T {
        queue(&mut self.io.borrow_mut().commands)
    }

    /// Hands over queued commands without waiting for anything.
    pub(crate) fn flush(&self, process: &Process) -> Result<(), Error> {
        self.exchange(process, &Lent::default(), false)
    }

    /// Hands over queued commands, which may name what is `lent`, and, if `wait`, waits for returns. Returns that were not
    /// handled yet are never thrown away: they come first, and there is no waiting.
    #[inline]
    pub(crate) fn exchange(&self, process: &Process, lent: &Lent<'_>, wait: bool) -> Result<(), Error> {
        let result = self.exchange_now(process, lent, wait);
        if !self.until_sent.borrow().is_empty() {
            self.sent();
        }
        result
    }

    #[inline]
    fn exchange_now(&self, process: &Process, lent: &Lent<'_>, wait: bool) -> Result<(), Error> {
        let io = &mut *self.io.borrow_mut();
        let wait = wait && io.returns.is_empty();
        if io.commands.is_empty() && !wait {
            return Ok(());
        }
        if process.forked() {
            io.commands.clear();
            return Err(Error::Forked);
        }
        loop {
            let returns = if wait { Some(&mut io.returns) } else { None };
            match process.driver().exchange(&mut io.commands, lent, returns) {
                Ok(()) => return Ok(()),
                Err(error) if error.errno() == Some(Errno::INTR) => {}
                Err(source) => {
                    // What was not taken names memory that is about to go.
                    io.commands.clear();
                    return Err(Error::Driver { operation: "exchange commands with the driver", source });
                }
            }
        }
    }

    /// The driver has taken the references that were queued; this thread's own end.
    #[cold]
    fn sent(&self) {
        let kept = self.until_sent.take();
        drop(kept); // dropping the last of one queues commands
    }

    /// The next return that asks for something, or answers; `None` when the driver woke this thread without one.
    // In line, with what it calls, in each of its few places: a return would pass through memory several times.
    #[inline(always)]
    pub(crate) fn next(&self, process: &Process, lent: &Lent<'_>) -> Result<Option<Return>, Error> {
        self.next_of(process, lent, false)
    }

    /// The same, and `BR_TRANSACTION_COMPLETE` too if `completes`. Otherwise it is only counted: whoever waits for a
    /// reply or a call does not wait for it.
    #[inline(always)]
    fn next_of(&self, process: &Process, lent: &Lent<'_>, completes: bool) -> Result<Option<Return>, Error> {
        let mut exchanged = false;
        loop {
            if let Some(pending) = self.pending(completes) {
                return Ok(Some(pending));
            }
            if exchanged {
                return Ok(None);
            }
            self.exchange(process, lent, true)?;
            exchanged = true;
        }
    }

    /// The next of the returns that are here already. Those that come with every call are passed over quickly.
    #[inline(always)]
    pub(crate) fn pending(&self, completes: bool) -> Option<Return> {
        loop {
            let mut io = self.io.borrow_mut();
            if io.returns.is_empty() {
                return None;
            }
            while io.returns.take_if(BR_NOOP) {}
            if completes || !io.returns.take_if(BR_TRANSACTION_COMPLETE) {
                return io.returns.next();
            }
            drop(io);
            self.acknowledged();
        }
    }

    /// A synchronous call: one exchange, unless something else arrives before the reply.
    pub(crate) fn transact<'p>(
        self: &Rc<Self>,
        process: &'p Arc<Process>,
        handle: u32,
        code: u32,
        outgoing: &Outgoing<'_>,
    ) -> Result<Reply<'p>, Error> {
        self.push_outgoing(outgoing, false, handle, code, outgoing.flags() | TF_ACCEPT_FDS);
        self.calling.set(self.calling.get() + 1);
        let answer = self.wait_for_reply(process, handle, code, &outgoing.lent());
        self.calling.set(self.calling.get() - 1);
        let data = answer?;
        let received = Received::take(process, &data);
        let reply = Reply { process, thread: self.clone(), received: Some(received) };
        if data.flags & TF_STATUS_CODE == 0 { Ok(reply) } else { Err(reply.status()) }
    }

    #[inline(always)]
    fn wait_for_reply(
        &self,
        process: &Arc<Process>,
        handle: u32,
        code: u32,
        lent: &Lent<'_>,
    ) -> Result<TransactionData, Error> {
        loop {
            match self.next(process, lent)? {
                Some(Return::Reply(data)) => return Ok(data),
                Some(Return::DeadReply) => return Err(Error::DeadObject { handle }),
                Some(Return::FailedReply) => return Err(refused(process, handle, code)),
                Some(Return::FrozenReply) => return Err(Error::Frozen { handle }),
                Some(other) => self.handle(process, &other)?,
                None => {}
            }
        }
    }

    /// A oneway call: until the driver has taken it.
    pub(crate) fn transact_oneway(
        &self,
        process: &Arc<Process>,
        handle: u32,
        code: u32,
        outgoing: &Outgoing<'_>,
    ) -> Result<(), Error> {
        self.push_outgoing(outgoing, false, handle, code, outgoing.flags() | TF_ACCEPT_FDS | TF_ONE_WAY);
        loop {
            match self.next_of(process, &outgoing.lent(), true)? {
                Some(Return::TransactionComplete) if self.unacknowledged.get() > 0 => self.acknowledged(),
                Some(Return::OnewaySpamSuspect) => {
                    process.suspected_of_spam();
                    return Ok(());
                }
                Some(Return::TransactionComplete | Return::TransactionPendingFrozen) => return Ok(()),
                Some(Return::DeadReply) => return Err(Error::DeadObject { handle }),
                Some(Return::FailedReply) => return Err(refused(process, handle, code)),
                Some(Return::FrozenReply) => return Err(Error::Frozen { handle }),
                Some(other) => self.handle(process, &other)?,
                None => {}
            }
        }
    }

    /// Queues the answer to the call that this thread serves.
    pub(crate) fn push_reply(&self, outgoing: &Outgoing<'_>) {
        self.push_outgoing(outgoing, true, 0, 0, outgoing.flags());
        self.unacknowledged.set(self.unacknowledged.get() + 1);
    }

    /// Keeps what a sent reply named until the driver holds it.
    pub(crate) fn keep(&self, parcel: &mut Parcel) {
        parcel.move_objects(&self.in_flight);
    }

    fn acknowledged(&self) {
        let left = self.unacknowledged.get().saturating_sub(1);
        self.unacknowledged.set(left);
        if left == 0 && !self.in_flight.borrow().is_empty() {
            let held = self.in_flight.take();
            drop(held); // dropping one may queue commands
        }
    }

    /// Does what the driver asks for besides answering this thread's own call.
    pub(crate) fn handle(&self, process: &Arc<Process>, asked: &Return) -> Result<(), Error> {
        match *asked {
            Return::Transaction(ref data) | Return::TransactionSecCtx(ref data, _) => {
                return self.serve(process, data);
            }
            Return::TransactionComplete => self.acknowledged(),
            Return::Increfs(node) => self.push(Command::IncrefsDone(node)),
            Return::Acquire(node) => {
                process.nodes().count(node.ptr, 1);
                self.push(Command::AcquireDone(node));
            }
            Return::Release(node) => process.nodes().count(node.ptr, -1),
            Return::SpawnLooper => process.spawn_registered_looper(),
            Return::DeadBinder(cookie) => self.told_of_death(process, cookie),
            Return::FrozenBinder(told) => self.told_of_freeze(process, told),
            Return::Error(errno) => return Err(Error::Reported { errno }),
            // Weak references keep nothing here: a node's name is never used again. Failed replies are their
            // callers' concern.
            _ => {}
        }
        Ok(())
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        let Some(process) = self.process.upgrade().filter(|process| !process.forked()) else { return };
        let _ = self.flush(&process); // a driver that is out of order has forgotten everything
        process.driver().exit_thread();
        process.retire_copies(&self.copies);
    }
}

/// A received reply. Dropping it gives its buffer in this process's area back, along with the thread's next call.
#[derive(Debug)]
pub struct Reply<'p> {
    process: &'p Arc<Process>,
    thread: Rc<ThreadState>,
    /// There until it is dropped.
    received: Option<Received<'p>>,
}

impl<'p> Reply<'p> {
    fn received(&self) -> Result<&Received<'p>, Error> {
        self.received.as_ref().ok_or(Error::Malformed {
            what: "a reply",
            at: 0,
            problem: "it was given back",
        })
    }

    /// A reader over the reply of a binder object.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the driver named bytes outside the area.
    pub fn reader(&self) -> Result<ParcelReader<'_>, Error> {
        self.received()?.reader(self.process, self.thread.copies())
    }

    /// A reader over the reply of a hwbinder object.
    ///
    /// # Errors
    /// As [`Reply::reader`].
    pub fn hw_reader(&self) -> Result<HwReader<'_>, Error> {
        Ok(HwReader::new(self.reader()?, self.received()?.area()?))
    }

    fn status(&self) -> Error {
        let word = self.received().and_then(|received| Ok(received.data()?.array(0)));
        match word.map(|word| word.map(i32::from_ne_bytes)) {
            Ok(Some(code)) => Error::Status { code },
            Ok(None) => Error::Malformed { what: "a status", at: 0, problem: "it has less than 4 bytes" },
            Err(error) => error,
        }
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if let Some(received) = self.received.take() {
            received.give_back(self.process, &self.thread);
        }
    }
}

/// A call that the driver refused, with the reason where it tells one.
#[cold]
fn refused(process: &Process, handle: u32, code: u32) -> Error {
    let errno = process.driver().extended_error().map_or(0, |error| error.param);
    Error::Failed { handle, code, errno }
}
