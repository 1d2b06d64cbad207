//! Where a synchronous write spent its time: each nanosecond of an application's call belongs to
//! one layer, from the runtime down to the device and back by interrupt. Works on recorded events.
//! Must not know how they were recorded, nor how a layer is shown.

mod account;
mod asynchronous;
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
mod why;

use roundtrip_tracefs::Trace;
use serde::Serialize;

use crate::reasons::{Place, ReasonKind, Reasons, Stretch};
use crate::timeline::{Basis, Timeline};

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

/// The layer of a stretch of a write. If several apply at once, the first in this order wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The device has one of the call's requests: from when its controller received the request to
    /// the controller's interrupt.
    Device,
    /// From the interrupt to the wakeup of the waiting thread.
    Irq,
    /// A request is in the block layer: from its queueing to the controller, and between the phases
    /// of a flush.
    Block,
    /// The write waits before its request is even queued: it is throttled, stopped or frozen, or
    /// depends on another thread that is late.
    Held,
    /// The waiting thread has been woken, but does not run yet.
    Wake,
    /// Another thread (a journal's, a worker) works for the call.
    Helper,
    /// That thread is runnable, but other tasks or interrupts use its CPU.
    Stolen,
    /// The application runs within the system call: code of the file system and of the block layer,
    /// and copying.
    Fs,
    /// The application is runnable within the system call, but other tasks use its CPU.
    Preempted,
    /// Outside system calls: the application and its runtime.
    Platform,
    /// No event shows it.
    Unexplained,
}

impl Layer {
    /// All layers in order.
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

    /// The name in tables and files.
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

/// A stretch of a call in one layer, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// Its first instant.
    pub begin_ns: u64,
    /// The first instant after it.
    pub end_ns: u64,
    /// The layer.
    pub layer: Layer,
}

/// What is known about the devices that store a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// The devices with nothing below them, as `dev_t`. If empty, nothing is known, and every
    /// device is treated as such.
    pub leaves: Vec<u32>,
    /// The names of their controllers' interrupts.
    pub interrupts: Vec<String>,
    /// The names of each device's controller in its bus's events.
    pub controllers: Vec<Controller>,
    /// Pairs of a partition and its disk. A bio is queued for the partition, but its request is
    /// issued to the disk, or to a path to the disk.
    pub partitions: Vec<(u32, u32)>,
}

/// Maps a bus's events to a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// The device, as `dev_t`.
    pub dev: u32,
    /// Its controller's names in events: "mmc0", "nvme0", "0:0:0:0" (SCSI), "1d84000.ufshc" (UFS).
    pub names: Vec<String>,
    /// If an NVMe disk has, or could have, more than one controller: the hidden disks to which its
    /// requests are issued, by their names in events ("nvme0c0n1").
    pub paths: Vec<String>,
    /// The names of its interrupts.
    pub interrupts: Vec<String>,
    /// The size of its logical blocks, in bytes.
    pub block_bytes: u32,
}

impl Devices {
    fn is_leaf(&self, dev: u32) -> bool {
        self.leaves.is_empty() || self.leaves.contains(&dev)
    }

    /// The disk of a device number.
    fn disk(&self, dev: u32) -> u32 {
        self.partitions.iter().find(|(partition, _)| *partition == dev).map_or(dev, |(_, disk)| *disk)
    }

    fn controller(&self, dev: u32) -> Option<&Controller> {
        self.controllers.iter().find(|controller| controller.dev == dev)
    }

    /// Whether a command belongs to a request. `None` if it is for the right controller, but its
    /// purpose is unknown.
    fn is_for(&self, request: &Request, label: &Label, purpose: Purpose) -> Option<bool> {
        let Some(controller) = self.controller(request.dev) else { return Some(false) };
        // Some kernels' events do not name the controller.
        if !label.controller.is_empty() && !controller.names.contains(&label.controller) {
            return Some(false);
        }
        let sectors = u64::from(controller.block_bytes / 512).max(1);
        Some(match purpose {
            Purpose::Flush => request.flush,
            Purpose::Sector(sector) => request.covers(sector),
            Purpose::Blocks(block) => request.covers(block.saturating_mul(sectors)),
            Purpose::Either(place) => request.covers(place) || request.covers(place.saturating_mul(sectors)),
            // A memory card processes one request at a time.
            Purpose::Unknown if label.bus == Begin::Mmc => return None,
            Purpose::Unknown => false,
        })
    }

    /// Whether an interrupt signals a device's answers. On NVMe, each queue has its own interrupt.
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
    /// Just before the call, in nanoseconds.
    pub start_ns: u64,
    /// Just after the call.
    pub end_ns: u64,
    /// The calling thread.
    pub tid: u32,
}

/// Why a recording lacks events of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// Events during the call were lost.
    Lost,
    /// On some CPU, the recording begins after the call's start or ends before its end.
    OutsideRecording,
}

/// Where one call spent its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// Contiguous from the start of the call to its end.
    pub pieces: Vec<Piece>,
    /// Why the call did not move: contiguous from its start to its end, each within one layer.
    pub reasons: Vec<Stretch>,
    /// The requests made for it, in the order of completion.
    pub requests: Vec<Request>,
    /// The interrupts from its devices and from other CPUs during the call.
    pub interruptions: Interruptions,
    /// How long the caller, or a thread that worked for it, was runnable while other tasks used the
    /// CPU, in nanoseconds. This time is part of the layers block (if a worker has to issue a
    /// request), wake, preempted and stolen.
    pub behind_others_ns: u64,
    /// Why the recording lacks events of the call, if it does. Then nothing about it is certain.
    pub missing: Option<Missing>,
    /// The least number of context switches during the call that the kernel may not have recorded.
    pub unrecorded_switches: u64,
    /// How much of the unexplained time is due to such switches, in nanoseconds.
    pub unexplained_for_switches_ns: u64,
    /// Journal commits of other threads that the call waited for.
    pub others_commits: Vec<OthersCommit>,
    /// How long calls like this one usually run and are being woken, in nanoseconds; 0 if it is not
    /// known.
    pub usual_ns: u64,
}

impl Layers {
    /// The sums of the reasons. Usual time is taken off.
    #[must_use]
    pub fn summed(&self) -> Reasons {
        Reasons::of(&self.reasons, self.usual_ns)
    }

    /// How long the call spent in a layer, in nanoseconds.
    #[must_use]
    pub fn total_ns(&self, layer: Layer) -> u64 {
        let ours = self.pieces.iter().filter(|piece| piece.layer == layer);
        ours.map(|piece| piece.end_ns - piece.begin_ns).sum()
    }

    /// How long a thread that the call was with was runnable while another had its CPU, within a
    /// layer, in nanoseconds.
    #[must_use]
    pub fn behind_ns(&self, layer: Layer) -> u64 {
        self.within(layer, ReasonKind::Cpu).map(Stretch::duration_ns).sum()
    }

    /// The stretches with a kind of reason within a layer.
    pub fn within(&self, layer: Layer, kind: ReasonKind) -> impl Iterator<Item = &Stretch> {
        let place = Some(Place::Layer(layer.name()));
        self.reasons
            .iter()
            .filter(move |stretch| stretch.why.place == place && stretch.why.reason.kind() == kind)
    }
}

/// An indexed recording of writes, built once for any number of calls.
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
    pub fn new(trace: &'t Trace, devices: Devices) -> Self {
        Self::of(trace, devices, Timeline::new(trace))
    }

    /// Indexes a recording for these writes. Memory grows with the time that they take, and with
    /// the recording's requests.
    #[must_use]
    pub fn within(basis: &Basis<'t>, devices: Devices, writes: impl Iterator<Item = Write>) -> Self {
        let stretches: Vec<_> = writes.map(|write| (write.start_ns, write.end_ns)).collect();
        Self::of(basis.trace(), devices, basis.within_with_ends(&stretches))
    }

    fn of(trace: &'t Trace, mut devices: Devices, timeline: Timeline<'t>) -> Self {
        devices.partitions.extend(paths::of(trace, &devices));
        let requests = Requests::of(trace, &devices);
        let commits = Commits::of(&timeline);
        let throttled = Throttled::of(trace);
        Writes { commits, throttled, timeline, devices, requests }
    }

    /// All completed requests in the order of completion, for any caller.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests.done
    }

    /// Why the figures of this recording are uncertain: what it lacks although every recording of
    /// writes must have it. Usually empty.
    #[must_use]
    pub fn doubts(&self) -> Vec<Doubt> {
        doubts::doubts(self.timeline.trace, &self.devices, self.timeline.knows)
    }

    /// The least number of context switches that the kernel did not record, although no event was
    /// lost.
    #[must_use]
    pub fn unrecorded_switches(&self) -> u64 {
        self.timeline.unrecorded_switches()
    }

    /// The last request that completed on a CPU, either during a wait and just before its end, or
    /// in the interrupt that ended it. The wait was for this request if the thread or interrupt
    /// that completed it also did the wakeup. In an interrupt, the request may complete before the
    /// waiting thread has left its CPU.
    fn completed_before(&self, cpu: u32, begin_ns: u64, end_ns: u64) -> Option<usize> {
        /// The longest time from a completion to the wakeup that it causes. In between, the file
        /// system and the page cache finish the write. Within one interrupt, it may take even
        /// longer, because a hypervisor may take the CPU.
        const WITHIN_NS: u64 = 1_000_000;
        let entered_ns = self.timeline.cpu(cpu).and_then(|line| line.interrupts.entered_before(end_ns));
        let since_ns = end_ns.saturating_sub(WITHIN_NS).max(begin_ns).min(entered_ns.unwrap_or(end_ns));
        let done = &self.requests.done;
        let after = done.partition_point(|request| request.completed_ns <= end_ns);
        let recent = done[..after].iter().enumerate().rev();
        recent
            .take_while(|(_, request)| request.completed_ns >= since_ns)
            .find(|(_, request)| request.completed_cpu == cpu)
            .map(|(index, _)| index)
    }

    /// Divides one call into layers.
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
            reasons: why::stretches(self, write, &found.requests, &pieces),
            behind_others_ns: partition::within(&pieces, &found.behind_others),
            pieces,
            requests,
            interruptions: account::count(self, write),
            missing: self.missing(write),
            unrecorded_switches: self.timeline.unrecorded_within(write.start_ns, write.end_ns),
            unexplained_for_switches_ns,
            usual_ns: 0,
            others_commits: self.commits.of_others(&self.timeline, write),
        }
    }

    fn worker(&self, write: Write) -> Option<(u32, u64)> {
        asynchronous::worker(&self.timeline, write)
    }

    fn missing(&self, write: Write) -> Option<Missing> {
        let Write { start_ns, end_ns, .. } = write;
        if self.timeline.lost_within(start_ns, end_ns) {
            return Some(Missing::Lost);
        }
        self.timeline.incomplete_within(start_ns, end_ns).then_some(Missing::OutsideRecording)
    }
}
