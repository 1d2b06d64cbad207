//! The kinds of objects in a transaction's data, and the flags of nodes, buffers and transactions.

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

/// The bits in a node's flags for the minimum priority of its server threads (a nice value or a
/// real-time priority).
pub const FLAT_BINDER_FLAG_PRIORITY_MASK: u32 = 0xff;
/// The node accepts file descriptors.
pub const FLAT_BINDER_FLAG_ACCEPTS_FDS: u32 = 0x100;
/// The position of the minimum scheduling policy (Android's kernels): 2 bits, 0 OTHER, 1 FIFO, 2
/// RR, 3 BATCH.
pub const FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT: u32 = 9;
/// The bits of the minimum scheduling policy.
pub const FLAT_BINDER_FLAG_SCHED_POLICY_MASK: u32 = 3 << FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT;
/// Server threads inherit a real-time caller's policy and priority (Android's kernels).
pub const FLAT_BINDER_FLAG_INHERIT_RT: u32 = 0x800;
/// The receiver wants the caller's security context.
pub const FLAT_BINDER_FLAG_TXN_SECURITY_CTX: u32 = 0x1000;

/// The driver writes this PTR buffer's address into its parent.
pub const BINDER_BUFFER_FLAG_HAS_PARENT: u32 = 0x01;

/// A oneway call: it has no reply, and completes when the driver has accepted it.
pub const TF_ONE_WAY: u32 = 0x01;
/// The data is a 32-bit status code (a reply of a failed method).
pub const TF_STATUS_CODE: u32 = 0x08;
/// The reply may contain file descriptors. (A call may if its node has
/// `FLAT_BINDER_FLAG_ACCEPTS_FDS`.)
pub const TF_ACCEPT_FDS: u32 = 0x10;
/// The driver zeroes the receiver's buffer when it is freed.
pub const TF_CLEAR_BUF: u32 = 0x20;
/// A oneway transaction that replaces an older, similar one in the queue of a frozen process (since
/// Linux 6.0).
pub const TF_UPDATE_TXN: u32 = 0x40;
