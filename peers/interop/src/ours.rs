//! This project's side: the interface written by hand, with a service, a client and the service
//! manager.

use std::sync::Arc;
use std::sync::mpsc::channel;

use anyhow::{Context as _, Result, bail, ensure};
use roundtrip_binder::manager::{self, ServiceManager};
use roundtrip_binder::{
    Call, Error, Parcel, ParcelReader, Process, Proxy, Reply, Service, Stability, Stack, Status, Stub,
    WorkSource, exception, status,
};
use roundtrip_binder_driver::kernel::Kernel;

use crate::{DEVICE, INTERFACE, PATIENCE, SERVICE, say_linked};

/// Android's receive area: 1 MiB less two pages.
const AREA_BYTES: u64 = (1 << 20) - 2 * 4096;

const ECHO: u32 = 1;
const SUM: u32 = 2;
const BYTES: u32 = 3;
const FAIL: u32 = 4;
const REFUSE: u32 = 5;
const CALL_BACK: u32 = 6;
const WORKS_FOR: u32 = 7;

fn open() -> Result<Arc<Process>> {
    Ok(Process::new(Arc::new(Kernel::open(DEVICE, AREA_BYTES)?)))
}

pub(crate) fn manage() -> Result<()> {
    let process = open()?;
    manager::serve(&process, Stack::Binder)?;
    Ok(process.join_thread_pool()?)
}

pub(crate) fn serve() -> Result<()> {
    let process = open()?;
    let service = process.publish(Service::binder(Peer));
    let manager = ServiceManager::new(&process, Stack::Binder);
    crate::until("register the service", || manager.add(SERVICE, &service).ok())?;
    process.start_looper()?;
    Ok(process.join_thread_pool()?)
}

struct Peer;

impl Stub for Peer {
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
        reply.write_no_exception();
        match call.code {
            ECHO => reply.write_string16(&data.read_string16()?)?,
            SUM => reply.write_i64(data.read_i32_vec()?.into_iter().map(i64::from).sum()),
            BYTES => {
                let bytes = data.read_bytes()?;
                reply.write_bytes(bytes)?;
            }
            FAIL => return Err(Status::service_specific(data.read_i32()?, "requested error")),
            REFUSE => return Err(Status::exception(exception::SECURITY, "not permitted")),
            CALL_BACK => {
                let other = data.read_binder()?;
                let other = other.remote().ok_or(Status::Code(status::BAD_VALUE))?;
                let text = data.read_string16()?;
                reply.write_string16(&echo(other, &text)?)?;
            }
            WORKS_FOR => reply.write_i64(i64::from(data.work_source().unwrap_or(u32::MAX))),
            _ => return Err(Status::UNKNOWN_TRANSACTION),
        }
        Ok(())
    }
}

/// Calls a method. `read` gets the contents of the reply after the status.
fn ask<R>(
    peer: &Proxy,
    code: u32,
    write: impl FnOnce(&mut Parcel) -> Result<(), Error>,
    read: impl FnOnce(&mut ParcelReader<'_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let reply: Reply<'_> = peer.call(code, |parcel| {
        parcel.write_interface_token(INTERFACE)?;
        write(parcel)
    })?;
    let mut reader = reply.reader()?;
    reader.read_exception()?;
    read(&mut reader)
}

fn echo(peer: &Proxy, text: &str) -> Result<String, Error> {
    ask(peer, ECHO, |parcel| parcel.write_string16(text), |reader| reader.read_string16())
}

fn works_for(peer: &Proxy) -> Result<i64, Error> {
    ask(peer, WORKS_FOR, |_| Ok(()), |reader| reader.read_i64())
}

pub(crate) fn call() -> Result<()> {
    let process = open()?;
    process.start_looper()?;
    let manager = ServiceManager::new(&process, Stack::Binder);
    let found = manager.wait(SERVICE, PATIENCE)?;
    let peer = found.remote().context("a service of another process")?;
    let names = manager.list()?;
    ensure!(names.iter().any(|name| name == SERVICE), "the service manager lists {names:?}");
    let missing = manager.get("roundtrip.missing");
    ensure!(matches!(missing, Err(Error::NotRegistered { .. })), "{missing:?}");
    peer.ping(Stack::Binder).context("ping")?;
    ensure!(peer.interface_descriptor(Stack::Binder)? == INTERFACE, "the interface's name");
    ensure!(peer.stability() == Stability::System, "{:?}", peer.stability());
    ensure!(peer.extension()?.is_none(), "an extension");
    methods(&process, peer)?;

    let (sender, death) = channel();
    peer.link_to_death(move || {
        let _ = sender.send(());
    })?;
    say_linked()?;
    death.recv_timeout(PATIENCE).context("the service's death")
}

fn methods(process: &Arc<Process>, peer: &Proxy) -> Result<()> {
    ensure!(echo(peer, "grüße, 世界")? == "grüße, 世界", "echo");
    let numbers = [1, -2, i32::MAX];
    let sum = ask(peer, SUM, |parcel| parcel.write_i32_vec(&numbers), |reader| reader.read_i64())?;
    ensure!(sum == i64::from(i32::MAX) - 1, "sum: {sum}");
    for length in [0, 1, 4096, 100_000] {
        let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
        let back = ask(
            peer,
            BYTES,
            |parcel| parcel.write_bytes(&bytes),
            |reader| Ok(reader.read_bytes()?.to_vec()),
        )?;
        ensure!(back == bytes, "{length} bytes");
    }
    let write = |parcel: &mut Parcel| {
        parcel.write_i32(-42);
        Ok(())
    };
    match ask(peer, FAIL, write, |_| Ok(())) {
        Err(Error::ServiceSpecific { error: -42, message }) if message == "requested error" => {}
        other => bail!("a service-specific error: {other:?}"),
    }
    match ask(peer, REFUSE, |_| Ok(()), |_| Ok(())) {
        Err(Error::Exception { code: exception::SECURITY, .. }) => {}
        other => bail!("an exception: {other:?}"),
    }
    match ask(peer, 100, |_| Ok(()), |_| Ok(())) {
        Err(Error::Status { code: status::UNKNOWN_TRANSACTION }) => {}
        other => bail!("an unknown method: {other:?}"),
    }
    for _ in 0..20 {
        let own = process.publish(Service::binder(Peer));
        let write = |parcel: &mut Parcel| {
            parcel.write_binder(&own);
            parcel.write_string16("back")
        };
        let back = ask(peer, CALL_BACK, write, |reader| reader.read_string16())?;
        ensure!(back == "back", "a callback: {back}");
    }
    ensure!(works_for(peer)? == i64::from(u32::MAX), "a work source that was not set");
    let _works_for = WorkSource::set(10_042);
    ensure!(works_for(peer)? == 10_042, "the work source");
    Ok(())
}
