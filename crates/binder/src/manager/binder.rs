//! The binder stack's service manager, `android.os.IServiceManager`. Layout and method codes are
//! those of the process's [`Dialect`].

use std::sync::Arc;

use super::{Registry, check_name};
use crate::{Binder, Call, Dialect, Error, Parcel, ParcelReader, Proxy, Stack, Status, Stub, status};

const INTERFACE: &str = "android.os.IServiceManager";
/// `DUMP_FLAG_PRIORITY_DEFAULT` and `DUMP_FLAG_PRIORITY_ALL`: dump priorities, which this manager
/// ignores.
const PRIORITY_DEFAULT: i32 = 8;
const PRIORITY_ALL: i32 = 15;
/// The only kind of `android.os.Service` that this manager uses: an object, and a flag that says
/// whether the service is lazy.
const SERVICE_WITH_METADATA: i32 = 0;

/// What a method of the interface does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// `getService` and `checkService`. They do the same here, because this manager starts no
    /// services on demand.
    Get,
    /// `getService2` and `checkService2`.
    GetWithMetadata,
    Add,
    List,
}

/// A dialect's methods in the order of their codes, which start at 1.
fn methods(dialect: Dialect) -> &'static [Method] {
    use Method::{Add, Get, GetWithMetadata, List};
    match dialect {
        Dialect::Android15 => &[Get, GetWithMetadata, GetWithMetadata, Add, List],
        Dialect::Android16 => &[Get, GetWithMetadata, Get, GetWithMetadata, Add, List],
        _ => &[Get, Get, Add, List],
    }
}

/// The code of a method. If several codes do the same here, returns the last one, which on Android
/// starts no service on demand.
fn code(dialect: Dialect, method: Method) -> u32 {
    let found = methods(dialect).iter().rposition(|known| *known == method);
    found.map_or(0, |index| index as u32 + 1)
}

/// Returns true for Android 10 and earlier. Their manager writes no status header before a result,
/// and lists one name per call.
fn is_old(dialect: Dialect) -> bool {
    dialect == Dialect::Android10
}

pub(super) struct Manager {
    pub(super) registry: Arc<Registry>,
    pub(super) dialect: Dialect,
}

impl Manager {
    fn write_list(&self, data: &mut ParcelReader<'_>, reply: &mut Parcel) -> Result<(), Status> {
        let names = self.registry.names();
        if !is_old(self.dialect) {
            reply.write_no_exception();
            return Ok(reply.write_string16_vec(&names)?);
        }
        let index = usize::try_from(data.read_i32()?).ok();
        let name = index.and_then(|index| names.get(index)).ok_or(Status::Code(status::UNKNOWN_ERROR))?;
        Ok(reply.write_string16(name)?)
    }
}

impl Stub for Manager {
    fn descriptor(&self) -> &str {
        INTERFACE
    }

    fn on_transact(
        &self,
        call: &Call,
        data: &mut ParcelReader<'_>,
        reply: &mut Parcel,
    ) -> Result<(), Status> {
        data.check_interface(INTERFACE)?;
        let index = call.code.wrapping_sub(1) as usize;
        match methods(self.dialect).get(index).ok_or(Status::UNKNOWN_TRANSACTION)? {
            Method::Get => {
                let found = self.registry.get(&data.read_string16()?);
                if !is_old(self.dialect) {
                    reply.write_no_exception();
                }
                reply.write_nullable_binder(found.as_ref());
            }
            Method::GetWithMetadata => {
                let found = self.registry.get(&data.read_string16()?);
                reply.write_no_exception();
                write_service(reply, found.as_ref());
            }
            Method::Add => {
                let name = data.read_string16()?;
                check_name(Stack::Binder, &name)?;
                self.registry.add(&name, data.read_binder()?);
                reply.write_no_exception();
            }
            Method::List => self.write_list(data, reply)?,
        }
        Ok(())
    }

    fn dump(&self, _: &[String]) -> String {
        self.registry.names().join("\n")
    }
}

/// Writes an `android.os.Service`: a union, which begins with its kind. Its member is a parcelable,
/// which begins with its size.
fn write_service(parcel: &mut Parcel, binder: Option<&Binder>) {
    parcel.write_bool(true); // it is not null
    parcel.write_i32(SERVICE_WITH_METADATA);
    parcel.write_bool(true);
    let start = parcel.data().len();
    parcel.write_i32(0);
    parcel.write_nullable_binder(binder);
    parcel.write_bool(false); // not a lazy service
    let size = (parcel.data().len() - start) as i32;
    parcel.patch(start, &size.to_le_bytes());
}

pub(super) fn add(manager: &Proxy, name: &str, binder: &Binder) -> Result<(), Error> {
    let reply = manager.call(code(manager.process().dialect(), Method::Add), |parcel| {
        parcel.write_interface_token(INTERFACE)?;
        parcel.write_string16(name)?;
        parcel.write_binder(binder);
        parcel.write_bool(false); // isolated processes may not use it; there are none
        parcel.write_i32(PRIORITY_DEFAULT);
        Ok(())
    })?;
    reply.reader()?.read_exception()
}

/// Looks up a name without metadata. The reply is the same in every dialect, except that Android 10
/// sends no status header.
pub(super) fn check(manager: &Proxy, name: &str) -> Result<Option<Binder>, Error> {
    let dialect = manager.process().dialect();
    let reply = manager.call(code(dialect, Method::Get), |parcel| {
        parcel.write_interface_token(INTERFACE)?;
        parcel.write_string16(name)
    })?;
    let mut reader = reply.reader()?;
    if !is_old(dialect) {
        reader.read_exception()?;
    }
    reader.read_nullable_binder()
}

pub(super) fn list(manager: &Proxy) -> Result<Vec<String>, Error> {
    let dialect = manager.process().dialect();
    if is_old(dialect) {
        return list_one_by_one(manager);
    }
    let reply = manager.call(code(dialect, Method::List), |parcel| {
        parcel.write_interface_token(INTERFACE)?;
        parcel.write_i32(PRIORITY_ALL);
        Ok(())
    })?;
    let mut reader = reply.reader()?;
    reader.read_exception()?;
    reader.read_string16_vec()
}

/// Lists one name per call, until the manager has no name with the given index.
fn list_one_by_one(manager: &Proxy) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    loop {
        let reply = manager.call(code(Dialect::Android10, Method::List), |parcel| {
            parcel.write_interface_token(INTERFACE)?;
            parcel.write_i32(names.len() as i32);
            parcel.write_i32(PRIORITY_ALL);
            Ok(())
        });
        match reply {
            Ok(reply) => names.push(reply.reader()?.read_string16()?),
            Err(Error::Status { .. }) => return Ok(names),
            Err(other) => return Err(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_codes_match_the_android_releases() {
        let codes = |dialect| [Method::Get, Method::Add, Method::List].map(|method| code(dialect, method));
        assert_eq!(codes(Dialect::Android10), [2, 3, 4]);
        assert_eq!(codes(Dialect::Android13), [2, 3, 4]);
        assert_eq!(codes(Dialect::Android15), [1, 4, 5]);
        assert_eq!(codes(Dialect::Android16), [3, 5, 6]);
    }
}
