//! Reads a recording in progress: pages arrive as the kernel fills them, and each event is returned
//! once. The latest pages are kept for a while, so that the time before an incident can still be
//! stored after the incident. Must not know where pages come from.

use std::collections::{BTreeMap, VecDeque};

use crate::error::Error;
use crate::event::Event;
use crate::formats::Formats;
use crate::merge::{CpuPages, Period, read};
use crate::snapshot::{CpuSnapshot, CpuStats, Snapshot};
use crate::trace::Trace;

/// The pages of a recording in progress.
#[derive(Debug)]
pub struct Stream {
    formats: Formats,
    keep_ns: u64,
    most_bytes: usize,
    cpus: BTreeMap<u32, Kept>,
    /// From this instant on, all received pages are kept.
    complete_from_ns: u64,
}

/// The pages of one CPU that are kept.
#[derive(Debug, Default)]
struct Kept {
    pages: VecDeque<Vec<u8>>,
    stats: CpuStats,
    /// The time of the last returned event, and the number of events with that time.
    last: (u64, usize),
    /// The same for the last event that was looked at.
    seen: (u64, usize),
    /// How many pages begin no later than the last returned event. Counted as pages arrive: there
    /// are thousands of pages, and counting them again for each page took a third of an observer's
    /// time.
    begun: usize,
}

impl Kept {
    /// The start time of a page, in nanoseconds of the trace's clock. It is in the running
    /// machine's byte order.
    fn begins_ns(page: &[u8]) -> u64 {
        page.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// The first page that may contain an event that was not returned yet.
    fn unread(&self) -> usize {
        self.begun.saturating_sub(1)
    }

    /// Counts again how many pages begin no later than the last returned event, after more events
    /// were returned.
    fn count_begun(&mut self) {
        let more = self.pages.iter().skip(self.begun);
        self.begun += more.take_while(|page| Self::begins_ns(page) <= self.last.0).count();
    }

    fn drop_oldest(&mut self) {
        self.begun -= usize::from(self.pages.pop_front().is_some() && self.begun > 0);
    }

    /// The bytes of all pages from the `first` one on. Copied page by page: byte by byte took a
    /// third of an observer's time.
    fn bytes_from(&self, first: usize) -> Vec<u8> {
        let pages = self.pages.iter().skip(first);
        let mut bytes = Vec::with_capacity(pages.clone().map(Vec::len).sum());
        pages.for_each(|page| bytes.extend_from_slice(page));
        bytes
    }

    /// Whether all events of the oldest page have been returned, and the page ended before an
    /// instant.
    fn oldest_ended_before(&self, ns: u64) -> bool {
        self.unread() > 0 && self.pages.get(1).is_some_and(|next| Self::begins_ns(next) < ns)
    }

    /// Whether an event is new. Marks it as returned.
    fn is_new(&mut self, event: &Event) -> bool {
        let seen = &mut self.seen;
        // Events with the same time keep their order.
        *seen = if seen.0 == event.time_ns { (seen.0, seen.1 + 1) } else { (event.time_ns, 1) };
        let new = event.time_ns > self.last.0 || (event.time_ns == self.last.0 && seen.1 > self.last.1);
        if new {
            self.last = *seen;
        }
        new
    }
}

impl Stream {
    /// A stream for events with these formats. It keeps pages for `keep_ns` nanoseconds. Of pages
    /// that were already read before the last call, it keeps at most `most_bytes`.
    #[must_use]
    pub fn new(formats: Formats, keep_ns: u64, most_bytes: usize) -> Self {
        Self { formats, keep_ns, most_bytes, cpus: BTreeMap::new(), complete_from_ns: 0 }
    }

    /// Adds the contents of the CPUs' buffers, and returns the new events in chronological order.
    /// `until_ns` is an instant on the trace's clock: every event before it must already have been
    /// in the buffers. Later events wait for the next call, when the pages of other CPUs have
    /// caught up. An event that reaches the buffers late is returned by a later call.
    ///
    /// # Errors
    /// As [`read`].
    pub fn take_in(&mut self, cpus: Vec<CpuSnapshot>, until_ns: u64) -> Result<Trace, Error> {
        // Old pages are dropped before anything is added, so that new pages are always kept until
        // the next call.
        self.drop_old(until_ns);
        let page_bytes = self.formats.page().size;
        for CpuSnapshot { cpu, stats, pages } in cpus {
            let kept = self.cpus.entry(cpu).or_default();
            kept.stats = stats;
            kept.pages.extend(pages.chunks_exact(page_bytes).map(<[u8]>::to_vec));
        }
        let unread: Vec<(u32, Vec<u8>)> =
            self.cpus.iter().map(|(&cpu, kept)| (cpu, kept.bytes_from(kept.unread()))).collect();
        let pages: Vec<CpuPages<'_>> =
            unread.iter().map(|(cpu, bytes)| CpuPages { cpu: *cpu, bytes, dropped: 0 }).collect();
        let mut trace = read(&self.formats, &pages, Period::default())?;
        let before: BTreeMap<u32, u64> = self.cpus.iter().map(|(&cpu, kept)| (cpu, kept.last.0)).collect();
        self.cpus.values_mut().for_each(|kept| kept.seen = (0, 0));
        trace.events.retain(|event| {
            let is_new = |kept: &mut Kept| kept.is_new(event);
            event.time_ns <= until_ns && self.cpus.get_mut(&event.cpu).is_some_and(is_new)
        });
        self.cpus.values_mut().for_each(Kept::count_begun);
        trace.losses.retain(|loss| {
            let before_ns = before.get(&loss.cpu).copied().unwrap_or(0);
            // A page that is read again reports its loss again.
            loss.before_ns > before_ns && loss.after_ns >= before_ns && loss.before_ns <= until_ns
        });
        Ok(trace)
    }

    /// Drops old pages.
    fn drop_old(&mut self, until_ns: u64) {
        let from_ns = until_ns.saturating_sub(self.keep_ns);
        let page_bytes = self.formats.page().size;
        let mut bytes: usize = self.cpus.values().map(|kept| kept.pages.len() * page_bytes).sum();
        for kept in self.cpus.values_mut() {
            while kept.oldest_ended_before(from_ns) {
                kept.drop_oldest();
                bytes -= page_bytes;
            }
        }
        self.complete_from_ns = self.complete_from_ns.max(from_ns);
        while bytes > self.most_bytes {
            let ended = |kept: &Kept| kept.pages.get(1).map(|next| Kept::begins_ns(next));
            let oldest = self.cpus.values_mut().filter(|kept| kept.unread() > 0);
            let Some((ended_ns, kept)) =
                oldest.filter_map(|kept| Some((ended(kept)?, kept))).min_by_key(|(ended_ns, _)| *ended_ns)
            else {
                break;
            };
            kept.drop_oldest();
            bytes -= page_bytes;
            self.complete_from_ns = self.complete_from_ns.max(ended_ns);
        }
    }

    /// The kept pages from an instant on, in nanoseconds of the trace's clock.
    #[must_use]
    pub fn snapshot(&self, from_ns: u64) -> Snapshot {
        let cpus = self.cpus.iter().map(|(&cpu, kept)| {
            // The last page that starts before it may contain later events.
            let old = kept.pages.partition_point(|page| Kept::begins_ns(page) <= from_ns);
            CpuSnapshot { cpu, stats: kept.stats, pages: kept.bytes_from(old.saturating_sub(1)) }
        });
        let started_ns = Some(self.complete_from_ns.max(from_ns));
        Snapshot { started_ns, cpus: cpus.collect(), ..Snapshot::default() }
    }

    /// Reads a snapshot of the kept pages, including events that were already returned.
    ///
    /// # Errors
    /// As [`read`].
    pub fn read(&self, snapshot: &Snapshot) -> Result<Trace, Error> {
        let pages: Vec<CpuPages<'_>> = snapshot
            .cpus
            .iter()
            .map(|one| CpuPages { cpu: one.cpu, bytes: &one.pages, dropped: 0 })
            .collect();
        read(&self.formats, &pages, Period { started_ns: snapshot.started_ns, stopped_ns: None })
    }

    /// How many bytes are kept.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.cpus.values().flat_map(|kept| &kept.pages).map(Vec::len).sum()
    }
}
