//! `iceoryx2`'s request and response over shared memory, with its events for blocking. Polling
//! keeps a CPU busy and is not compared. Payloads are written into loaned memory and read in place.

use anyhow::{Context as _, Result, anyhow};
use iceoryx2::port::client::Client;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::prelude::*;
use roundtrip_binder_driver::RawBytes;

use crate::peer::{Echo, MAX_LEN, Peer, Ready};

pub(crate) const PEER: Peer = Peer {
    name: "iceoryx2",
    about: "iceoryx2's request and response, blocking on its events",
    package: Some("iceoryx2"),
    serve,
    connect: |address| {
        let link = Link::open(address, ["to-client", "to-server"])?;
        let client =
            link.calls.client_builder().initial_max_slice_len(MAX_LEN).create().map_err(failed("client"))?;
        Ok(Box::new(Caller { client, link }))
    },
    // Its files in /dev/shm are removed only when its ports are dropped.
    ends_with_client: true,
};

type Ipc = ipc::Service;

/// The client's last event.
const END: EventId = EventId::new(1);

/// One side's node and events.
struct Link {
    listener: Listener<Ipc>,
    notifier: Notifier<Ipc>,
    calls: iceoryx2::service::port_factory::request_response::PortFactory<Ipc, [u8], (), [u8], ()>,
    _node: Node<Ipc>,
}

/// Adds what failed to an error, because iceoryx2's errors are enumerations without text.
fn failed<E: std::fmt::Debug>(what: &'static str) -> impl Fn(E) -> anyhow::Error {
    move |error| anyhow!("iceoryx2, {what}: {error:?}")
}

impl Link {
    /// Opens the services under a prefix, with which the names of all their files in /dev/shm
    /// start. The two names are those of the events that this side listens to, and that it sends.
    fn open(prefix: &str, [heard, sent]: [&str; 2]) -> Result<Link> {
        set_log_level(LogLevel::Error);
        let mut config = Config::default();
        let folder = std::env::current_dir().context("the working directory")?;
        let root = Path::new(folder.display().to_string().as_bytes()).map_err(failed("root path"))?;
        config.global.set_root_path(&root);
        config.global.prefix = FileName::new(prefix.as_bytes()).map_err(failed("prefix"))?;
        let node = NodeBuilder::new()
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .config(&config)
            .create::<Ipc>()
            .map_err(failed("node"))?;
        let name = |name: &str| ServiceName::new(name).map_err(failed("service name"));
        let event =
            |at: &str| node.service_builder(&name(at)?).event().open_or_create().map_err(failed("event"));
        let calls = node
            .service_builder(&name("calls")?)
            .request_response::<[u8], [u8]>()
            .open_or_create()
            .map_err(failed("request and response"))?;
        let listener = event(heard)?.listener_builder().create().map_err(failed("listener"))?;
        let notifier = event(sent)?.notifier_builder().create().map_err(failed("notifier"))?;
        Ok(Link { listener, notifier, calls, _node: node })
    }

    /// Blocks until the next event. Returns true if it was [`END`].
    fn wait(&self) -> Result<bool> {
        let mut ended = false;
        self.listener.blocking_wait(|event| ended |= event.id == END).map_err(failed("wait"))?;
        Ok(ended)
    }
}

fn serve(ready: Ready<'_>) -> Result<()> {
    let prefix = crate::scratch::prefix()?;
    let link = Link::open(&prefix, ["to-server", "to-client"])?;
    let server =
        link.calls.server_builder().initial_max_slice_len(MAX_LEN).create().map_err(failed("server"))?;
    ready(&prefix)?;
    loop {
        while let Some(request) = server.receive().map_err(failed("receive"))? {
            let payload = request.payload();
            let response = request.loan_slice_uninit(payload.len()).map_err(failed("loan"))?;
            response.write_from_slice(payload).send().map_err(failed("respond"))?;
            link.notifier.notify().map_err(failed("notify"))?;
        }
        if link.wait()? {
            return Ok(());
        }
    }
}

struct Caller {
    client: Client<Ipc, [u8], (), [u8], ()>,
    link: Link,
}

impl Echo for Caller {
    fn echo(&mut self, payload: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<()> {
        let request = self.client.loan_slice_uninit(payload.len()).map_err(failed("loan"))?;
        let pending = request.write_from_slice(payload).send().map_err(failed("send"))?;
        self.link.notifier.notify().map_err(failed("notify"))?;
        loop {
            if let Some(response) = pending.receive().map_err(failed("receive"))? {
                take(response.payload().into());
                return Ok(());
            }
            self.link.wait()?;
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.link.notifier.notify_with_custom_event_id(END);
    }
}
