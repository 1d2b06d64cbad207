//! One thread's exchange with the driver: commands out, returns in.
//!
//! A thread has one [`ThreadState`] for each connection that it uses. A call takes no lock and
//! allocates nothing. This file knows nothing about objects or the contents of parcels. It keeps
//! empty parcels for the next call, and objects that must stay alive until the driver has read a
//! command.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use roundtrip_binder_driver::uapi::{BR_NOOP, BR_TRANSACTION_COMPLETE};
use roundtrip_binder_driver::{Command, Commands, Errno, ReadableMemory, Return, Returns};

use crate::connection::Connection;
use crate::copies::Copies;
use crate::hwbinder::HwStore;
use crate::outgoing::Outgoing;
use crate::parcel::{Kept, Parcel};
use crate::{Dialect, Error};

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct ThreadState {
    connection: Weak<Connection>,
    dialect: Dialect,
    copies: Arc<Copies>,
    io: RefCell<Io>,
    // Boxed, because each call takes a parcel out and puts it back.
    #[expect(clippy::vec_box)]
    parcels: RefCell<Vec<Box<Parcel>>>,
    #[expect(clippy::vec_box)]
    stores: RefCell<Vec<Box<HwStore>>>,
    /// True while this thread is a looper.
    pub(crate) looper: Cell<bool>,
    /// How many nested incoming calls this thread is serving.
    pub(crate) serving: Cell<u32>,
    /// The number of replies for which `BR_TRANSACTION_COMPLETE` has not arrived yet.
    pub(crate) unacknowledged: Cell<u32>,
    /// The objects in those replies. This thread keeps them alive until the driver confirms that it
    /// holds references.
    in_flight: RefCell<Vec<Kept>>,
    /// Proxies for which references are queued. This thread keeps them alive until the driver has
    /// taken the references.
    until_sent: RefCell<Vec<Kept>>,
    /// How many nested outgoing calls this thread is waiting for.
    pub(crate) calling: Cell<u32>,
}

#[derive(Debug)]
struct Io {
    commands: Commands,
    returns: Returns,
}

thread_local! {
    /// This thread's states by connection. A list, because a thread rarely has more than two.
    static STATES: RefCell<Vec<(u64, Rc<ThreadState>)>> = const { RefCell::new(Vec::new()) };
    /// True after the first use of `STATES`.
    static STARTED: Cell<bool> = const { Cell::new(false) };
}

impl ThreadState {
    /// The calling thread's state for `connection`.
    pub(crate) fn current(connection: &Arc<Connection>) -> Rc<Self> {
        if !STARTED.replace(true) {
            // A driver may have thread-local data of its own. An ending thread destroys its
            // thread-locals in the reverse order of their first use. Using the driver before
            // `STATES` lets these states use the driver while they are dropped.
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
            drop(gone); // not during the borrow: dropped objects may call this function
            new
        });
        // An ending thread has already destroyed `STATES`, so it uses a temporary state.
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

    /// Takes an empty parcel, which has the capacity from its last use.
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

    /// Keeps a proxy alive until the queued commands are sent.
    pub(crate) fn keep_until_sent(&self, proxy: Kept) {
        self.until_sent.borrow_mut().push(proxy);
    }

    /// Sends the queued commands unless this thread will soon exchange commands anyway. Another
    /// thread might never do so.
    pub(crate) fn flush_unless_soon(&self, connection: &Connection) {
        if !(self.looper.get() || self.serving.get() > 0 || self.calling.get() > 0) {
            let _ = self.flush(connection); // a failed driver has no references to keep
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

    /// Passes the command queue to `queue`, which frees a received buffer.
    // Inlined because every call uses it. If the command is known at compile time, little of `push`
    // remains.
    #[inline(always)]
    pub(crate) fn with_commands<T>(&self, queue: impl FnOnce(&mut Commands) -> T) -> T {
        queue(&mut self.io.borrow_mut().commands)
    }

    /// Sends the queued commands without waiting for returns.
    pub(crate) fn flush(&self, connection: &Connection) -> Result<(), Error> {
        self.exchange(connection, &ReadableMemory::default(), false)
    }

    /// Sends the queued commands, which may refer to `memory`, and, if `wait`, waits for returns.
    /// If earlier returns are still unread, it keeps them and does not wait.
    #[inline]
    pub(crate) fn exchange(
        &self,
        connection: &Connection,
        memory: &ReadableMemory<'_>,
        wait: bool,
    ) -> Result<(), Error> {
        let result = self.exchange_now(connection, memory, wait);
        if !self.until_sent.borrow().is_empty() {
            self.sent();
        }
        result
    }

    #[inline]
    fn exchange_now(
        &self,
        connection: &Connection,
        memory: &ReadableMemory<'_>,
        wait: bool,
    ) -> Result<(), Error> {
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
            match connection.driver().exchange(&mut io.commands, memory, returns) {
                Ok(()) => return Ok(()),
                Err(error) if error.errno() == Some(Errno::INTR) => {}
                Err(cause) => {
                    // The remaining commands refer to memory that may soon be freed.
                    io.commands.clear();
                    return Err(Error::Driver { operation: "exchange commands with the driver", cause });
                }
            }
        }
    }

    /// Drops the proxies that were kept alive for queued references. The driver has taken these
    /// references now.
    #[cold]
    fn sent(&self) {
        let kept = self.until_sent.take();
        drop(kept); // the last reference to a proxy queues commands when it is dropped
    }

    /// Waits for the next return other than `BR_NOOP` and `BR_TRANSACTION_COMPLETE`. `None` if the
    /// driver woke this thread without such a return.
    // Inlined with its callees, so that a return is not copied through memory several times.
    #[inline(always)]
    pub(crate) fn next(
        &self,
        connection: &Connection,
        memory: &ReadableMemory<'_>,
    ) -> Result<Option<Return>, Error> {
        self.next_of(connection, memory, false)
    }

    /// Like [`ThreadState::next`], but also returns `BR_TRANSACTION_COMPLETE` if `completes` is
    /// set. Otherwise that return is only counted, because a thread that waits for a reply or a
    /// call ignores it.
    #[inline(always)]
    pub(crate) fn next_of(
        &self,
        connection: &Connection,
        memory: &ReadableMemory<'_>,
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
            self.exchange(connection, memory, true)?;
            exchanged = true;
        }
    }

    /// Returns the next return that was already read. Has a fast path to skip the returns that
    /// occur in every call.
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

    /// Queues the reply to the call that this thread serves.
    pub(crate) fn push_reply(&self, outgoing: &Outgoing<'_>) {
        self.push_outgoing(outgoing, true, 0, 0, outgoing.flags());
        self.unacknowledged.set(self.unacknowledged.get() + 1);
    }

    /// Keeps the objects of a sent reply alive until the driver holds references.
    pub(crate) fn keep(&self, parcel: &mut Parcel) {
        parcel.move_objects(&self.in_flight);
    }

    /// Handles the `BR_TRANSACTION_COMPLETE` of a reply. After the last one, the driver holds
    /// references to all objects in the replies.
    pub(crate) fn acknowledged(&self) {
        let left = self.unacknowledged.get().saturating_sub(1);
        self.unacknowledged.set(left);
        if left == 0 && !self.in_flight.borrow().is_empty() {
            let held = self.in_flight.take();
            drop(held); // this may queue commands
        }
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        let Some(connection) = self.connection.upgrade().filter(|connection| !connection.forked()) else {
            return;
        };
        let _ = self.flush(&connection); // a failed driver has no references to keep
        connection.driver().exit_thread();
        connection.copies().retire(&self.copies);
    }
}
