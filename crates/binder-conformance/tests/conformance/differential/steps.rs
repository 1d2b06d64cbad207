//! The steps of a sequence: in each, one thread of one process performs one act. Plain data; this
//! file knows no driver.

use serde::{Deserialize, Serialize};

/// The number of processes of a sequence. At its start, the first one is the context manager.
pub(super) const PROCESSES: usize = 4;
/// The number of threads of each process.
pub(super) const THREADS: usize = 2;

/// A step: an act of one thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) act: Act,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Act {
    /// One `BINDER_WRITE_READ`: these commands, then a read.
    Exchange { orders: Vec<Order>, read: Reading },
    /// `BINDER_THREAD_EXIT`.
    LeaveThread,
    /// The process closes the device, as it does when it dies. Its next step opens it again.
    Close,
    /// Asks to be the context manager, with these flags on its node.
    BecomeManager(u32),
    /// `BINDER_SET_MAX_THREADS`.
    MaxThreads(u32),
    /// `BINDER_GET_NODE_INFO_FOR_REF`.
    NodeCounts(Target),
    /// `BINDER_GET_NODE_DEBUG_INFO`, from the first node to the last.
    ListNodes,
    /// The thread changes its own nice value.
    Nice(i32),
    /// The thread changes its own policy.
    Policy(Policy),
    /// `BINDER_FREEZE`, without waiting, of this process.
    Freeze { process: usize, frozen: bool },
    /// `BINDER_GET_FROZEN_INFO` on this process.
    FrozenInfo(usize),
    /// `BINDER_ENABLE_ONEWAY_SPAM_DETECTION`.
    DetectSpam(bool),
    /// `BINDER_GET_EXTENDED_ERROR`.
    ExtendedError,
    /// poll(2), without waiting.
    Poll,
}

/// The read of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reading {
    Nothing,
    /// Returns pending work, or EAGAIN.
    AtOnce,
    /// The thread sleeps until there is work. If its next step comes first, the process is
    /// interrupted.
    Waiting,
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Policy {
    Other,
    Batch,
    Fifo(u32),
    RoundRobin(u32),
}

/// One command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    Send(Send),
    /// Frees one of the buffers that the process has received, or an invalid address if it has
    /// none.
    Free(usize),
    /// Frees the buffer that the process received last.
    FreeLast,
    Count(Counting, Target),
    /// `BC_ACQUIRE_DONE` or `BC_INCREFS_DONE`.
    Done {
        strong: bool,
        ptr: u64,
        cookie: u64,
    },
    RequestDeath(Target, u64),
    ClearDeath(Target, u64),
    DeadBinderDone(u64),
    RequestFreeze(Target, u64),
    ClearFreeze(Target, u64),
    FreezeDone(u64),
    EnterLooper,
    RegisterLooper,
    ExitLooper,
    /// An invalid command.
    Nonsense,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Counting {
    Increfs,
    Acquire,
    Release,
    Decrefs,
}

/// A handle.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Target {
    /// The handle that the process received last (0), the one before (1), and so on. Without any,
    /// the context manager's handle.
    Held(usize),
    Number(u32),
}

/// A transaction or a reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Send {
    pub(super) reply: bool,
    pub(super) target: Target,
    pub(super) flags: u32,
    pub(super) payload: Payload,
}

/// The data of a transaction: objects, then plain bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Payload {
    /// The first object lies at offset 8 instead of 0. The driver refuses trees of buffers whose
    /// root lies at 0.
    pub(super) lead: bool,
    pub(super) objects: Vec<Object>,
    pub(super) bytes: usize,
    pub(super) flaw: Option<Flaw>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Object {
    Node {
        weak: bool,
        ptr: u64,
        cookie: u64,
        flags: u32,
    },
    Handle {
        weak: bool,
        target: Target,
    },
    Buffer {
        bytes: usize,
        parent: Option<Parent>,
    },
    /// A file descriptor, of an open file or closed.
    Fd {
        open: bool,
    },
    /// A buffer with `words` other words, then numbers of descriptors, open or closed.
    Numbers {
        words: usize,
        open: Vec<bool>,
    },
    /// `count` descriptors at a place in a buffer.
    FdArray {
        count: u64,
        parent: Parent,
    },
    Garbage,
}

/// Where the pointer to a buffer is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Parent {
    /// Among the payload's objects.
    pub(super) index: u64,
    pub(super) offset: u64,
}

/// A flaw of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Flaw {
    /// An object's offset is not a multiple of 4.
    OddOffset,
    /// Two offsets name the same object.
    OverlappingOffsets,
    /// The objects' offsets go backwards.
    BackwardOffsets,
    /// An offset is beyond the data.
    OffsetOutside,
    /// An offset overflows.
    HugeOffset,
    /// The offsets' length is not a multiple of 8.
    OddOffsets,
    /// The buffers need more room than is announced.
    LittleRoom,
    /// The room announced for the buffers is not a multiple of 8.
    OddRoom,
    /// More room is announced than the buffers need.
    MuchRoom,
    /// The data's address is unmapped.
    NoData,
    /// The offsets' address is unmapped.
    NoOffsets,
    /// A buffer's address is unmapped.
    NoBuffer,
    /// The sizes' sum overflows.
    HugeSize,
    /// A buffer longer than everything else.
    HugeBuffer,
}

impl Payload {
    /// True if it needs a scatter-gather command.
    pub(super) fn needs_buffers(&self) -> bool {
        let room = matches!(self.flaw, Some(Flaw::OddRoom | Flaw::MuchRoom));
        let is_buffer = |object: &Object| matches!(object, Object::Buffer { .. } | Object::Numbers { .. });
        room || self.objects.iter().any(is_buffer)
    }
}

impl Step {
    pub(super) fn new(process: usize, thread: usize, act: Act) -> Self {
        Self { process, thread, act }
    }

    /// Writes commands without reading.
    pub(super) fn write(process: usize, orders: Vec<Order>) -> Self {
        Self::new(process, 0, Act::Exchange { orders, read: Reading::Nothing })
    }

    /// Writes commands and reads in one exchange, waiting.
    pub(super) fn wait(process: usize, orders: Vec<Order>) -> Self {
        Self::new(process, 0, Act::Exchange { orders, read: Reading::Waiting })
    }

    /// Reads without writing.
    pub(super) fn read(process: usize) -> Self {
        Self::new(process, 0, Act::Exchange { orders: Vec::new(), read: Reading::AtOnce })
    }
}
