//! The binder stack's service manager: `android.os.IServiceManager` in the layout and with the codes of Android 11.

use std::sync::Arc;

use super::{Registry, check_name};
use crate::{Binder, Call, Error, Parcel, ParcelReader, Proxy, Stack, Status, Stub};

const INTERFACE: &str = "android.os.IServiceManager";
const GET_SERVICE: u32 = 1;
const CHECK_SERVICE: u32 = 2;
const ADD_SERVICE: u32 = 3;
const LIST_SERVICES: u32 = 4;
/// `DUMP_FLAG_PRIORITY_DEFAULT` and `DUMP_FLAG_PRIORITY_ALL`: when a service is dumped, which nobody asks here.
const PRIORITY_DEFAULT: i32 = 8;
const PRIORITY_ALL: i32 = 15;

pub(super) struct Manager(pub(super) Arc<Registry>);

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
        match call.code {
            GET_SERVICE | CHECK_SERVICE => {
                let found = self.0.get(&data.read_string16()?);
                reply.write_no_exception();
                reply.write_nullable_binder(found.as_ref());
            }
            ADD_SERVICE => {
                let name = data.read_string16()?;
                check_name(Stack::Binder, &name)?;
                self.0.add(&name, data.read_binder()?);
                reply.write_no_exception();
            }
            LIST_SERVICES => {
                reply.write_no_exception();
                reply.write_string16_vec(&self.0.names())?;
            }
            _ => return Err(Status::UNKNOWN_TRANSACTION),
        }
        Ok(())
    }

    fn dump(&self, _: &[String]) -> String {
        self.0.names().join("\n")
    }
}

pub(super) fn add(manager: &Proxy, name: &str, binder: &Binder) -> Result<(), Error> {
    let reply = manager.call(ADD_SERVICE, |parcel| {
        parcel.write_interface_token(INTERFACE)?;
        parcel.write_string16(name)?;
        parcel.write_binder(binder);
        parcel.write_bool(false); // isolated processes may not find it; there are none
        parcel.write_i32(PRIORITY_DEFAULT);
        Ok(())
    })?;
    reply.reader()?.read_exception()
}

pub(super) fn check(manager: &Proxy, name: &str) -> Result<Option<Binder>, Error> {
    let reply = manager.call(CHECK_SERVICE, |parcel| {
        parcel.write_interface_token(INTERFACE)?;
        parcel.write_string16(name)
    })?;
    let mut reader = reply.reader()?;
    reader.read_exception()?;
    reader.read_nullable_binder()
}

pub(super) fn list(manager: &Proxy) -> Result<Vec<String>, Error> {
    let reply = manager.call(LIST_SERVICES, |parcel| {
        parcel.write_interface_token(INTERFACE)?;
        parcel.write_i32(PRIORITY_ALL);
        Ok(())
    })?;
    let mut reader = reply.reader()?;
    reader.read_exception()?;
    reader.read_string16_vec()
}
