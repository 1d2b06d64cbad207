//! Returns (`BR_*`) from the driver to a process, as the bytes of `BINDER_WRITE_READ`'s read side.

use rustix::io::Errno;

use crate::uapi::*;

/// A buffer for the driver's returns, and an iterator over them.
#[derive(Debug)]
pub struct Returns {
    room: Box<[u8]>,
    filled: usize,
    read: usize,
}

impl Default for Returns {
    /// A buffer of 256 bytes, as in Android's libraries.
    fn default() -> Self {
        Self::with_room(256)
    }
}

impl Returns {
    /// Makes a buffer of `bytes` bytes.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self { room: vec![0; bytes].into(), filled: 0, read: 0 }
    }

    /// Returns true if [`next`](Iterator::next) has consumed every return.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.read == self.filled
    }

    /// The bytes of the returns that are not consumed yet.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.room[self.read..self.filled]
    }

    /// Consumes the next return and returns true if its number is `word`, which must have no
    /// payload. Faster than [`next`](Iterator::next).
    #[must_use]
    #[inline]
    pub fn take_if(&mut self, word: u32) -> bool {
        let is_next = payload_size(word) == 0 && self.pending().starts_with(&word.to_ne_bytes());
        if is_next {
            self.read += 4;
        }
        is_next
    }

    /// Discards all returns and returns the whole buffer, for a driver. The driver then calls
    /// [`Returns::filled`].
    ///
    /// # Errors
    /// EINVAL for a buffer of one to three bytes: the kernel driver writes the first four bytes
    /// without checking the size (`binder_thread_read`).
    pub fn room(&mut self) -> Result<&mut [u8], Errno> {
        (self.filled, self.read) = (0, 0);
        if (1..4).contains(&self.room.len()) { Err(Errno::INVAL) } else { Ok(&mut self.room) }
    }

    /// Sets how many bytes of the buffer the driver wrote.
    ///
    /// # Panics
    /// If the buffer is smaller than `bytes`.
    pub fn filled(&mut self, bytes: usize) {
        assert!(bytes <= self.room.len(), "a driver wrote more returns than there was room");
        (self.filled, self.read) = (bytes, 0);
    }
}

impl Iterator for Returns {
    type Item = Return;

    // Inlined, like `parse`, so that a return is not copied through memory.
    #[inline(always)]
    fn next(&mut self) -> Option<Return> {
        let (item, size) = Return::parse(self.pending())?;
        self.read += size;
        Some(item)
    }
}

/// One return. Its number in [`uapi`](crate::uapi) has the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the BR_ number of the same name")]
pub enum Return {
    Error(i32),
    Ok,
    Transaction(TransactionData),
    /// A transaction, and the address of the caller's security context.
    TransactionSecCtx(TransactionData, u64),
    Reply(TransactionData),
    DeadReply,
    TransactionComplete,
    Increfs(PtrCookie),
    Acquire(PtrCookie),
    Release(PtrCookie),
    Decrefs(PtrCookie),
    Noop,
    SpawnLooper,
    DeadBinder(u64),
    ClearDeathNotificationDone(u64),
    FailedReply,
    FrozenReply,
    OnewaySpamSuspect,
    TransactionPendingFrozen,
    FrozenBinder(FrozenStateInfo),
    ClearFreezeNotificationDone(u64),
    /// The number of an unknown return. Its payload was skipped.
    Unknown(u32),
}

impl Return {
    /// Decodes the return at the start of `bytes`. Also returns its length in bytes. `None` if
    /// `bytes` is empty or the return is truncated.
    #[must_use]
    #[inline(always)]
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let word = u32::take(bytes.get(..4)?);
        let size = payload_size(word);
        let payload = bytes.get(4..4 + size)?;
        let item = match word {
            BR_ERROR => Self::Error(i32::take(payload)),
            BR_OK => Self::Ok,
            BR_TRANSACTION => Self::Transaction(TransactionData::from_bytes(payload)?),
            BR_TRANSACTION_SEC_CTX => Self::TransactionSecCtx(
                TransactionData::from_bytes(payload)?,
                u64::take(&payload[TransactionData::SIZE..]),
            ),
            BR_REPLY => Self::Reply(TransactionData::from_bytes(payload)?),
            BR_DEAD_REPLY => Self::DeadReply,
            BR_TRANSACTION_COMPLETE => Self::TransactionComplete,
            BR_INCREFS => Self::Increfs(PtrCookie::from_bytes(payload)?),
            BR_ACQUIRE => Self::Acquire(PtrCookie::from_bytes(payload)?),
            BR_RELEASE => Self::Release(PtrCookie::from_bytes(payload)?),
            BR_DECREFS => Self::Decrefs(PtrCookie::from_bytes(payload)?),
            BR_NOOP => Self::Noop,
            BR_SPAWN_LOOPER => Self::SpawnLooper,
            BR_DEAD_BINDER => Self::DeadBinder(u64::take(payload)),
            BR_CLEAR_DEATH_NOTIFICATION_DONE => Self::ClearDeathNotificationDone(u64::take(payload)),
            BR_FAILED_REPLY => Self::FailedReply,
            BR_FROZEN_REPLY => Self::FrozenReply,
            BR_ONEWAY_SPAM_SUSPECT => Self::OnewaySpamSuspect,
            BR_TRANSACTION_PENDING_FROZEN => Self::TransactionPendingFrozen,
            BR_FROZEN_BINDER => Self::FrozenBinder(FrozenStateInfo::from_bytes(payload)?),
            BR_CLEAR_FREEZE_NOTIFICATION_DONE => Self::ClearFreezeNotificationDone(u64::take(payload)),
            other => Self::Unknown(other),
        };
        Some((item, 4 + size))
    }
}
