//! The two stacks over the driver. Calls the benchmark service's `send_vec`, as the throughput
//! measurement does. The service itself is the context manager, so no other process takes part.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use roundtrip_binder::{
    Call, HwParcel, HwReader, HwStub, Parcel, ParcelReader, Process, Service, Status, Stub,
};
use roundtrip_binder_emulator::Emulated;
use roundtrip_echo::{Benchmark, Echo};

use super::driver::prepare;
use super::transport::Place;
use super::transport::{End, Opening, Side, Transport};
use crate::error::{Error, Result};
use crate::ipc::SchedulingProbe;
use roundtrip_run::ipc::Stack;

pub(super) const BINDER: Transport = Transport {
    name: "binder",
    not_on_one_cpu: None,
    prepare,
    open: |opening| open(&opening, Stack::Binder),
};

pub(super) const HWBINDER: Transport =
    Transport { name: "hwbinder", open: |opening| open(&opening, Stack::Hwbinder), ..BINDER };

fn open(opening: &Opening, stack: Stack) -> Result<Box<dyn End>> {
    let process = opening.endpoint()?.connect()?;
    if opening.side == Side::Client {
        let service = roundtrip_echo::connect(process.context_manager(), stack);
        let echo = Vec::with_capacity(opening.max_len);
        return Ok(Box::new(Client { process, service, echo }));
    }
    let gate = Arc::new(Gate::default());
    let service = Arc::new(Echo::new(SchedulingProbe)).service(&process, stack);
    process.become_context_manager(match service {
        Service::Binder(inner) => Service::binder(Gated { inner, gate: Arc::clone(&gate) }),
        Service::Hwbinder(inner) => Service::hwbinder(Gated { inner, gate: Arc::clone(&gate) }),
    })?;
    process.start_looper()?;
    Ok(Box::new(Server { process, gate, place: None }))
}

struct Client {
    process: Arc<Process>,
    service: Box<dyn Benchmark>,
    /// The echo of the first call with the current request. That call is part of the warm-up and is
    /// not timed.
    echo: Vec<u8>,
}

impl End for Client {
    fn wake_up(&self) -> Option<String> {
        Emulated::of(&**self.process.driver()).map(Emulated::wake_up)
    }

    fn call(&mut self, request: &[u8]) -> Result<()> {
        let Self { service, echo, .. } = self;
        // The reply is freed when the call returns. Copying every reply would add to the timed
        // section, so only the first reply to each request is copied. Requests of different blocks
        // differ in length or first byte.
        let is_new = echo.len() != request.len() || echo.first() != request.first();
        service.send_vec(request, &mut |bytes| {
            if is_new {
                echo.clear();
                bytes.append_to(echo);
            }
        })?;
        Ok(())
    }

    fn reply(&mut self, into: &mut [u8]) {
        // A truncated reply fails the echo check.
        if self.echo.len() == into.len() {
            into.copy_from_slice(&self.echo);
        }
    }

    fn serve(&mut self, _: usize, _: u64) -> Result<()> {
        unreachable!("a client does not serve")
    }
}

struct Server {
    gate: Arc<Gate>,
    /// Keeps the service alive until this worker process ends.
    process: Arc<Process>,
    /// Where the looper runs in the next block.
    place: Option<Place>,
}

impl End for Server {
    fn settle(&mut self, place: &Place) -> Result<()> {
        self.place = Some(place.clone());
        place.take()
    }

    fn wake_up(&self) -> Option<String> {
        Emulated::of(&**self.process.driver()).map(Emulated::wake_up)
    }

    fn call(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("a server does not call")
    }

    fn reply(&mut self, _: &mut [u8]) {}

    /// The looper serves the calls. This thread announces the block and waits until it is over.
    fn serve(&mut self, _: usize, calls: u64) -> Result<()> {
        self.gate.open(calls, self.place.take())
    }
}

/// Holds back the calls of a block until the block has begun on the server, too. Only then can the
/// looper move to the CPUs that the block requires.
#[derive(Default)]
struct Gate {
    block: Mutex<Block>,
    changed: Condvar,
}

#[derive(Default)]
struct Block {
    calls_left: u64,
    /// Where the looper moves to, on the first call.
    place: Option<Place>,
    failed: Option<Error>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Block> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `calls` calls pass, and returns after the last one.
    fn open(&self, calls: u64, place: Option<Place>) -> Result<()> {
        let mut block = self.lock();
        block.calls_left = calls;
        block.place = place;
        self.changed.notify_all();
        while block.calls_left > 0 {
            block = self.changed.wait(block).unwrap_or_else(PoisonError::into_inner);
        }
        block.failed.take().map_or(Ok(()), Err)
    }

    /// Called by the looper for each call.
    fn pass(&self) {
        let mut block = self.lock();
        while block.calls_left == 0 {
            block = self.changed.wait(block).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(place) = block.place.take() {
            block.failed = place.take().err();
        }
        block.calls_left -= 1;
        if block.calls_left == 0 {
            self.changed.notify_all();
        }
    }
}

/// The service behind the gate.
struct Gated<T: ?Sized> {
    inner: Arc<T>,
    gate: Arc<Gate>,
}

impl Stub for Gated<dyn Stub> {
    fn descriptor(&self) -> &str {
        self.inner.descriptor()
    }

    fn on_transact(
        &self,
        call: &Call,
        data: &mut ParcelReader<'_>,
        reply: &mut Parcel,
    ) -> Result<(), Status> {
        self.gate.pass();
        self.inner.on_transact(call, data, reply)
    }
}

impl HwStub for Gated<dyn HwStub> {
    fn descriptor(&self) -> &str {
        self.inner.descriptor()
    }

    fn on_transact<'a>(
        &'a self,
        call: &Call,
        data: &mut HwReader<'a>,
        reply: &mut HwParcel<'a>,
    ) -> Result<(), Status> {
        self.gate.pass();
        self.inner.on_transact(call, data, reply)
    }
}
