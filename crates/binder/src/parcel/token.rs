//! Prepared interface tokens, for proxies and stubs that make many calls.

use super::{Parcel, ParcelReader};
use crate::{Dialect, Error, Status, status, work_source};

/// The size in bytes of the sender's part of a token: its strict-mode policy and work source.
const OWN: usize = 8;
/// The offset of the work source.
const WORK_SOURCE: usize = 4;

/// The interface token of the binder stack that [`Parcel::write_interface_token`] writes. A proxy
/// or stub that keeps one writes or compares it in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceToken(Vec<u8>);

impl InterfaceToken {
    /// Makes the token of an interface, for processes that use this dialect.
    ///
    /// # Errors
    /// See [`Parcel::write_interface_token`].
    pub fn new(dialect: Dialect, interface: &str) -> Result<Self, Error> {
        let mut parcel = Parcel::in_dialect(dialect);
        parcel.write_interface_token(interface)?;
        Ok(Self(parcel.data))
    }
}

impl Parcel {
    /// Writes an interface token; see [`Parcel::write_interface_token`].
    pub fn write_token(&mut self, token: &InterfaceToken) {
        let at = self.data.len() + WORK_SOURCE;
        self.data.extend_from_slice(&token.0);
        self.data[at..at + 4].copy_from_slice(&work_source::current().to_le_bytes());
    }

    /// Writes the interface token of the hwbinder stack: the interface's name as a C string.
    pub(crate) fn write_name(&mut self, interface: &str) -> Result<(), Error> {
        let copied = self.copied.get();
        self.write_c_string(interface)?;
        self.copied.set(copied); // the name is not payload
        Ok(())
    }
}

impl ParcelReader<'_> {
    /// Reads a call's interface token and checks that it equals `token`, except for the sender's
    /// strict-mode policy and work source.
    ///
    /// # Errors
    /// See [`ParcelReader::check_interface`].
    pub fn check_token(&mut self, token: &InterfaceToken) -> Result<(), Status> {
        let length = token.0.len();
        let received = self.peek(length).unwrap_or_default();
        if received.part(OWN, length - OWN).is_some_and(|received| received.is(&token.0[OWN..])) {
            self.work_source = received.array(WORK_SOURCE).map_or(work_source::UNSET, u32::from_le_bytes);
            self.take("an interface token", length)?;
            return Ok(());
        }
        // The slow path distinguishes a wrong token from a missing one. No interface has an empty
        // name.
        self.check_interface("").and(Err(Status::Code(status::BAD_TYPE)))
    }

    /// Reads a call's interface token in the hwbinder stack, a C string, and checks that it names
    /// `interface`.
    ///
    /// # Errors
    /// `BAD_TYPE` if the token names another interface, `BAD_VALUE` if there is no token.
    pub(crate) fn check_name(&mut self, interface: &str) -> Result<(), Status> {
        let token = self.peek(interface.len() + 1).unwrap_or_default();
        let name = token.part(0, interface.len());
        if name.is_some_and(|name| name.is(interface.as_bytes())) && token.byte(interface.len()) == Some(0) {
            self.take("an interface token", token.len())?;
            return Ok(());
        }
        self.read_c_string()?;
        Err(Status::Code(status::BAD_TYPE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(interface: &str) -> (InterfaceToken, Parcel) {
        let mut parcel = Parcel::new();
        parcel.write_interface_token(interface).unwrap();
        parcel.write_i32(7);
        (InterfaceToken::new(Dialect::default(), interface).unwrap(), parcel)
    }

    #[test]
    fn a_prepared_token_equals_one_written_each_time() {
        let (token, expected) = token("example.IThing");
        let mut parcel = Parcel::new();
        parcel.write_token(&token);
        parcel.write_i32(7);
        assert_eq!(parcel.data(), expected.data());
        assert_eq!(parcel.copied_bytes(), 0);
        let mut reader = parcel.reader();
        reader.check_token(&token).unwrap();
        assert_eq!(reader.read_i32().unwrap(), 7);
    }

    #[test]
    fn a_token_check_ignores_only_the_senders_part() {
        let (token, parcel) = token("example.IThing");
        for at in 0..parcel.data().len() - 4 {
            let mut data = parcel.data().to_vec();
            data[at] ^= 1;
            let whole = ParcelReader::new(&data, &[]).check_interface("example.IThing");
            let made = ParcelReader::new(&data, &[]).check_token(&token);
            // `check_token` also compares the padding, which is always zero.
            if at < parcel.data().len() - 6 {
                assert_eq!(made.is_ok(), whole.is_ok(), "{at}");
                assert_eq!(made.is_ok(), at < OWN, "{at}");
            }
        }
        assert!(ParcelReader::new(&parcel.data()[..20], &[]).check_token(&token).is_err());
        assert!(ParcelReader::new(&[], &[]).check_token(&token).is_err());
    }

    #[test]
    fn another_name_is_a_bad_type_and_a_missing_token_is_a_bad_value() {
        let (_, parcel) = token("example.IThing");
        let other = InterfaceToken::new(Dialect::default(), "example.IThin").unwrap();
        let refused = parcel.reader().check_token(&other);
        assert!(matches!(refused, Err(Status::Code(status::BAD_TYPE))), "{refused:?}");
        let refused = ParcelReader::new(&parcel.data()[..8], &[]).check_token(&other);
        assert!(matches!(refused, Err(Status::Code(status::BAD_VALUE))), "{refused:?}");
        let mut named = Parcel::new();
        named.write_name("a.b@1.0::IThing").unwrap();
        named.write_i32(7);
        let mut reader = named.reader();
        reader.check_name("a.b@1.0::IThing").unwrap();
        assert_eq!(reader.read_i32().unwrap(), 7);
        for other in ["a.b@1.0::IThin", "a.b@1.0::IThings", "a.b@1.1::IThing", ""] {
            let refused = named.reader().check_name(other);
            assert!(matches!(refused, Err(Status::Code(status::BAD_TYPE))), "{other}: {refused:?}");
        }
        let refused = ParcelReader::new(b"ab", &[]).check_name("abc");
        assert!(matches!(refused, Err(Status::Code(status::BAD_VALUE))), "{refused:?}");
    }
}
