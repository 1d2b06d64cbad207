//! What stands in front of a call's arguments and of its result: the interface token and the status header.

use super::{Parcel, ParcelReader};
use crate::{Error, Status, exception, status};

/// The fourth word of an interface token since Android 11: which kind of partition the sender belongs to.
const HEADER_SYSTEM: i32 = i32::from_be_bytes(*b"SYST");
/// The strict-mode word of native callers: `STRICT_MODE_PENALTY_GATHER`, and no policy.
const STRICT_MODE: i32 = 1 << 31;
/// The work source of a caller that works for nobody else: `kUnsetWorkSource`.
const NO_WORK_SOURCE: i32 = -1;

impl Parcel {
    /// Writes what a call to a method of `interface` begins with (Android 11 and later): the strict-mode policy, the work
    /// source's uid, the header `SYST`, the name as UTF-16.
    ///
    /// # Errors
    /// As [`Parcel::write_string16`].
    pub fn write_interface_token(&mut self, interface: &str) -> Result<(), Error> {
        self.write_i32(STRICT_MODE);
        self.write_i32(NO_WORK_SOURCE);
        self.write_i32(HEADER_SYSTEM);
        let copied = self.copied.get();
        self.write_string16(interface)?;
        self.copied.set(copied); // a name is no payload
        Ok(())
    }

    /// Writes a reply's status header: no exception.
    pub fn write_no_exception(&mut self) {
        self.write_i32(exception::NONE);
    }

    /// Writes a reply's status header: an exception, its message, and an empty remote stack trace (Android 9 and
    /// later). A service-specific exception carries 0 as its number.
    ///
    /// # Errors
    /// As [`Parcel::write_string16`].
    pub fn write_exception(&mut self, code: i32, message: &str) -> Result<(), Error> {
        self.write_i32(code);
        self.write_string16(message)?;
        self.write_i32(0);
        if code == exception::SERVICE_SPECIFIC {
            self.write_i32(0);
        }
        Ok(())
    }
}

impl ParcelReader<'_> {
    /// Reads a call's interface token and checks that it names `interface`; without an allocation.
    ///
    /// # Errors
    /// `BAD_TYPE` when it names another interface or has another header, `BAD_VALUE` when there is no token.
    pub fn check_interface(&mut self, interface: &str) -> Result<(), Status> {
        self.read_i32()?;
        self.read_i32()?;
        let header = self.read_i32()?;
        let units = self.take_units()?.unwrap_or_default();
        let name = units.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        if header == HEADER_SYSTEM && name.eq(interface.encode_utf16()) {
            Ok(())
        } else {
            Err(Status::Code(status::BAD_TYPE))
        }
    }

    /// Reads a reply's status header.
    ///
    /// # Errors
    /// [`Error::Exception`] when the service answered with one, [`Error::Malformed`] when there is no header.
    pub fn read_exception(&mut self) -> Result<(), Error> {
        match self.read_i32()? {
            exception::NONE => Ok(()),
            code => {
                let message = self.read_nullable_string16()?.unwrap_or_default();
                Err(Error::Exception { code, message })
            }
        }
    }
}
