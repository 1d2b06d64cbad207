//! Merges all CPUs' pages into one trace in chronological order. Must not know where the pages came
//! from.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::cursor::Cursor;
use crate::decode::{Decoder, Refused};
use crate::error::Error;
use crate::event::Event;
use crate::fields::Others;
use crate::formats::{Formats, PageLayout};
use crate::page::looks_big_endian;
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
    let mut trace = Trace { stopped_ns: period.stopped_ns, ..Trace::default() };
    trace.recorded = formats.iter().map(|format| format!("{}/{}", format.system, format.name)).collect();
    trace.recorded.sort();
    let mut cursors = cursors(formats.page(), cpus, period)?;

    // An event takes about 50 bytes. The reservation is limited, because the pages may be invalid.
    let about = cpus.iter().map(|pages| pages.bytes.len()).sum::<usize>() / 50;
    trace.events.reserve(about.min(1 << 20));
    let mut bytes = Vec::new();
    let mut decoder = Decoder::new(formats, &mut trace.names, &mut bytes);
    let mut turns = BinaryHeap::new();
    let mut next: Vec<Option<Event>> = Vec::new();
    for (index, (cursor, pages)) in cursors.iter_mut().zip(cpus).enumerate() {
        let before = trace.losses.len();
        let first = advance(cursor, &mut decoder, &mut trace.losses)?;
        let first_ns = first.map(|event| event.time_ns);
        let whole = trace.losses.len() == before;
        let started_ns = period.started_ns.filter(|_| whole);
        if let Some(from_ns) = first_ns.into_iter().chain(started_ns).min() {
            trace.complete_from_ns.insert(cursor.cpu, from_ns);
        }
        if let Some(first_ns) = first_ns {
            turns.push(Reverse((first_ns, cursor.cpu, index)));
        }
        next.push(first);
        if pages.dropped > 0 {
            let after_ns = first_ns.or(period.started_ns).unwrap_or(0);
            trace.losses.push(Loss {
                cpu: pages.cpu,
                after_ns,
                before_ns: u64::MAX,
                events: Some(pages.dropped),
                damaged: false,
            });
        }
    }

    while let Some(Reverse((_, cpu, index))) = turns.pop() {
        let turn = turns.peek().map(|Reverse((time_ns, cpu, _))| (*time_ns, *cpu));
        // This CPU continues until another one has an earlier event, most often for many events.
        while let Some(event) = next[index] {
            if turn.is_some_and(|turn| turn < (event.time_ns, cpu)) {
                turns.push(Reverse((event.time_ns, cpu, index)));
                break;
            }
            trace.events.push(event);
            next[index] = advance(&mut cursors[index], &mut decoder, &mut trace.losses)?;
        }
    }
    trace.losses.sort_by_key(|loss| (loss.after_ns, loss.cpu));
    trace.others = Others { formats: formats.clone(), bytes };
    Ok(trace)
}

/// A cursor for each CPU's pages.
fn cursors<'a>(layout: PageLayout, cpus: &[CpuPages<'a>], period: Period) -> Result<Vec<Cursor<'a>>, Error> {
    let mut cursors: Vec<Cursor<'_>> = Vec::new();
    for pages in cpus {
        if cursors.iter().any(|cursor| cursor.cpu == pages.cpu) {
            return Err(Error::CpuTwice { cpu: pages.cpu });
        }
        if !pages.bytes.is_empty()
            && pages.bytes.chunks(layout.size).all(|page| looks_big_endian(layout, page))
        {
            return Err(Error::BigEndian { cpu: pages.cpu });
        }
        cursors.push(Cursor::new(layout, pages.cpu, pages.bytes, period.stopped_ns));
    }
    Ok(cursors)
}

/// A CPU's next event.
#[inline]
fn advance(
    cursor: &mut Cursor<'_>,
    decoder: &mut Decoder<'_>,
    losses: &mut Vec<Loss>,
) -> Result<Option<Event>, Error> {
    while let Some(record) = cursor.next() {
        match decoder.decode(cursor.cpu, record) {
            Ok(event) => {
                cursor.accept(record, losses);
                return Ok(Some(event));
            }
            Err(Refused::Damaged) => cursor.refuse(),
            Err(Refused::Error(error)) => return Err(error),
        }
    }
    losses.extend(cursor.finish());
    Ok(None)
}
