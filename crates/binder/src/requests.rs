//! Requests that every object answers, regardless of its interface: ping, descriptor, dump,
//! extension.

use std::os::fd::OwnedFd;

use crate::{Binder, Error, NativeHandle, Proxy, Stack};

const fn code(letters: &[u8; 4]) -> u32 {
    u32::from_be_bytes(*letters)
}

/// `PING_TRANSACTION`: an empty reply.
pub(crate) const PING: u32 = code(b"_PNG");
/// `INTERFACE_TRANSACTION`: the interface's name.
pub(crate) const DESCRIPTOR: u32 = code(b"_NTF");
/// `DUMP_TRANSACTION`: a file descriptor for the text, and arguments.
pub(crate) const DUMP: u32 = code(b"_DMP");
/// `EXTENSION_TRANSACTION`: the object that extends this one, or null.
pub(crate) const EXTENSION: u32 = code(b"_EXT");
/// HIDL's `IBase::ping`.
pub(crate) const HIDL_PING: u32 = code(b"\x0fPNG");
/// HIDL's `IBase::interfaceDescriptor`.
pub(crate) const HIDL_DESCRIPTOR: u32 = code(b"\x0fDSC");
/// HIDL's `IBase::debug`: a handle with a file descriptor for the text, and arguments.
pub(crate) const HIDL_DEBUG: u32 = code(b"\x0fDBG");
/// The interface of those three methods.
pub(crate) const HIDL_BASE: &str = "android.hidl.base@1.0::IBase";

impl Proxy {
    /// Pings the object, which must belong to `stack`.
    ///
    /// # Errors
    /// See [`Proxy::transact`].
    pub fn ping(&self, stack: Stack) -> Result<(), Error> {
        match stack {
            Stack::Binder => self.call(PING, |_| Ok(())).map(drop),
            Stack::Hwbinder => self
                .call_hw(HIDL_PING, |parcel| parcel.write_interface_token(HIDL_BASE))?
                .hw_reader()?
                .plain()
                .read_exception(),
        }
    }

    /// Returns the name of the object's interface. The object must belong to `stack`.
    ///
    /// # Errors
    /// See [`Proxy::transact`]; [`Error::Malformed`] if the reply is not a name.
    pub fn interface_descriptor(&self, stack: Stack) -> Result<String, Error> {
        match stack {
            Stack::Binder => self.call(DESCRIPTOR, |_| Ok(()))?.reader()?.read_string16(),
            Stack::Hwbinder => {
                let reply =
                    self.call_hw(HIDL_DESCRIPTOR, |parcel| parcel.write_interface_token(HIDL_BASE))?;
                let mut reader = reply.hw_reader()?;
                reader.plain().read_exception()?;
                reader.read_string()
            }
        }
    }

    /// Returns the object's extension (`getExtension`, since Android 11). The object must belong to
    /// the binder stack.
    ///
    /// # Errors
    /// See [`Proxy::transact`]; [`Error::Status`] from libraries without extensions.
    pub fn extension(&self) -> Result<Option<Binder>, Error> {
        self.call(EXTENSION, |_| Ok(()))?.reader()?.read_nullable_binder()
    }

    /// Asks the object to write its state to `to`, as `dumpsys` and `lshal debug` do. The object
    /// must belong to `stack`. It may write before or after it replies. If `to` is a pipe, the
    /// reader sees the end of file when the object has written everything. A pipe holds 64 KiB, so
    /// another thread should read it during the call.
    ///
    /// # Errors
    /// See [`Proxy::transact`].
    pub fn dump(&self, stack: Stack, arguments: &[&str], to: OwnedFd) -> Result<(), Error> {
        // Dropping the reply closes any descriptor in it.
        match stack {
            Stack::Binder => self.call(DUMP, |parcel| {
                parcel.write_fd(to);
                parcel.write_string16_vec(arguments)
            }),
            Stack::Hwbinder => self.call_hw(HIDL_DEBUG, |parcel| {
                parcel.write_interface_token(HIDL_BASE)?;
                let handle = NativeHandle { descriptors: vec![to], integers: Vec::new() };
                parcel.write_native_handle(Some(handle))?;
                parcel.write_string_vec(arguments)
            }),
        }
        .map(drop)
    }
}
