//! Where a synchronous write spent its time: every nanosecond of an application's call in one
//! layer, from the runtime down to the device and back by interrupt. Works on recorded events; must
//! not know how they were recorded, nor how a layer is shown.

mod account;
mod breakdown;
mod commands;
mod commits;
mod completion;
mod doubts;
mod host;
mod interrupts;
mod partition;
mod paths;
mod recorded;
mod requests;
mod throttled;
mod walk;

use serde::Serialize;
use tracefs::Trace;

use crate::timeline::Timeline;

pub use account::{InterruptUse, Interruptions};
pub use breakdown::{Breakdown, LayerTimes, SlowCall};
pub use commands::{Begin, End};
use commands::{Label, Purpose};
use commits::Commits;
pub use commits::OthersCommit;
pub use completion::{Completion, Context};
pub use doubts::{Doubt, Expected, InterruptKind};
pub use host::{HostShare, HostShares};
pub use requests::Request;
use requests::Requests;
use throttled::Throttled;

/// What a stretch of a write belongs to. Where several hold at once, the first of this order has
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The device has one of the call's requests: from its controller's getting it to the
    /// controller's interrupt.
    Device,
    /// From the interrupt to the waking of whoever waits.
    Irq,
    /// A request is in the block layer: from its queueing to the controller, and between the phases
    /// of a flush.
    Block,
    /// The write waits before its request is even queued: throttled, or left to another thread that
    /// is late.
    Held,
    /// Somebody who waited has been woken, and does not run yet.
    Wake,
    /// Another thread (a journal's, a worker) works for the call.
    Helper,
    /// That thread could work, and others have its CPU, or interrupts do.
    Stolen,
    /// The application runs within the system call: the file system, copying, and the block layer's
    /// own code.
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
    pub const ALL: [Self; 11] = [
        Self::Device,
        Self::Irq,
        Self::Block,
        Self::Held,
        Self::Wake,
        Self::Helper,
        Self::Stolen,
        Self::Fs,
        Self::Preempted,
        Self::Platform,
        Self::Unexplained,
    ];

    /// As tables and files say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Irq => "irq",
            Self::Block => "block",
            Self::Held => "held",
            Self::Wake => "wake",
            Self::Helper => "helper",
            Self::Stolen => "stolen",
            Self::Fs => "fs",
            Self::Preempted => "preempted",
            Self::Platform => "platform",
            Self::Unexplained => "unexplained",
        }
    }
}

/// A stretch of a call, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
    /// Those with nothing below them, as `dev_t`; empty where nothing is known, and every device is
    /// taken for one.
    pub leaves: Vec<u32>,
    /// The names of their controllers' interrupts.
    pub interrupts: Vec<String>,
    /// How the events of each device's bus call its controller.
    pub controllers: Vec<Controller>,
    /// What stands for a disk, and the disk: a part of a request is queued for a partition, and the
    /// request made for the disk, or for a path to it.
    pub partitions: Vec<(u32, u32)>,
}

/// What leads from a bus's events to a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// The device, as `dev_t`.
    pub dev: u32,
    /// What events call its controller: "mmc0", "nvme0", "0:0:0:0" (SCSI), "1d84000.ufshc" (UFS).
    pub names: Vec<String>,
    /// The hidden disks that requests for it are made for, as events name them ("nvme0c0n1"): where
    /// an NVMe disk is reached by more controllers than one, or could be.
    pub paths: Vec<String>,
    /// The names of its interrupts.
    pub interrupts: Vec<String>,
    /// The unit that it counts its blocks in, in bytes.
    pub block_bytes: u32,
}

impl Devices {
    fn is_leaf(&self, dev: u32) -> bool {
        self.leaves.is_empty() || self.leaves.contains(&dev)
    }

    /// The disk that a device number stands for.
    fn disk(&self, dev: u32) -> u32 {
        self.partitions.iter().find(|(partition, _)| *partition == dev).map_or(dev, |(_, disk)| *disk)
    }

    fn controller(&self, dev: u32) -> Option<&Controller> {
        self.controllers.iter().find(|controller| controller.dev == dev)
    }

    /// Whether a command is for a request: `Some` where that is certain, `None` where the
    /// controller is the right one and what the command is for is not told.
    fn is_for(&self, request: &Request, label: &Label, purpose: Purpose) -> Option<bool> {
        let Some(controller) = self.controller(request.dev) else { return Some(false) };
        // Some kernels do not tell the controller.
        if !label.controller.is_empty() && !controller.names.contains(&label.controller) {
            return Some(false);
        }
        let sectors = u64::from(controller.block_bytes / 512).max(1);
        Some(match purpose {
            Purpose::Flush => request.flush,
            Purpose::Sector(sector) => request.covers(sector),
            Purpose::Blocks(block) => request.covers(block.saturating_mul(sectors)),
            Purpose::Either(place) => request.covers(place) || request.covers(place.saturating_mul(sectors)),
            // A memory card does one thing after the other.
            Purpose::Unknown if label.bus == Begin::Mmc => return None,
            Purpose::Unknown => false,
        })
    }

    /// Whether an interrupt tells of a device's answers; on NVMe, each queue has one of its own.
    fn raises(&self, dev: u32, queue: Option<u64>, interrupt: &str) -> bool {
        let Some(controller) = self.controller(dev) else {
            return self.interrupts.iter().any(|ours| ours == interrupt);
        };
        let of_queue = queue.is_none_or(|queue| interrupt.ends_with(&format!("q{queue}")));
        of_queue && controller.interrupts.iter().any(|ours| ours == interrupt)
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// Contiguous from the call's start to its end.
    pub pieces: Vec<Piece>,
    /// The requests that were made for it, in the order of their completion.
    pub requests: Vec<Request>,
    /// The interrupts that its devices and other CPUs raised meanwhile.
    pub interruptions: Interruptions,
    /// How long it, or who worked for it, could have gone on and other tasks had the CPU, in
    /// nanoseconds: of block (where a worker is to issue a request), wake, preempted and
    /// stolen.
    pub behind_others_ns: u64,
    /// Whether events of this time were lost: then nothing of it is certain.
    pub lost: bool,
    /// How many switches of a CPU the kernel may have left out of the recording meanwhile, at
    /// least.
    pub unrecorded_switches: u64,
    /// How much of what is unexplained lies where they must have been, in nanoseconds.
    pub unexplained_for_switches_ns: u64,
    /// Commits of a journal that others had begun, and that the call waited for.
    pub others_commits: Vec<OthersCommit>,
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
    commits: Commits,
    throttled: Throttled,
}

impl<'t> Writes<'t> {
    /// Indexes a recording.
    #[must_use]
    pub fn new(trace: &'t Trace, mut devices: Devices) -> Self {
        devices.partitions.extend(paths::of(trace, &devices));
        let requests = Requests::of(trace, &devices);
        let timeline = Timeline::new(trace);
        let commits = Commits::of(&timeline);
        Writes { commits, throttled: Throttled::of(trace), timeline, devices, requests }
    }

    /// Every request that was completed, in the order of completion, whoever it was for.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests.done
    }

    /// Why the figures of this recording are not certain: it lacks what no recording of writes can
    /// be without. Empty as a rule.
    #[must_use]
    pub fn doubts(&self) -> Vec<Doubt> {
        doubts::doubts(self.timeline.trace, &self.devices, self.timeline.knows)
    }

    /// How many switches of a CPU the kernel left out of this recording, at least, although no
    /// event was lost.
    #[must_use]
    pub fn unrecorded_switches(&self) -> u64 {
        self.timeline.unrecorded_switches()
    }

    /// Divides one call among the layers.
    #[must_use]
    pub fn layers(&self, write: Write) -> Layers {
        let found = walk::walk(self, write);
        let requests = found.requests.iter().map(|&index| self.requests.done[index].clone()).collect();
        let pieces = partition::pieces(write, &found.claims, &found.fallback);
        let unexplained = pieces.iter().filter(|piece| piece.layer == Layer::Unexplained);
        let unexplained_for_switches_ns = unexplained
            .map(|piece| self.timeline.unknown_for_switches_ns(piece.begin_ns, piece.end_ns))
            .sum();
        Layers {
            behind_others_ns: partition::within(&pieces, &found.behind_others),
            pieces,
            requests,
            interruptions: account::count(self, write),
            lost: self.timeline.lost_within(write.start_ns, write.end_ns),
            unrecorded_switches: self.timeline.unrecorded_within(write.start_ns, write.end_ns),
            unexplained_for_switches_ns,
            others_commits: self.commits.of_others(&self.timeline, write),
        }
    }
}
