//! What a peer is: an echo between two processes, of any size. Must not know when, where or how
//! often it is called.

use anyhow::Result;
use binder_driver::RawBytes;

/// The longest payload, in bytes.
pub(crate) const MAX_LEN: usize = 65_536;

/// A means to make a call between two processes that block while they wait.
#[derive(Debug)]
pub(crate) struct Peer {
    /// How it is chosen and reported.
    pub(crate) name: &'static str,
    /// What is called how, in one line.
    pub(crate) about: &'static str,
    /// The package in the lock file whose version is reported, if it is not this project's own.
    pub(crate) package: Option<&'static str>,
    /// Serves in its own process; says where, once it can be connected to. Most serve until they
    /// are killed.
    pub(crate) serve: fn(Ready<'_>) -> Result<()>,
    /// Connects to where the server says it is.
    pub(crate) connect: fn(&str) -> Result<Box<dyn Echo>>,
    /// The server ends by itself when its client has gone, and must, to clean up behind itself.
    pub(crate) ends_with_client: bool,
}

/// Tells the harness where to connect: one line of text.
pub(crate) type Ready<'a> = &'a mut dyn FnMut(&str) -> Result<()>;

/// A client, connected.
pub(crate) trait Echo {
    /// Sends the payload, waits for its echo, and lends it to `take` exactly once. This is what is
    /// timed.
    fn echo(&mut self, payload: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<()>;
}
