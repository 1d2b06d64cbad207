//! A driver wrapper that passes everything on and records what calls and replies made the driver
//! copy. Must not change anything. Not for timed calls, because recording takes time.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use roundtrip_binder_driver::uapi::{
    BINDER_TYPE_PTR, BufferObject, ExtendedError, Field, FrozenStatusInfo, TransactionData, TransactionDataSg,
};
use roundtrip_binder_driver::{
    Backend, Command, Commands, Driver, Errno, Error, NodeInfo, RawBytes, ReadableMemory, Returns,
};
use serde::{Deserialize, Serialize};

/// What one command made the driver send.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sent {
    /// Whether it was a scatter-gather command.
    pub(super) scatter_gather: bool,
    /// Bytes of data and of all buffers.
    pub(super) bytes: u64,
    /// Address and length of each buffer.
    pub(super) buffers: Vec<(u64, u64)>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Watched {
    driver: Arc<dyn Driver>,
    last_call: Mutex<Sent>,
    /// The bytes of data and buffers of all replies so far.
    reply_bytes: AtomicU64,
}

impl Watched {
    pub(super) fn new(driver: Arc<dyn Driver>) -> Self {
        Self { driver, last_call: Mutex::default(), reply_bytes: AtomicU64::new(0) }
    }

    pub(super) fn last_call(&self) -> Sent {
        self.last_call.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The bytes of data and buffers of all replies so far.
    pub(super) fn reply_bytes(&self) -> u64 {
        self.reply_bytes.load(Ordering::Relaxed)
    }

    fn look(&self, mut commands: &[u8], memory: &ReadableMemory<'_>) {
        while let Some((command, size)) = Command::parse(commands) {
            commands = &commands[size..];
            let (data, buffers_size) = match command {
                Command::Reply(data) => {
                    self.reply_bytes.fetch_add(data.data_size, Ordering::Relaxed);
                    continue;
                }
                Command::ReplySg(data) => {
                    self.reply_bytes.fetch_add(data.data_size + data.buffers_size, Ordering::Relaxed);
                    continue;
                }
                Command::Transaction(data) => (data, None),
                Command::TransactionSg(data) => (plain(&data), Some(data.buffers_size)),
                _ => continue,
            };
            let sent = Sent {
                scatter_gather: buffers_size.is_some(),
                bytes: data.data_size + buffers_size.unwrap_or(0),
                buffers: buffers(
                    memory.slice(data.buffer, data.data_size).unwrap_or_default(),
                    memory.slice(data.offsets, data.offsets_size).unwrap_or_default(),
                ),
            };
            *self.last_call.lock().unwrap_or_else(PoisonError::into_inner) = sent;
        }
    }
}

fn plain(data: &TransactionDataSg) -> TransactionData {
    TransactionData {
        data_size: data.data_size,
        offsets_size: data.offsets_size,
        buffer: data.buffer,
        offsets: data.offsets,
        ..Default::default()
    }
}

/// The buffers outside the data, found through the objects in it.
fn buffers(data: &[u8], offsets: &[u8]) -> Vec<(u64, u64)> {
    let object = |offset: &[u8]| {
        let object = BufferObject::from_bytes(data.get(usize::try_from(u64::take(offset)).ok()?..)?)?;
        (object.kind == BINDER_TYPE_PTR).then_some((object.buffer, object.length))
    };
    offsets.chunks_exact(8).filter_map(object).collect()
}

impl Driver for Watched {
    fn backend(&self) -> Backend {
        self.driver.backend()
    }

    fn exchange(
        &self,
        commands: &mut Commands,
        memory: &ReadableMemory<'_>,
        returns: Option<&mut Returns>,
    ) -> Result<(), Error> {
        self.look(commands.pending(), memory);
        self.driver.exchange(commands, memory, returns)
    }

    fn area(&self) -> RawBytes<'_> {
        self.driver.area()
    }

    fn duplicate_fd(&self, number: u32) -> Result<OwnedFd, Errno> {
        self.driver.duplicate_fd(number)
    }

    fn take_fd(&self, number: u32) -> Option<OwnedFd> {
        self.driver.take_fd(number)
    }

    fn become_context_manager(&self, flags: u32) -> Result<(), Error> {
        self.driver.become_context_manager(flags)
    }

    fn set_max_threads(&self, threads: u32) -> Result<(), Error> {
        self.driver.set_max_threads(threads)
    }

    fn exit_thread(&self) {
        self.driver.exit_thread();
    }

    fn interrupt(&self) {
        self.driver.interrupt();
    }

    fn node_counts(&self, handle: u32) -> Result<(u32, u32), Error> {
        self.driver.node_counts(handle)
    }

    fn node_after(&self, after: u64) -> Result<Option<NodeInfo>, Error> {
        self.driver.node_after(after)
    }

    fn extended_error(&self) -> Result<ExtendedError, Error> {
        self.driver.extended_error()
    }

    fn set_oneway_spam_detection(&self, on: bool) -> Result<(), Error> {
        self.driver.set_oneway_spam_detection(on)
    }

    fn set_frozen(&self, pid: u32, frozen: bool, timeout_ms: u32) -> Result<(), Error> {
        self.driver.set_frozen(pid, frozen, timeout_ms)
    }

    fn frozen_info(&self, pid: u32) -> Result<FrozenStatusInfo, Error> {
        self.driver.frozen_info(pid)
    }

    fn limits(&self) -> Vec<String> {
        self.driver.limits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_buffers_inside_the_given_data_are_found() {
        let object = BufferObject { kind: BINDER_TYPE_PTR, buffer: 7, length: 9, ..Default::default() };
        let data = [&[0; 8][..], &object.to_bytes()].concat();
        let offsets = |at: u64| at.to_ne_bytes();
        assert_eq!(buffers(&data, &offsets(8)), [(7, 9)]);
        assert_eq!(buffers(&data, &offsets(0)), []);
        assert_eq!(buffers(&data, &offsets(16)), []);
        assert_eq!(buffers(&data, &offsets(u64::MAX)), []);
    }
}
