//! gRPC over a Unix socket: `tonic`, a unary method with one field of bytes, on a Tokio runtime of
//! one thread on each side.

use anyhow::{Context as _, Result};
use hyper_util::rt::TokioIo;
use roundtrip_binder_driver::RawBytes;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use crate::peer::{Echo, MAX_LEN, Peer, Ready};
use crate::socket;

mod generated {
    include!(concat!(env!("OUT_DIR"), "/roundtrip.Echo.rs"));
}

use generated::echo_client::EchoClient;
use generated::echo_server::{Echo as EchoService, EchoServer};

pub(crate) const PEER: Peer = Peer {
    name: "tonic",
    about: "gRPC over a Unix socket, Tokio on one thread",
    package: Some("tonic"),
    serve,
    connect: |address| {
        let runtime = runtime()?;
        let path = address.to_owned();
        // The address is used only for a header; the connector selects the socket.
        let endpoint = Endpoint::from_static("http://localhost");
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let channel = runtime.block_on(endpoint.connect_with_connector(connector)).context("connect")?;
        Ok(Box::new(Client { runtime, client: EchoClient::new(channel) }))
    },
    ends_with_client: false,
};

/// The message in both directions.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Payload {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) bytes: Vec<u8>,
}

/// A runtime on the calling thread, which is the fastest for a single caller.
pub(crate) fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("start a Tokio runtime")
}

struct Service;

#[tonic::async_trait]
impl EchoService for Service {
    async fn echo(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}

fn serve(ready: Ready<'_>) -> Result<()> {
    runtime()?.block_on(async {
        let path = socket::path()?;
        let listener = UnixListener::bind(&path).with_context(|| format!("bind {}", path.display()))?;
        ready(&path.display().to_string())?;
        let service = EchoServer::new(Service).max_decoding_message_size(2 * MAX_LEN);
        let incoming = UnixListenerStream::new(listener);
        Ok(Server::builder().add_service(service).serve_with_incoming(incoming).await?)
    })
}

struct Client {
    runtime: Runtime,
    client: EchoClient<Channel>,
}

impl Echo for Client {
    fn echo(&mut self, payload: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<()> {
        let request = Payload { bytes: payload.to_vec() };
        let reply = self.runtime.block_on(self.client.echo(request))?;
        take((&reply.into_inner().bytes[..]).into());
        Ok(())
    }
}
