//! Roundtrip's two stacks over its emulated driver: the benchmark service's `send_vec`, served by
//! the context manager itself, so that no service manager takes part.

use std::sync::Arc;

use anyhow::Result;
use roundtrip_binder::{Process, Stack};
use roundtrip_binder_driver::RawBytes;
use roundtrip_echo::{Benchmark, Probe, Scheduling};

use crate::driver;
use crate::peer::{Echo, Peer, Ready};

pub(crate) const BINDER: Peer = Peer {
    name: "binder",
    about: "Roundtrip's binder stack over its emulated driver",
    package: None,
    serve: |ready| serve(Stack::Binder, ready),
    connect: |address| connect(Stack::Binder, address),
    ends_with_client: false,
};

pub(crate) const HWBINDER: Peer = Peer {
    name: "hwbinder",
    about: "Roundtrip's hwbinder stack over its emulated driver",
    package: None,
    serve: |ready| serve(Stack::Hwbinder, ready),
    connect: |address| connect(Stack::Hwbinder, address),
    ends_with_client: false,
};

fn serve(stack: Stack, ready: Ready<'_>) -> Result<()> {
    let context = driver::create()?;
    let process = Process::new(driver::join(context.address(), driver::QUICKEST)?);
    let service = Arc::new(roundtrip_echo::Echo::new(NoProbe)).service(&process, stack);
    process.become_context_manager(service)?;
    process.start_looper()?;
    ready(context.address())?;
    loop {
        std::thread::park();
    }
}

fn connect(stack: Stack, address: &str) -> Result<Box<dyn Echo>> {
    let process = Process::new(driver::join(address, driver::QUICKEST)?);
    Ok(Box::new(Client {
        service: roundtrip_echo::connect(process.context_manager(), stack),
        _process: process,
    }))
}

struct Client {
    service: Box<dyn Benchmark>,
    _process: Arc<Process>,
}

impl Echo for Client {
    fn echo(&mut self, payload: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<()> {
        Ok(self.service.send_vec(payload, take)?)
    }
}

/// The service's answers to methods that are not called here.
struct NoProbe;

impl Probe for NoProbe {
    fn now_ns(&self) -> u64 {
        0
    }

    fn cpu(&self) -> u32 {
        0
    }

    fn scheduling(&self) -> Scheduling {
        Scheduling::default()
    }
}
