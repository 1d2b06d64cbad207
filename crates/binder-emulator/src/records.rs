//! What the control words mean: fixed tables of typed records, addressed by index.
//!
//! Every concept of the driver (process, thread, node, reference, transaction, buffer, work) has one table. Index 0 of
//! each is never used, so that 0 means "none".
//!
//! A participant may find anything in these words, also what another one scribbled there. What it does with them must then
//! be wrong in bounds, and end:
//!
//! - An index is checked when it is read: an [`Id`] always names a record, other words are "none". No word is an address
//!   that is followed, a descriptor that is used, or a length that is not compared with what it measures.
//! - Calculating saturates: a count or size that is wrong stays wrong, and is refused where it is used. The lint
//!   `arithmetic_side_effects` keeps it so (`mod.rs`).
//! - Lists are followed through `Guard::step` only, which ends them, whatever their shape.

use std::marker::PhantomData;

/// Most processes (opened devices) in a context. Slot 0 is unused.
pub(crate) const PROCESSES: usize = 256;
/// Most threads in a context.
pub(crate) const THREADS: usize = 4096;
/// Most handles of one process.
pub(crate) const HANDLES: usize = 16384;
/// Bytes of address space for each process's receive area; the kernel's limit too (`SZ_4M` in `binder_alloc.c`).
pub(crate) const AREA_BYTES: usize = 4 << 20;
/// List elements that one hold of the lock may look at: more than all records that there are, a few times over.
pub(crate) const STEPS: u32 = 1 << 22;
/// Buckets of the table that finds a node by its owner and `ptr`.
pub(crate) const NODE_BUCKETS: usize = 32768;
/// Entries of the undo journal, two words each.
pub(crate) const JOURNAL_ENTRIES: usize = 65536;

/// Bytes from one thread's futex (and what else its sleep needs, see `Region`) to the next: a cache line of its own.
pub(crate) const FUTEX_STRIDE: usize = 64;

// Word numbers in the header page.
/// Word 0 is the lock.
pub(crate) const MAGIC: usize = 1;
/// Undo entries in force; 0 when the state is consistent.
pub(crate) const JOURNAL_LENGTH: usize = 2;
/// The context manager's node.
pub(crate) const CONTEXT_MANAGER: usize = 3;
/// `Profile` of the context.
pub(crate) const PROFILE: usize = 4;
/// The last transaction's number. On the lock's cache line, since each transaction takes one.
pub(crate) const LAST_NUMBER: usize = 5;
/// How often the lock was taken from a dead owner.
pub(crate) const TAKEOVERS: usize = 6;
/// The process whose notifications were received last.
pub(crate) const RECEIVED_FROM: usize = 9;
/// Whether the keeper looks after claimed threads; see `lock/wake.rs`.
pub(crate) const WATCH: usize = 7;
/// Tells this context from others that a process may have joined.
pub(crate) const TAG: usize = 8;
/// The thread whose policy was set last by another, see `Guard::undo_last_policy`.
pub(crate) const LENT_LAST: usize = 10;
/// The `Lending` of whoever joins.
pub(crate) const LENDING: usize = 11;
/// Where notifications are received: the kernel writes here.
pub(crate) const RECEIVED_AT: usize = 64;
/// The first of the tables' pairs of (free list, first index never used).
const TABLE_HEADS: usize = 16;
const HEADER_WORDS: usize = 512;

/// What word `MAGIC` holds: the layout's name and version.
pub(crate) const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"rtbndr05");

pub(crate) const JOURNAL_AT: usize = HEADER_WORDS;
pub(crate) const NODE_HASH_AT: usize = JOURNAL_AT + 2 * JOURNAL_ENTRIES;
/// For each process, the reference behind each handle.
pub(crate) const HANDLES_AT: usize = NODE_HASH_AT + NODE_BUCKETS;
/// For each process, the buffer that begins at each 8 bytes of its area.
pub(crate) const STARTS_AT: usize = HANDLES_AT + PROCESSES * HANDLES;
pub(crate) const STARTS: usize = AREA_BYTES / 8;
const TABLES_AT: usize = STARTS_AT + PROCESSES * STARTS;

/// A kind of record: where its table lies.
pub(crate) trait Record: 'static {
    /// First word of the table.
    const AT: usize;
    /// Words of one record.
    const WORDS: usize;
    /// Records, with the unused one at index 0.
    const COUNT: usize;
    /// Header word of the free list.
    const HEAD: usize;
    /// Header word of the first index never used.
    const UNUSED: usize = Self::HEAD + 1;
}

/// A record's index; never 0.
pub(crate) struct Id<R>(u32, PhantomData<fn() -> R>);

impl<R> Id<R> {
    pub(crate) fn new(index: u64) -> Option<Self>
    where
        R: Record,
    {
        (index != 0 && index < R::COUNT as u64).then_some(Self(index as u32, PhantomData))
    }
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}
impl<R: Record> Id<R> {
    /// The record's words. The first links free records.
    #[inline]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "an id is below COUNT, and all tables lie in CONTROL_WORDS"
    )]
    pub(crate) fn words(self) -> std::ops::Range<usize> {
        let at = R::AT + self.index() * R::WORDS;
        at..at + R::WORDS
    }
}
impl<R> Clone for Id<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Id<R> {}
impl<R> PartialEq for Id<R> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<R> Eq for Id<R> {}
impl<R> std::fmt::Debug for Id<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A typed field of a record: a word number inside it.
pub(crate) struct Field<R, T> {
    word: usize,
    marker: PhantomData<fn() -> (R, T)>,
}
impl<R, T> Clone for Field<R, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R, T> Copy for Field<R, T> {}
impl<R: Record, T> Field<R, T> {
    const fn new(word: usize) -> Self {
        assert!(word < R::WORDS);
        Self { word, marker: PhantomData }
    }
    /// The control word of this field in record `id`.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "a field lies in its record")]
    pub(crate) fn of(self, id: Id<R>) -> usize {
        id.words().start + self.word
    }
}

/// What a field may hold.
pub(crate) trait Word: Copy {
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}
macro_rules! word {
    ($($kind:ty),*) => {$(
        impl Word for $kind {
            #[inline]
            fn to_word(self) -> u64 { self as u64 }
            #[inline]
            fn from_word(word: u64) -> Self { word as $kind }
        }
    )*};
}
word!(u64, u32, i32);
impl Word for bool {
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        word != 0
    }
}
impl<R: Record> Word for Option<Id<R>> {
    #[inline]
    fn to_word(self) -> u64 {
        self.map_or(0, |id| u64::from(id.0))
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        Id::new(word)
    }
}

/// The head word of a queue of [`Work`]; the tail is the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Queue(pub(crate) usize);

impl Queue {
    /// The tail word.
    pub(crate) fn tail(self) -> usize {
        self.0.saturating_add(1)
    }
}

macro_rules! records {
    (@fields $record:ident $at:expr;) => {};
    (@fields $record:ident $at:expr; $(#[$doc:meta])* $name:ident: Queue, $($rest:tt)*) => {
        $(#[$doc])*
        pub(crate) const $name: Field<$record, u64> = Field::new($at);
        const _: () = assert!($at + 1 < <$record as Record>::WORDS);
        records!(@fields $record $at + 2; $($rest)*);
    };
    (@fields $record:ident $at:expr; $(#[$doc:meta])* $name:ident: $kind:ty, $($rest:tt)*) => {
        $(#[$doc])*
        pub(crate) const $name: Field<$record, $kind> = Field::new($at);
        records!(@fields $record $at + 1; $($rest)*);
    };
    ($($(#[$doc:meta])* $record:ident, $module:ident, table $number:literal at $at:expr, $count:expr, of $words:literal { $($fields:tt)* })*) => {$(
        $(#[$doc])*
        pub(crate) enum $record {}
        impl Record for $record {
            const AT: usize = $at;
            const WORDS: usize = $words;
            const COUNT: usize = $count;
            const HEAD: usize = TABLE_HEADS + 2 * $number;
        }
        pub(crate) mod $module {
            #[allow(unused_imports, reason = "not every record links to others")]
            use super::*;
            // Word 0 links free records.
            records!(@fields $record 1; $($fields)*);
        }
    )*};
}

#[expect(clippy::arithmetic_side_effects, reason = "at compile time")]
const fn end<R: Record>() -> usize {
    R::AT + R::WORDS * R::COUNT
}

records! {
    /// An opened device.
    Process, process, table 0 at TABLES_AT, PROCESSES, of 40 {
        /// See `process::State`.
        STATE: u32,
        /// Synchronous calls to it are refused, oneway ones kept.
        FROZEN: bool,
        /// Process id, as the keeper saw it.
        PID: i32,
        /// First thread.
        THREADS_HEAD: Option<Id<Thread>>,
        /// First thread that waits for work of the process.
        WAITING: Option<Id<Thread>>,
        /// Work for any looper thread.
        TODO: Queue,
        /// Death notifications that were delivered and not yet acknowledged.
        DELIVERED: Queue,
        /// First node.
        NODES: Option<Id<Node>>,
        /// Buffers in the order of their addresses.
        BUFFERS: Option<Id<Buffer>>,
        /// Free buffers, in no order.
        FREE: Option<Id<Buffer>>,
        /// Bytes of the area in use (the size of the process's mapping).
        AREA: u64,
        /// Where the area lies in the process's own memory. Only calculated with, never followed.
        AREA_ADDRESS: u64,
        /// Bytes that oneway transactions may still take.
        ASYNC_FREE: u64,
        /// `BINDER_SET_MAX_THREADS`.
        MAX_THREADS: u32,
        /// Threads asked for and not yet registered.
        REQUESTED: u32,
        /// Threads asked for and registered.
        STARTED: u32,
        /// Handles below this one are all taken (handle 0 apart).
        HANDLE_HINT: u64,
        /// Handles from this one on were never used.
        HANDLE_END: u64,
        /// Senders that are copying into the area outside the lock.
        FILLS: u32,
        /// The default nice value of loopers: that of the opener.
        DEFAULT_PRIORITY: u64,
        /// How often the slot was taken: tells its users apart.
        GENERATION: u64,
        /// Transactions that wanted a priority lent, and were refused permission.
        DENIED: u64,
        /// Synchronous calls came since it was frozen.
        CALLS_REFUSED: bool,
        /// Oneway calls came since it was frozen.
        ONEWAY_KEPT: bool,
        /// It wants to be told when it sends suspiciously many oneway transactions.
        TELL_SPAM: bool,
        /// Someone was suspected, and oneway transactions are still short of space.
        SPAM_FOUND: bool,
        /// Transactions whose priority was lent through a priority-inheriting futex.
        HELD: u64,
        /// Freeze notifications that were delivered and not yet acknowledged.
        FREEZE_DELIVERED: Queue,
        /// Threads that sleep in a poll.
        POLLERS: u32,
    }
    /// A thread that has used the driver.
    Thread, thread, table 1 at end::<Process>(), THREADS, of 32 {
        /// Its process.
        PROCESS: Option<Id<Process>>,
        /// Thread id.
        TID: i32,
        /// `thread::LOOPER_*`.
        LOOPER: u32,
        /// The current ioctl must not wait.
        NEED_RETURN: bool,
        /// Next thread of the process.
        NEXT: Option<Id<Thread>>,
        /// Previous thread of the process.
        PREV: Option<Id<Thread>>,
        /// True while it is in the process's list of waiting threads.
        IS_WAITING: bool,
        /// Next waiting thread.
        WAIT_NEXT: Option<Id<Thread>>,
        /// Previous waiting thread.
        WAIT_PREV: Option<Id<Thread>>,
        /// Work for this thread only.
        TODO: Queue,
        /// The queue holds more than deferred `TRANSACTION_COMPLETE`s.
        HAS_WORK: bool,
        /// The transaction that it serves or waits for.
        STACK: Option<Id<Transaction>>,
        /// A refused command's return, until it is read (0: none). Commands wait for that.
        RETURN_ERROR: u32,
        /// A failed transaction's return, until it is read (0: none).
        REPLY_ERROR: u32,
        /// The buffer it is filling outside the lock.
        FILLING: Option<Id<Buffer>>,
        /// The priority it has by itself.
        OWN_PRIORITY: u64,
        /// The priority it has now.
        PRIORITY: u64,
        /// Its last transaction's number; 0 when that was asked for.
        ERROR_NUMBER: u64,
        /// How that was refused: `BR_*`; 0 when it was not.
        ERROR_RETURN: u32,
        /// Why: a negative errno, or 0.
        ERROR_PARAM: i32,
        /// The process that it freezes or thaws, until all who asked are told.
        FREEZING: Option<Id<Process>>,
        /// It sleeps in a poll, or is about to.
        POLLS: bool,
    }
    /// A local object that others can call.
    Node, node, table 2 at end::<Thread>(), 131_072, of 32 {
        /// Its owner; none once that is dead.
        PROCESS: Option<Id<Process>>,
        /// The owner's name of it.
        PTR: u64,
        /// The owner's second word.
        COOKIE: u64,
        /// `FLAT_BINDER_FLAG_*`.
        FLAGS: u32,
        /// References of other processes that are strong.
        INTERNAL_STRONG: u32,
        /// Strong counts inside the driver and the owner.
        LOCAL_STRONG: u32,
        /// Weak counts inside the driver and the owner.
        LOCAL_WEAK: u32,
        /// The owner was told of strong references.
        HAS_STRONG: bool,
        /// The owner was told of weak references.
        HAS_WEAK: bool,
        /// `BC_ACQUIRE_DONE` is due.
        PENDING_STRONG: bool,
        /// `BC_INCREFS_DONE` is due.
        PENDING_WEAK: bool,
        /// A oneway transaction is being served.
        HAS_ASYNC: bool,
        /// Oneway transactions that wait for it.
        ASYNC_TODO: Queue,
        /// First reference.
        REFS: Option<Id<Ref>>,
        /// Its queued work (to tell the owner of references).
        WORK: Option<Id<Work>>,
        /// Next in its hash bucket.
        HASH_NEXT: Option<Id<Node>>,
        /// Next of its process.
        NEXT: Option<Id<Node>>,
        /// Previous of its process.
        PREV: Option<Id<Node>>,
    }
    /// A process's reference on a node: what a handle stands for.
    Ref, reference, table 3 at end::<Node>(), 524_288, of 12 {
        /// Whose.
        PROCESS: Option<Id<Process>>,
        /// On what.
        NODE: Option<Id<Node>>,
        /// Its number in the process.
        HANDLE: u32,
        /// Strong count.
        STRONG: u32,
        /// Weak count.
        WEAK: u32,
        /// Next reference on the node.
        NEXT: Option<Id<Ref>>,
        /// Previous reference on the node.
        PREV: Option<Id<Ref>>,
        /// The death notification that was asked for.
        DEATH: Option<Id<Work>>,
        /// The freeze notification that was asked for.
        FREEZE: Option<Id<Work>>,
    }
    /// A call or a reply on its way.
    Transaction, transaction, table 4 at end::<Ref>(), 65_536, of 24 {
        /// Who waits for the reply (none: oneway, reply, or gone).
        FROM: Option<Id<Thread>>,
        /// The sender's process id.
        SENDER_PID: i32,
        /// The sender's effective user id.
        SENDER_EUID: u32,
        /// Where it goes.
        TO_PROCESS: Option<Id<Process>>,
        /// Who serves it.
        TO_THREAD: Option<Id<Thread>>,
        /// What the sender waits for besides.
        FROM_PARENT: Option<Id<Transaction>>,
        /// What the server serves besides.
        TO_PARENT: Option<Id<Transaction>>,
        /// The method.
        CODE: u32,
        /// `TF_*`.
        FLAGS: u32,
        /// A call, not a reply.
        NEED_REPLY: bool,
        /// Its data in the receiver's area.
        BUFFER: Option<Id<Buffer>>,
        /// The sender's priority.
        PRIORITY: u64,
        /// The server's, before the call.
        SAVED_PRIORITY: u64,
        /// The priority was lent already.
        PRIORITY_SET: bool,
        /// How many descriptors wait for it in the receiver's inbox.
        FDS: u32,
        /// Its number, by which they are found; 0 when there are none, or they are not wanted any more.
        FDS_NUMBER: u64,
        /// Who is lent the caller's priority through its hold (`hold.rs`).
        HELD_BY: Option<Id<Thread>>,
        /// That priority.
        HELD_AT: u64,
        /// The sender's `Lending`.
        LENDING: u32,
    }
    /// A stretch of a process's area, in use or free.
    Buffer, buffer, table 5 at end::<Transaction>(), 131_072, of 24 {
        /// Whose area.
        PROCESS: Option<Id<Process>>,
        /// Where, in bytes from the area's start.
        OFFSET: u64,
        /// How long.
        SIZE: u64,
        /// The next by address.
        NEXT: Option<Id<Buffer>>,
        /// The previous by address.
        PREV: Option<Id<Buffer>>,
        /// The next free one.
        FREE_NEXT: Option<Id<Buffer>>,
        /// The previous free one.
        FREE_PREV: Option<Id<Buffer>>,
        /// Not in use.
        IS_FREE: bool,
        /// Bytes of data.
        DATA_SIZE: u64,
        /// Bytes of offsets.
        OFFSETS_SIZE: u64,
        /// The transaction it came with, while that lasts.
        TRANSACTION: Option<Id<Transaction>>,
        /// The node it was sent to (none: a reply).
        TARGET: Option<Id<Node>>,
        /// It came with a oneway transaction.
        IS_ASYNC: bool,
        /// The receiver may free it: it was delivered, and not freed yet.
        USER_MAY_FREE: bool,
        /// `TF_CLEAR_BUF`.
        CLEAR: bool,
        /// How many of its objects hold references.
        OBJECTS: u64,
        /// Someone is filling it outside the lock.
        FILLING: bool,
        /// The process id of a oneway transaction's sender.
        SENDER: u32,
        /// That one was suspected of spam.
        SUSPECT: bool,
    }
    /// An entry of a queue.
    Work, work, table 6 at end::<Buffer>(), 262_144, of 8 {
        /// See `queue::Kind`.
        KIND: u32,
        /// What it is about.
        PAYLOAD: u64,
        /// The next in the queue.
        NEXT: Option<Id<Work>>,
        /// The previous in the queue.
        PREV: Option<Id<Work>>,
        /// The queue's first word; 0: in none.
        QUEUE: u64,
        /// Of a freeze notification: whether the owner is frozen.
        IS_FROZEN: bool,
        /// Of a freeze notification that was delivered: it is to be queued again when that is
        /// acknowledged.
        RESEND: bool,
    }
}

/// The word that says which buffer begins at `offset` of a process's area; for an offset outside an area, none.
pub(crate) fn start_word(owner: Id<Process>, offset: u64) -> usize {
    nth(STARTS_AT, STARTS, owner, offset / 8)
}

/// The word that says which reference is behind a handle of a process; for what no handle can be, none.
pub(crate) fn handle_word(owner: Id<Process>, handle: u64) -> usize {
    nth(HANDLES_AT, HANDLES, owner, handle)
}

/// Of a table that begins at word `at` and has a row of so many words for each process: a word, or one that does not exist.
#[inline]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "an id is below PROCESSES, an index below its row's length"
)]
fn nth(at: usize, row: usize, owner: Id<Process>, index: u64) -> usize {
    if index < row as u64 { at + owner.index() * row + index as usize } else { usize::MAX }
}

/// The bucket of the table that finds the node which `owner` calls `ptr`.
pub(crate) fn node_bucket(owner: Id<Process>, ptr: u64) -> usize {
    // Fibonacci hashing; names are often addresses or small numbers.
    let mixed = (ptr ^ ((owner.index() as u64) << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    const { assert!(NODE_BUCKETS == 1 << 15) };
    NODE_HASH_AT.saturating_add((mixed >> 49) as usize)
}

/// Words of control memory in all.
pub(crate) const CONTROL_WORDS: usize = end::<Work>();
/// Where the futexes begin, in bytes.
pub(crate) const FUTEXES_AT: usize = (CONTROL_WORDS * 8).next_multiple_of(65536);
/// Where the areas begin, in bytes: on a boundary of any page size.
pub(crate) const AREAS_AT: usize = (FUTEXES_AT + THREADS * FUTEX_STRIDE).next_multiple_of(65536);
/// Bytes of the whole region. Sparse: only pages that were used take memory.
pub(crate) const REGION_BYTES: usize = AREAS_AT + PROCESSES * AREA_BYTES;

const _: () = assert!(
    TABLE_HEADS + 2 * 7 <= RECEIVED_AT && RECEIVED_AT + super::trap::NOTIFICATION_WORDS <= HEADER_WORDS
);
const _: () = assert!(CONTROL_WORDS * 8 <= FUTEXES_AT && AREAS_AT.is_multiple_of(65536));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_is_none_names_no_record() {
        let index = |word| Id::<Thread>::new(word).map(Id::index);
        assert_eq!([index(0), index(1), index(4095)], [None, Some(1), Some(4095)]);
        assert_eq!([index(4096), index(u64::MAX), index(1 << 32 | 1)], [None; 3]);
        assert_eq!(format!("{:?}", Id::<Thread>::new(7).expect("an index")), "#7");
    }

    #[test]
    fn rows_of_a_table_do_not_overlap() {
        let owner = |slot| Id::<Process>::new(slot).expect("a slot");
        let last = PROCESSES as u64 - 1;
        assert_eq!(handle_word(owner(1), 0), HANDLES_AT + HANDLES);
        assert_eq!(handle_word(owner(last), HANDLES as u64 - 1), STARTS_AT - 1);
        assert_eq!(start_word(owner(1), 0), STARTS_AT + STARTS);
        assert_eq!(start_word(owner(1), 16), STARTS_AT + STARTS + 2);
        assert_eq!(start_word(owner(last), AREA_BYTES as u64 - 8), TABLES_AT - 1);
        assert_eq!(handle_word(owner(1), HANDLES as u64), usize::MAX);
        assert_eq!(start_word(owner(1), AREA_BYTES as u64), usize::MAX);
        let buckets = (0..100_000).map(|ptr| node_bucket(owner(1), ptr * 16));
        let (mut least, mut most) = (usize::MAX, 0);
        for bucket in buckets {
            (least, most) = (least.min(bucket), most.max(bucket));
        }
        assert!((NODE_HASH_AT..NODE_HASH_AT + 100).contains(&least), "{least}");
        assert!((HANDLES_AT - 100..HANDLES_AT).contains(&most), "{most}");
        assert_ne!(node_bucket(owner(1), 1), node_bucket(owner(2), 1));
    }

    #[test]
    fn records_follow_each_other() {
        let id = |index| Id::<Work>::new(index).expect("an index");
        assert_eq!(id(1).words(), Work::AT + Work::WORDS..Work::AT + 2 * Work::WORDS);
        assert_eq!(id(Work::COUNT as u64 - 1).words().end, CONTROL_WORDS);
        assert_eq!(work::NEXT.of(id(1)), id(1).words().start + work::NEXT.word);
    }
}
