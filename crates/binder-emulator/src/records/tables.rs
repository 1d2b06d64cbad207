//! The tables: each record's fields, by name.

use super::{Field, Id, PROCESSES, Record, TABLE_HEADS, TABLES_AT, THREADS, end, records};

records! {
    /// An opened device.
    Process, process, table 0 at TABLES_AT, PROCESSES, of 40 {
        /// See `process::State`.
        STATE: u32,
        /// Synchronous calls to it are refused, oneway ones kept.
        FROZEN: bool,
        /// Process id, as the supervisor saw it.
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
        /// The address of the area in the process's own memory. It is only calculated with, never
        /// dereferenced.
        AREA_ADDRESS: u64,
        /// Bytes that oneway transactions may still take.
        ASYNC_FREE: u64,
        /// `BINDER_SET_MAX_THREADS`.
        MAX_THREADS: u32,
        /// Threads that were requested and have not registered yet.
        REQUESTED: u32,
        /// Threads that were requested and have registered.
        STARTED: u32,
        /// Handles below this one are all taken (handle 0 apart).
        HANDLE_HINT: u64,
        /// Handles from this one on were never used.
        HANDLE_END: u64,
        /// Senders that are copying into the area outside the lock.
        FILLS: u32,
        /// The default nice value of loopers: that of the opener.
        DEFAULT_PRIORITY: u64,
        /// How often the slot was taken, which distinguishes its users.
        GENERATION: u64,
        /// Transactions whose priority was not inherited, because the permission was missing.
        DENIED: u64,
        /// Synchronous calls came since it was frozen.
        CALLS_REFUSED: bool,
        /// Oneway calls came since it was frozen.
        ONEWAY_KEPT: bool,
        /// It requested notifications of its oneway spam.
        TELL_SPAM: bool,
        /// A sender was suspected of spam, and space for oneway transactions is still short.
        SPAM_FOUND: bool,
        /// Transactions whose priority was inherited through a PI futex.
        INHERITED: u64,
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
        /// Its own priority, without inheritance.
        OWN_PRIORITY: u64,
        /// The priority it has now.
        PRIORITY: u64,
        /// The number of its last transaction; 0 after the extended error was read.
        ERROR_NUMBER: u64,
        /// The return that refused it (`BR_*`); 0 if it was accepted.
        ERROR_RETURN: u32,
        /// The reason: a negative errno, or 0.
        ERROR_PARAM: i32,
        /// The process that it freezes or thaws, until all watchers are notified.
        FREEZING: Option<Id<Process>>,
        /// It sleeps in a poll, or is about to.
        POLLS: bool,
    }
    /// A local object that others can call.
    Node, node, table 2 at end::<Thread>(), 131_072, of 32 {
        /// Its owner; none if that is dead.
        PROCESS: Option<Id<Process>>,
        /// The owner's pointer (`ptr`).
        PTR: u64,
        /// The owner's cookie.
        COOKIE: u64,
        /// `FLAT_BINDER_FLAG_*`.
        FLAGS: u32,
        /// References of other processes that are strong.
        INTERNAL_STRONG: u32,
        /// Strong counts inside the driver and the owner.
        LOCAL_STRONG: u32,
        /// Weak counts inside the driver and the owner.
        LOCAL_WEAK: u32,
        /// Strong references were reported to the owner.
        HAS_STRONG: bool,
        /// Weak references were reported to the owner.
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
        /// Its queued work (to notify the owner of references).
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
        /// The process that has it.
        PROCESS: Option<Id<Process>>,
        /// The node.
        NODE: Option<Id<Node>>,
        /// The handle in the process.
        HANDLE: u32,
        /// Strong count.
        STRONG: u32,
        /// Weak count.
        WEAK: u32,
        /// Next reference on the node.
        NEXT: Option<Id<Ref>>,
        /// Previous reference on the node.
        PREV: Option<Id<Ref>>,
        /// The requested death notification.
        DEATH: Option<Id<Work>>,
        /// The requested freeze notification.
        FREEZE: Option<Id<Work>>,
    }
    /// A call or a reply in flight.
    Transaction, transaction, table 4 at end::<Ref>(), 65_536, of 24 {
        /// The thread that waits for the reply (none: oneway, reply, or gone).
        FROM: Option<Id<Thread>>,
        /// The sender's process id.
        SENDER_PID: i32,
        /// The sender's effective user id.
        SENDER_EUID: u32,
        /// The receiving process.
        TO_PROCESS: Option<Id<Process>>,
        /// The thread that serves it.
        TO_THREAD: Option<Id<Thread>>,
        /// The next transaction on the sender's stack.
        FROM_PARENT: Option<Id<Transaction>>,
        /// The next transaction on the server's stack.
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
        /// The server's priority before the call.
        SAVED_PRIORITY: u64,
        /// The priority was inherited already.
        PRIORITY_SET: bool,
        /// How many descriptors wait for it in the receiver's inbox.
        FDS: u32,
        /// The number that labels these descriptors; 0 if there are none, or if they are no longer
        /// needed.
        FDS_NUMBER: u64,
        /// The thread that inherits the caller's priority through the reply lock (`reply_lock.rs`).
        INHERITED_BY: Option<Id<Thread>>,
        /// That priority.
        INHERITED_AT: u64,
        /// The sender's `InheritBy`.
        INHERIT_BY: u32,
    }
    /// A range of a process's area, in use or free.
    Buffer, buffer, table 5 at end::<Transaction>(), 131_072, of 24 {
        /// The process that has the area.
        PROCESS: Option<Id<Process>>,
        /// Its start, in bytes from the area's start.
        OFFSET: u64,
        /// Its length in bytes.
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
        /// The transaction that it belongs to, while that exists.
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
        /// A sender is filling it outside the lock.
        FILLING: bool,
        /// The process id of a oneway transaction's sender.
        SENDER: u32,
        /// That sender was suspected of spam.
        SUSPECT: bool,
    }
    /// An entry of a queue.
    Work, work, table 6 at end::<Buffer>(), 262_144, of 8 {
        /// See `queue::Kind`.
        KIND: u32,
        /// The record or cookie that it refers to.
        PAYLOAD: u64,
        /// The next in the queue.
        NEXT: Option<Id<Work>>,
        /// The previous in the queue.
        PREV: Option<Id<Work>>,
        /// The first word of its queue; 0 if it is in none.
        QUEUE: u64,
        /// Of a freeze notification: whether the owner is frozen.
        IS_FROZEN: bool,
        /// Of a delivered freeze notification: it must be queued again when it is acknowledged.
        RESEND: bool,
    }
}
