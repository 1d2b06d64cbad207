//! File descriptors that the driver opened in this process for a transaction.
//!
//! This process must close the descriptors of `BINDER_TYPE_FD` objects. It closes them when it
//! releases the transaction's buffer. A reader duplicates each descriptor that it returns.
//! Unrequested descriptors from a peer therefore cannot fill the descriptor table. The data
//! contains only descriptor numbers. The driver decides which of them belong to this transaction.

use std::os::fd::OwnedFd;

use roundtrip_binder_driver::uapi::{BINDER_TYPE_FD, FdObject};
use roundtrip_binder_driver::{Driver, RawBytes};

use crate::Error;

/// Duplicates (close-on-exec) a descriptor of a transaction whose buffer is not yet released.
pub(crate) fn duplicate(driver: &dyn Driver, number: u32) -> Result<OwnedFd, Error> {
    driver.duplicate_fd(number).map_err(|errno| Error::Descriptor { cause: errno.into() })
}

/// Closes the descriptors among the objects at `offsets` in `data`, before the transaction's buffer
/// is released.
#[inline(always)]
pub(crate) fn close_received(driver: &dyn Driver, data: RawBytes<'_>, offsets: RawBytes<'_>) {
    let mut at = 0;
    while let Some(offset) = offsets.array(at).map(u64::from_ne_bytes) {
        at += 8;
        // The driver checked all objects, so none lies outside the data.
        let object = usize::try_from(offset).ok().and_then(|offset| data.rest(offset));
        let Some(object) = object else { return };
        // The driver itself closes the descriptors of an array (`BINDER_TYPE_FDA`) with the buffer.
        if object.array(0).map(u32::from_ne_bytes) == Some(BINDER_TYPE_FD) {
            close(driver, object);
        }
    }
}

// Few transactions carry descriptors.
#[cold]
fn close(driver: &dyn Driver, object: RawBytes<'_>) {
    let object = object.array::<{ FdObject::SIZE }>(0);
    if let Some(object) = object.and_then(|object| FdObject::from_bytes(&object)) {
        drop(driver.take_fd(object.fd));
    }
}
