//! What the control words mean: fixed tables of typed records, addressed by index.
//!
//! Every concept of the driver (process, thread, node, reference, transaction, buffer, work) has
//! one table. Index 0 of each is never used, so that 0 means "none".
//!
//! These words may contain anything, including garbage from another participant. Whatever a
//! participant then does must stay in bounds, and end:
//!
//! - An index is checked when it is read: an [`Id`] always names a record, other words are "none".
//!   No word is an address that is followed, a descriptor that is used, or a length that is not
//!   compared with what it measures.
//! - Calculating saturates: a count or size that is wrong stays wrong, and is refused where it is
//!   used. The lint `arithmetic_side_effects` ensures this (`mod.rs`).
//! - Lists are followed only through `Guard::step`, which ends even a circular list.

mod tables;

use std::marker::PhantomData;

pub(crate) use tables::*;

/// Most processes (opened devices) in a context. Slot 0 is unused.
pub(crate) const PROCESSES: usize = 256;
/// Most threads in a context.
pub(crate) const THREADS: usize = 4096;
/// Most handles of one process.
pub(crate) const HANDLES: usize = 16384;
/// Bytes of address space for each process's receive area; the kernel's limit too (`SZ_4M` in
/// `binder_alloc.c`).
pub(crate) const AREA_BYTES: usize = 4 << 20;
/// The number of list elements that a thread may visit while it holds the lock: a few times the
/// number of all records.
pub(crate) const STEPS: u32 = 1 << 22;
/// Buckets of the table that finds a node by its owner and `ptr`.
pub(crate) const NODE_BUCKETS: usize = 32768;
/// Entries of the undo journal, two words each.
pub(crate) const JOURNAL_ENTRIES: usize = 65536;

/// Bytes from one thread's futex (and what else its sleep needs, see `Region`) to the next: a cache
/// line of its own.
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
/// Whether the supervisor looks after claimed threads; see `lock/wake.rs`.
pub(crate) const WATCH: usize = 7;
/// Distinguishes this context from others that a process may have joined.
pub(crate) const TAG: usize = 8;
/// The thread whose policy was set last by another, see `Guard::undo_last_policy`.
pub(crate) const POLICY_SET_LAST: usize = 10;
/// The `InheritBy` of participants.
pub(crate) const INHERIT_BY: usize = 11;
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

/// A kind of record, and the position of its table.
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
use records;

#[expect(clippy::arithmetic_side_effects, reason = "at compile time")]
const fn end<R: Record>() -> usize {
    R::AT + R::WORDS * R::COUNT
}

/// The word that contains the buffer at `offset` of a process's area. For an offset outside the
/// area, a word that does not exist.
pub(crate) fn start_word(owner: Id<Process>, offset: u64) -> usize {
    nth(STARTS_AT, STARTS, owner, offset / 8)
}

/// The word that contains the reference behind a handle of a process. For an impossible handle, a
/// word that does not exist.
pub(crate) fn handle_word(owner: Id<Process>, handle: u64) -> usize {
    nth(HANDLES_AT, HANDLES, owner, handle)
}

/// A word of a table that begins at word `at` and has a row of `row` words for each process. If the
/// index is invalid, a word that does not exist.
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
    TABLE_HEADS + 2 * 7 <= RECEIVED_AT && RECEIVED_AT + crate::seccomp::NOTIFICATION_WORDS <= HEADER_WORDS
);
const _: () = assert!(CONTROL_WORDS * 8 <= FUTEXES_AT && AREAS_AT.is_multiple_of(65536));

#[cfg(test)]
mod tests;
