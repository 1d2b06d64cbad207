//! File descriptors in parcels: `binder_fd_object`. The offsets list it, so the driver opens the
//! file in the receiver.

use std::os::fd::{AsRawFd as _, OwnedFd};

use roundtrip_binder_driver::uapi::{BINDER_TYPE_FD, FLAT_BINDER_FLAG_ACCEPTS_FDS, FdObject};

use super::{Parcel, ParcelReader};
use crate::{Error, descriptors};

impl Parcel {
    /// Writes a file descriptor (`Parcel::writeFileDescriptor`). The receiver gets its own
    /// descriptor for the same file if its node accepts descriptors
    /// ([`NodeOptions::accept_fds`](crate::NodeOptions::accept_fds)). The parcel closes
    /// `descriptor` when it is cleared.
    pub fn write_fd(&mut self, descriptor: OwnedFd) {
        let fd = descriptor.as_raw_fd().unsigned_abs();
        // Android writes the same flags and the same cookie ("the sender owns it"). The driver
        // passes them on unchanged.
        let flags = 0x7f | FLAT_BINDER_FLAG_ACCEPTS_FDS;
        let object = FdObject { kind: BINDER_TYPE_FD, flags, fd, pad: 0, cookie: 1 };
        self.put_object(&object.to_bytes());
        self.keep_descriptor(descriptor);
    }

    /// Keeps a descriptor open until the parcel is cleared.
    pub(crate) fn keep_descriptor(&mut self, descriptor: OwnedFd) {
        self.descriptors.push(descriptor);
    }
}

impl ParcelReader<'_> {
    /// Reads a file descriptor. Returns a duplicate (close-on-exec) that the caller owns.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no offset lists an object at this position, for another type of
    /// object, and for a reader without a process. [`Error::Descriptor`] if this process has too
    /// many open descriptors.
    pub fn read_fd(&mut self) -> Result<OwnedFd, Error> {
        const WHAT: &str = "a file descriptor";
        let object = FdObject::from_bytes(&self.peek_object::<{ FdObject::SIZE }>(WHAT)?);
        let object = object.filter(|object| object.kind == BINDER_TYPE_FD);
        let object = object.ok_or_else(|| self.malformed(WHAT, "it is an object of another type"))?;
        let Some(process) = self.process else {
            return Err(self.malformed(WHAT, "the bytes belong to no process"));
        };
        self.take(WHAT, FdObject::SIZE)?;
        descriptors::duplicate(&**process.driver(), object.fd)
    }
}
