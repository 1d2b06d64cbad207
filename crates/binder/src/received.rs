//! [`Received`]: a transaction or a reply that arrived. Its bytes stay in this process's area,
//! where others may change them, so whoever reads them copies out what it looks at. Must not know
//! what they say.

use std::sync::Arc;

use binder_driver::RawBytes;
use binder_driver::uapi::TransactionData;

use crate::copies::Copies;
use crate::descriptors::close_received;
use crate::parcel::ParcelReader;
use crate::thread::ThreadState;
use crate::{Error, Process};

/// A transaction or reply whose buffer is given back when this is dropped, if not before.
#[derive(Debug)]
pub(crate) struct Received<'a>(binder_driver::Received<'a>);

impl<'a> Received<'a> {
    // In line, as the others: what they say stays in registers.
    #[inline(always)]
    pub(crate) fn take(process: &'a Process, data: &TransactionData) -> Self {
        Self(binder_driver::Received::take(&**process.driver(), data))
    }

    /// Its data.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the driver named bytes outside the area.
    #[inline(always)]
    pub(crate) fn data(&self) -> Result<RawBytes<'_>, Error> {
        self.0.data().ok_or_else(outside)
    }

    /// The area that its scatter-gather buffers lie in.
    ///
    /// # Errors
    /// As [`Received::data`].
    #[inline(always)]
    pub(crate) fn area(&self) -> Result<RawBytes<'_>, Error> {
        self.0.area().ok_or_else(outside)
    }

    /// A reader over it.
    ///
    /// # Errors
    /// As [`Received::data`].
    #[inline(always)]
    pub(crate) fn reader<'r>(
        &'r self,
        process: &'r Arc<Process>,
        copies: &'r Copies,
    ) -> Result<ParcelReader<'r>, Error> {
        let offsets = self.0.offsets().ok_or_else(outside)?;
        Ok(ParcelReader::received(self.data()?, offsets, process, copies))
    }

    /// Closes the descriptors that came with it, and gives the buffer back with the thread's next
    /// exchange. Until then an answer may be sent from the bytes.
    #[inline(always)]
    pub(crate) fn give_back(&self, process: &Process, thread: &ThreadState) {
        // Once: a number that was closed may be somebody else's next.
        if thread.with_commands(|commands| self.0.release(commands))
            && let (Some(data), Some(offsets)) = (self.0.data(), self.0.offsets())
            && !offsets.is_empty()
        {
            close_received(&**process.driver(), data, offsets);
        }
    }
}

#[cold]
fn outside() -> Error {
    Error::Malformed { what: "received data", at: 0, problem: "it is outside this process's area" }
}
