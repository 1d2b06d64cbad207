//! What a recording's events show about its devices, for analysis on another machine: which are
//! disks, which partition is on which disk, and which interrupts signal their answers. Must not
//! know which writes the requests belong to.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use roundtrip_tracefs::{Body, Event, Name, Trace};

use super::Devices;

/// The loop driver's major number (Documentation/admin-guide/devices.txt). Requests to a loop
/// device cause requests to the device that stores its file.
const LOOP: u32 = 7;

/// How many queued bios of a device are kept until their request is issued.
const MOST_WAITING: usize = 256;

/// A completion in a softirq or a thread follows its interrupt within this time, in nanoseconds.
const FOLLOWS_NS: u64 = 200_000;

/// An interrupt counts as a controller's if it came with at least one in this many completions.
/// Fewer may be chance: another device may interrupt the same CPU at the same time.
const ONE_OF: u64 = 20;

impl Devices {
    /// The devices of a recording, as far as its events show them. Every device with requests
    /// counts as one with nothing below it, except loop devices if there are others. The
    /// controllers stay unknown, so the block layer's events bound a device's time.
    #[must_use]
    pub fn of_recording(trace: &Trace) -> Self {
        let mut seen = Seen::default();
        for event in trace.all() {
            seen.observe(trace, &event);
        }
        seen.devices(trace)
    }
}

#[derive(Default)]
struct Seen {
    issued: BTreeSet<u32>,
    /// By device: sectors that were queued and are not in a request yet.
    waiting: BTreeMap<u32, VecDeque<u64>>,
    /// How many bios were queued for a device, and how many of them were issued in a request of
    /// which device.
    queued: BTreeMap<u32, u64>,
    became: BTreeMap<(u32, u32), u64>,
    /// By CPU: the interrupt whose handler runs, and the last one that its handler recognised, with
    /// the end of that handler in nanoseconds.
    handler: HashMap<u32, Name>,
    handled: HashMap<u32, (Name, u64)>,
    /// By interrupt: how many completions came within its handler, and how many shortly after it.
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
        // A bio for a partition has the sector of its disk.
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
    let number = |name: &str| trace.number(event, name);
    Some((u32::try_from(number("dev")?).ok()?, number("sector")?, number("nr_sector")?))
}
