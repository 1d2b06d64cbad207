//! Queues of work, and the lists that records are linked in.

use rustix::io::Errno;

use crate::lock::Guard;
use crate::records::{Field, Id, Queue, Record, Work, work};

/// What an entry of a queue asks its reader to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Deliver a transaction or reply (payload: its record).
    Transaction = 1,
    /// Return `BR_TRANSACTION_COMPLETE`.
    Complete,
    /// Return the thread's refused command's error.
    ReturnError,
    /// Return the thread's failed transaction's error.
    ReplyError,
    /// Notify a node's owner of its references (payload: the node).
    Node,
    /// Notify of a death (payload: the cookie).
    DeadBinder,
    /// Notify of a death; the notification was cleared meanwhile.
    DeadBinderAndClear,
    /// Confirm that a death notification is cleared.
    ClearDeath,
    /// Return `BR_TRANSACTION_COMPLETE` for a oneway transaction, or report that its sender is
    /// suspected of spam.
    CompleteSuspect,
    /// Report that a oneway transaction waits for a frozen process.
    CompletePending,
    /// Notify whether the owner of a node is frozen (payload: the cookie).
    FrozenBinder,
    /// Confirm that a freeze notification is cleared.
    ClearFreeze,
}

impl Kind {
    fn from_word(word: u32) -> Option<Self> {
        Some(match word {
            1 => Self::Transaction,
            2 => Self::Complete,
            3 => Self::ReturnError,
            4 => Self::ReplyError,
            5 => Self::Node,
            6 => Self::DeadBinder,
            7 => Self::DeadBinderAndClear,
            8 => Self::ClearDeath,
            9 => Self::CompleteSuspect,
            10 => Self::CompletePending,
            11 => Self::FrozenBinder,
            12 => Self::ClearFreeze,
            _ => return None,
        })
    }
}

impl<R: Record> Field<R, u64> {
    /// The queue that a record's field of type `Queue` is.
    pub(crate) fn queue(self, id: Id<R>) -> Queue {
        Queue(self.of(id))
    }
}

impl Guard<'_> {
    /// A new entry, in no queue yet.
    pub(crate) fn new_work(&mut self, kind: Kind, payload: u64) -> Result<Id<Work>, Errno> {
        let entry = self.alloc::<Work>()?;
        self.init(entry, work::KIND, kind as u32);
        self.init(entry, work::PAYLOAD, payload);
        Ok(entry)
    }

    /// Appends a new entry to `queue`.
    pub(crate) fn push_new(&mut self, queue: Queue, kind: Kind, payload: u64) -> Result<Id<Work>, Errno> {
        let entry = self.new_work(kind, payload)?;
        self.push(queue, entry);
        Ok(entry)
    }

    /// Appends an entry that is in no queue.
    pub(crate) fn push(&mut self, queue: Queue, entry: Id<Work>) {
        let tail = Id::<Work>::new(self.word(queue.tail()));
        match tail {
            Some(tail) => self.set(tail, work::NEXT, Some(entry)),
            None => self.set_word(queue.0, entry.index() as u64),
        }
        self.set(entry, work::PREV, tail);
        self.set(entry, work::NEXT, None);
        self.set(entry, work::QUEUE, queue.0 as u64);
        self.set_word(queue.tail(), entry.index() as u64);
    }

    /// The first entry.
    pub(crate) fn front(&self, queue: Queue) -> Option<Id<Work>> {
        Id::new(self.word(queue.0))
    }

    /// The kind of an entry. `None` if a participant overwrote it.
    pub(crate) fn kind(&self, entry: Id<Work>) -> Option<Kind> {
        Kind::from_word(self.get(entry, work::KIND))
    }

    /// Takes an entry out of the queue that it is in, if any. It is not freed.
    pub(crate) fn unqueue(&mut self, entry: Id<Work>) {
        let queue = Queue(self.get(entry, work::QUEUE) as usize);
        if queue.0 == 0 {
            return;
        }
        let (next, prev) = (self.get(entry, work::NEXT), self.get(entry, work::PREV));
        match prev {
            Some(prev) => self.set(prev, work::NEXT, next),
            None => self.set_word(queue.0, next.map_or(0, |id| id.index() as u64)),
        }
        match next {
            Some(next) => self.set(next, work::PREV, prev),
            None => self.set_word(queue.tail(), prev.map_or(0, |id| id.index() as u64)),
        }
        self.set(entry, work::QUEUE, 0);
    }

    /// Links `id` in front of a doubly linked list whose first element `head` (a word number)
    /// names.
    pub(crate) fn link_front<R: Record>(&mut self, head: usize, id: Id<R>, next: Links<R>, prev: Links<R>) {
        let first = Id::<R>::new(self.word(head));
        self.set(id, next, first);
        self.set(id, prev, None);
        if let Some(first) = first {
            self.set(first, prev, Some(id));
        }
        self.set_word(head, id.index() as u64);
    }

    /// Takes `id` out of the list that `head` begins.
    pub(crate) fn unlink<R: Record>(&mut self, head: usize, id: Id<R>, next: Links<R>, prev: Links<R>) {
        let (after, before) = (self.get(id, next), self.get(id, prev));
        match before {
            Some(before) => self.set(before, next, after),
            None => self.set_word(head, after.map_or(0, |id| id.index() as u64)),
        }
        if let Some(after) = after {
            self.set(after, prev, before);
        }
    }
}

/// The field that links records of one kind.
pub(crate) type Links<R> = Field<R, Option<Id<R>>>;
