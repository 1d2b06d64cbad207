//! Assembles the block layer's requests from its events: which threads queued them, when the device
//! received them, and when it answered. Must not know which write a request was for.

mod flushes;
mod order;
mod waiting;

use std::collections::{HashMap, VecDeque};

use roundtrip_tracefs::{Body, Event, Name, Trace};

use super::Devices;
use super::commands::{self, Begin, End, Label, Purpose, Step};
use super::interrupts::Interrupts;
use crate::begins::Begins;
use order::{bound_by_commands, in_order};
use waiting::Waiting;

/// The most requests, and the most commands, that are under way at once. When there are more, the
/// event of an end was lost.
const MOST_UNDER_WAY: usize = 2048;

/// The most threads that a requeued request may serve.
const MOST_QUEUED: usize = 4096;

/// The sector of a flush at completion. At issue it is 0.
const NO_SECTOR: u64 = u64::MAX;

/// One request of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The disk, as `dev_t`: major << 20 | minor.
    pub dev: u32,
    /// Its first sector, of 512 bytes; 0 for a flush.
    pub sector: u64,
    /// The number of sectors; 0 for a flush.
    pub sectors: u64,
    /// Whether it flushes the device's cache.
    pub flush: bool,
    /// Whether it writes.
    pub write: bool,
    /// Whether its device has nothing below it, as far as is known.
    pub leaf: bool,
    /// When its bios were queued, in nanoseconds, and by which threads.
    pub queued: Vec<(u64, u32)>,
    /// When it was passed to the driver, in nanoseconds (`block_rq_issue`); 0 if that was not
    /// recorded.
    pub issued_ns: u64,
    /// The thread that passed it.
    pub issued_by: u32,
    /// When the controller received it, in nanoseconds: its first command if the bus has events,
    /// else [`Request::issued_ns`].
    pub started_ns: u64,
    /// When the controller finished it, in nanoseconds: the interrupt of the last command or,
    /// without one, the event in [`Request::end`].
    pub ended_ns: u64,
    /// When the controller processed it: start and end, in nanoseconds, of each command. A request
    /// may need several commands.
    pub device: Vec<(u64, u64)>,
    /// The event that [`Request::started_ns`] comes from.
    pub begin: Begin,
    /// The event that [`Request::ended_ns`] comes from.
    pub end: End,
    /// When it was completed, in nanoseconds (`block_rq_complete`).
    pub completed_ns: u64,
    /// The CPU where it was completed.
    pub completed_cpu: u32,
    /// The thread that was running there, possibly interrupted.
    pub completed_by: u32,
    /// The CPU that handled the interrupt.
    pub interrupt_cpu: Option<u32>,
}

impl Request {
    pub(super) fn covers(&self, sector: u64) -> bool {
        !self.flush && (self.sector..self.sector + self.sectors.max(1)).contains(&sector)
    }

    /// Whether the controller processes it at an instant.
    pub(super) fn is_at_device(&self, time_ns: u64) -> bool {
        self.device.iter().any(|&(begin_ns, end_ns)| (begin_ns..end_ns).contains(&time_ns))
    }
}

/// A bio that has been queued and is not in a request yet.
#[derive(Clone, Copy, Debug)]
struct Queued {
    time_ns: u64,
    tid: u32,
    sector: u64,
}

/// All completed requests in the order of completion.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) done: Vec<Request>,
    issued: Begins,
    started: Begins,
    /// The devices that answer in the order of issue: they work on one request after the other.
    in_order: Vec<u32>,
}

/// The relevant fields of a block event.
struct Fields {
    dev: u32,
    sector: u64,
    sectors: u64,
    flush: bool,
    /// Whether it requests flushes before or after the data.
    phased: bool,
    /// Whether the data must be durable without a flush after it (FUA).
    fua: bool,
    write: bool,
}

/// A command that a controller is processing, or has processed, for a request.
#[derive(Clone, Debug)]
struct Command {
    label: Label,
    start_ns: u64,
    /// When it was answered, by which event, and whether the device was still busy.
    end: Option<(u64, End, bool)>,
    interrupt_cpu: Option<u32>,
}

/// A request that the driver has, with the controller's commands for it.
#[derive(Debug, Default)]
struct Running {
    request: Request,
    /// The device itself makes it durable, so no flush follows.
    fua: bool,
    commands: Vec<Command>,
}

struct Builder<'a> {
    trace: &'a Trace,
    devices: &'a Devices,
    waiting: HashMap<u32, Waiting>,
    /// When each device's last flush was set up. The next flush serves what is requested later.
    ready_ns: HashMap<u32, u64>,
    /// When each thread was last woken.
    woken_ns: HashMap<u32, u64>,
    /// The last flush of each device among those that are done.
    last_flush: HashMap<u32, usize>,
    running: VecDeque<Running>,
    /// Commands that were set up before their request was issued, as on NVMe.
    ready: VecDeque<(Command, Purpose)>,
    done: Vec<Request>,
    interrupts: Interrupts,
}

impl Requests {
    pub(crate) fn of(trace: &Trace, devices: &Devices) -> Self {
        let mut builder = Builder {
            trace,
            devices,
            waiting: HashMap::new(),
            ready_ns: HashMap::new(),
            woken_ns: HashMap::new(),
            last_flush: HashMap::new(),
            running: VecDeque::new(),
            ready: VecDeque::new(),
            done: Vec::new(),
            interrupts: Interrupts::default(),
        };
        for event in trace.all() {
            builder.observe(&event);
        }
        let done = builder.done;
        let issued = Begins::new(done.iter().map(|one| one.issued_ns));
        let started = Begins::new(done.iter().map(|one| one.started_ns));
        Self { issued, started, in_order: in_order(&done), done }
    }

    /// The requests that may be with a device at some instant of a stretch, with their indices.
    pub(super) fn near(&self, begin_ns: u64, end_ns: u64) -> impl Iterator<Item = (usize, &Request)> {
        let first = self.done.partition_point(|request| request.completed_ns <= begin_ns);
        self.started.until(first, end_ns).map(|index| (index, &self.done[index]))
    }

    /// The requests that were issued before the end of a stretch, and completed after its start,
    /// with their indices.
    pub(super) fn issued(&self, begin_ns: u64, end_ns: u64) -> impl Iterator<Item = (usize, &Request)> {
        let first = self.done.partition_point(|request| request.completed_ns < begin_ns);
        self.issued.until(first, end_ns).map(|index| (index, &self.done[index]))
    }

    /// The requests that an in-order device had received before this one, and finished while this
    /// one was with it, in their order. Empty for a device that works on several at once.
    pub(super) fn before(&self, request: &Request) -> Vec<(usize, &Request)> {
        if !self.in_order.contains(&request.dev) {
            return Vec::new();
        }
        let earlier = |one: &Request| {
            one.dev == request.dev
                && one.started_ns < request.started_ns
                && (request.started_ns..=request.ended_ns).contains(&one.ended_ns)
        };
        let near = self.near(request.started_ns, request.ended_ns);
        let mut before: Vec<_> = near.filter(|(_, one)| earlier(one)).collect();
        before.sort_by_key(|(_, one)| one.ended_ns);
        before
    }
}

/// Adds what is under way, and forgets the oldest if there is too much.
fn push<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() == MOST_UNDER_WAY {
        all.pop_front();
    }
    all.push_back(one);
}

impl Builder<'_> {
    fn observe(&mut self, event: &Event) {
        match event.body {
            Body::IrqEntry { irq, name } if self.is_controllers(name) => {
                self.interrupts.enter(event.cpu, irq, name, event.time_ns);
            }
            Body::Waking { thread, .. } => {
                self.woken_ns.insert(thread.tid, event.time_ns);
            }
            Body::IrqExit { irq, handled } => self.interrupts.leave(event.cpu, irq, handled),
            Body::Other { event: kind, .. } => match self.trace.names.text(kind) {
                "block/block_bio_queue" => self.queue(event),
                "block/block_rq_issue" => self.issue(event),
                "block/block_rq_complete" => self.complete(event),
                kind => match commands::step(self.trace, event, kind) {
                    Some(Step::Sent { label, purpose }) => self.sent(event, label, purpose),
                    Some(Step::Answered { label, busy }) => self.answered(event, &label, busy),
                    None => {}
                },
            },
            _ => {}
        }
    }

    fn is_controllers(&self, name: Name) -> bool {
        let name = self.trace.names.text(name);
        self.devices.interrupts.iter().any(|ours| ours == name)
    }

    fn fields(&self, event: &Event) -> Option<Fields> {
        let number = |name: &str| self.trace.number(event, name);
        let kind = self.trace.field(event, "rwbs");
        let kind = kind.as_ref().and_then(|value| value.text()).unwrap_or_default();
        let sectors = number("nr_sector")?;
        Some(Fields {
            dev: self.devices.disk(u32::try_from(number("dev")?).ok()?),
            sector: number("sector")?,
            sectors,
            // An F before the W requests a flush before the data. An F after the W requests durable
            // data.
            flush: sectors == 0 && kind.starts_with('F'),
            phased: if sectors > 0 { kind.contains('F') } else { kind.starts_with("FWF") },
            fua: sectors > 0 && kind.contains("WF"),
            write: kind.contains('W') || kind.starts_with('F'),
        })
    }

    fn queue(&mut self, event: &Event) {
        let Some(Fields { dev, sector, sectors, flush, phased, .. }) = self.fields(event) else { return };
        let queued = Queued { time_ns: event.time_ns, tid: event.tid, sector };
        let waiting = self.waiting.entry(dev).or_default();
        if flush {
            waiting.flush(queued);
        } else {
            waiting.bio(queued);
        }
        if phased {
            waiting.phased(queued, sectors == 0);
        }
    }

    fn issue(&mut self, event: &Event) {
        let Some(Fields { dev, sector, sectors, flush, write, fua, .. }) = self.fields(event) else { return };
        let mut request = Request {
            dev,
            sector,
            sectors,
            flush,
            write,
            leaf: self.devices.is_leaf(dev),
            issued_ns: event.time_ns,
            issued_by: event.tid,
            started_ns: event.time_ns,
            ..Request::default()
        };
        request.queued = self.waiting.entry(dev).or_default().take(&request);
        if flush {
            self.flush_for(&mut request);
        }
        let same = |one: &Running| {
            let one = &one.request;
            (one.dev, one.sector, one.sectors, one.flush) == (dev, sector, sectors, flush)
        };
        // The driver had requeued it, and now receives it again.
        if let Some(mut before) = self.running.iter().position(same).and_then(|at| self.running.remove(at)) {
            request.queued.append(&mut before.request.queued);
            request.queued.truncate(MOST_QUEUED);
        }
        let mut running = Running { request, fua, commands: Vec::new() };
        let ready = self.ready.iter().position(|(command, purpose)| {
            self.devices.is_for(&running.request, &command.label, *purpose) == Some(true)
        });
        running.commands.extend(ready.and_then(|at| self.ready.remove(at)).map(|(command, _)| command));
        push(&mut self.running, running);
    }

    /// A controller received a command, for the request that the command names or, if it names
    /// none, for the oldest request at the controller.
    fn sent(&mut self, event: &Event, label: Label, purpose: Purpose) {
        let is_for = |one: &Running| self.devices.is_for(&one.request, &label, purpose);
        let exactly = self.running.iter().position(|one| is_for(one) == Some(true));
        let at = exactly.or_else(|| self.running.iter().position(|one| is_for(one).is_none()));
        // An earlier command with this label has been lost.
        self.ready.retain(|(command, _)| command.label != label);
        let command = Command { label, start_ns: event.time_ns, end: None, interrupt_cpu: None };
        match at {
            Some(at) => self.running[at].commands.push(command),
            None if command.label.bus == Begin::Nvme => push(&mut self.ready, (command, purpose)),
            // Its request was issued before the recording began, or belongs to another device.
            None => {}
        }
    }

    /// A command was answered, which an interrupt had signalled just before.
    fn answered(&mut self, event: &Event, label: &Label, busy: bool) {
        self.ready.retain(|(command, _)| command.label != *label);
        let Builder { trace, devices, running, interrupts, .. } = self;
        let open = running.iter_mut().find_map(|one| {
            let dev = one.request.dev;
            let command = one.commands.iter_mut().find(|one| one.end.is_none() && one.label == *label)?;
            Some((dev, command))
        });
        let Some((dev, command)) = open else { return };
        let ours = |name: Name| devices.raises(dev, label.queue, trace.names.text(name));
        let (end_ns, end) = match interrupts.that_reported(event.cpu, command.start_ns, ours) {
            Some((cpu, time_ns)) => {
                command.interrupt_cpu = Some(cpu);
                (time_ns, End::Interrupt)
            }
            None => (event.time_ns, label.bus.answer()),
        };
        command.end = Some((end_ns, end, busy));
    }

    fn complete(&mut self, event: &Event) {
        let Some(Fields { dev, sector, sectors, flush, .. }) = self.fields(event) else { return };
        let flush = flush || sector == NO_SECTOR;
        // This event is the end of all phases together. It reports the write as it was queued.
        if !flush && sectors == 0 {
            return self.waiting.entry(dev).or_default().end_phases(sector);
        }
        let at = self.running.iter().position(|one| {
            let request = &one.request;
            request.dev == dev && request.flush == flush && (flush || request.sector == sector)
        });
        // Issued before the recording began.
        let Some(at) = at else { return };
        // A driver may complete a request in pieces.
        let request = &mut self.running[at].request;
        let left = request.sectors.saturating_sub(sectors);
        if !flush && sectors > 0 && left > 0 {
            request.sector += sectors;
            request.sectors = left;
            return;
        }
        let Some(Running { mut request, fua, commands }) = self.running.remove(at) else { return };
        self.waiting.entry(dev).or_default().completed(&request, fua);
        request.completed_ns = event.time_ns;
        request.completed_cpu = event.cpu;
        request.completed_by = event.tid;
        if commands.is_empty() {
            self.bound_by_block(&mut request);
        } else {
            bound_by_commands(&mut request, commands);
        }
        if flush {
            self.last_flush.insert(dev, self.done.len());
        }
        self.done.push(request);
    }

    /// For buses without events: the controller has a request from its issue to the interrupt
    /// before its completion. That interrupt may be on any CPU, because completions may be sent to
    /// another CPU.
    fn bound_by_block(&self, request: &mut Request) {
        let ours = |name: Name| self.devices.raises(request.dev, None, self.trace.names.text(name));
        let interrupt = self.interrupts.that_reported(request.completed_cpu, request.started_ns, ours);
        (request.ended_ns, request.end) = (request.completed_ns, End::Complete);
        if let Some((cpu, time_ns)) = interrupt.filter(|_| request.leaf) {
            (request.ended_ns, request.end, request.interrupt_cpu) = (time_ns, End::Interrupt, Some(cpu));
        }
        request.device = vec![(request.started_ns, request.ended_ns)];
    }
}
