//! [`Received`]: where in this process's area the driver has put a transaction or a reply. Looked up once, when it arrives: who
//! reads it and who closes what came with it use the same bytes. Must not know what they say.

use std::sync::Arc;

use binder_driver::uapi::TransactionData;

use crate::descriptors::close_received;
use crate::parcel::ParcelReader;
use crate::thread::Copies;
use crate::{Error, Process};

/// A transaction or reply whose buffer was not given back yet.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    /// The buffer's name: what is given back.
    pub(crate) buffer: u64,
    /// Data and offsets; `None` when the driver named bytes outside the area.
    content: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> Received<'a> {
    // In line, as the others: what they say stays in registers.
    #[inline(always)]
    pub(crate) fn new(process: &'a Process, data: &TransactionData) -> Self {
        let slice = |address, length| match length {
            0 => Some(&[][..]),
            _ => process.driver().received(address, length),
        };
        let content = slice(data.buffer, data.data_size).zip(slice(data.offsets, data.offsets_size));
        Self { buffer: data.buffer, content }
    }

    /// A reader over it.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the driver named bytes outside the area.
    #[inline(always)]
    pub(crate) fn reader(
        &self,
        process: &'a Arc<Process>,
        copies: &'a Copies,
    ) -> Result<ParcelReader<'a>, Error> {
        let (data, offsets) = self.content.ok_or_else(outside)?;
        Ok(ParcelReader::received(data, offsets, process, copies))
    }

    /// The data alone.
    ///
    /// # Errors
    /// As [`Received::reader`].
    pub(crate) fn data(&self) -> Result<&'a [u8], Error> {
        self.content.map(|(data, _)| data).ok_or_else(outside)
    }

    /// Closes the descriptors that came with it: its buffer is about to be given back.
    #[inline(always)]
    pub(crate) fn close_descriptors(&self, process: &Process) {
        if let Some((data, offsets)) = self.content {
            close_received(&**process.driver(), data, offsets);
        }
    }
}

#[cold]
fn outside() -> Error {
    Error::Malformed { what: "received data", at: 0, problem: "it lies outside this process's area" }
}
