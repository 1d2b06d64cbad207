//! What the events of a recording tell of its devices, where the machine that made it cannot be
//! asked: which are disks, which of them a partition is on, and which interrupts announce their
//! answers. Must not know for which writes requests are.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use tracefs::{Body, Event, Name, Trace};

use super::Devices;

/// The loop driver's major number (Documentation/admin-guide/devices.txt): its requests become
/// others'.
const LOOP: u32 = 7;

/// How many queued parts of a device may wait for their request.
const MOST_WAITING: usize = 256;

/// A completion may follow its interrupt by so much, in a softirq or a thread.
const FOLLOWS_NS: u64 = 200_000;

/// An interrupt is a controller's if it came with one completion of so many at least: another
/// device's may interrupt the same CPU at the same time.
const ONE_OF: u64 = 20;

impl Devices {
    /// The devices of a recording, as far as its events tell. Every device with requests counts as
    /// one with nothing below it, but loop devices beside others. Controllers are not told: the
    /// block layer's events bound a device's time.
    #[must_use]
    pub fn of_recording(trace: &Trace) -> Self {
        let mut seen = Seen::default();
        trace.events.iter().for_each(|event| seen.observe(trace, event));
        seen.devices(trace)
    }
}

#[derive(Default)]
struct Seen {
    issued: BTreeSet<u32>,
    /// Sectors that were queued and are in no request yet, by device.
    waiting: BTreeMap<u32, VecDeque<u64>>,
    /// How many parts were queued for a device, and how many of them became a part of a request of
    /// another one.
    queued: BTreeMap<u32, u64>,
    became: BTreeMap<(u32, u32), u64>,
    /// By CPU: the interrupt whose handler runs, and the last one that took what it was told of.
    handler: HashMap<u32, Name>,
    handled: HashMap<u32, (Name, u64)>,
    /// How many completions came within a handler, and how many shortly after one.
    within: BTreeMap<Name, u64>,
    after: BTreeMap<Name, u64>,
}

impl Seen {
    fn observe(&mut self, trace: &Trace, event: &Event) {
        match event.body {
            Body::IrqEntry { name, .. } => _ = self.handler.insert(event.cpu, name),
            Body::IrqExit { handled, .. } => {
                if let Some(name) = self.handler.remove(&event.cpu).filter(|_| handled) {
                    self.handled.insert(event.cpu, (name, event.time_ns));
                }
            }
            Body::Other { event: kind, .. } => match trace.names.text(kind) {
                "block/block_bio_queue" => self.queue(trace, event),
                "block/block_rq_issue" => self.issue(trace, event),
                "block/block_rq_complete" => self.complete(event),
                _ => {}
            },
            _ => {}
        }
    }

    fn queue(&mut self, trace: &Trace, event: &Event) {
        let Some((dev, sector, 1..)) = place(trace, event) else { return };
        *self.queued.entry(dev).or_default() += 1;
        let waiting = self.waiting.entry(dev).or_default();
        waiting.push_back(sector);
        if waiting.len() > MOST_WAITING {
            waiting.pop_front();
        }
    }

    fn issue(&mut self, trace: &Trace, event: &Event) {
        let Some((dev, sector, sectors)) = place(trace, event) else { return };
        self.issued.insert(dev);
        let range = sector..sector.saturating_add(sectors);
        for (&of, waiting) in &mut self.waiting {
            let before = waiting.len();
            waiting.retain(|sector| !range.contains(sector));
            *self.became.entry((of, dev)).or_default() += (before - waiting.len()) as u64;
        }
    }

    fn complete(&mut self, event: &Event) {
        if let Some(&name) = self.handler.get(&event.cpu) {
            *self.within.entry(name).or_default() += 1;
        } else if let Some(&(name, time_ns)) = self.handled.get(&event.cpu)
            && event.time_ns - time_ns <= FOLLOWS_NS
        {
            *self.after.entry(name).or_default() += 1;
        }
    }

    fn devices(&self, trace: &Trace) -> Devices {
        let beside = self.issued.iter().any(|dev| major(*dev) != LOOP);
        let leaves = self.issued.iter().copied().filter(|dev| !beside || major(*dev) != LOOP);
        // A part for a partition has the sector of its disk.
        let on_disk = |(&(of, disk), &parts): (&(u32, u32), &u64)| {
            let all = self.queued.get(&of).copied().unwrap_or(0);
            let is = !self.issued.contains(&of) && major(of) == major(disk) && parts * 2 > all;
            is.then_some((of, disk))
        };
        let raised = if self.within.is_empty() { &self.after } else { &self.within };
        let all: u64 = raised.values().sum();
        let often = raised.iter().filter(|(_, times)| **times * ONE_OF >= all);
        Devices {
            leaves: leaves.collect(),
            partitions: self.became.iter().filter_map(on_disk).collect(),
            interrupts: often.map(|(name, _)| trace.names.text(*name).to_owned()).collect(),
            controllers: Vec::new(),
        }
    }
}

fn major(dev: u32) -> u32 {
    dev >> 20
}

/// The device, first sector and length of a block event.
fn place(trace: &Trace, event: &Event) -> Option<(u32, u64, u64)> {
    let number = |name: &str| trace.field(event, name).and_then(|value| value.number());
    Some((u32::try_from(number("dev")?).ok()?, number("sector")?, number("nr_sector")?))
}
