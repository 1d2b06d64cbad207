//! [`Received`]: a received transaction or reply. The bytes stay in this process's receive area,
//! where other processes may change them, so readers copy before they check. This file does not
//! know what the bytes mean.

use std::sync::Arc;

use roundtrip_binder_driver::RawBytes;
use roundtrip_binder_driver::uapi::TransactionData;

use crate::copies::Copies;
use crate::descriptors::close_received;
use crate::parcel::ParcelReader;
use crate::thread::ThreadState;
use crate::{Error, Process};

/// A received transaction or reply. Dropping it frees its buffer, if that is not freed yet.
#[derive(Debug)]
pub(crate) struct Received<'a>(roundtrip_binder_driver::Received<'a>);

impl<'a> Received<'a> {
    // Inlined, like the other methods, so that the fields stay in registers.
    #[inline(always)]
    pub(crate) fn take(process: &'a Process, data: &TransactionData) -> Self {
        Self(roundtrip_binder_driver::Received::take(&**process.driver(), data))
    }

    /// The data.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the driver named bytes outside the area.
    #[inline(always)]
    pub(crate) fn data(&self) -> Result<RawBytes<'_>, Error> {
        self.0.data().ok_or_else(outside)
    }

    /// The receive area, which contains the scatter-gather buffers.
    ///
    /// # Errors
    /// See [`Received::data`].
    #[inline(always)]
    pub(crate) fn area(&self) -> Result<RawBytes<'_>, Error> {
        self.0.area().ok_or_else(outside)
    }

    /// Makes a reader for the data.
    ///
    /// # Errors
    /// See [`Received::data`].
    #[inline(always)]
    pub(crate) fn reader<'r>(
        &'r self,
        process: &'r Arc<Process>,
        copies: &'r Copies,
    ) -> Result<ParcelReader<'r>, Error> {
        let offsets = self.0.offsets().ok_or_else(outside)?;
        Ok(ParcelReader::received(self.data()?, offsets, process, copies))
    }

    /// Closes the received descriptors, and queues the command that frees the buffer. A reply that
    /// was queued earlier may still refer to the bytes.
    #[inline(always)]
    pub(crate) fn give_back(&self, process: &Process, thread: &ThreadState) {
        // Close only once, because the system may reuse a closed number.
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
