//! The bare binder driver: the protocol's commands, without a stack on top. The server replies with
//! the request's own bytes, directly from its receive area.

use std::sync::Arc;

use roundtrip_binder_driver::uapi::TransactionData;
use roundtrip_binder_driver::{Answer, Command, Commands, Driver, RawBytes, ReadableMemory, Return, Returns};
use roundtrip_binder_emulator::Emulated;
use rustix::io::Errno;

use super::transport::{End, Opening, Prepared, Side, Transport};
use crate::error::{Error, JobFault, Result};
use crate::ipc::Host;
use roundtrip_run::ipc::DriverPlan;

pub(super) const DRIVER: Transport = Transport {
    name: "binder-driver",
    not_on_one_cpu: None,
    prepare,
    open: |opening| {
        let driver = opening.endpoint()?.open()?;
        let mut commands = Commands::with_capacity(512);
        if opening.side == Side::Server {
            driver.become_context_manager(roundtrip_binder::NodeOptions::BINDER.flags())?;
            commands.push(Command::EnterLooper);
        }
        Ok(Box::new(DriverEnd { driver, commands, returns: Returns::default(), last: None }))
    },
};

/// The longest request, in bytes. It must fit into a receive area of 1 MiB, together with
/// everything else in that area.
const MAX_LEN: usize = 1_000_000;

/// The transaction code. The server echoes every request, whatever its code.
const CODE: u32 = 1;

/// A private context without a service manager: the server itself is the context manager, handle 0.
pub(super) fn prepare(_: usize) -> Result<Prepared, String> {
    let host = Host::open(&DriverPlan::default()).map_err(|error| error.to_string())?;
    Ok(Prepared {
        host: Some(host),
        limit: Some((MAX_LEN, "a receive area of 1 MiB".into())),
        ..Prepared::default()
    })
}

impl Opening {
    /// The context that [`prepare`] opened.
    pub(super) fn endpoint(&self) -> Result<&crate::ipc::Endpoint> {
        self.endpoint.as_ref().ok_or_else(|| JobFault::NoContext.into())
    }
}

struct DriverEnd {
    driver: Arc<dyn Driver>,
    commands: Commands,
    returns: Returns,
    /// The client's last reply. The command that frees its buffer is queued, and is sent with the
    /// next call.
    last: Option<TransactionData>,
}

impl End for DriverEnd {
    fn wake_up(&self) -> Option<String> {
        Emulated::of(&*self.driver).map(Emulated::wake_up)
    }

    fn call(&mut self, request: &[u8]) -> Result<()> {
        self.commands.push(Command::Transaction(TransactionData::new(CODE, request)));
        let refused = match roundtrip_binder_driver::call(
            &*self.driver,
            &mut self.commands,
            &[request],
            &mut self.returns,
        )? {
            Answer::Reply(reply) => {
                self.commands.push(Command::FreeBuffer(reply.buffer));
                self.last = Some(reply);
                return Ok(());
            }
            Answer::Dead => Errno::PIPE,
            Answer::Failed => Errno::INVAL,
            Answer::Frozen => Errno::AGAIN,
        };
        Err(Error::system("call the other side", refused))
    }

    fn reply(&mut self, into: &mut [u8]) {
        let Some(reply) = self.last else { return };
        // A truncated reply fails the echo check.
        let received = self.driver.area().part_at(reply.buffer, reply.data_size);
        if let Some(received) = received.filter(|received| received.len() == into.len()) {
            let _ = received.copy_to(into);
        }
    }

    fn serve(&mut self, _: usize, calls: u64) -> Result<()> {
        let mut served = 0;
        let driver = Arc::clone(&self.driver);
        let mut received = RawBytes::empty();
        while served < calls {
            let raw = [received];
            let memory = ReadableMemory { own: &[], raw: &raw };
            driver.exchange(&mut self.commands, &memory, Some(&mut self.returns))?;
            let call = self.returns.find_map(|item| match item {
                Return::Transaction(call) => Some(call),
                _ => None,
            });
            if let Some(call) = call {
                received = driver
                    .area()
                    .part_at(call.buffer, call.data_size)
                    .ok_or_else(|| Error::system("read what the driver delivered", Errno::FAULT))?;
                self.commands.push(Command::Reply(TransactionData::naming(CODE, received)));
                self.commands.push(Command::FreeBuffer(call.buffer));
                served += 1;
            }
        }
        // Sends the last reply without waiting for another call.
        driver.exchange(&mut self.commands, &ReadableMemory { own: &[], raw: &[received] }, None)?;
        Ok(())
    }
}
