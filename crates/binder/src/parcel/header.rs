//! What stands in front of a call's arguments and of its result: the interface token and the status header.

use super::{Parcel, ParcelReader, text};
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

    /// Writes what a call in the hwbinder stack begins with: the interface's name as a C string.
    pub(crate) fn write_name(&mut self, interface: &str) -> Result<(), Error> {
        let copied = self.copied.get();
        self.write_c_string(interface)?;
        self.copied.set(copied); // as above
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
        if header == HEADER_SYSTEM && text::is_utf16(units, interface) {
            Ok(())
        } else {
            Err(Status::Code(status::BAD_TYPE))
        }
    }

    /// Reads a call's interface token in the hwbinder stack, a C string, and checks that it names `interface`.
    ///
    /// # Errors
    /// `BAD_TYPE` when it names another interface, `BAD_VALUE` when there is no token.
    pub(crate) fn check_name(&mut self, interface: &str) -> Result<(), Status> {
        let length = interface.len();
        if self.peek(length + 1).is_some_and(|token| text::is_c_string(token, interface)) {
            self.take("an interface token", length + 1)?;
            return Ok(());
        }
        self.read_c_string()?;
        Err(Status::Code(status::BAD_TYPE))
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
