//! D-Bus without a bus: `zbus`, peer to peer over a Unix socket, on a Tokio runtime of one thread
//! on each side. Bytes travel as `ay` by `serde_bytes`, which its documentation advises: element by
//! element they take several times as long.

use anyhow::Result;
use roundtrip_binder_driver::RawBytes;
use serde_bytes::{ByteBuf, Bytes};
use zbus::connection::Builder;
use zbus::{Connection, Guid, Proxy, interface};

use crate::grpc::runtime;
use crate::peer::{Echo, Peer, Ready};
use crate::socket;

pub(crate) const PEER: Peer = Peer {
    name: "zbus",
    about: "D-Bus peer to peer over a Unix socket, Tokio on one thread",
    package: Some("zbus"),
    serve,
    connect: |address| {
        let socket = socket::connect(address)?;
        let runtime = runtime()?;
        let proxy = runtime.block_on(async {
            let connection: Connection = Builder::unix_stream(socket).p2p().build().await?;
            Proxy::new(&connection, "roundtrip.Echo", PATH, NAME).await
        })?;
        Ok(Box::new(Client { runtime, proxy }))
    },
    ends_with_client: false,
};

const PATH: &str = "/roundtrip/Echo";
const NAME: &str = "roundtrip.Echo";

struct Service;

#[interface(name = "roundtrip.Echo")]
impl Service {
    fn echo(&self, bytes: ByteBuf) -> ByteBuf {
        bytes
    }
}

fn serve(ready: Ready<'_>) -> Result<()> {
    let socket = socket::accept(ready)?;
    runtime()?.block_on(async {
        let guid = Guid::generate();
        let connection =
            Builder::unix_stream(socket).server(guid).p2p().serve_at(PATH, Service).build().await?;
        connection.closed().await;
        Ok(())
    })
}

struct Client {
    runtime: tokio::runtime::Runtime,
    proxy: Proxy<'static>,
}

impl Echo for Client {
    fn echo(&mut self, payload: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<()> {
        let reply = self.runtime.block_on(self.proxy.call_method("Echo", &Bytes::new(payload)))?;
        let body = reply.body();
        let bytes: &[u8] = body.deserialize::<&Bytes>()?;
        take(bytes.into());
        Ok(())
    }
}
