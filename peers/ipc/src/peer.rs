//! The interface of a peer: an echo of any size between two processes. Must not know when, where or
//! how often it is called.

use anyhow::Result;
use roundtrip_binder_driver::RawBytes;

/// The longest payload, in bytes.
pub(crate) const MAX_LEN: usize = 65_536;

/// A kind of IPC. Both processes block while they wait.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The name on the command line and in reports.
    pub(crate) name: &'static str,
    /// A one-line description of a call.
    pub(crate) about: &'static str,
    /// The package in the lock file whose version is reported; `None` for this project's own code.
    pub(crate) package: Option<&'static str>,
    /// Serves, in a separate process. Reports its address once clients can connect. Most servers
    /// run until they are killed.
    pub(crate) serve: fn(Ready<'_>) -> Result<()>,
    /// Connects to the server's address.
    pub(crate) connect: fn(&str) -> Result<Box<dyn Echo>>,
    /// Whether the server exits after its client. It must then not be killed, so that it can clean
    /// up.
    pub(crate) ends_with_client: bool,
}

/// Reports the server's address to the harness, as one line of text.
pub(crate) type Ready<'a> = &'a mut dyn FnMut(&str) -> Result<()>;

/// A connected client.
pub(crate) trait Echo {
    /// Sends the payload, waits for the echo, and passes it to `take` exactly once. The harness
    /// times this.
    fn echo(&mut self, payload: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<()>;
}
