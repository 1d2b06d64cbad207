//! The benchmark service over the hwbinder stack, which sends bytes without copying them into a
//! parcel, in each direction.

use std::sync::{Arc, Weak};

use roundtrip_binder_driver::RawBytes;

use super::{Benchmark, CALL, COPIED_BYTES, Echo, NOP, Purpose, SEND_VEC, ServerReport};
use roundtrip_binder::{Call, Error, HwParcel, HwReader, HwStub, Process, Proxy, Status};

pub(super) const INTERFACE: &str = "android.hardware.tests.libhwbinder@1.0::IBenchmark";

pub(super) struct EchoStub {
    pub(super) echo: Arc<Echo>,
    pub(super) owner: Weak<Process>,
}

impl HwStub for EchoStub {
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
        reply.write_no_exception();
        match call.code {
            // Sends the received buffer itself back. This does not use `Benchmark::send_vec`, which
            // would borrow the buffer for too short a time.
            SEND_VEC => reply.write_vec(data.read_vec()?)?,
            NOP => {}
            CALL => {
                let purpose = Purpose::read(data.plain())?;
                data.read_vec()?;
                self.echo.report(purpose).write(reply.plain());
            }
            COPIED_BYTES => {
                reply.plain().write_u64(self.owner.upgrade().map_or(0, |owner| owner.copied_bytes()));
            }
            _ => return Err(Status::UNKNOWN_TRANSACTION),
        }
        Ok(())
    }
}

pub(super) struct EchoProxy(pub(super) Proxy);

impl Benchmark for EchoProxy {
    fn send_vec(&self, bytes: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<(), Error> {
        let reply = self.0.call_hw(SEND_VEC, |parcel| {
            parcel.write_interface_token(INTERFACE)?;
            parcel.write_vec(bytes)
        })?;
        let mut reader = reply.hw_reader()?;
        reader.plain().read_exception()?;
        take(reader.read_vec()?);
        Ok(())
    }

    fn nop(&self) -> Result<(), Error> {
        let reply = self.0.call_hw(NOP, |parcel| parcel.write_interface_token(INTERFACE))?;
        reply.hw_reader()?.plain().read_exception()
    }

    fn call(&self, payload: &[u8], purpose: Purpose) -> Result<ServerReport, Error> {
        let reply = self.0.call_hw(CALL, |parcel| {
            parcel.write_interface_token(INTERFACE)?;
            parcel.plain().write_u32(purpose as u32);
            parcel.write_vec(payload)
        })?;
        let mut reader = reply.hw_reader()?;
        let reader = reader.plain();
        reader.read_exception()?;
        ServerReport::read(reader)
    }

    fn server_copied_bytes(&self) -> Result<u64, Error> {
        let reply = self.0.call_hw(COPIED_BYTES, |parcel| parcel.write_interface_token(INTERFACE))?;
        let mut reader = reply.hw_reader()?;
        let reader = reader.plain();
        reader.read_exception()?;
        reader.read_u64()
    }
}
