//! The driver's structs, which are encoded and decoded field by field.

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

            /// Reads the struct from the start of `bytes`; `None` if `bytes` is too short.
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
        /// The method's code, defined by the interface. The driver passes it on unchanged.
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
        /// The `ptr` by which the owner knows the node.
        ptr: u64,
        /// The owner's second word for the node.
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
        /// `FLAT_BINDER_FLAG_*` and the minimum priority, for a local node.
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
        /// Address of the bytes: in the sender's memory, or after the copy in the receiver's area.
        buffer: u64,
        /// The number of bytes.
        length: u64,
        /// Index, among the offsets, of the parent PTR object.
        parent: u64,
        /// The offset of the pointer to this buffer in its parent.
        parent_offset: u64,
    }
}

layout! {
    /// `struct binder_fd_object`: a file descriptor inside a transaction's data.
    FdObject: 24 {
        /// `BINDER_TYPE_FD`.
        kind: u32,
        /// Passed on unchanged.
        flags: u32,
        /// The sender's descriptor. In the receiver: its own descriptor (close-on-exec), which it
        /// must close.
        fd: u32,
        /// The driver sets it to 0.
        pad: u32,
        /// Passed on unchanged.
        cookie: u64,
    }
}

layout! {
    /// `struct binder_fd_array_object`: file descriptors, 32 bits each, inside a scatter-gather
    /// buffer.
    FdArrayObject: 32 {
        /// `BINDER_TYPE_FDA`.
        kind: u32,
        /// Passed on unchanged.
        pad: u32,
        /// The number of descriptors.
        count: u64,
        /// Index, among the offsets, of the PTR object whose buffer contains them.
        parent: u64,
        /// The offset of the first descriptor in that buffer.
        parent_offset: u64,
    }
}

layout! {
    /// `struct binder_extended_error`: why a thread's last transaction was refused.
    ExtendedError: 12 {
        /// The driver's number of the transaction; 0 if there was no transaction since the last
        /// query.
        id: u32,
        /// The return that reported the failure: `BR_FAILED_REPLY`, `BR_DEAD_REPLY` or
        /// `BR_FROZEN_REPLY`; `BR_OK` if nothing failed.
        command: u32,
        /// A negative errno, or 0 if `command` alone describes the failure.
        param: i32,
    }
}

layout! {
    /// `struct binder_freeze_info`: the argument of `BINDER_FREEZE`.
    FreezeInfo: 12 {
        /// The process id.
        pid: u32,
        /// 1 freezes, 0 thaws.
        enable: u32,
        /// How long to wait for the process's transactions to end, in milliseconds.
        timeout_ms: u32,
    }
}

layout! {
    /// `struct binder_frozen_status_info`: which calls arrived for a process since it was frozen.
    FrozenStatusInfo: 12 {
        /// The process id.
        pid: u32,
        /// Bit 0: synchronous calls arrived and were refused. Bit 1: it has unfinished
        /// transactions.
        sync_recv: u32,
        /// 1: oneway calls arrived and are queued.
        async_recv: u32,
    }
}

layout! {
    /// `struct binder_frozen_state_info`: the payload of `BR_FROZEN_BINDER`.
    FrozenStateInfo: 16 {
        /// The cookie of the notification request.
        cookie: u64,
        /// 1 if the node's owner is frozen, otherwise 0.
        is_frozen: u32,
        /// The driver sets it to 0.
        reserved: u32,
    }
}

layout! {
    /// `struct binder_write_read`: the argument of `BINDER_WRITE_READ`.
    WriteRead: 48 {
        /// Bytes of commands.
        write_size: u64,
        /// Bytes of commands that the driver consumed.
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
        /// To the driver: the `ptr` to search after. From it: the node's `ptr`, 0 if none follows.
        ptr: u64,
        /// The node's cookie.
        cookie: u64,
        /// 1 if strong references were reported to the owner.
        has_strong: u32,
        /// 1 if weak references were reported to the owner.
        has_weak: u32,
    }
}
