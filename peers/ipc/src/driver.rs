//! Roundtrip's emulated binder driver without a stack: only the commands of the protocol. The
//! server replies with the request directly from its receive area.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use roundtrip_binder_driver::uapi::TransactionData;
use roundtrip_binder_driver::{
    Answer, Command, Commands, Driver, Profile, RawBytes, ReadableMemory, Return, Returns,
};
use roundtrip_binder_emulator::{Context, Emulated, WakeUp};

use crate::peer::{Echo, Peer, Ready};
use crate::side;

pub(crate) const PEER: Peer = Peer {
    name: "binder-driver",
    about: "Roundtrip's emulated driver, by its commands",
    package: None,
    serve: |ready| serve(QUICKEST, ready),
    connect: |address| connect(address, QUICKEST),
    ends_with_client: false,
};

/// The note if synchronous wake-ups are not available.
pub(crate) const FUTEX: Peer = Peer {
    name: "driver-futex",
    about: "the same with futex wake-ups only",
    serve: |ready| serve(WakeUp::Futex, ready),
    connect: |address| connect(address, WakeUp::Futex),
    ..PEER
};

/// The same settings as in `roundtrip`'s processes.
pub(crate) const QUICKEST: WakeUp = WakeUp::NoNewPrivileges;

/// The context follows Android's priority rules.
pub(crate) const PROFILE: Profile = Profile::Ack;

/// Android's receive area: 1 MiB less two pages.
const AREA_BYTES: u64 = (1 << 20) - 2 * 4096;

/// The method's code. The server does not check it.
const CODE: u32 = 1;

/// A context that this process keeps open.
pub(crate) fn create() -> Result<Context> {
    Context::create(PROFILE).context("create a context")
}

/// Joins a context, and reports the driver to the harness.
pub(crate) fn join(address: &str, wake_up: WakeUp) -> Result<Arc<Emulated>> {
    let driver = Emulated::join_with(address, AREA_BYTES, wake_up).context("join the context")?;
    let wake_up = format!(", woken {}", driver.wake_up());
    side::about(&format!("{}{wake_up}", driver.backend()))?;
    Ok(Arc::new(driver))
}

fn serve(wake_up: WakeUp, ready: Ready<'_>) -> Result<()> {
    let context = create()?;
    let driver = join(context.address(), wake_up)?;
    driver.become_context_manager(roundtrip_binder::NodeOptions::BINDER.flags())?;
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::EnterLooper);
    ready(context.address())?;
    let mut request = RawBytes::empty();
    loop {
        let raw = [request];
        driver.exchange(&mut commands, &ReadableMemory { own: &[], raw: &raw }, Some(&mut returns))?;
        for item in &mut returns {
            let Return::Transaction(call) = item else { continue };
            request = received(&*driver, &call)?;
            commands.push(Command::Reply(TransactionData::naming(CODE, request)));
            commands.push(Command::FreeBuffer(call.buffer));
        }
    }
}

/// Received data, in the receive area.
fn received<'d>(driver: &'d Emulated, call: &TransactionData) -> Result<RawBytes<'d>> {
    driver.area().part_at(call.buffer, call.data_size).context("received data lies outside the area")
}

fn connect(address: &str, wake_up: WakeUp) -> Result<Box<dyn Echo>> {
    let driver = join(address, wake_up)?;
    Ok(Box::new(Client { driver, commands: Commands::default(), returns: Returns::default() }))
}

struct Client {
    driver: Arc<Emulated>,
    commands: Commands,
    returns: Returns,
}

impl Echo for Client {
    fn echo(&mut self, payload: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<()> {
        self.commands.push(Command::Transaction(TransactionData::new(CODE, payload)));
        match roundtrip_binder_driver::call(&*self.driver, &mut self.commands, &[payload], &mut self.returns)?
        {
            Answer::Reply(reply) => {
                take(received(&self.driver, &reply)?);
                // Sent with the next call.
                self.commands.push(Command::FreeBuffer(reply.buffer));
                Ok(())
            }
            other => bail!("the call ended with {other:?}"),
        }
    }
}
