//! One thread's conversation with the driver: commands out, returns in.
//!
//! A thread has one [`ThreadState`] for each connection that it uses. It takes no lock and makes no
//! allocation in a call. It knows neither objects nor what is in a parcel: it only keeps empty
//! parcels for the next call, and what must live until the driver has taken a command.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use binder_driver::uapi::{BR_NOOP, BR_TRANSACTION_COMPLETE};
use binder_driver::{Command, Commands, Errno, Lent, Return, Returns};

use crate::connection::Connection;
use crate::copies::Copies;
use crate::hwbinder::HwStore;
use crate::outgoing::Outgoing;
use crate::parcel::{Kept, Parcel};
use crate::{Dialect, Error};

/// See the module.
#[derive(Debug)]
pub(crate) struct ThreadState {
    connection: Weak<Connection>,
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
    pub(crate) unacknowledged: Cell<u32>,
    /// What those replies named: until the driver has said that it holds references, this thread
    /// does.
    in_flight: RefCell<Vec<Kept>>,
    /// Proxies that queued commands take references for: until the driver has taken these, this
    /// thread holds them.
    until_sent: RefCell<Vec<Kept>>,
    /// How many calls this thread waits for, one inside the other.
    pub(crate) calling: Cell<u32>,
}

#[derive(Debug)]
struct Io {
    commands: Commands,
    returns: Returns,
}

thread_local! {
    /// This thread's states, by connection. One or two, so a list is quickest.
    static STATES: RefCell<Vec<(u64, Rc<ThreadState>)>> = const { RefCell::new(Vec::new()) };
    /// True when `STATES` has been used, or is about to be.
    static STARTED: Cell<bool> = const { Cell::new(false) };
}

impl ThreadState {
    /// The calling thread's state for `connection`.
    pub(crate) fn current(connection: &Arc<Connection>) -> Rc<Self> {
        if !STARTED.replace(true) {
            // A driver may keep data of its own for each thread. An ending thread drops what it
            // used last first: the driver comes first here, so that these states can still use it
            // when they are dropped.
            if !connection.forked() {
                let _ = connection.driver().write_read(&mut Commands::default(), &[], None);
            }
        }
        let found = STATES.try_with(|states| {
            if let Some((_, state)) = states.borrow().iter().find(|(id, _)| *id == connection.id()) {
                return state.clone();
            }
            let new = Self::new(connection);
            let gone = |(_, state): &mut (u64, Rc<Self>)| state.connection.strong_count() == 0;
            let gone: Vec<_> = states.borrow_mut().extract_if(.., gone).collect();
            states.borrow_mut().push((connection.id(), new.clone()));
            drop(gone); // not under the borrow: it may drop objects that come here for a state
            new
        });
        // A thread that is ending has no list any more: what it still does gets a state of its own.
        found.unwrap_or_else(|_| Self::new(connection))
    }

    fn new(connection: &Arc<Connection>) -> Rc<Self> {
        Rc::new(Self {
            connection: Arc::downgrade(connection),
            dialect: connection.dialect(),
            copies: connection.copies().start(),
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
    pub(crate) fn keep_until_sent(&self, proxy: Kept) {
        self.until_sent.borrow_mut().push(proxy);
    }

    /// Hands over what is queued, unless this thread soon goes to the driver anyway. Any other
    /// might never.
    pub(crate) fn flush_unless_soon(&self, connection: &Connection) {
        if !(self.looper.get() || self.serving.get() > 0 || self.calling.get() > 0) {
            let _ = self.flush(connection); // a driver that is out of order holds no references
        }
    }

    pub(crate) fn push_outgoing(
        &self,
        outgoing: &Outgoing<'_>,
        reply: bool,
        target: u32,
        code: u32,
        flags: u32,
    ) {
        outgoing.push(&mut self.io.borrow_mut().commands, reply, target, code, flags);
    }

    /// Queues a command for the next exchange.
    #[inline]
    pub(crate) fn push(&self, command: Command) {
        self.io.borrow_mut().commands.push(command);
    }

    /// Lets a received buffer be given back with the next exchange.
    // In line, for every call does it: what is known of the command leaves few instructions of
    // `push`.
    #[inline(always)]
    pub(crate) fn with_commands<T>(&self, queue: impl FnOnce(&mut Commands) -> T) -> T {
        queue(&mut self.io.borrow_mut().commands)
    }

    /// Hands over queued commands without waiting for anything.
    pub(crate) fn flush(&self, connection: &Connection) -> Result<(), Error> {
        self.exchange(connection, &Lent::default(), false)
    }

    /// Hands over queued commands, which may name what is `lent`, and, if `wait`, waits for
    /// returns. Returns that were not handled yet are never thrown away: they come first, and
    /// there is no waiting.
    #[inline]
    pub(crate) fn exchange(&self, connection: &Connection, lent: &Lent<'_>, wait: bool) -> Result<(), Error> {
        let result = self.exchange_now(connection, lent, wait);
        if !self.until_sent.borrow().is_empty() {
            self.sent();
        }
        result
    }

    #[inline]
    fn exchange_now(&self, connection: &Connection, lent: &Lent<'_>, wait: bool) -> Result<(), Error> {
        let io = &mut *self.io.borrow_mut();
        let wait = wait && io.returns.is_empty();
        if io.commands.is_empty() && !wait {
            return Ok(());
        }
        if connection.forked() {
            io.commands.clear();
            return Err(Error::Forked);
        }
        loop {
            let returns = if wait { Some(&mut io.returns) } else { None };
            match connection.driver().exchange(&mut io.commands, lent, returns) {
                Ok(()) => return Ok(()),
                Err(error) if error.errno() == Some(Errno::INTR) => {}
                Err(cause) => {
                    // What was not taken names memory that is about to go.
                    io.commands.clear();
                    return Err(Error::Driver { operation: "exchange commands with the driver", cause });
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

    /// The next return that asks for something, or answers; `None` when the driver woke this thread
    /// without one.
    // In line, with what it calls, in each of its few places: a return would pass through memory
    // several times.
    #[inline(always)]
    pub(crate) fn next(&self, connection: &Connection, lent: &Lent<'_>) -> Result<Option<Return>, Error> {
        self.next_of(connection, lent, false)
    }

    /// The same, and `BR_TRANSACTION_COMPLETE` too if `completes`. Otherwise it is only counted:
    /// whoever waits for a reply or a call does not wait for it.
    #[inline(always)]
    pub(crate) fn next_of(
        &self,
        connection: &Connection,
        lent: &Lent<'_>,
        completes: bool,
    ) -> Result<Option<Return>, Error> {
        let mut exchanged = false;
        loop {
            if let Some(pending) = self.pending(completes) {
                return Ok(Some(pending));
            }
            if exchanged {
                return Ok(None);
            }
            self.exchange(connection, lent, true)?;
            exchanged = true;
        }
    }

    /// The next of the returns that are here already. Those that come with every call are passed
    /// over quickly.
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

    /// Queues the answer to the call that this thread serves.
    pub(crate) fn push_reply(&self, outgoing: &Outgoing<'_>) {
        self.push_outgoing(outgoing, true, 0, 0, outgoing.flags());
        self.unacknowledged.set(self.unacknowledged.get() + 1);
    }

    /// Keeps what a sent reply named until the driver holds it.
    pub(crate) fn keep(&self, parcel: &mut Parcel) {
        parcel.move_objects(&self.in_flight);
    }

    /// The driver has said that a reply is sent; with the last, what they named is its own to hold.
    pub(crate) fn acknowledged(&self) {
        let left = self.unacknowledged.get().saturating_sub(1);
        self.unacknowledged.set(left);
        if left == 0 && !self.in_flight.borrow().is_empty() {
            let held = self.in_flight.take();
            drop(held); // dropping one may queue commands
        }
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        let Some(connection) = self.connection.upgrade().filter(|connection| !connection.forked()) else {
            return;
        };
        let _ = self.flush(&connection); // a driver that is out of order has forgotten everything
        connection.driver().exit_thread();
        connection.copies().retire(&self.copies);
    }
}
