//! Collects the events of several CPUs, in file order, into one trace. Must not know any file
//! format.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use roundtrip_files::Budget;
use roundtrip_tracefs::{Event, Loss, Names, Packed};

use crate::Foreign;
use crate::error::{Error, Result};

/// The highest accepted CPU number. Higher ones come from damaged bytes.
pub(crate) const MOST_CPUS: u32 = 1 << 14;

/// The events found so far.
pub(crate) struct Collected<'b> {
    budget: &'b Budget,
    events: Packed,
    losses: Vec<Loss>,
    /// The time of each CPU's last event, and the events lost since then (how many, if counted).
    last_ns: BTreeMap<u32, u64>,
    missing: BTreeMap<u32, Option<u64>>,
    complete_from_ns: BTreeMap<u32, u64>,
    /// The CPUs of which nothing is missing before their first event.
    whole: BTreeSet<u32>,
    recorded: BTreeSet<String>,
    named: HashSet<String>,
    /// The memory of the names in events when it was last charged, in bytes.
    name_bytes: usize,
}

impl<'b> Collected<'b> {
    pub(crate) fn new(budget: &'b Budget) -> Self {
        Self {
            budget,
            events: Packed::default(),
            losses: Vec::new(),
            last_ns: BTreeMap::new(),
            missing: BTreeMap::new(),
            complete_from_ns: BTreeMap::new(),
            whole: BTreeSet::new(),
            recorded: BTreeSet::new(),
            named: HashSet::new(),
            name_bytes: 0,
        }
    }

    /// Adds the next event of its CPU. Beyond the budget, it is left out.
    pub(crate) fn add(&mut self, event: Event) {
        if self.budget.item().is_err() {
            return;
        }
        if let Some(events) = self.missing.remove(&event.cpu) {
            let after_ns = self.last_ns.get(&event.cpu).copied().unwrap_or(0);
            let before_ns = event.time_ns.max(after_ns);
            self.losses.push(Loss { cpu: event.cpu, after_ns, before_ns, events, damaged: false });
        }
        self.complete_from_ns.entry(event.cpu).or_insert(event.time_ns);
        let last_ns = self.last_ns.entry(event.cpu).or_default();
        *last_ns = event.time_ns.max(*last_ns);
        // Noticed by the reader, see `check`.
        let _ = self.budget.memory(self.events.push(&event));
    }

    /// Notes that events of this CPU were lost before the next one.
    pub(crate) fn lost(&mut self, cpu: u32, events: Option<u64>) {
        let missing = self.missing.entry(cpu).or_insert(Some(0));
        *missing = missing.zip(events).map(|(before, more)| before.saturating_add(more));
    }

    /// Declares a CPU's events complete from this time on, unless the CPU already has events.
    pub(crate) fn complete_from(&mut self, cpu: u32, ns: u64) {
        self.complete_from_ns.entry(cpu).or_insert(ns);
        self.last_ns.entry(cpu).or_insert(ns);
    }

    /// Declares that nothing is missing before a CPU's first event: it had none before.
    pub(crate) fn is_whole(&mut self, cpu: u32) {
        self.whole.insert(cpu);
    }

    /// Declares the same of all CPUs that have events.
    pub(crate) fn all_whole(&mut self) {
        self.whole.extend(self.complete_from_ns.keys());
    }

    /// Notes the time of an event that is not added, because it has no decoded form.
    pub(crate) fn seen(&mut self, cpu: u32, ns: u64) {
        let last_ns = self.last_ns.entry(cpu).or_default();
        *last_ns = ns.max(*last_ns);
        self.complete_from_ns.entry(cpu).or_insert(ns);
    }

    /// The time of a CPU's last event, in nanoseconds.
    pub(crate) fn last_ns(&self, cpu: u32) -> Option<u64> {
        self.last_ns.get(&cpu).copied()
    }

    /// Adds an event (`system/event`) to those recorded.
    pub(crate) fn has(&mut self, event: &str) {
        if self.recorded.len() < 10_000 && !self.recorded.contains(event) {
            self.recorded.insert(event.to_owned());
        }
    }

    /// Like [`Self::has`], for an event that is often added again.
    pub(crate) fn has_named(&mut self, system: &str, event: &str) {
        if self.named.len() < 10_000 && !self.named.contains(event) {
            self.named.insert(event.to_owned());
            self.has(&format!("{system}/{event}"));
        }
    }

    /// Charges the names that were added to the trace, and fails if the file has exceeded its
    /// budget, so that nothing more needs to be read.
    pub(crate) fn check(&mut self, names: &Names) -> Result<()> {
        let bytes = names.memory_bytes();
        let new = bytes - std::mem::replace(&mut self.name_bytes, bytes);
        let charged = self.budget.memory(new);
        self.budget.check().and(charged).map_err(Error::exceeded)
    }

    /// Fills in the trace's events, losses, start times and recorded events.
    ///
    /// # Errors
    /// If there are too many events.
    pub(crate) fn finish(mut self, into: &mut Foreign) -> Result<()> {
        self.check(&into.trace.names)?;
        for (cpu, events) in std::mem::take(&mut self.missing) {
            let after_ns = self.last_ns.get(&cpu).copied().unwrap_or(0);
            self.losses.push(Loss { cpu, after_ns, before_ns: u64::MAX, events, damaged: false });
        }
        // Events with the same time stay in file order.
        self.losses.sort_by_key(|loss| (loss.after_ns, loss.cpu));
        into.trace.packed = self.events.sorted();
        into.trace.losses = self.losses;
        into.trace.complete_from_ns = self.complete_from_ns;
        into.trace.recorded = self.recorded.into_iter().collect();
        into.trace.begin_whole(&self.whole);
        Ok(())
    }
}
