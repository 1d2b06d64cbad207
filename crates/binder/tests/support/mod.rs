//! Processes in one emulated context, and small services to call.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::Arc;

use roundtrip_binder::{
    Binder, Call, Dialect, HwParcel, HwReader, HwStub, Parcel, ParcelReader, Process, Proxy, Stack, Status,
    Stub,
};
use roundtrip_binder_driver::{Driver, Profile};
use roundtrip_binder_emulator::{Context, Emulated};

pub(crate) const AREA_BYTES: u64 = 1 << 20;
pub(crate) const STACKS: [Stack; 2] = [Stack::Binder, Stack::Hwbinder];

/// A context and its processes. Dropping it stops them.
pub(crate) struct World {
    context: Context,
    dialect: Dialect,
    processes: Vec<Arc<Process>>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::in_dialect(Dialect::default())
    }

    /// Makes a context whose processes use `dialect`.
    pub(crate) fn in_dialect(dialect: Dialect) -> Self {
        Self { context: Context::create_unlisted(Profile::Ack).unwrap(), dialect, processes: Vec::new() }
    }

    /// Makes a driver that joined the context.
    pub(crate) fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(Emulated::join(self.context.address(), AREA_BYTES).unwrap())
    }

    /// The driver's state for all processes.
    pub(crate) fn state(&self) -> String {
        self.context.state()
    }

    /// Stops all processes.
    pub(crate) fn stop(&mut self) {
        self.processes.drain(..).for_each(|process| process.stop());
    }

    /// Makes a process without loopers.
    pub(crate) fn process(&mut self) -> Arc<Process> {
        let process = Process::in_dialect(self.driver(), self.dialect);
        self.processes.push(process.clone());
        process
    }

    /// Makes a process with this many loopers.
    pub(crate) fn server(&mut self, loopers: usize) -> Arc<Process> {
        let process = self.process();
        for _ in 0..loopers {
            process.start_looper().unwrap();
        }
        process
    }

    /// Removes a process from this world. It dies when its last owner drops it.
    pub(crate) fn forget(&mut self, process: &Arc<Process>) {
        self.processes.retain(|known| !Arc::ptr_eq(known, process));
    }

    /// Makes `service` the context manager, in a separate server.
    pub(crate) fn manager(&mut self, service: roundtrip_binder::Service, loopers: usize) -> Arc<Process> {
        let process = self.process();
        process.become_context_manager(service).unwrap();
        for _ in 0..loopers {
            process.start_looper().unwrap();
        }
        process
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A binder object that runs a function.
pub(crate) struct Function<F>(pub(crate) F);

impl<F> Stub for Function<F>
where
    F: Fn(&Call, &mut ParcelReader<'_>, &mut Parcel) -> Result<(), Status> + Send + Sync,
{
    fn descriptor(&self) -> &str {
        "test.IFunction"
    }

    fn on_transact(
        &self,
        call: &Call,
        data: &mut ParcelReader<'_>,
        reply: &mut Parcel,
    ) -> Result<(), Status> {
        (self.0)(call, data, reply)
    }

    fn dump(&self, arguments: &[String]) -> String {
        format!("called with {}", arguments.join(" "))
    }
}

/// Makes a binder service that runs a function.
pub(crate) fn function<F>(function: F) -> roundtrip_binder::Service
where
    F: Fn(&Call, &mut ParcelReader<'_>, &mut Parcel) -> Result<(), Status> + Send + Sync + 'static,
{
    roundtrip_binder::Service::binder(Function(function))
}

/// A hwbinder object that echoes a vector, and fails on request.
pub(crate) struct HwEcho;

impl HwStub for HwEcho {
    fn descriptor(&self) -> &str {
        "test@1.0::IEcho"
    }

    fn on_transact<'a>(
        &'a self,
        call: &Call,
        data: &mut HwReader<'a>,
        reply: &mut HwParcel<'a>,
    ) -> Result<(), Status> {
        data.check_interface("test@1.0::IEcho")?;
        if call.code == 9 {
            return Err(Status::exception(roundtrip_binder::exception::ILLEGAL_STATE, "not now"));
        }
        reply.write_no_exception();
        Ok(reply.write_vec(data.read_vec()?)?)
    }

    fn dump(&self, arguments: &[String]) -> String {
        format!("called with {}", arguments.join(" "))
    }
}

/// The proxy of a binder of another process.
pub(crate) fn proxy(binder: &Binder) -> Proxy {
    binder.remote().expect("another process's object").clone()
}
