//! The driver's binary interface: numbers and layouts, as in the kernel's `include/uapi/linux/android/binder.h`.
//!
//! 64-bit layouts only (`binder_uintptr_t` and `binder_size_t` are 8 bytes, protocol version 8), native byte
//! order. Nothing here talks to a driver, and nothing here is unsafe: every layout is encoded and decoded field
//! by field, and its length is asserted against the header's.

/// The protocol version that a 64-bit driver answers to `BINDER_VERSION`.
pub const PROTOCOL_VERSION: i32 = 8;

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

/// The length in bytes of what follows a command or return word; the size field of its `_IOC` number.
#[must_use]
pub const fn payload_size(word: u32) -> usize {
    ((word >> 16) & 0x3fff) as usize
}

/// A field of a layout: a fixed-width integer in native byte order.
pub trait Field: Copy {
    /// Width in bytes.
    const SIZE: usize;
    /// Writes the value to the first `SIZE` bytes of `out`.
    fn put(self, out: &mut [u8]);
    /// Reads a value from the first `SIZE` bytes of `from`.
    fn take(from: &[u8]) -> Self;
}

macro_rules! field {
    ($($kind:ty),*) => {$(
        impl Field for $kind {
            const SIZE: usize = size_of::<$kind>();
            fn put(self, out: &mut [u8]) {
                out[..Self::SIZE].copy_from_slice(&self.to_ne_bytes());
            }
            fn take(from: &[u8]) -> Self {
                let mut bytes = [0; size_of::<$kind>()];
                bytes.copy_from_slice(&from[..Self::SIZE]);
                <$kind>::from_ne_bytes(bytes)
            }
        }
    )*};
}
field!(u32, i32, u64);

macro_rules! layout {
    ($(#[$doc:meta])* $name:ident: $size:literal { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind,)* }

        impl $name {
            /// Length in bytes, as in the kernel's header.
            pub const SIZE: usize = $size;

            /// The bytes that the driver sees.
            #[must_use]
            pub fn to_bytes(self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                let mut at = 0;
                $( self.$field.put(&mut bytes[at..]); at += <$kind>::SIZE; )*
                debug_assert_eq!(at, Self::SIZE);
                bytes
            }

            /// Reads the layout from the front of `bytes`; `None` when they are too few.
            #[must_use]
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let bytes = bytes.get(..Self::SIZE)?;
                let mut at = 0;
                $( let $field = <$kind>::take(&bytes[at..]); at += <$kind>::SIZE; )*
                debug_assert_eq!(at, Self::SIZE);
                Some(Self { $($field),* })
            }
        }

        const _: () = assert!($name::SIZE == 0 $(+ <$kind as Field>::SIZE)*);
    };
}

layout! {
    /// `struct binder_transaction_data`: one transaction or reply, in either direction.
    TransactionData: 64 {
        /// To the driver: the target's handle (32 bits). From it: the target node's `ptr`.
        target: u64,
        /// From the driver: the target node's cookie. To it: unused.
        cookie: u64,
        /// The method, chosen by the interface; the driver only carries it.
        code: u32,
        /// `TF_*`.
        flags: u32,
        /// From the driver: the caller's process id; 0 for a oneway transaction.
        sender_pid: i32,
        /// From the driver: the caller's effective user id.
        sender_euid: u32,
        /// Bytes of data.
        data_size: u64,
        /// Bytes of offsets (8 for each object).
        offsets_size: u64,
        /// Address of the data.
        buffer: u64,
        /// Address of the objects' offsets in the data.
        offsets: u64,
    }
}

layout! {
    /// `struct binder_transaction_data_sg`: a transaction with scatter-gather buffers.
    TransactionDataSg: 72 {
        /// See [`TransactionData::target`]. The fields of the plain transaction come first.
        target: u64,
        /// Unused.
        cookie: u64,
        /// See [`TransactionData::code`].
        code: u32,
        /// See [`TransactionData::flags`].
        flags: u32,
        /// Unused.
        sender_pid: i32,
        /// Unused.
        sender_euid: u32,
        /// Bytes of data.
        data_size: u64,
        /// Bytes of offsets.
        offsets_size: u64,
        /// Address of the data.
        buffer: u64,
        /// Address of the offsets.
        offsets: u64,
        /// Bytes of all PTR buffers together, each rounded up to 8.
        buffers_size: u64,
    }
}

layout! {
    /// `struct binder_ptr_cookie`: a local node, as its owner named it.
    PtrCookie: 16 {
        /// The owner's name of the node.
        ptr: u64,
        /// The owner's second word.
        cookie: u64,
    }
}

layout! {
    /// `struct binder_handle_cookie` (packed): a handle, and the cookie of its death notification.
    HandleCookie: 12 {
        /// The handle.
        handle: u32,
        /// Returned with `BR_DEAD_BINDER`.
        cookie: u64,
    }
}

layout! {
    /// `struct flat_binder_object`: a node or a handle inside a transaction's data.
    FlatBinderObject: 24 {
        /// `BINDER_TYPE_{BINDER,WEAK_BINDER,HANDLE,WEAK_HANDLE}`.
        kind: u32,
        /// `FLAT_BINDER_FLAG_*` and the least priority, when it names a local node.
        flags: u32,
        /// The node's `ptr` or the handle.
        binder: u64,
        /// The node's cookie.
        cookie: u64,
    }
}

layout! {
    /// `struct binder_buffer_object`: a scatter-gather buffer (`BINDER_TYPE_PTR`).
    BufferObject: 40 {
        /// `BINDER_TYPE_PTR`.
        kind: u32,
        /// `BINDER_BUFFER_FLAG_HAS_PARENT` or 0.
        flags: u32,
        /// Address of the bytes: the sender's, and after the copy the receiver's.
        buffer: u64,
        /// Their number.
        length: u64,
        /// Index, among the offsets, of the parent PTR object.
        parent: u64,
        /// Where in the parent buffer the pointer to this one lies.
        parent_offset: u64,
    }
}

layout! {
    /// `struct binder_fd_object`: a file descriptor inside a transaction's data.
    FdObject: 24 {
        /// `BINDER_TYPE_FD`.
        kind: u32,
        /// Carried along.
        flags: u32,
        /// The sender's descriptor, and in what the receiver gets, its own (close-on-exec, its to close).
        fd: u32,
        /// The driver makes it 0.
        pad: u32,
        /// Carried along.
        cookie: u64,
    }
}

layout! {
    /// `struct binder_fd_array_object`: file descriptors, 32 bits each, inside a scatter-gather buffer.
    FdArrayObject: 32 {
        /// `BINDER_TYPE_FDA`.
        kind: u32,
        /// Carried along.
        pad: u32,
        /// How many.
        count: u64,
        /// Index, among the offsets, of the PTR object that they lie in.
        parent: u64,
        /// Where in its buffer they begin.
        parent_offset: u64,
    }
}

layout! {
    /// `struct binder_extended_error`: why a thread's last transaction was refused.
    ExtendedError: 12 {
        /// The driver's number of the transaction; 0 when there was none since the last question.
        id: u32,
        /// What was returned: `BR_FAILED_REPLY`, `BR_DEAD_REPLY`, `BR_FROZEN_REPLY`; `BR_OK` when nothing was wrong.
        command: u32,
        /// A negative errno, or 0 where `command` says it all.
        param: i32,
    }
}

layout! {
    /// `struct binder_freeze_info`: the argument of `BINDER_FREEZE`.
    FreezeInfo: 12 {
        /// Whom, by process id.
        pid: u32,
        /// 1 freezes, 0 thaws.
        enable: u32,
        /// How long to wait for its transactions to end, in milliseconds.
        timeout_ms: u32,
    }
}

layout! {
    /// `struct binder_frozen_status_info`: what came for a process since it was frozen.
    FrozenStatusInfo: 12 {
        /// Whose, by process id.
        pid: u32,
        /// Bit 0: synchronous calls came, and were refused. Bit 1: it has unfinished transactions.
        sync_recv: u32,
        /// 1: oneway calls came, and wait.
        async_recv: u32,
    }
}

layout! {
    /// `struct binder_frozen_state_info`: what `BR_FROZEN_BINDER` says.
    FrozenStateInfo: 16 {
        /// The cookie that the notification was requested with.
        cookie: u64,
        /// 1 when the node's owner is frozen, 0 when it is not.
        is_frozen: u32,
        /// The driver makes it 0.
        reserved: u32,
    }
}

layout! {
    /// `struct binder_write_read`: the argument of `BINDER_WRITE_READ`.
    WriteRead: 48 {
        /// Bytes of commands.
        write_size: u64,
        /// Bytes of commands that the driver has taken.
        write_consumed: u64,
        /// Address of the commands.
        write_buffer: u64,
        /// Room for returns, in bytes.
        read_size: u64,
        /// Bytes of returns that the driver has written.
        read_consumed: u64,
        /// Address of the room for returns.
        read_buffer: u64,
    }
}

layout! {
    /// `struct binder_node_debug_info`: the argument of `BINDER_GET_NODE_DEBUG_INFO`.
    NodeDebugInfo: 24 {
        /// To the driver: the `ptr` after which to look. From it: the node's; 0 when there is none.
        ptr: u64,
        /// The node's cookie.
        cookie: u64,
        /// 1 when the owner was told of strong references.
        has_strong: u32,
        /// 1 when the owner was told of weak references.
        has_weak: u32,
    }
}

const fn object_type(a: u8, b: u8, c: u8) -> u32 {
    ((a as u32) << 24) | ((b as u32) << 16) | ((c as u32) << 8) | 0x85
}
/// A local node, strong.
pub const BINDER_TYPE_BINDER: u32 = object_type(b's', b'b', b'*');
/// A local node, weak.
pub const BINDER_TYPE_WEAK_BINDER: u32 = object_type(b'w', b'b', b'*');
/// A handle, strong.
pub const BINDER_TYPE_HANDLE: u32 = object_type(b's', b'h', b'*');
/// A handle, weak.
pub const BINDER_TYPE_WEAK_HANDLE: u32 = object_type(b'w', b'h', b'*');
/// A file descriptor.
pub const BINDER_TYPE_FD: u32 = object_type(b'f', b'd', b'*');
/// An array of file descriptors in a PTR buffer.
pub const BINDER_TYPE_FDA: u32 = object_type(b'f', b'd', b'a');
/// A scatter-gather buffer.
pub const BINDER_TYPE_PTR: u32 = object_type(b'p', b't', b'*');

/// Bits of a node's flags: the least priority (nice, or real-time priority) of its server threads.
pub const FLAT_BINDER_FLAG_PRIORITY_MASK: u32 = 0xff;
/// The node accepts file descriptors.
pub const FLAT_BINDER_FLAG_ACCEPTS_FDS: u32 = 0x100;
/// Where the least scheduling policy starts (Android's kernels): 2 bits, 0 OTHER, 1 FIFO, 2 RR, 3 BATCH.
pub const FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT: u32 = 9;
/// The bits of the least scheduling policy.
pub const FLAT_BINDER_FLAG_SCHED_POLICY_MASK: u32 = 3 << FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT;
/// Server threads inherit a real-time caller's policy and priority (Android's kernels).
pub const FLAT_BINDER_FLAG_INHERIT_RT: u32 = 0x800;
/// The receiver wants the caller's security context.
pub const FLAT_BINDER_FLAG_TXN_SECURITY_CTX: u32 = 0x1000;

/// This PTR buffer's address is to be written into its parent.
pub const BINDER_BUFFER_FLAG_HAS_PARENT: u32 = 0x01;

/// No reply is wanted: the call returns when the driver has taken it.
pub const TF_ONE_WAY: u32 = 0x01;
/// The data is a 32-bit status code (a reply of a failed method).
pub const TF_STATUS_CODE: u32 = 0x08;
/// The reply may carry file descriptors (a call may when its node has `FLAT_BINDER_FLAG_ACCEPTS_FDS`).
pub const TF_ACCEPT_FDS: u32 = 0x10;
/// The receiver's buffer is to be zeroed when it is freed.
pub const TF_CLEAR_BUF: u32 = 0x20;
/// A oneway transaction that takes the place of an older one like it, which waits for a frozen process (since Linux 6.0).
pub const TF_UPDATE_TXN: u32 = 0x40;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => { $($(#[$doc])* pub const $name: u32 = $value;)* };
}
words! {
    /// A transaction.
    BC_TRANSACTION = iow(b'c', 0, TransactionData::SIZE);
    /// The answer to the transaction on top of this thread's stack.
    BC_REPLY = iow(b'c', 1, TransactionData::SIZE);
    /// Never supported by the driver.
    BC_ACQUIRE_RESULT = iow(b'c', 2, 4);
    /// Gives a received buffer back.
    BC_FREE_BUFFER = iow(b'c', 3, 8);
    /// One more weak reference on a handle.
    BC_INCREFS = iow(b'c', 4, 4);
    /// One more strong reference on a handle.
    BC_ACQUIRE = iow(b'c', 5, 4);
    /// One strong reference less on a handle.
    BC_RELEASE = iow(b'c', 6, 4);
    /// One weak reference less on a handle.
    BC_DECREFS = iow(b'c', 7, 4);
    /// `BR_INCREFS` was carried out.
    BC_INCREFS_DONE = iow(b'c', 8, PtrCookie::SIZE);
    /// `BR_ACQUIRE` was carried out.
    BC_ACQUIRE_DONE = iow(b'c', 9, PtrCookie::SIZE);
    /// Never supported by the driver.
    BC_ATTEMPT_ACQUIRE = iow(b'c', 10, 8);
    /// A thread that the driver asked for has entered its loop.
    BC_REGISTER_LOOPER = io(b'c', 11);
    /// A thread that the process started by itself has entered its loop.
    BC_ENTER_LOOPER = io(b'c', 12);
    /// The thread leaves its loop.
    BC_EXIT_LOOPER = io(b'c', 13);
    /// Tell when the handle's node dies.
    BC_REQUEST_DEATH_NOTIFICATION = iow(b'c', 14, HandleCookie::SIZE);
    /// Do not tell any more.
    BC_CLEAR_DEATH_NOTIFICATION = iow(b'c', 15, HandleCookie::SIZE);
    /// `BR_DEAD_BINDER` was carried out.
    BC_DEAD_BINDER_DONE = iow(b'c', 16, 8);
    /// A transaction with scatter-gather buffers.
    BC_TRANSACTION_SG = iow(b'c', 17, TransactionDataSg::SIZE);
    /// A reply with scatter-gather buffers.
    BC_REPLY_SG = iow(b'c', 18, TransactionDataSg::SIZE);
    /// Tell now, and whenever it changes, whether the owner of the handle's node is frozen (since
    /// Linux 6.12).
    BC_REQUEST_FREEZE_NOTIFICATION = iow(b'c', 19, HandleCookie::SIZE);
    /// Do not tell any more.
    BC_CLEAR_FREEZE_NOTIFICATION = iow(b'c', 20, HandleCookie::SIZE);
    /// `BR_FROZEN_BINDER` was carried out. The next one with this cookie comes only after that.
    BC_FREEZE_NOTIFICATION_DONE = iow(b'c', 21, 8);

    /// An errno follows.
    BR_ERROR = ior(b'r', 0, 4);
    /// Nothing was wrong.
    BR_OK = io(b'r', 1);
    /// A transaction for this process, with the caller's security context.
    BR_TRANSACTION_SEC_CTX = ior(b'r', 2, TransactionData::SIZE + 8);
    /// A transaction for this process.
    BR_TRANSACTION = ior(b'r', 2, TransactionData::SIZE);
    /// The answer to this thread's transaction.
    BR_REPLY = ior(b'r', 3, TransactionData::SIZE);
    /// Never sent.
    BR_ACQUIRE_RESULT = ior(b'r', 4, 4);
    /// The target is gone.
    BR_DEAD_REPLY = io(b'r', 5);
    /// The driver has taken the transaction or reply.
    BR_TRANSACTION_COMPLETE = io(b'r', 6);
    /// Others hold weak references on the node now.
    BR_INCREFS = ior(b'r', 7, PtrCookie::SIZE);
    /// Others hold strong references on the node now.
    BR_ACQUIRE = ior(b'r', 8, PtrCookie::SIZE);
    /// No other holds strong references any more.
    BR_RELEASE = ior(b'r', 9, PtrCookie::SIZE);
    /// No other holds weak references any more.
    BR_DECREFS = ior(b'r', 10, PtrCookie::SIZE);
    /// Never sent.
    BR_ATTEMPT_ACQUIRE = ior(b'r', 11, 24);
    /// Nothing; comes first in every non-empty read.
    BR_NOOP = io(b'r', 12);
    /// Start one more looper thread, please.
    BR_SPAWN_LOOPER = io(b'r', 13);
    /// Never sent.
    BR_FINISHED = io(b'r', 14);
    /// The node with this cookie's death notification has died.
    BR_DEAD_BINDER = ior(b'r', 15, 8);
    /// The death notification is cleared.
    BR_CLEAR_DEATH_NOTIFICATION_DONE = ior(b'r', 16, 8);
    /// The transaction or reply was refused, or could not be delivered.
    BR_FAILED_REPLY = io(b'r', 17);
    /// The target process is frozen.
    BR_FROZEN_REPLY = io(b'r', 18);
    /// Taken, but this process sends suspiciously many oneway transactions.
    BR_ONEWAY_SPAM_SUSPECT = io(b'r', 19);
    /// Taken, but the target process is frozen.
    BR_TRANSACTION_PENDING_FROZEN = io(b'r', 20);
    /// Whether a node's owner is frozen ([`FrozenStateInfo`]).
    BR_FROZEN_BINDER = ior(b'r', 21, FrozenStateInfo::SIZE);
    /// The freeze notification with this cookie is cleared.
    BR_CLEAR_FREEZE_NOTIFICATION_DONE = ior(b'r', 22, 8);

    /// The ioctl that carries commands and returns.
    BINDER_WRITE_READ = ioc(3, b'b', 1, WriteRead::SIZE);
    /// How many threads the driver may ask for.
    BINDER_SET_MAX_THREADS = iow(b'b', 5, 4);
    /// Become the context manager.
    BINDER_SET_CONTEXT_MGR = iow(b'b', 7, 4);
    /// The calling thread leaves the driver.
    BINDER_THREAD_EXIT = iow(b'b', 8, 4);
    /// Asks for the protocol version.
    BINDER_VERSION = ioc(3, b'b', 9, 4);
    /// What a node's owner was told of it ([`NodeDebugInfo`]).
    BINDER_GET_NODE_DEBUG_INFO = ioc(3, b'b', 11, NodeDebugInfo::SIZE);
    /// The counts on a handle's node (`struct binder_node_info_for_ref`: handle, strong, weak, three reserved words).
    BINDER_GET_NODE_INFO_FOR_REF = ioc(3, b'b', 12, 24);
    /// Become the context manager, with flags for its node.
    BINDER_SET_CONTEXT_MGR_EXT = iow(b'b', 13, FlatBinderObject::SIZE);
    /// Freezes or thaws a process ([`FreezeInfo`]).
    BINDER_FREEZE = iow(b'b', 14, FreezeInfo::SIZE);
    /// What came for a frozen process ([`FrozenStatusInfo`]).
    BINDER_GET_FROZEN_INFO = ioc(3, b'b', 15, FrozenStatusInfo::SIZE);
    /// Whether a process that sends suspiciously many oneway transactions is told so.
    BINDER_ENABLE_ONEWAY_SPAM_DETECTION = iow(b'b', 16, 4);
    /// Why the calling thread's last transaction failed ([`ExtendedError`]).
    BINDER_GET_EXTENDED_ERROR = ioc(3, b'b', 17, ExtendedError::SIZE);
}

/// Rounds up to the 8 bytes that the driver aligns offsets and PTR buffers to.
/// `None` when the result does not fit.
#[must_use]
pub fn align8(bytes: u64) -> Option<u64> {
    Some(bytes.checked_add(7)? & !7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_the_kernels_header_expands_to() {
        assert_eq!(BC_TRANSACTION, 0x4040_6300);
        assert_eq!(BC_TRANSACTION_SG, 0x4048_6311);
        assert_eq!(BC_FREE_BUFFER, 0x4008_6303);
        assert_eq!(BC_REQUEST_DEATH_NOTIFICATION, 0x400c_630e);
        assert_eq!(BC_REQUEST_FREEZE_NOTIFICATION, 0x400c_6313);
        assert_eq!(BC_CLEAR_FREEZE_NOTIFICATION, 0x400c_6314);
        assert_eq!(BC_FREEZE_NOTIFICATION_DONE, 0x4008_6315);
        assert_eq!(BR_FROZEN_BINDER, 0x8010_7215);
        assert_eq!(BR_CLEAR_FREEZE_NOTIFICATION_DONE, 0x8008_7216);
        assert_eq!(BR_TRANSACTION, 0x8040_7202);
        assert_eq!(BR_REPLY, 0x8040_7203);
        assert_eq!(BR_TRANSACTION_COMPLETE, 0x0000_7206);
        assert_eq!(BR_NOOP, 0x0000_720c);
        assert_eq!(BINDER_WRITE_READ, 0xc030_6201);
        assert_eq!(BINDER_VERSION, 0xc004_6209);
        assert_eq!(BINDER_TYPE_BINDER, 0x7362_2a85);
        assert_eq!(BINDER_TYPE_PTR, 0x7074_2a85);
    }

    #[test]
    fn a_layout_read_back_is_the_layout_written() {
        let data =
            TransactionData { target: 7, code: 3, buffer: u64::MAX, sender_pid: -1, ..Default::default() };
        assert_eq!(TransactionData::from_bytes(&data.to_bytes()), Some(data));
        assert_eq!(TransactionData::from_bytes(&data.to_bytes()[..63]), None);
        let packed = HandleCookie { handle: 1, cookie: 2 };
        assert_eq!(packed.to_bytes(), [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    }
}
