//! The benchmark service over the binder stack, which copies bytes into a parcel in each direction.

use std::sync::{Arc, Weak};

use roundtrip_binder_driver::RawBytes;

use super::{Benchmark, CALL, COPIED_BYTES, Echo, NOP, Purpose, SEND_VEC, ServerReport, TAKE};
use roundtrip_binder::{Call, Error, InterfaceToken, Parcel, ParcelReader, Process, Proxy, Status, Stub};

pub(super) const INTERFACE: &str = "roundtrip.IBenchmark";

pub(super) struct EchoStub {
    pub(super) echo: Arc<Echo>,
    pub(super) owner: Weak<Process>,
    pub(super) token: InterfaceToken,
}

pub(super) fn token(process: &Process) -> InterfaceToken {
    InterfaceToken::new(process.dialect(), INTERFACE).expect("a short name")
}

impl Stub for EchoStub {
    fn descriptor(&self) -> &str {
        INTERFACE
    }

    fn on_transact(
        &self,
        call: &Call,
        data: &mut ParcelReader<'_>,
        reply: &mut Parcel,
    ) -> Result<(), Status> {
        if call.code == TAKE {
            return Ok(());
        }
        data.check_token(&self.token)?;
        reply.write_no_exception();
        match call.code {
            // As `Echo::send_vec`, without an additional copy.
            SEND_VEC => reply.write_bytes(data.read_bytes()?)?,
            NOP => {}
            CALL => {
                let purpose = Purpose::read(data)?;
                data.read_bytes()?;
                self.echo.report(purpose).write(reply);
            }
            COPIED_BYTES => reply.write_u64(self.owner.upgrade().map_or(0, |owner| owner.copied_bytes())),
            _ => return Err(Status::UNKNOWN_TRANSACTION),
        }
        Ok(())
    }
}

pub(super) struct EchoProxy {
    pub(super) proxy: Proxy,
    pub(super) token: InterfaceToken,
}

impl Benchmark for EchoProxy {
    fn send_vec(&self, bytes: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<(), Error> {
        let reply = self.proxy.call(SEND_VEC, |parcel| {
            parcel.write_token(&self.token);
            parcel.write_bytes(bytes)
        })?;
        let mut reader = reply.reader()?;
        reader.read_exception()?;
        take(reader.read_bytes()?);
        Ok(())
    }

    fn nop(&self) -> Result<(), Error> {
        let reply = self.proxy.call(NOP, |parcel| {
            parcel.write_token(&self.token);
            Ok(())
        })?;
        reply.reader()?.read_exception()
    }

    fn call(&self, payload: &[u8], purpose: Purpose) -> Result<ServerReport, Error> {
        let reply = self.proxy.call(CALL, |parcel| {
            parcel.write_token(&self.token);
            parcel.write_u32(purpose as u32);
            parcel.write_bytes(payload)
        })?;
        let mut reader = reply.reader()?;
        reader.read_exception()?;
        ServerReport::read(&mut reader)
    }

    fn server_copied_bytes(&self) -> Result<u64, Error> {
        let reply = self.proxy.call(COPIED_BYTES, |parcel| {
            parcel.write_token(&self.token);
            Ok(())
        })?;
        let mut reader = reply.reader()?;
        reader.read_exception()?;
        reader.read_u64()
    }
}
