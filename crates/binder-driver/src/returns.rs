//! Returns (`BR_*`): what the driver tells a process, as the bytes of `BINDER_WRITE_READ`'s read
//! side.

use rustix::io::Errno;

use crate::uapi::*;

/// Room for the driver's returns, and a reader over them.
#[derive(Debug)]
pub struct Returns {
    room: Box<[u8]>,
    filled: usize,
    read: usize,
}

impl Default for Returns {
    /// The 256 bytes that Android's libraries use.
    fn default() -> Self {
        Self::with_room(256)
    }
}

impl Returns {
    /// Room for `bytes` bytes of returns in one read.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self { room: vec![0; bytes].into(), filled: 0, read: 0 }
    }

    /// True when every return has been taken with [`next`](Iterator::next).
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.read == self.filled
    }

    /// What has not been taken yet, as bytes.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.room[self.read..self.filled]
    }

    /// Takes the next return if it is `word`, one without a payload. Says so without the work of
    /// [`next`](Iterator::next).
    #[must_use]
    #[inline]
    pub fn take_if(&mut self, word: u32) -> bool {
        let is_next = payload_size(word) == 0 && self.pending().starts_with(&word.to_ne_bytes());
        if is_next {
            self.read += 4;
        }
        is_next
    }

    /// Forgets what was read and lends the whole room to a driver, which then calls
    /// [`Returns::filled`].
    ///
    /// # Errors
    /// EINVAL for room of one to three bytes: a read begins with a return of four, which the
    /// kernel's driver writes without asking whether there is room (`binder_thread_read`).
    pub fn room(&mut self) -> Result<&mut [u8], Errno> {
        (self.filled, self.read) = (0, 0);
        if (1..4).contains(&self.room.len()) { Err(Errno::INVAL) } else { Ok(&mut self.room) }
    }

    /// Says how many bytes of the room the driver has written.
    ///
    /// # Panics
    /// When the room is smaller.
    pub fn filled(&mut self, bytes: usize) {
        assert!(bytes <= self.room.len(), "a driver wrote more returns than there was room");
        (self.filled, self.read) = (bytes, 0);
    }
}

impl Iterator for Returns {
    type Item = Return;

    // In line, as `parse` is: a return is read where it is looked at, instead of being passed
    // through memory.
    #[inline(always)]
    fn next(&mut self) -> Option<Return> {
        let (item, size) = Return::parse(self.pending())?;
        self.read += size;
        Some(item)
    }
}

/// One return. The documentation of each is that of its number in [`uapi`](crate::uapi).
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
    /// A return that this version does not know: its number. Its payload was skipped.
    Unknown(u32),
}

impl Return {
    /// Reads the return at the front of `bytes`, and says how long it is; `None` when there is
    /// none, or it is cut off.
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
