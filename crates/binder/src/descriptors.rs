//! File descriptors that the driver has opened in this process for a transaction. Single ones are
//! this process's to close, and are closed when the transaction's buffer is given back; a reader
//! duplicates those that somebody keeps. So a peer that sends descriptors that nobody asked for
//! fills no table. What stands in the data is only a number: the driver has the descriptor.

use std::os::fd::OwnedFd;

use binder_driver::uapi::{BINDER_TYPE_FD, FdObject};
use binder_driver::{Driver, RawBytes};

use crate::Error;

/// A descriptor of its own for the file behind one that came with a transaction whose buffer is
/// still held (close-on-exec).
pub(crate) fn duplicate(driver: &dyn Driver, number: u32) -> Result<OwnedFd, Error> {
    driver.duplicate_fd(number).map_err(|errno| Error::Descriptor { cause: errno.into() })
}

/// Closes the descriptors among the objects at `offsets` in `data`, which came with a transaction
/// whose buffer is about to be given back.
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
    if let Some(object) = object.and_then(|object| FdObject::from_bytes(&object)) {
        drop(driver.take_fd(object.fd));
    }
}
