//! Interface tokens: the name in front of each call, made once where a call's cost matters.

use super::{Parcel, ParcelReader};
use crate::{Dialect, Error, Status, status, work_source};

/// How many bytes of a token are the sender's own: its strict-mode policy and its work source.
const OWN: usize = 8;
/// Where the work source begins.
const WORK_SOURCE: usize = 4;

/// What calls to one interface of the binder stack begin with, as [`Parcel::write_interface_token`]
/// writes it. Proxies and stubs that keep one write and compare it as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceToken(Vec<u8>);

impl InterfaceToken {
    /// The token of an interface, for processes of the dialect.
    ///
    /// # Errors
    /// As [`Parcel::write_interface_token`].
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

    /// Writes what a call in the hwbinder stack begins with: the interface's name as a C string.
    pub(crate) fn write_name(&mut self, interface: &str) -> Result<(), Error> {
        let copied = self.copied.get();
        self.write_c_string(interface)?;
        self.copied.set(copied); // a name is no payload
        Ok(())
    }
}

impl ParcelReader<'_> {
    /// Reads a call's interface token and checks that it is this one; what the sender said of
    /// itself may differ.
    ///
    /// # Errors
    /// As [`ParcelReader::check_interface`].
    pub fn check_token(&mut self, token: &InterfaceToken) -> Result<(), Status> {
        let length = token.0.len();
        let received = self.peek(length).unwrap_or_default();
        if received.part(OWN, length - OWN).is_some_and(|received| received.is(&token.0[OWN..])) {
            self.work_source = received.array(WORK_SOURCE).map_or(work_source::UNSET, u32::from_le_bytes);
            self.take("an interface token", length)?;
            return Ok(());
        }
        // Which of the two is wrong is for the slow way to say; no interface is called that.
        self.check_interface("").and(Err(Status::Code(status::BAD_TYPE)))
    }

    /// Reads a call's interface token in the hwbinder stack, a C string, and checks that it names
    /// `interface`.
    ///
    /// # Errors
    /// `BAD_TYPE` when it names another interface, `BAD_VALUE` when there is no token.
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
    fn a_token_made_before_is_the_one_that_is_written_each_time() {
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
    fn a_token_tells_what_its_sender_says_of_itself_from_what_it_wants() {
        let (token, parcel) = token("example.IThing");
        for at in 0..parcel.data().len() - 4 {
            let mut data = parcel.data().to_vec();
            data[at] ^= 1;
            let whole = ParcelReader::new(&data, &[]).check_interface("example.IThing");
            let made = ParcelReader::new(&data, &[]).check_token(&token);
            // Padding is compared too, which is always zero.
            if at < parcel.data().len() - 6 {
                assert_eq!(made.is_ok(), whole.is_ok(), "{at}");
                assert_eq!(made.is_ok(), at < OWN, "{at}");
            }
        }
        assert!(ParcelReader::new(&parcel.data()[..20], &[]).check_token(&token).is_err());
        assert!(ParcelReader::new(&[], &[]).check_token(&token).is_err());
    }

    #[test]
    fn another_name_is_a_bad_type_and_none_a_bad_value() {
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
