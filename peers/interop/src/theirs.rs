//! `rsbinder`'s side: the interface as its macro makes it, a service of it, and a client.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context as _, Result, ensure};
use rsbinder::{
    BinderResult, DeathRecipient, ExceptionCode, Interface, ProcessState, Status, Strong, WIBinder,
    get_calling_work_source_uid, hub, interface, set_calling_work_source_uid,
};

use crate::{DEVICE, PATIENCE, SERVICE, say_linked, until};

/// What both sides serve; `ours` has the codes by hand, 1 for the first.
#[interface(descriptor = "roundtrip.interop.IPeer")]
pub trait IPeer {
    fn echo(&self, text: &str) -> BinderResult<String>;
    fn sum(&self, numbers: &[i32]) -> BinderResult<i64>;
    fn bytes(&self, bytes: &[u8]) -> BinderResult<Vec<u8>>;
    fn fail(&self, error: i32) -> BinderResult<()>;
    fn refuse(&self) -> BinderResult<()>;
    fn call_back(&self, other: &Strong<dyn IPeer>, text: &str) -> BinderResult<String>;
    fn works_for(&self) -> BinderResult<i64>;
}

struct Peer;

impl Interface for Peer {}

impl IPeer for Peer {
    fn echo(&self, text: &str) -> BinderResult<String> {
        Ok(text.to_owned())
    }
    fn sum(&self, numbers: &[i32]) -> BinderResult<i64> {
        Ok(numbers.iter().map(|number| i64::from(*number)).sum())
    }
    fn bytes(&self, bytes: &[u8]) -> BinderResult<Vec<u8>> {
        Ok(bytes.to_vec())
    }
    fn fail(&self, error: i32) -> BinderResult<()> {
        Err(Status::new_service_specific_error(error, Some("as asked".to_owned())))
    }
    fn refuse(&self) -> BinderResult<()> {
        Err((ExceptionCode::Security, "not you").into())
    }
    fn call_back(&self, other: &Strong<dyn IPeer>, text: &str) -> BinderResult<String> {
        other.echo(text)
    }
    fn works_for(&self) -> BinderResult<i64> {
        Ok(i64::from(get_calling_work_source_uid()))
    }
}

/// Opens the device and finds the service manager.
fn join() -> Result<Arc<hub::ServiceManager>> {
    ProcessState::init(DEVICE, 1).map_err(|error| anyhow::anyhow!("{error}"))?;
    until("find a service manager", || hub::default().ok())
}

pub(crate) fn serve() -> Result<()> {
    let manager = join()?;
    manager.add_service(SERVICE, BnPeer::new_binder(Peer))?;
    ProcessState::start_thread_pool();
    Ok(ProcessState::join_thread_pool()?)
}

struct Told(Sender<()>);

impl DeathRecipient for Told {
    fn binder_died(&self, _: &WIBinder) {
        let _ = self.0.send(());
    }
}

pub(crate) fn call() -> Result<()> {
    let manager = join()?;
    ProcessState::start_thread_pool();
    let peer = until("find the service", || manager.check_interface::<dyn IPeer>(SERVICE).ok())?;
    let names = manager.list_services(hub::DUMP_FLAG_PRIORITY_ALL);
    ensure!(names.iter().any(|name| name == SERVICE), "the service manager lists {names:?}");
    peer.as_binder().ping_binder().context("ping")?;
    ensure!(peer.as_binder().get_extension()?.is_none(), "an extension");

    ensure!(peer.echo("grüße, 世界")? == "grüße, 世界", "echo");
    ensure!(peer.sum(&[1, -2, i32::MAX])? == i64::from(i32::MAX) - 1, "sum");
    for length in [0, 1, 4096, 100_000] {
        let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
        ensure!(peer.bytes(&bytes)? == bytes, "{length} bytes");
    }
    let failed = peer.fail(-42).expect_err("it is asked to fail");
    ensure!(failed.service_specific_error() == -42, "{failed:?}");
    let refused = peer.refuse().expect_err("it refuses");
    ensure!(refused.exception_code() == ExceptionCode::Security, "{refused:?}");
    for _ in 0..20 {
        ensure!(peer.call_back(&BnPeer::new_binder(Peer), "back")? == "back", "a call back");
    }
    ensure!(peer.works_for()? == i64::from(u32::MAX), "a work source that was not set");
    set_calling_work_source_uid(10_042);
    ensure!(peer.works_for()? == 10_042, "the work source");

    let (sender, told) = channel();
    let recipient = Arc::new(Told(sender));
    peer.as_binder().link_to_death_arc(&recipient)?;
    say_linked()?;
    told.recv_timeout(PATIENCE).context("the service's death")
}
