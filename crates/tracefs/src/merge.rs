//! Merges all CPUs' pages into one trace in chronological order. Must not know where the pages came
//! from.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::io::Read;

use roundtrip_files::Budget;

use crate::cursor::Cursor;
use crate::decode::{Decoder, Refused};
use crate::error::Error;
use crate::event::Event;
use crate::fields::Others;
use crate::formats::{Formats, PageLayout};
use crate::packed::Packed;
use crate::page::looks_big_endian;
use crate::pages::Pages;
use crate::trace::{Loss, Trace};

/// One CPU's part of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuPages<'a> {
    /// The CPU.
    pub cpu: u32,
    /// Its pages from `per_cpu/cpuN/trace_pipe_raw`, one after the other.
    pub bytes: &'a [u8],
    /// Events that the kernel dropped without a mark in the pages (`dropped events` and `commit
    /// overrun` in `per_cpu/cpuN/stats`), because a full buffer does not overwrite, or an interrupt
    /// came during a write. Where they are missing is unknown.
    pub dropped: u64,
}

/// The same, read a few pages at a time. What comes before a failure of the reader counts.
pub struct CpuReader<'a> {
    /// The CPU.
    pub cpu: u32,
    /// A reader of its pages.
    pub pages: Box<dyn Read + 'a>,
    /// As in [`CpuPages`].
    pub dropped: u64,
}

impl std::fmt::Debug for CpuReader<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("CpuReader").field("cpu", &self.cpu).field("dropped", &self.dropped).finish()
    }
}

/// A CPU's pages, and events that were dropped without a mark in them.
struct Source<'a> {
    cpu: u32,
    pages: Pages<'a>,
    dropped: u64,
}

/// When a recording started and stopped, on its own clock, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// An instant, in nanoseconds, at which it was already on, with no older events in the buffers.
    pub started_ns: Option<u64>,
    /// An instant, in nanoseconds, at which it was already off.
    pub stopped_ns: Option<u64>,
}

/// Reads a recording. Fills in the trace's events, losses, names, ends and recorded events (those
/// with a format). Processes and the machine's name are left to the caller.
///
/// Damage does not stop the reading: the rest of a damaged page is skipped and reported as a
/// [`Loss`]. If the time of a CPU steps back by less than 10 µs between pages (which the kernel's
/// clock may do), it is raised to the previous time.
///
/// # Errors
///
/// [`Error::BigEndian`], [`Error::CpuTwice`], and [`Error::TooLarge`].
pub fn read(formats: &Formats, cpus: &[CpuPages<'_>], period: Period) -> Result<Trace, Error> {
    read_within(formats, cpus, period, &Budget::unlimited())
}

/// Like [`read`], but reads at most as many events as the budget has items.
///
/// # Errors
///
/// Those of [`read`], and [`Error::TooMany`].
pub(crate) fn read_within(
    formats: &Formats,
    cpus: &[CpuPages<'_>],
    period: Period,
    budget: &Budget,
) -> Result<Trace, Error> {
    // An event takes about 50 bytes. The reservation is limited, because the pages may be invalid.
    let about = cpus.iter().map(|pages| pages.bytes.len()).sum::<usize>() / 50;
    let mut events = Vec::with_capacity(about.min(1 << 20));
    let size = formats.page().size;
    let sources = cpus.iter().map(|one| {
        let CpuPages { cpu, bytes, dropped } = *one;
        Source { cpu, pages: Pages::memory(size, bytes), dropped }
    });
    let trace = merged(formats, vec![sources.collect()], period, |event, _| {
        budget.item().map_err(Error::TooMany)?;
        if events.len() == events.capacity() {
            // Grow by a quarter: doubling could reserve twice the memory that is needed.
            events.reserve_exact((events.len() / 4).max(1024));
        }
        events.push(event);
        Ok(())
    })?;
    Ok(Trace { events, ..trace })
}

/// Like [`read`], for recordings of many events: they are packed, see [`Trace::all`], and only a
/// few pages are in memory at once.
///
/// # Errors
///
/// Those of [`read`], and [`Error::TooMany`] if they exceed the budget, of which each event is an
/// item.
pub fn read_packed(formats: &Formats, cpus: Vec<CpuReader<'_>>, budget: &Budget) -> Result<Trace, Error> {
    packed(formats, vec![cpus], budget)
}

/// Like [`read_packed`], for pages that are best read in the order of the file: one CPU after the
/// other, in this order.
///
/// # Errors
///
/// Those of [`read_packed`].
pub fn read_packed_in_turn(
    formats: &Formats,
    cpus: Vec<CpuReader<'_>>,
    budget: &Budget,
) -> Result<Trace, Error> {
    packed(formats, cpus.into_iter().map(|one| vec![one]).collect(), budget)
}

fn packed<'a>(formats: &Formats, groups: Vec<Vec<CpuReader<'a>>>, budget: &Budget) -> Result<Trace, Error> {
    let mut packed = Packed::default();
    let size = formats.page().size;
    let source = |one: CpuReader<'a>| {
        let CpuReader { cpu, pages, dropped } = one;
        Source { cpu, pages: Pages::reader(size, pages), dropped }
    };
    let groups = groups.into_iter().map(|cpus| cpus.into_iter().map(source).collect());
    let trace = merged(formats, groups.collect(), Period::default(), |event, bytes| {
        budget.item().map_err(Error::TooMany)?;
        budget.memory(packed.push(&event) + bytes).map_err(Error::TooMany)
    })?;
    Ok(Trace { packed: packed.sorted(), ..trace })
}

/// All events of each group of CPUs in chronological order go to `keep`, group after group, with
/// the memory that their names and bytes take, in bytes. Returns everything else of the trace.
fn merged(
    formats: &Formats,
    groups: Vec<Vec<Source<'_>>>,
    period: Period,
    mut keep: impl FnMut(Event, usize) -> Result<(), Error>,
) -> Result<Trace, Error> {
    let mut trace = Trace { stopped_ns: period.stopped_ns, ..Trace::default() };
    trace.recorded = formats.iter().map(|format| format!("{}/{}", format.system, format.name)).collect();
    trace.recorded.sort();
    let mut bytes = Vec::new();
    let mut decoder = Decoder::new(formats, &mut trace.names, &mut bytes);
    let mut group = Group {
        layout: formats.page(),
        period,
        cpus: BTreeSet::new(),
        losses: &mut trace.losses,
        complete_from_ns: &mut trace.complete_from_ns,
    };
    for sources in groups {
        group.merge(sources, &mut decoder, &mut keep)?;
    }
    let occurred = decoder.occurred();
    trace.occurred = occurred.into_iter().map(|name| trace.names.text(name).to_owned()).collect();
    trace.losses.sort_by_key(|loss| (loss.after_ns, loss.cpu));
    trace.others = Others { formats: formats.clone(), bytes };
    Ok(trace)
}

/// Merges groups of CPUs, one after the other.
struct Group<'a> {
    layout: PageLayout,
    period: Period,
    /// The CPUs so far.
    cpus: BTreeSet<u32>,
    losses: &'a mut Vec<Loss>,
    complete_from_ns: &'a mut BTreeMap<u32, u64>,
}

impl Group<'_> {
    fn merge(
        &mut self,
        sources: Vec<Source<'_>>,
        decoder: &mut Decoder<'_>,
        keep: &mut impl FnMut(Event, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let dropped: Vec<u64> = sources.iter().map(|source| source.dropped).collect();
        let mut cursors = self.cursors(sources)?;
        let mut turns = BinaryHeap::new();
        let mut next: Vec<Option<Event>> = Vec::new();
        for (index, (cursor, dropped)) in cursors.iter_mut().zip(dropped).enumerate() {
            let before = self.losses.len();
            let first = advance(cursor, decoder, self.losses)?;
            let first_ns = first.map(|event| event.time_ns);
            let whole = self.losses.len() == before;
            let started_ns = self.period.started_ns.filter(|_| whole);
            if let Some(from_ns) = first_ns.into_iter().chain(started_ns).min() {
                self.complete_from_ns.insert(cursor.cpu, from_ns);
            }
            if let Some(first_ns) = first_ns {
                turns.push(Reverse((first_ns, cursor.cpu, index)));
            }
            next.push(first);
            if dropped > 0 {
                let after_ns = first_ns.or(self.period.started_ns).unwrap_or(0);
                self.losses.push(Loss {
                    cpu: cursor.cpu,
                    after_ns,
                    before_ns: u64::MAX,
                    events: Some(dropped),
                    damaged: false,
                });
            }
        }
        while let Some(Reverse((_, cpu, index))) = turns.pop() {
            let turn = turns.peek().map(|Reverse((time_ns, cpu, _))| (*time_ns, *cpu));
            // This CPU continues until another one has an earlier event, most often for many
            // events.
            while let Some(event) = next[index] {
                if turn.is_some_and(|turn| turn < (event.time_ns, cpu)) {
                    turns.push(Reverse((event.time_ns, cpu, index)));
                    break;
                }
                keep(event, decoder.grown_bytes())?;
                next[index] = advance(&mut cursors[index], decoder, self.losses)?;
            }
        }
        Ok(())
    }

    /// A cursor for each CPU's pages.
    fn cursors<'s>(&mut self, sources: Vec<Source<'s>>) -> Result<Vec<Cursor<'s>>, Error> {
        let Self { layout, period, .. } = *self;
        let mut cursors = Vec::with_capacity(sources.len());
        for Source { cpu, mut pages, .. } in sources {
            if !self.cpus.insert(cpu) {
                return Err(Error::CpuTwice { cpu });
            }
            if pages.all_first(|page| looks_big_endian(layout, page)) {
                return Err(Error::BigEndian { cpu });
            }
            cursors.push(Cursor::new(layout, cpu, pages, period.stopped_ns));
        }
        Ok(cursors)
    }
}

/// A CPU's next event.
#[inline]
fn advance(
    cursor: &mut Cursor<'_>,
    decoder: &mut Decoder<'_>,
    losses: &mut Vec<Loss>,
) -> Result<Option<Event>, Error> {
    let cpu = cursor.cpu;
    while let Some(record) = cursor.next() {
        let time_ns = record.time_ns;
        match decoder.decode(cpu, record) {
            Ok(event) => {
                cursor.accept(time_ns, losses);
                return Ok(Some(event));
            }
            Err(Refused::Damaged) => cursor.refuse(),
            Err(Refused::Error(error)) => return Err(error),
        }
    }
    losses.extend(cursor.finish());
    Ok(None)
}
