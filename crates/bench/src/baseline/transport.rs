//! What a transport is: an echo between two processes, of any size. Must not know when, where or
//! how often it is called.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ipc::{Endpoint, Host};
use crate::sched;

/// A way to make a round trip between two processes.
pub(super) struct Transport {
    /// How it is chosen and reported.
    pub(super) name: &'static str,
    /// Why it makes no sense with both sides on one CPU, if it does not.
    pub(super) not_on_one_cpu: Option<&'static str>,
    /// Makes, in the parent, what the two sides share; the error says why this machine cannot.
    pub(super) prepare: fn(max_len: usize) -> Result<Prepared, String>,
    /// Opens one side in its own process. The server's is open before the client's is opened.
    pub(super) open: fn(Opening) -> Result<Box<dyn End>>,
}

/// What the two sides get from the parent.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    /// Descriptors, sent to both sides. At most 16.
    pub(super) descriptors: Vec<OwnedFd>,
    /// A limit below the length that was asked for, in bytes, and its reason.
    pub(super) limit: Option<(usize, String)>,
    /// The context of a transport over the binder driver. Kept by the parent for as long as the
    /// sides are open.
    pub(super) host: Option<Host>,
}

/// What a side is opened with.
#[derive(Debug)]
pub(super) struct Opening {
    /// Which side.
    pub(super) side: Side,
    /// The descriptors of [`Prepared`], in their order.
    pub(super) descriptors: Vec<OwnedFd>,
    /// The longest request, in bytes.
    pub(super) max_len: usize,
    /// Where the context of [`Prepared`] is found.
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
    /// The CPU that it begins on, where it may use several.
    pub(super) first: Option<u32>,
    /// Those that it may use.
    pub(super) cpus: Vec<u32>,
}

impl Place {
    /// Puts the calling thread there.
    pub(super) fn take(&self) -> Result<()> {
        if let Some(first) = self.first {
            sched::set_allowed_cpus(0, &[first])?;
        }
        sched::set_allowed_cpus(0, &self.cpus)
    }
}

/// One side of a transport, open. A client's `serve` and a server's `call` are never called.
pub(super) trait End {
    /// Goes where the next block wants this side.
    fn settle(&mut self, place: &Place) -> Result<()> {
        place.take()
    }

    /// How the driver below it wakes threads, where it runs over one and that is the driver's
    /// choice.
    fn wake_up(&self) -> Option<String> {
        None
    }

    /// Client: sends a request and returns when its echo has arrived. This is what is timed.
    fn call(&mut self, request: &[u8]) -> Result<()>;

    /// Client: copies out the echo of the last call, to be checked outside of the timed section.
    fn reply(&mut self, into: &mut [u8]);

    /// Server: answers exactly `calls` requests of `len` bytes each.
    fn serve(&mut self, len: usize, calls: u64) -> Result<()>;
}
