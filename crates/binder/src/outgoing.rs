//! [`Outgoing`]: the contents of a transaction or reply, as a command for the driver. This file
//! knows nothing about parcels or threads.

use roundtrip_binder_driver::uapi::{TF_STATUS_CODE, TransactionData};
use roundtrip_binder_driver::{Command, Commands, RawBytes, ReadableMemory};

/// The contents of a transaction or reply. The first two slices of `memory` are the data and the
/// offsets. `buffers` are the listed buffers that are not in `memory`.
pub(crate) struct Outgoing<'a> {
    memory: &'a [&'a [u8]],
    buffers: &'a [RawBytes<'a>],
    /// The total size of all buffers, for a scatter-gather transaction.
    buffers_size: Option<u64>,
    flags: u32,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn plain(memory: &'a [&'a [u8]; 2]) -> Self {
        Self { memory, buffers: &[], buffers_size: None, flags: 0 }
    }

    pub(crate) fn scatter_gather(
        memory: &'a [&'a [u8]; 3],
        buffers: &'a [RawBytes<'a>],
        buffers_size: u64,
    ) -> Self {
        Self { memory, buffers, buffers_size: Some(buffers_size), flags: 0 }
    }

    /// Adds flags.
    pub(crate) fn with_flags(self, flags: u32) -> Self {
        Self { flags: self.flags | flags, ..self }
    }

    /// Marks the data as a status code.
    pub(crate) fn status(self) -> Self {
        self.with_flags(TF_STATUS_CODE)
    }

    /// The memory that the driver may read.
    #[inline]
    pub(crate) fn memory(&self) -> ReadableMemory<'a> {
        ReadableMemory { own: self.memory, raw: self.buffers }
    }

    /// The flags, without those that depend on the kind of call.
    pub(crate) fn flags(&self) -> u32 {
        self.flags
    }

    #[cfg(test)]
    pub(crate) fn buffers_size(&self) -> Option<u64> {
        self.buffers_size
    }

    pub(crate) fn push(&self, commands: &mut Commands, reply: bool, target: u32, code: u32, flags: u32) {
        let address =
            |slice: &[u8]| if slice.is_empty() { 0 } else { slice.as_ptr().expose_provenance() as u64 };
        let [data, offsets, ..] = *self.memory else { unreachable!("data and offsets are always there") };
        let plain = TransactionData {
            target: target.into(),
            code,
            flags,
            data_size: data.len() as u64,
            offsets_size: offsets.len() as u64,
            buffer: address(data),
            offsets: address(offsets),
            ..Default::default()
        };
        match (self.buffers_size, reply) {
            (None, false) => commands.push(Command::Transaction(plain)),
            (None, true) => commands.push(Command::Reply(plain)),
            (Some(size), false) => commands.push(Command::TransactionSg(plain.gathered(size))),
            (Some(size), true) => commands.push(Command::ReplySg(plain.gathered(size))),
        }
    }
}
