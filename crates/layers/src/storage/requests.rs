//! The block layer's requests, put together from its events: who queued them, when the device got them, when it answered.
//! Must not know for which write they were.

use std::collections::HashMap;

use tracefs::{Body, Event, Name, Trace};

use super::Devices;

/// A flush is issued at sector 0 and completed at this one.
const NO_SECTOR: u64 = u64::MAX;

/// One request of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The disk, as `dev_t`: major << 20 | minor.
    pub dev: u32,
    /// Its first sector, of 512 bytes; 0 of a flush.
    pub sector: u64,
    /// How many; 0 of a flush.
    pub sectors: u64,
    /// Whether it empties the device's cache.
    pub flush: bool,
    /// Whether it writes.
    pub write: bool,
    /// Whether nothing is known to be below its device.
    pub leaf: bool,
    /// When its parts were queued, in nanoseconds, and by which threads.
    pub queued: Vec<(u64, u32)>,
    /// When it was handed to the driver, in nanoseconds (`block_rq_issue`); 0 when that was not seen.
    pub issued_ns: u64,
    /// When the driver handed it to the controller, in nanoseconds: later than [`Request::issued_ns`] on buses that tell.
    pub started_ns: u64,
    /// When the controller's interrupt came, in nanoseconds; the completion where no interrupt was seen.
    pub ended_ns: u64,
    /// When it was completed, in nanoseconds (`block_rq_complete`).
    pub completed_ns: u64,
    /// Where.
    pub completed_cpu: u32,
    /// The thread that was interrupted, or worked, there.
    pub completed_by: u32,
    /// The CPU that the interrupt came to.
    pub interrupt_cpu: Option<u32>,
}

impl Request {
    fn covers(&self, sector: u64) -> bool {
        !self.flush && (self.sector..self.sector + self.sectors.max(1)).contains(&sector)
    }
}

/// A part that has been queued, and is in no request yet.
#[derive(Clone, Copy, Debug)]
struct Queued {
    time_ns: u64,
    tid: u32,
    sector: u64,
}

/// A write that asks for flushes around it: one before, unless it has nothing to wait for, and one behind, unless the
/// device can do without. Each is a request of its own.
#[derive(Clone, Copy, Debug)]
struct Phased {
    queued: Queued,
    written: bool,
}

/// All requests that were completed, in the order of their completion.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) done: Vec<Request>,
}

/// The fields of a block event that are used.
struct Fields {
    dev: u32,
    sector: u64,
    sectors: u64,
    flush: bool,
    /// Whether flushes before or behind the data are asked for.
    phased: bool,
    write: bool,
}

struct Builder<'a> {
    trace: &'a Trace,
    devices: &'a Devices,
    waiting: HashMap<u32, Vec<Queued>>,
    flushes: HashMap<u32, Vec<Queued>>,
    phased: HashMap<u32, Vec<Phased>>,
    running: Vec<Request>,
    done: Vec<Request>,
    /// The last interrupt of a controller of ours on each CPU.
    interrupts: HashMap<u32, u64>,
}

impl Requests {
    pub(crate) fn of(trace: &Trace, devices: &Devices) -> Requests {
        let mut builder = Builder {
            trace,
            devices,
            waiting: HashMap::new(),
            flushes: HashMap::new(),
            phased: HashMap::new(),
            running: Vec::new(),
            done: Vec::new(),
            interrupts: HashMap::new(),
        };
        for event in &trace.events {
            builder.observe(event);
        }
        Requests { done: builder.done }
    }
}

impl Builder<'_> {
    fn observe(&mut self, event: &Event) {
        match event.body {
            Body::IrqEntry { name, .. } if self.is_controllers(name) => {
                self.interrupts.insert(event.cpu, event.time_ns);
            }
            Body::Other { event: kind, .. } => match self.trace.names.text(kind) {
                "block/block_bio_queue" => self.queue(event),
                "block/block_rq_issue" => self.issue(event),
                "block/block_rq_complete" => self.complete(event),
                "mmc/mmc_request_start" | "scsi/scsi_dispatch_cmd_start" => self.start(event),
                "mmc/mmc_request_done" | "scsi/scsi_dispatch_cmd_done" => self.end(event),
                "ufs/ufshcd_command" => match self.trace.field(event, "str_t").and_then(|it| it.number()) {
                    Some(0) => self.start(event),
                    Some(1) => self.end(event),
                    _ => {}
                },
                _ => {}
            },
            _ => {}
        }
    }

    fn is_controllers(&self, name: Name) -> bool {
        let name = self.trace.names.text(name);
        self.devices.interrupts.iter().any(|ours| ours == name)
    }

    fn fields(&self, event: &Event) -> Option<Fields> {
        let number = |name: &str| self.trace.field(event, name).and_then(|value| value.number());
        let kind = self.trace.field(event, "rwbs");
        let kind = kind.as_ref().and_then(|value| value.text()).unwrap_or_default();
        let sectors = number("nr_sector")?;
        Some(Fields {
            dev: u32::try_from(number("dev")?).ok()?,
            sector: number("sector")?,
            sectors,
            // An F in front of the W asks for a flush before the data, one behind it for the data to be durable.
            flush: sectors == 0 && kind.starts_with('F'),
            phased: sectors > 0 && kind.contains('F'),
            write: kind.contains('W') || kind.starts_with('F'),
        })
    }

    fn queue(&mut self, event: &Event) {
        let Some(Fields { dev, sector, flush, phased, .. }) = self.fields(event) else { return };
        let queued = Queued { time_ns: event.time_ns, tid: event.tid, sector };
        let list = if flush { &mut self.flushes } else { &mut self.waiting };
        list.entry(dev).or_default().push(queued);
        if phased {
            self.phased.entry(dev).or_default().push(Phased { queued, written: false });
        }
    }

    fn issue(&mut self, event: &Event) {
        let Some(Fields { dev, sector, sectors, flush, write, .. }) = self.fields(event) else { return };
        let mut request = Request {
            dev,
            sector,
            sectors,
            flush,
            write,
            leaf: self.devices.is_leaf(dev),
            issued_ns: event.time_ns,
            started_ns: event.time_ns,
            ..Request::default()
        };
        let list = if flush { &mut self.flushes } else { &mut self.waiting };
        // One flush serves everyone who has asked for one until it is issued.
        list.entry(dev).or_default().retain(|queued| {
            let ours = flush || request.covers(queued.sector);
            if ours {
                request.queued.push((queued.time_ns, queued.tid));
            }
            !ours
        });
        if flush {
            let phased = self.phased.get(&dev).map_or(&[][..], |phased| phased);
            request.queued.extend(phased.iter().map(|phased| (phased.queued.time_ns, phased.queued.tid)));
        }
        self.running.push(request);
    }

    /// The controller gets the oldest of our requests that it has not got yet.
    fn start(&mut self, event: &Event) {
        let waiting = self.running.iter_mut().find(|request| request.started_ns == request.issued_ns);
        if let Some(request) = waiting {
            request.started_ns = event.time_ns;
        }
    }

    /// The driver says that the controller is done, which its interrupt may have said before.
    fn end(&mut self, event: &Event) {
        let started = self
            .running
            .iter_mut()
            .find(|request| request.started_ns > request.issued_ns && request.ended_ns == 0);
        if let Some(request) = started {
            request.ended_ns = event.time_ns;
        }
    }

    fn complete(&mut self, event: &Event) {
        let Some(Fields { dev, sector, sectors, flush, .. }) = self.fields(event) else { return };
        let flush = flush || sector == NO_SECTOR;
        let at = self.running.iter().position(|request| {
            request.dev == dev && request.flush == flush && (flush || request.sector == sector)
        });
        // Issued before the recording began.
        let Some(at) = at else { return };
        // A driver may complete a request in pieces.
        let left = self.running[at].sectors.saturating_sub(sectors);
        if !flush && sectors > 0 && left > 0 {
            self.running[at].sector += sectors;
            self.running[at].sectors = left;
            return;
        }
        let mut request = self.running.remove(at);
        if let Some(phased) = self.phased.get_mut(&dev) {
            // The flush behind the data ends it; the data themselves do where no such flush follows.
            phased.retain_mut(|one| {
                let behind = flush && one.written && one.queued.time_ns < request.issued_ns;
                one.written |= request.covers(one.queued.sector);
                !behind
            });
        }
        request.completed_ns = event.time_ns;
        request.completed_cpu = event.cpu;
        request.completed_by = event.tid;
        // The last interrupt since the controller got it: on whichever CPU, since completions may be sent to another.
        let interrupt = self
            .interrupts
            .iter()
            .filter(|(_, time_ns)| **time_ns > request.started_ns)
            .max_by_key(|(_, time_ns)| **time_ns);
        match interrupt {
            Some((&cpu, &time_ns)) if request.leaf => {
                request.ended_ns = time_ns;
                request.interrupt_cpu = Some(cpu);
            }
            _ if request.ended_ns == 0 => request.ended_ns = event.time_ns,
            _ => {}
        }
        self.done.push(request);
    }
}
