//! The block layer's requests, put together from its events: who queued them, when the device got
//! them, when it answered. Must not know for which write they were.

mod flushes;

use std::collections::HashMap;

use tracefs::{Body, Event, Name, Trace};

use super::Devices;
use super::commands::{self, Begin, End, Label, Purpose, Step};
use super::interrupts::Interrupts;

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
    /// When it was handed to the driver, in nanoseconds (`block_rq_issue`); 0 when that was not
    /// seen.
    pub issued_ns: u64,
    /// By which thread.
    pub issued_by: u32,
    /// When the controller got it, in nanoseconds: its first command, on buses that tell; else
    /// [`Request::issued_ns`].
    pub started_ns: u64,
    /// When the controller was done with it, in nanoseconds: the last command's interrupt; without
    /// one, what [`Request::end`] says.
    pub ended_ns: u64,
    /// When the controller had it, from and to in nanoseconds: once for each command, since a
    /// request may take several.
    pub device: Vec<(u64, u64)>,
    /// Which event [`Request::started_ns`] is of.
    pub begin: Begin,
    /// Which event [`Request::ended_ns`] is of.
    pub end: End,
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
    pub(super) fn covers(&self, sector: u64) -> bool {
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

/// A write that asks for flushes around it: one before, unless it has nothing to wait for, and one
/// behind, unless the device can do without. Each is a request of its own.
#[derive(Clone, Copy, Debug)]
struct Phased {
    queued: Queued,
    /// It has no data: then one flush follows the other, as the device mapper asks of what is below
    /// it.
    empty: bool,
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
    /// Whether the data are to be durable without a flush behind them.
    fua: bool,
    write: bool,
}

/// A command that a controller has, or had, for a request.
#[derive(Clone, Debug)]
struct Command {
    label: Label,
    start_ns: u64,
    /// When it was answered, by what, and whether it left the device at work.
    end: Option<(u64, End, bool)>,
    interrupt_cpu: Option<u32>,
}

/// A request that the driver has, and what its controller was told of it.
#[derive(Debug, Default)]
struct Running {
    request: Request,
    /// The device makes it durable itself: no flush follows.
    fua: bool,
    commands: Vec<Command>,
}

struct Builder<'a> {
    trace: &'a Trace,
    devices: &'a Devices,
    waiting: HashMap<u32, Vec<Queued>>,
    flushes: HashMap<u32, Vec<Queued>>,
    /// When each device's last flush was made ready: whoever asks for one after that gets the next.
    ready_ns: HashMap<u32, u64>,
    /// When each thread was last woken.
    woken_ns: HashMap<u32, u64>,
    phased: HashMap<u32, Vec<Phased>>,
    running: Vec<Running>,
    /// Commands that are made ready before their request is said to be issued, as NVMe's are.
    ready: Vec<(Command, Purpose)>,
    done: Vec<Request>,
    interrupts: Interrupts,
}

impl Requests {
    pub(crate) fn of(trace: &Trace, devices: &Devices) -> Self {
        let mut builder = Builder {
            trace,
            devices,
            waiting: HashMap::new(),
            flushes: HashMap::new(),
            ready_ns: HashMap::new(),
            woken_ns: HashMap::new(),
            phased: HashMap::new(),
            running: Vec::new(),
            ready: Vec::new(),
            done: Vec::new(),
            interrupts: Interrupts::default(),
        };
        for event in &trace.events {
            builder.observe(event);
        }
        Self { done: builder.done }
    }
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
        let number = |name: &str| self.trace.field(event, name).and_then(|value| value.number());
        let kind = self.trace.field(event, "rwbs");
        let kind = kind.as_ref().and_then(|value| value.text()).unwrap_or_default();
        let sectors = number("nr_sector")?;
        Some(Fields {
            dev: self.devices.disk(u32::try_from(number("dev")?).ok()?),
            sector: number("sector")?,
            sectors,
            // An F in front of the W asks for a flush before the data, one behind it for the data
            // to be durable.
            flush: sectors == 0 && kind.starts_with('F'),
            phased: if sectors > 0 { kind.contains('F') } else { kind.starts_with("FWF") },
            fua: sectors > 0 && kind.contains("WF"),
            write: kind.contains('W') || kind.starts_with('F'),
        })
    }

    fn queue(&mut self, event: &Event) {
        let Some(Fields { dev, sector, sectors, flush, phased, .. }) = self.fields(event) else { return };
        let queued = Queued { time_ns: event.time_ns, tid: event.tid, sector };
        let list = if flush { &mut self.flushes } else { &mut self.waiting };
        list.entry(dev).or_default().push(queued);
        if phased {
            self.phased.entry(dev).or_default().push(Phased { queued, empty: sectors == 0, written: false });
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
            self.flush_for(&mut request);
        }
        let same = |one: &Running| {
            let one = &one.request;
            (one.dev, one.sector, one.sectors, one.flush) == (dev, sector, sectors, flush)
        };
        // The driver had to give it back, and gets it again.
        if let Some(at) = self.running.iter().position(same) {
            request.queued.append(&mut self.running.remove(at).request.queued);
        }
        let mut running = Running { request, fua, commands: Vec::new() };
        let ready = self.ready.iter().position(|(command, purpose)| {
            self.devices.is_for(&running.request, &command.label, *purpose) == Some(true)
        });
        running.commands.extend(ready.map(|at| self.ready.remove(at).0));
        self.running.push(running);
    }

    /// A controller gets a command: for the request that it names, else for the oldest one that the
    /// controller has.
    fn sent(&mut self, event: &Event, label: Label, purpose: Purpose) {
        let is_for = |one: &Running| self.devices.is_for(&one.request, &label, purpose);
        let exactly = self.running.iter().position(|one| is_for(one) == Some(true));
        let at = exactly.or_else(|| self.running.iter().position(|one| is_for(one).is_none()));
        // What was under this number before has been forgotten.
        self.ready.retain(|(command, _)| command.label != label);
        let command = Command { label, start_ns: event.time_ns, end: None, interrupt_cpu: None };
        match at {
            Some(at) => self.running[at].commands.push(command),
            None if command.label.bus == Begin::Nvme => self.ready.push((command, purpose)),
            // Its request was issued before the recording began, or is another device's.
            None => {}
        }
    }

    /// A command has been answered, which an interrupt has told just before.
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
        let (end_ns, end) = match interrupts.that_told(event.cpu, command.start_ns, ours) {
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
        // The end of all phases together, which is told of the write as it was queued.
        if !flush && sectors == 0 {
            if let Some(phased) = self.phased.get_mut(&dev) {
                phased.retain(|one| one.queued.sector != sector);
            }
            return;
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
        let Running { mut request, fua, commands } = self.running.remove(at);
        if let Some(phased) = self.phased.get_mut(&dev) {
            // The flush behind the data ends it; the data themselves do where no such flush
            // follows.
            phased.retain_mut(|one| {
                let later = one.queued.time_ns < request.issued_ns;
                let covered = request.covers(one.queued.sector);
                let over = (flush && later && one.written) || (fua && covered);
                one.written |= covered || (one.empty && flush && later);
                !over
            });
        }
        request.completed_ns = event.time_ns;
        request.completed_cpu = event.cpu;
        request.completed_by = event.tid;
        if commands.is_empty() {
            self.bound_by_block(&mut request);
        } else {
            bound_by_commands(&mut request, commands);
        }
        self.done.push(request);
    }

    /// The bus tells nothing: the controller has a request from its issue to the interrupt before
    /// its completion, on whichever CPU, since completions may be sent to another.
    fn bound_by_block(&self, request: &mut Request) {
        let ours = |name: Name| self.devices.raises(request.dev, None, self.trace.names.text(name));
        let told = self.interrupts.that_told(request.completed_cpu, request.started_ns, ours);
        (request.ended_ns, request.end) = (request.completed_ns, End::Complete);
        if let Some((cpu, time_ns)) = told.filter(|_| request.leaf) {
            (request.ended_ns, request.end, request.interrupt_cpu) = (time_ns, End::Interrupt, Some(cpu));
        }
        request.device = vec![(request.started_ns, request.ended_ns)];
    }
}

/// The controller has a request while it has one of its commands, and while a card that has been
/// asked for its status is busy.
fn bound_by_commands(request: &mut Request, mut commands: Vec<Command>) {
    // UFS is spoken to through SCSI, whose events are further from the controller.
    if commands.iter().any(|command| command.label.bus == Begin::Ufs) {
        commands.retain(|command| command.label.bus == Begin::Ufs);
    }
    for (at, command) in commands.iter().enumerate() {
        let next = commands.get(at + 1).map_or(request.completed_ns, |next| next.start_ns);
        let (end_ns, end, busy) = command.end.unwrap_or((next, End::Complete, false));
        let end_ns = if busy { next } else { end_ns };
        if at == 0 {
            (request.started_ns, request.begin) = (command.start_ns, command.label.bus);
        }
        request.device.push((command.start_ns, end_ns));
        (request.ended_ns, request.end, request.interrupt_cpu) = (end_ns, end, command.interrupt_cpu);
    }
}
