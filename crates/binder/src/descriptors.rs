//! File descriptors that the driver has put into this process with a transaction. Single ones are this process's to close, and
//! are closed when the transaction's buffer is given back; a reader duplicates those that somebody keeps. So a peer that sends
//! descriptors that nobody asked for fills no table. What stands in the data is only a number: the driver is asked whether it has
//! opened such a descriptor.
#![allow(unsafe_code, reason = "the driver names descriptors by number")]

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use binder_driver::uapi::{BINDER_TYPE_FD, FdObject};
use binder_driver::{Driver, RawBytes};

use crate::Error;

/// A descriptor of its own for the file behind one that came with a transaction whose buffer is still held (close-on-exec).
pub(crate) fn duplicate(driver: &dyn Driver, number: u32) -> Result<OwnedFd, Error> {
    let failed = |source| Error::Descriptor { source };
    let raw = RawFd::try_from(number).ok().filter(|_| driver.has_brought(number));
    let raw = raw.ok_or_else(|| failed(rustix::io::Errno::BADF.into()))?;
    // SAFETY: `raw` is not -1. It is open as long as the buffer is held, which the reader that calls this borrows from; were
    // it closed by somebody else's mistake, duplicating it would fail and nothing more.
    unsafe { BorrowedFd::borrow_raw(raw) }.try_clone_to_owned().map_err(failed)
}

/// Closes the descriptors among the objects at `offsets` in `data`, which came with a transaction whose buffer is about to be
/// given back.
#[inline(always)]
pub(crate) fn close_received(driver: &dyn Driver, data: RawBytes<'_>, offsets: RawBytes<'_>) {
    let mut at = 0;
    while let Some(offset) = offsets.array(at).map(u64::from_ne_bytes) {
        at += 8;
        // The driver has checked all objects, so there is none outside.
        let object = usize::try_from(offset).ok().and_then(|offset| data.rest(offset));
        let Some(object) = object else { return };
        // The driver itself closes those of an array, with the buffer that they lie in.
        if object.array(0).map(u32::from_ne_bytes) == Some(BINDER_TYPE_FD) {
            close(driver, object);
        }
    }
}

// Few transactions carry any.
#[cold]
fn close(driver: &dyn Driver, object: RawBytes<'_>) {
    let object = object.array::<{ FdObject::SIZE }>(0);
    let number = object
        .and_then(|object| FdObject::from_bytes(&object))
        .map(|object| object.fd)
        .filter(|&number| driver.let_go(number));
    if let Some(Ok(raw)) = number.map(RawFd::try_from) {
        // SAFETY: `raw` is not -1, and the driver opened it for this transaction alone: nobody else owns it (`binder.c`,
        // `binder_apply_fd_fixups`), and each buffer is given back once.
        drop(unsafe { OwnedFd::from_raw_fd(raw) });
    }
}
