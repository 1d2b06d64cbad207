//! `rsbinder`'s RPC transport over a Unix socket: an interface with one method that echoes bytes,
//! which is the session's root.

use anyhow::Result;
use roundtrip_binder_driver::RawBytes;
use rsbinder::rpc::{RpcServer, RpcSession};
use rsbinder::{BinderResult, FromIBinder as _, Interface, Strong, interface};

use crate::peer::{Echo, Peer, Ready};
use crate::socket;

pub(crate) const PEER: Peer = Peer {
    name: "rsbinder-rpc",
    about: "rsbinder's RPC transport over a Unix socket",
    package: Some("rsbinder"),
    serve,
    connect: |address| {
        let session = RpcSession::setup_unix_client(address)?;
        let service = <dyn IEcho>::try_from(session.get_root()?)?;
        Ok(Box::new(Client { service, _session: session }))
    },
    ends_with_client: false,
};

#[interface(descriptor = "roundtrip.IEcho")]
pub trait IEcho {
    fn echo(&self, bytes: &[u8]) -> BinderResult<Vec<u8>>;
}

struct Service;

impl Interface for Service {}

impl IEcho for Service {
    fn echo(&self, bytes: &[u8]) -> BinderResult<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

fn serve(ready: Ready<'_>) -> Result<()> {
    let path = socket::path()?;
    let server = RpcServer::setup_unix_server(&path)?;
    server.set_root(BnEcho::new_binder(Service).as_binder())?;
    ready(&path.display().to_string())?;
    Ok(server.run()?)
}

struct Client {
    service: Strong<dyn IEcho>,
    _session: RpcSession,
}

impl Echo for Client {
    fn echo(&mut self, payload: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<()> {
        take((&self.service.echo(payload)?).into());
        Ok(())
    }
}
