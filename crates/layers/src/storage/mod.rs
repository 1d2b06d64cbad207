//! Where a synchronous write spent its time: every nanosecond of an application's call in one layer, from the runtime down to
//! the device and back by interrupt. Works on recorded events; must not know how they were recorded, nor how a layer is
//! shown.

mod account;
mod breakdown;
mod partition;
mod requests;
mod walk;

use serde::{Deserialize, Serialize};
use tracefs::Trace;

use crate::timeline::Timeline;

pub use account::{InterruptUse, Interruptions};
pub use breakdown::{Breakdown, LayerTimes, SlowCall};
pub use requests::Request;
use requests::Requests;

/// What a stretch of a write belongs to. Where several hold at once, the first of this order has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The device has one of the call's requests: from its controller's getting it to the controller's interrupt.
    Device,
    /// From the interrupt to the waking of whoever waits.
    Irq,
    /// A request is in the block layer: from its queueing to the controller, and between the phases of a flush.
    Block,
    /// The write waits before its request is even queued: throttled, or left to another thread that is late.
    Held,
    /// Somebody who waited has been woken, and does not run yet.
    Wake,
    /// Another thread (a journal's, a worker) works for the call.
    Helper,
    /// That thread could work, and others have its CPU, or interrupts do.
    Stolen,
    /// The application runs within the system call: the file system, copying, and the block layer's own code.
    Fs,
    /// The application could run within the system call, and others have its CPU.
    Preempted,
    /// Outside the system calls: the application and its runtime.
    Platform,
    /// No event tells.
    Unexplained,
}

impl Layer {
    /// All of them, in their order.
    pub const ALL: [Layer; 11] = [
        Layer::Device,
        Layer::Irq,
        Layer::Block,
        Layer::Held,
        Layer::Wake,
        Layer::Helper,
        Layer::Stolen,
        Layer::Fs,
        Layer::Preempted,
        Layer::Platform,
        Layer::Unexplained,
    ];

    /// As tables and files say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::Device => "device",
            Layer::Irq => "irq",
            Layer::Block => "block",
            Layer::Held => "held",
            Layer::Wake => "wake",
            Layer::Helper => "helper",
            Layer::Stolen => "stolen",
            Layer::Fs => "fs",
            Layer::Preempted => "preempted",
            Layer::Platform => "platform",
            Layer::Unexplained => "unexplained",
        }
    }
}

/// A stretch of a call, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Its first instant.
    pub begin_ns: u64,
    /// The first instant after it.
    pub end_ns: u64,
    /// Whose it is.
    pub layer: Layer,
}

/// What is known of the devices that a file's writes end up on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// Those with nothing below them, as `dev_t`; empty where nothing is known, and every device is taken for one.
    pub leaves: Vec<u32>,
    /// The names of their controllers' interrupts.
    pub interrupts: Vec<String>,
}

impl Devices {
    fn is_leaf(&self, dev: u32) -> bool {
        self.leaves.is_empty() || self.leaves.contains(&dev)
    }
}

/// One call of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Just before it, in nanoseconds.
    pub start_ns: u64,
    /// Just after it.
    pub end_ns: u64,
    /// The thread that made it.
    pub tid: u32,
}

/// Where one call spent its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Contiguous from the call's start to its end.
    pub pieces: Vec<Piece>,
    /// The requests that were made for it, in the order of their completion.
    pub requests: Vec<Request>,
    /// The interrupts that its devices and other CPUs raised meanwhile.
    pub interruptions: Interruptions,
    /// Whether events of this time were lost: then nothing of it is certain.
    pub lost: bool,
}

impl Layers {
    /// How long the call spent in a layer, in nanoseconds.
    #[must_use]
    pub fn total_ns(&self, layer: Layer) -> u64 {
        let ours = self.pieces.iter().filter(|piece| piece.layer == layer);
        ours.map(|piece| piece.end_ns - piece.begin_ns).sum()
    }
}

/// A recording of writes, indexed: made once, asked for any number of calls.
#[derive(Debug)]
pub struct Writes<'t> {
    timeline: Timeline<'t>,
    devices: Devices,
    requests: Requests,
}

impl<'t> Writes<'t> {
    /// Indexes a recording.
    #[must_use]
    pub fn new(trace: &'t Trace, devices: Devices) -> Writes<'t> {
        let requests = Requests::of(trace, &devices);
        Writes { timeline: Timeline::new(trace), devices, requests }
    }

    /// Divides one call among the layers.
    #[must_use]
    pub fn layers(&self, write: Write) -> Layers {
        let found = walk::walk(self, write);
        let requests = found.requests.iter().map(|&index| self.requests.done[index].clone()).collect();
        Layers {
            pieces: partition::pieces(write, &found.claims, &found.fallback),
            requests,
            interruptions: account::count(self, write),
            lost: self.timeline.lost_within(write.start_ns, write.end_ns),
        }
    }
}
