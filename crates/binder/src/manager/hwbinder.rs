//! The hwbinder stack's service manager: `android.hidl.manager@1.0::IServiceManager`, with its
//! method codes.
//!
//! It differs from Android's in one point: `add` names the interface. Android's manager asks the
//! object for its interface chain instead.

use std::sync::Arc;

use super::{Registry, check_name, split_name};
use crate::{Binder, Call, Error, HwParcel, HwReader, HwStub, Proxy, Stack, Status};

const INTERFACE: &str = "android.hidl.manager@1.0::IServiceManager";
const GET: u32 = 1;
const ADD: u32 = 2;
const LIST: u32 = 4;

pub(super) struct Manager(pub(super) Arc<Registry>);

/// Reads an interface and an instance; returns them as one name.
fn read_name(data: &mut HwReader<'_>) -> Result<String, Error> {
    Ok(format!("{}/{}", data.read_string()?, data.read_string()?))
}

fn write_name(parcel: &mut HwParcel<'_>, name: &str) -> Result<(), Error> {
    let malformed = Error::Unsendable { what: "a service's name", problem: "it has no instance" };
    let (interface, instance) = split_name(name).ok_or(malformed)?;
    parcel.write_interface_token(INTERFACE)?;
    parcel.write_string(interface)?;
    parcel.write_string(instance)
}

impl HwStub for Manager {
    fn descriptor(&self) -> &str {
        INTERFACE
    }

    fn on_transact<'a>(
        &'a self,
        call: &Call,
        data: &mut HwReader<'a>,
        reply: &mut HwParcel<'a>,
    ) -> Result<(), Status> {
        data.check_interface(INTERFACE)?;
        match call.code {
            GET => {
                let found = self.0.get(&read_name(data)?);
                reply.write_no_exception();
                reply.plain().write_nullable_binder(found.as_ref());
            }
            ADD => {
                let name = read_name(data)?;
                check_name(Stack::Hwbinder, &name)?;
                self.0.add(&name, data.plain().read_binder()?);
                reply.write_no_exception();
            }
            LIST => {
                reply.write_no_exception();
                reply.write_string_vec(&self.0.names())?;
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
    let reply = manager.call_hw(ADD, |parcel| {
        write_name(parcel, name)?;
        parcel.plain().write_binder(binder);
        Ok(())
    })?;
    reply.hw_reader()?.plain().read_exception()
}

pub(super) fn get(manager: &Proxy, name: &str) -> Result<Option<Binder>, Error> {
    let reply = manager.call_hw(GET, |parcel| write_name(parcel, name))?;
    let mut reader = reply.hw_reader()?;
    reader.plain().read_exception()?;
    reader.plain().read_nullable_binder()
}

pub(super) fn list(manager: &Proxy) -> Result<Vec<String>, Error> {
    let reply = manager.call_hw(LIST, |parcel| parcel.write_interface_token(INTERFACE))?;
    let mut reader = reply.hw_reader()?;
    reader.plain().read_exception()?;
    reader.read_string_vec()
}
