//! A transport: an echo of any size between two processes. Must not know when, where or how often
//! it is called.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ipc::{Endpoint, Host};
use crate::sched;

/// A way to make a round trip between two processes.
pub(super) struct Transport {
    /// The name by which it is chosen and reported.
    pub(super) name: &'static str,
    /// Why both sides must not share one CPU; `None` if they may.
    pub(super) not_on_one_cpu: Option<&'static str>,
    /// Creates what the two sides share. Runs in the parent. The error says why this machine cannot
    /// create it.
    pub(super) prepare: fn(max_len: usize) -> Result<Prepared, String>,
    /// Opens one side in its own process. The server's side is opened before the client's.
    pub(super) open: fn(Opening) -> Result<Box<dyn End>>,
}

/// What the two sides get from the parent.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    /// Descriptors, sent to both sides. At most 16.
    pub(super) descriptors: Vec<OwnedFd>,
    /// A limit below the requested length, in bytes, and its reason.
    pub(super) limit: Option<(usize, String)>,
    /// The context of a transport over the binder driver. The parent keeps it for as long as the
    /// sides are open.
    pub(super) host: Option<Host>,
}

/// What a worker needs to open its side.
#[derive(Debug)]
pub(super) struct Opening {
    /// The side to open.
    pub(super) side: Side,
    /// The descriptors of [`Prepared`], in their order.
    pub(super) descriptors: Vec<OwnedFd>,
    /// The longest request, in bytes.
    pub(super) max_len: usize,
    /// How to find the context of [`Prepared`].
    pub(super) endpoint: Option<Endpoint>,
}

/// The two sides of a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Side {
    Client,
    Server,
}

/// Where a side runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Place {
    /// The CPU to start on, if several are allowed.
    pub(super) first: Option<u32>,
    /// The allowed CPUs.
    pub(super) cpus: Vec<u32>,
}

impl Place {
    /// Moves the calling thread to these CPUs, first to `first`.
    pub(super) fn take(&self) -> Result<()> {
        if let Some(first) = self.first {
            sched::set_allowed_cpus(0, &[first])?;
        }
        sched::set_allowed_cpus(0, &self.cpus)
    }
}

/// One side of a transport, open. `serve` is never called on a client, nor `call` on a server.
pub(super) trait End {
    /// Moves this side to the CPUs of the next block.
    fn settle(&mut self, place: &Place) -> Result<()> {
        place.take()
    }

    /// How the emulated driver wakes threads; `None` if the transport does not use it.
    fn wake_up(&self) -> Option<String> {
        None
    }

    /// Client: sends a request and returns when its echo has arrived. This is the timed operation.
    fn call(&mut self, request: &[u8]) -> Result<()>;

    /// Client: copies out the echo of the last call. It is checked outside the timed section.
    fn reply(&mut self, into: &mut [u8]);

    /// Server: answers exactly `calls` requests of `len` bytes each.
    fn serve(&mut self, len: usize, calls: u64) -> Result<()>;
}
