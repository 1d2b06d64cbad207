//! The numbers of commands, returns and ioctls. Each number contains the length of its argument.

use super::{
    ExtendedError, FlatBinderObject, FreezeInfo, FrozenStateInfo, FrozenStatusInfo, HandleCookie,
    NodeDebugInfo, PtrCookie, TransactionData, TransactionDataSg, WriteRead,
};

const fn ioc(direction: u32, kind: u8, number: u32, size: usize) -> u32 {
    (direction << 30) | ((size as u32) << 16) | ((kind as u32) << 8) | number
}
const fn io(kind: u8, number: u32) -> u32 {
    ioc(0, kind, number, 0)
}
const fn iow(kind: u8, number: u32, size: usize) -> u32 {
    ioc(1, kind, number, size)
}
const fn ior(kind: u8, number: u32, size: usize) -> u32 {
    ioc(2, kind, number, size)
}

/// The length in bytes of the payload after a command or return word, from the size field of its
/// `_IOC` number.
#[must_use]
pub const fn payload_size(word: u32) -> usize {
    ((word >> 16) & 0x3fff) as usize
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => { $($(#[$doc])* pub const $name: u32 = $value;)* };
}
words! {
    /// A transaction.
    BC_TRANSACTION = iow(b'c', 0, TransactionData::SIZE);
    /// The reply to the transaction on top of this thread's transaction stack.
    BC_REPLY = iow(b'c', 1, TransactionData::SIZE);
    /// Never supported by the driver.
    BC_ACQUIRE_RESULT = iow(b'c', 2, 4);
    /// Frees a received buffer.
    BC_FREE_BUFFER = iow(b'c', 3, 8);
    /// Takes a weak reference on a handle.
    BC_INCREFS = iow(b'c', 4, 4);
    /// Takes a strong reference on a handle.
    BC_ACQUIRE = iow(b'c', 5, 4);
    /// Releases a strong reference on a handle.
    BC_RELEASE = iow(b'c', 6, 4);
    /// Releases a weak reference on a handle.
    BC_DECREFS = iow(b'c', 7, 4);
    /// Acknowledges `BR_INCREFS`.
    BC_INCREFS_DONE = iow(b'c', 8, PtrCookie::SIZE);
    /// Acknowledges `BR_ACQUIRE`.
    BC_ACQUIRE_DONE = iow(b'c', 9, PtrCookie::SIZE);
    /// Never supported by the driver.
    BC_ATTEMPT_ACQUIRE = iow(b'c', 10, 8);
    /// A thread that the driver requested becomes a looper.
    BC_REGISTER_LOOPER = io(b'c', 11);
    /// A thread that the process started itself becomes a looper.
    BC_ENTER_LOOPER = io(b'c', 12);
    /// The thread is no longer a looper.
    BC_EXIT_LOOPER = io(b'c', 13);
    /// Requests a notification of the death of the handle's node.
    BC_REQUEST_DEATH_NOTIFICATION = iow(b'c', 14, HandleCookie::SIZE);
    /// Clears a death notification.
    BC_CLEAR_DEATH_NOTIFICATION = iow(b'c', 15, HandleCookie::SIZE);
    /// Acknowledges `BR_DEAD_BINDER`.
    BC_DEAD_BINDER_DONE = iow(b'c', 16, 8);
    /// A transaction with scatter-gather buffers.
    BC_TRANSACTION_SG = iow(b'c', 17, TransactionDataSg::SIZE);
    /// A reply with scatter-gather buffers.
    BC_REPLY_SG = iow(b'c', 18, TransactionDataSg::SIZE);
    /// Requests notifications of the frozen state of the process that owns the handle's node: the
    /// current state, and each change (since Linux 6.12).
    BC_REQUEST_FREEZE_NOTIFICATION = iow(b'c', 19, HandleCookie::SIZE);
    /// Clears a freeze notification.
    BC_CLEAR_FREEZE_NOTIFICATION = iow(b'c', 20, HandleCookie::SIZE);
    /// Acknowledges `BR_FROZEN_BINDER`. The driver sends the next one with this cookie only after
    /// this.
    BC_FREEZE_NOTIFICATION_DONE = iow(b'c', 21, 8);

    /// An errno follows.
    BR_ERROR = ior(b'r', 0, 4);
    /// Success.
    BR_OK = io(b'r', 1);
    /// A transaction for this process, with the caller's security context.
    BR_TRANSACTION_SEC_CTX = ior(b'r', 2, TransactionData::SIZE + 8);
    /// A transaction for this process.
    BR_TRANSACTION = ior(b'r', 2, TransactionData::SIZE);
    /// The reply to this thread's transaction.
    BR_REPLY = ior(b'r', 3, TransactionData::SIZE);
    /// Never sent.
    BR_ACQUIRE_RESULT = ior(b'r', 4, 4);
    /// The target is dead.
    BR_DEAD_REPLY = io(b'r', 5);
    /// The driver accepted the transaction or reply.
    BR_TRANSACTION_COMPLETE = io(b'r', 6);
    /// The node now has weak references.
    BR_INCREFS = ior(b'r', 7, PtrCookie::SIZE);
    /// The node now has strong references.
    BR_ACQUIRE = ior(b'r', 8, PtrCookie::SIZE);
    /// The node no longer has strong references.
    BR_RELEASE = ior(b'r', 9, PtrCookie::SIZE);
    /// The node no longer has weak references.
    BR_DECREFS = ior(b'r', 10, PtrCookie::SIZE);
    /// Never sent.
    BR_ATTEMPT_ACQUIRE = ior(b'r', 11, 24);
    /// No operation; the first return of every non-empty read.
    BR_NOOP = io(b'r', 12);
    /// Requests another looper thread.
    BR_SPAWN_LOOPER = io(b'r', 13);
    /// Never sent.
    BR_FINISHED = io(b'r', 14);
    /// The node with this death notification's cookie died.
    BR_DEAD_BINDER = ior(b'r', 15, 8);
    /// The death notification is cleared.
    BR_CLEAR_DEATH_NOTIFICATION_DONE = ior(b'r', 16, 8);
    /// The transaction or reply was refused, or could not be delivered.
    BR_FAILED_REPLY = io(b'r', 17);
    /// The target process is frozen.
    BR_FROZEN_REPLY = io(b'r', 18);
    /// The oneway transaction was accepted, but this process sends suspiciously many of them.
    BR_ONEWAY_SPAM_SUSPECT = io(b'r', 19);
    /// The oneway transaction was accepted and queued, because the target process is frozen.
    BR_TRANSACTION_PENDING_FROZEN = io(b'r', 20);
    /// The frozen state of a node's owner ([`FrozenStateInfo`]).
    BR_FROZEN_BINDER = ior(b'r', 21, FrozenStateInfo::SIZE);
    /// The freeze notification with this cookie is cleared.
    BR_CLEAR_FREEZE_NOTIFICATION_DONE = ior(b'r', 22, 8);

    /// Exchanges commands and returns.
    BINDER_WRITE_READ = ioc(3, b'b', 1, WriteRead::SIZE);
    /// Sets how many threads the driver may request.
    BINDER_SET_MAX_THREADS = iow(b'b', 5, 4);
    /// Becomes the context manager.
    BINDER_SET_CONTEXT_MGR = iow(b'b', 7, 4);
    /// The calling thread leaves the driver.
    BINDER_THREAD_EXIT = iow(b'b', 8, 4);
    /// Returns the protocol version.
    BINDER_VERSION = ioc(3, b'b', 9, 4);
    /// Returns what the driver reported to a node's owner ([`NodeDebugInfo`]).
    BINDER_GET_NODE_DEBUG_INFO = ioc(3, b'b', 11, NodeDebugInfo::SIZE);
    /// Returns the reference counts of a handle's node (`struct binder_node_info_for_ref`: handle,
    /// strong, weak, three reserved words).
    BINDER_GET_NODE_INFO_FOR_REF = ioc(3, b'b', 12, 24);
    /// Becomes the context manager, with flags for its node.
    BINDER_SET_CONTEXT_MGR_EXT = iow(b'b', 13, FlatBinderObject::SIZE);
    /// Freezes or thaws a process ([`FreezeInfo`]).
    BINDER_FREEZE = iow(b'b', 14, FreezeInfo::SIZE);
    /// Returns which calls arrived for a frozen process ([`FrozenStatusInfo`]).
    BINDER_GET_FROZEN_INFO = ioc(3, b'b', 15, FrozenStatusInfo::SIZE);
    /// Enables or disables oneway spam detection.
    BINDER_ENABLE_ONEWAY_SPAM_DETECTION = iow(b'b', 16, 4);
    /// Returns why the calling thread's last transaction failed ([`ExtendedError`]).
    BINDER_GET_EXTENDED_ERROR = ioc(3, b'b', 17, ExtendedError::SIZE);
}
