//! [`Received`]: a transaction or a reply that arrived, copied out of this process's area before anything of it is looked at. Who
//! reads it and who closes what came with it use the same bytes. Must not know what they say.

use std::sync::Arc;

use binder_driver::Content;
use binder_driver::uapi::TransactionData;

use crate::descriptors::close_received;
use crate::parcel::ParcelReader;
use crate::thread::{Copies, ThreadState};
use crate::{Error, Process};

/// A transaction or reply whose buffer is given back when this is dropped, if not before.
#[derive(Debug)]
pub(crate) struct Received<'a>(binder_driver::Received<'a>);

impl<'a> Received<'a> {
    // In line, as the others: what they say stays in registers.
    #[inline(always)]
    pub(crate) fn take(process: &'a Process, data: &TransactionData, room: Box<Content>) -> Self {
        Self(binder_driver::Received::take(&**process.driver(), data, room))
    }

    /// Its bytes.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the driver named bytes outside the area.
    pub(crate) fn content(&self) -> Result<&Content, Error> {
        self.0.content().ok_or_else(outside)
    }

    /// A reader over it.
    ///
    /// # Errors
    /// As [`Received::content`].
    #[inline(always)]
    pub(crate) fn reader<'r>(
        &'r self,
        process: &'r Arc<Process>,
        copies: &'r Copies,
    ) -> Result<ParcelReader<'r>, Error> {
        let content = self.content()?;
        Ok(ParcelReader::received(content.data(), content.offsets(), process, copies))
    }

    /// Closes the descriptors that came with it, and gives the buffer back with the thread's next exchange. The bytes stay: an
    /// answer may be sent from them.
    #[inline(always)]
    pub(crate) fn give_back(&self, process: &Process, thread: &ThreadState) {
        // Once: a number that was closed may be somebody else's next.
        thread.count_copies(self.0.content().map_or(0, Content::copied_bytes) as u64);
        let released = thread.with_commands(|commands| self.0.release(commands));
        if let Some(content) = self.0.content().filter(|content| released && !content.offsets().is_empty()) {
            close_received(&**process.driver(), content.data(), content.offsets());
        }
    }

    /// Its memory, for the next.
    pub(crate) fn into_room(self, thread: &ThreadState) -> Box<Content> {
        thread.with_commands(|commands| self.0.free(commands))
    }
}

#[cold]
fn outside() -> Error {
    Error::Malformed { what: "received data", at: 0, problem: "it lies outside this process's area" }
}
