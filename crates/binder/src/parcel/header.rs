//! The headers of a parcel: the interface token before a call's arguments, and the status header
//! before its result.

use super::{Parcel, ParcelReader};
use crate::{Dialect, Error, Status, exception, status, work_source};

/// The word before the name of an interface token, since Android 11: the sender's partition.
const HEADER_SYSTEM: i32 = i32::from_be_bytes(*b"SYST");
/// The strict-mode word of native callers: `STRICT_MODE_PENALTY_GATHER`, and no policy.
const STRICT_MODE: i32 = 1 << 31;

/// Headers that a Java service may write before its status: noted app-ops (since Android 11; the
/// status follows), and strict-mode violations (instead of the status "no exception").
const NOTED_APP_OPS: i32 = -127;
const STRICT_MODE_STACKS: i32 = -128;

impl Parcel {
    /// Writes a call's interface token: the strict-mode policy, the work source's uid
    /// ([`WorkSource`](crate::WorkSource)), the header `SYST` (since Android 11), and the
    /// interface's name as UTF-16.
    ///
    /// # Errors
    /// See [`Parcel::write_string16`].
    pub fn write_interface_token(&mut self, interface: &str) -> Result<(), Error> {
        self.write_i32(STRICT_MODE);
        self.write_u32(work_source::current());
        if self.dialect.is_none_or(Dialect::has_header) {
            self.write_i32(HEADER_SYSTEM);
        }
        let copied = self.copied.get();
        self.write_string16(interface)?;
        self.copied.set(copied); // the name is not payload
        Ok(())
    }

    /// Writes a reply's status header: no exception.
    pub fn write_no_exception(&mut self) {
        self.write_i32(exception::NONE);
    }

    /// Writes a reply's status header: an exception, its message, and, in the binder stack, an
    /// empty remote stack trace. A service-specific exception gets the number 0; use
    /// [`Parcel::write_service_specific`] for another number.
    ///
    /// # Errors
    /// See [`Parcel::write_string16`].
    pub fn write_exception(&mut self, code: i32, message: &str) -> Result<(), Error> {
        self.put_exception(code, message)?;
        // Two kinds of exceptions have one more word, which is 0 here: the error's number, or the
        // size of the parcelable.
        if self.dialect.is_some() && [exception::SERVICE_SPECIFIC, exception::PARCELABLE].contains(&code) {
            self.write_i32(0);
        }
        Ok(())
    }

    /// Writes a reply's status header: an error that the service defines
    /// (`Status::fromServiceSpecificError`).
    ///
    /// # Errors
    /// See [`Parcel::write_string16`].
    pub fn write_service_specific(&mut self, error: i32, message: &str) -> Result<(), Error> {
        self.put_exception(exception::SERVICE_SPECIFIC, message)?;
        self.write_i32(error);
        Ok(())
    }

    fn put_exception(&mut self, code: i32, message: &str) -> Result<(), Error> {
        self.write_i32(code);
        self.write_string16(message)?;
        // The size of the remote stack trace. Hwbinder's headers do not have it.
        if self.dialect.is_some() {
            self.write_i32(0);
        }
        Ok(())
    }
}

impl ParcelReader<'_> {
    /// Reads a call's interface token and checks that it names `interface`. Allocates nothing.
    ///
    /// # Errors
    /// `BAD_TYPE` if the token has another name or another header, `BAD_VALUE` if there is no
    /// token.
    pub fn check_interface(&mut self, interface: &str) -> Result<(), Status> {
        self.read_i32()?;
        let work_source = self.read_u32()?;
        let has_header = self.dialect.is_none_or(Dialect::has_header);
        let header = if has_header { self.read_i32()? } else { HEADER_SYSTEM };
        let name = self.take_units()?;
        if header == HEADER_SYSTEM && name.into_iter().flatten().eq(interface.encode_utf16()) {
            self.work_source = work_source;
            Ok(())
        } else {
            Err(Status::Code(status::BAD_TYPE))
        }
    }

    /// Reads a reply's status header. Skips the additional headers and the remote stack trace that
    /// Java services write.
    ///
    /// # Errors
    /// [`Error::ServiceSpecific`] or [`Error::Exception`] if the service answered with one,
    /// [`Error::Malformed`] if there is no header.
    pub fn read_exception(&mut self) -> Result<(), Error> {
        let mut code = self.read_i32()?;
        if code == NOTED_APP_OPS {
            self.skip_sized("a header of noted app-ops")?;
            code = self.read_i32()?;
        }
        if code == STRICT_MODE_STACKS {
            return self.skip_sized("a strict-mode header");
        }
        if code == exception::NONE {
            return Ok(());
        }
        let message = self.read_nullable_string16()?.unwrap_or_default();
        if self.dialect.is_some() {
            self.skip_sized("a remote stack trace")?;
            match code {
                exception::SERVICE_SPECIFIC => {
                    return Err(Error::ServiceSpecific { error: self.read_i32()?, message });
                }
                exception::PARCELABLE => self.skip_sized("an exception's object")?,
                _ => {}
            }
        }
        Err(Error::Exception { code, message })
    }

    /// Skips an item that begins with its size in bytes. The size includes its own word, except
    /// that an empty item has size 0.
    fn skip_sized(&mut self, what: &'static str) -> Result<(), Error> {
        let start = self.position();
        match self.read_i32()? {
            0 => Ok(()),
            size => self.skip_from(what, start, size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply as a Java service writes it: words, a message, and more words.
    fn reply(before: &[i32], message: Option<&str>, after: &[i32]) -> Parcel {
        let mut parcel = Parcel::new();
        before.iter().for_each(|word| parcel.write_i32(*word));
        if let Some(message) = message {
            parcel.write_string16(message).unwrap();
        }
        after.iter().for_each(|word| parcel.write_i32(*word));
        parcel
    }

    #[test]
    fn headers_of_java_services_are_skipped() {
        for before in [
            &[0][..],
            &[-128, 12, 1, 2],      // strict-mode stacks
            &[-128, 0],             // none of them
            &[-127, 8, 9, 0],       // noted app-ops, then no exception
            &[-127, 4, -128, 8, 9], // both
        ] {
            let parcel = reply(before, None, &[42]);
            let mut reader = parcel.reader();
            reader.read_exception().unwrap();
            assert_eq!(reader.read_i32().unwrap(), 42, "{before:?}");
        }
    }

    #[test]
    fn an_exception_is_read_with_its_trace_number_and_parcelable() {
        for trace in [&[0][..], &[12, 7, 7]] {
            let parcel = reply(&[exception::SERVICE_SPECIFIC], Some("no"), &[trace, &[-3, 42]].concat());
            let mut reader = parcel.reader();
            let error = reader.read_exception().unwrap_err();
            assert!(
                matches!(&error, Error::ServiceSpecific { error: -3, message } if message == "no"),
                "{error}"
            );
            assert_eq!(reader.read_i32().unwrap(), 42);
        }
        let parcel = reply(&[exception::PARCELABLE], Some("no"), &[0, 8, 7, 42]);
        let mut reader = parcel.reader();
        assert!(matches!(reader.read_exception(), Err(Error::Exception { code: exception::PARCELABLE, .. })));
        assert_eq!(reader.read_i32().unwrap(), 42);
    }

    #[test]
    fn written_exceptions_read_back() {
        let mut parcel = Parcel::new();
        parcel.write_service_specific(7, "seven").unwrap();
        parcel.write_exception(exception::SECURITY, "no").unwrap();
        parcel.write_i32(42);
        let mut reader = parcel.reader();
        assert!(matches!(reader.read_exception(), Err(Error::ServiceSpecific { error: 7, .. })));
        assert!(matches!(reader.read_exception(), Err(Error::Exception { code: exception::SECURITY, .. })));
        assert_eq!(reader.read_i32().unwrap(), 42);
    }

    #[test]
    fn impossible_header_sizes_are_malformed() {
        for size in [-1, 3, 1000, i32::MIN, i32::MAX] {
            for before in [&[-128, size][..], &[-127, size, 0]] {
                let parcel = reply(before, None, &[]);
                let read = parcel.reader().read_exception();
                assert!(matches!(read, Err(Error::Malformed { .. })), "{before:?}: {read:?}");
            }
            let parcel = reply(&[-1], Some("no"), &[size]);
            assert!(matches!(parcel.reader().read_exception(), Err(Error::Malformed { .. })), "{size}");
        }
    }

    #[test]
    fn hwbinder_exceptions_have_no_trace_and_no_number() {
        let mut parcel = Parcel::of_hwbinder();
        parcel.write_exception(exception::SERVICE_SPECIFIC, "no").unwrap();
        assert_eq!(parcel.data().len(), 4 + 4 + 8);
        assert!(matches!(parcel.reader().read_exception(), Err(Error::Exception { .. })));
    }

    #[test]
    fn a_token_has_the_layout_of_its_dialect_and_contains_the_work_source() {
        for dialect in Dialect::ALL {
            let mut parcel = Parcel::in_dialect(dialect);
            parcel.write_interface_token("a.B").unwrap();
            let _works_for = crate::WorkSource::set(10_042);
            parcel.write_interface_token("a.B").unwrap();
            let words = if dialect == Dialect::Android10 { 2 } else { 3 };
            assert_eq!(parcel.data().len(), 2 * (words * 4 + 4 + 8), "{dialect:?}");
            let mut reader = parcel.reader();
            reader.check_interface("a.B").unwrap();
            assert_eq!(reader.work_source(), None);
            reader.check_interface("a.B").unwrap();
            assert_eq!(reader.work_source(), Some(10_042));
        }
    }
}
