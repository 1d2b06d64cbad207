//! Commands (`BC_*`) from a process to the driver, as the bytes of `BINDER_WRITE_READ`'s write
//! side.
//!
//! [`TransactionData::new`] describes a transaction, [`Commands`] queues commands, and
//! [`Command::parse`] decodes a command, for the emulated driver and the fuzzer. Addresses in
//! commands are only numbers here: the driver decides which memory it may read.

use rustix::io::Errno;

use crate::RawBytes;
use crate::uapi::*;

/// A queue of commands for the driver.
///
/// They stay queued until a [`Driver::write_read`](crate::Driver::write_read) consumes them. A
/// command such as freeing a buffer or dropping a reference is therefore sent with the next call,
/// and needs no separate system call.
#[derive(Debug, Default)]
pub struct Commands {
    bytes: Vec<u8>,
    consumed: usize,
}

impl Commands {
    /// Makes an empty queue with a capacity of `bytes` bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), consumed: 0 }
    }

    /// The bytes that the driver has not consumed yet.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    /// Returns true if the driver has consumed everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.consumed == self.bytes.len()
    }

    /// Marks `bytes` more bytes as consumed. For use by drivers.
    ///
    /// # Panics
    /// If fewer bytes are pending.
    pub fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.pending().len(), "a driver took more commands than there were");
        self.consumed += bytes;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Removes all pending commands.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.consumed = 0;
    }

    /// Appends arbitrary bytes. For use by tests and fuzzing.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends one command.
    // Inlined so that the match disappears when the command is known.
    #[inline(always)]
    pub fn push(&mut self, command: Command) {
        match command {
            Command::Transaction(data) => self.put(BC_TRANSACTION, &data.to_bytes()),
            Command::Reply(data) => self.put(BC_REPLY, &data.to_bytes()),
            Command::TransactionSg(data) => self.put(BC_TRANSACTION_SG, &data.to_bytes()),
            Command::ReplySg(data) => self.put(BC_REPLY_SG, &data.to_bytes()),
            Command::FreeBuffer(address) => self.put(BC_FREE_BUFFER, &address.to_ne_bytes()),
            Command::Increfs(handle) => self.put(BC_INCREFS, &handle.to_ne_bytes()),
            Command::Acquire(handle) => self.put(BC_ACQUIRE, &handle.to_ne_bytes()),
            Command::Release(handle) => self.put(BC_RELEASE, &handle.to_ne_bytes()),
            Command::Decrefs(handle) => self.put(BC_DECREFS, &handle.to_ne_bytes()),
            Command::IncrefsDone(node) => self.put(BC_INCREFS_DONE, &node.to_bytes()),
            Command::AcquireDone(node) => self.put(BC_ACQUIRE_DONE, &node.to_bytes()),
            Command::RegisterLooper => self.put(BC_REGISTER_LOOPER, &[]),
            Command::EnterLooper => self.put(BC_ENTER_LOOPER, &[]),
            Command::ExitLooper => self.put(BC_EXIT_LOOPER, &[]),
            Command::RequestDeathNotification(target) => {
                self.put(BC_REQUEST_DEATH_NOTIFICATION, &target.to_bytes());
            }
            Command::ClearDeathNotification(target) => {
                self.put(BC_CLEAR_DEATH_NOTIFICATION, &target.to_bytes())
            }
            Command::DeadBinderDone(cookie) => self.put(BC_DEAD_BINDER_DONE, &cookie.to_ne_bytes()),
            Command::RequestFreezeNotification(target) => {
                self.put(BC_REQUEST_FREEZE_NOTIFICATION, &target.to_bytes());
            }
            Command::ClearFreezeNotification(target) => {
                self.put(BC_CLEAR_FREEZE_NOTIFICATION, &target.to_bytes());
            }
            Command::FreezeNotificationDone(cookie) => {
                self.put(BC_FREEZE_NOTIFICATION_DONE, &cookie.to_ne_bytes());
            }
        }
    }

    #[inline]
    fn put(&mut self, word: u32, payload: &[u8]) {
        debug_assert_eq!(payload_size(word), payload.len());
        self.bytes.extend_from_slice(&word.to_ne_bytes());
        self.bytes.extend_from_slice(payload);
    }
}

/// One command. Its number in [`uapi`](crate::uapi) has the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the BC_ number of the same name")]
pub enum Command {
    Transaction(TransactionData),
    Reply(TransactionData),
    TransactionSg(TransactionDataSg),
    ReplySg(TransactionDataSg),
    FreeBuffer(u64),
    Increfs(u32),
    Acquire(u32),
    Release(u32),
    Decrefs(u32),
    IncrefsDone(PtrCookie),
    AcquireDone(PtrCookie),
    RegisterLooper,
    EnterLooper,
    ExitLooper,
    RequestDeathNotification(HandleCookie),
    ClearDeathNotification(HandleCookie),
    DeadBinderDone(u64),
    RequestFreezeNotification(HandleCookie),
    ClearFreezeNotification(HandleCookie),
    FreezeNotificationDone(u64),
}

impl TransactionData {
    /// Makes a call or reply with `data` and no objects. The default is a synchronous call to
    /// handle 0, the context manager, without flags. Other fields can be set:
    ///
    /// ```
    /// use roundtrip_binder_driver::uapi::{TF_ONE_WAY, TransactionData};
    ///
    /// let oneway = TransactionData { target: 3, flags: TF_ONE_WAY, ..TransactionData::new(1, b"ping") };
    /// assert_eq!((oneway.code, oneway.data_size), (1, 4));
    /// ```
    ///
    /// It contains the *address* of `data`. Therefore `data` must not move before the driver has
    /// consumed the command, and must be part of the memory passed to
    /// [`Driver::write_read`](crate::Driver::write_read).
    #[must_use]
    #[inline]
    pub fn new(code: u32, data: &[u8]) -> Self {
        Self::naming(code, data.into())
    }

    /// Like [`TransactionData::new`], for data that other processes may change, such as received
    /// data that is passed on.
    #[must_use]
    #[inline]
    pub fn naming(code: u32, data: RawBytes<'_>) -> Self {
        Self { code, data_size: data.len() as u64, buffer: data.address(), ..Self::default() }
    }

    /// Adds scatter-gather buffers. `buffers_size` is their total size in bytes, each rounded up to
    /// 8.
    #[must_use]
    #[inline]
    pub fn gathered(self, buffers_size: u64) -> TransactionDataSg {
        TransactionDataSg {
            target: self.target,
            cookie: self.cookie,
            code: self.code,
            flags: self.flags,
            sender_pid: self.sender_pid,
            sender_euid: self.sender_euid,
            data_size: self.data_size,
            offsets_size: self.offsets_size,
            buffer: self.buffer,
            offsets: self.offsets,
            buffers_size,
        }
    }
}

impl Command {
    /// Decodes the command at the start of `bytes`. Also returns its length in bytes. `None` for an
    /// unknown, unsupported or truncated command: the driver then fails with [`Command::refusal`]
    /// and does not consume this command or later ones.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let word = u32::take(bytes.get(..4)?);
        let size = payload_size(word);
        let payload = bytes.get(4..4 + size)?;
        let command = match word {
            BC_TRANSACTION => Self::Transaction(TransactionData::from_bytes(payload)?),
            BC_REPLY => Self::Reply(TransactionData::from_bytes(payload)?),
            BC_TRANSACTION_SG => Self::TransactionSg(TransactionDataSg::from_bytes(payload)?),
            BC_REPLY_SG => Self::ReplySg(TransactionDataSg::from_bytes(payload)?),
            BC_FREE_BUFFER => Self::FreeBuffer(u64::take(payload)),
            BC_INCREFS => Self::Increfs(u32::take(payload)),
            BC_ACQUIRE => Self::Acquire(u32::take(payload)),
            BC_RELEASE => Self::Release(u32::take(payload)),
            BC_DECREFS => Self::Decrefs(u32::take(payload)),
            BC_INCREFS_DONE => Self::IncrefsDone(PtrCookie::from_bytes(payload)?),
            BC_ACQUIRE_DONE => Self::AcquireDone(PtrCookie::from_bytes(payload)?),
            BC_REGISTER_LOOPER => Self::RegisterLooper,
            BC_ENTER_LOOPER => Self::EnterLooper,
            BC_EXIT_LOOPER => Self::ExitLooper,
            BC_REQUEST_DEATH_NOTIFICATION => {
                Self::RequestDeathNotification(HandleCookie::from_bytes(payload)?)
            }
            BC_CLEAR_DEATH_NOTIFICATION => Self::ClearDeathNotification(HandleCookie::from_bytes(payload)?),
            BC_DEAD_BINDER_DONE => Self::DeadBinderDone(u64::take(payload)),
            BC_REQUEST_FREEZE_NOTIFICATION => {
                Self::RequestFreezeNotification(HandleCookie::from_bytes(payload)?)
            }
            BC_CLEAR_FREEZE_NOTIFICATION => Self::ClearFreezeNotification(HandleCookie::from_bytes(payload)?),
            BC_FREEZE_NOTIFICATION_DONE => Self::FreezeNotificationDone(u64::take(payload)),
            _ => return None,
        };
        Some((command, 4 + size))
    }

    /// A driver's errno for bytes that [`Command::parse`] refuses: EFAULT for a truncated command
    /// or number, as for unmapped memory; EINVAL for an unknown command.
    #[must_use]
    pub fn refusal(bytes: &[u8]) -> Errno {
        match bytes.get(..4).map(u32::take) {
            Some(word) if !Self::is_known(word) => Errno::INVAL,
            _ => Errno::FAULT,
        }
    }

    /// Returns true if [`Command::parse`] decodes a command of this number with its whole payload.
    #[inline]
    pub(crate) fn is_known(word: u32) -> bool {
        matches!(
            word,
            BC_TRANSACTION
                | BC_REPLY
                | BC_TRANSACTION_SG
                | BC_REPLY_SG
                | BC_FREE_BUFFER
                | BC_INCREFS
                | BC_ACQUIRE
                | BC_RELEASE
                | BC_DECREFS
                | BC_INCREFS_DONE
                | BC_ACQUIRE_DONE
                | BC_REGISTER_LOOPER
                | BC_ENTER_LOOPER
                | BC_EXIT_LOOPER
                | BC_REQUEST_DEATH_NOTIFICATION
                | BC_CLEAR_DEATH_NOTIFICATION
                | BC_DEAD_BINDER_DONE
                | BC_REQUEST_FREEZE_NOTIFICATION
                | BC_CLEAR_FREEZE_NOTIFICATION
                | BC_FREEZE_NOTIFICATION_DONE
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_known_commands_are_decoded() {
        let mut known = 0;
        // All possible command numbers: every direction, type 'c', every length.
        for word in (0..1 << 24).map(|rest| (rest >> 8) << 16 | u32::from(b'c') << 8 | rest & 0xff) {
            if Command::is_known(word) {
                known += 1;
                let whole = [&word.to_ne_bytes()[..], &vec![0; payload_size(word)]].concat();
                assert!(Command::parse(&whole).is_some(), "{word:#x}");
                assert_eq!(Command::refusal(&whole[..3]), Errno::FAULT);
            }
        }
        let mut whole = [0; 4 + TransactionDataSg::SIZE];
        for number in 0..=0xff {
            for size in 0..=TransactionDataSg::SIZE as u32 {
                let word = u32::from(size != 0) << 30 | size << 16 | u32::from(b'c') << 8 | number;
                whole[..4].copy_from_slice(&word.to_ne_bytes());
                assert_eq!(Command::parse(&whole).is_some(), Command::is_known(word), "{word:#x}");
            }
        }
        assert_eq!(known, 20);
    }

    #[test]
    fn no_more_can_be_consumed_than_is_pending() {
        let mut commands = Commands::default();
        commands.push(Command::FreeBuffer(1));
        commands.consume(4);
        for bytes in [9, usize::MAX, usize::MAX - 3] {
            let taken = std::panic::catch_unwind(|| {
                let mut commands = Commands { bytes: commands.bytes.clone(), consumed: commands.consumed };
                commands.consume(bytes);
            });
            assert!(taken.is_err(), "{bytes} bytes");
        }
        commands.consume(8);
        assert!(commands.is_empty());
    }
}
