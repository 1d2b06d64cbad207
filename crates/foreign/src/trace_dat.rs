//! trace-cmd's `trace.dat`, versions 6 and 7 (trace-cmd.dat.v6(5), trace-cmd.dat.v7(5)). It
//! contains the kernel's own pages and format files, which `tracefs` reads. Must not know what is
//! in a page.

mod bytes;
mod v6;
mod v7;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::rc::Rc;

use roundtrip_files::Budget;
use roundtrip_tracefs::{CpuReader, Formats};

use crate::collect::MOST_CPUS;
use crate::error::{Error, Result};
use crate::opening::Source;
use crate::threads::Threads;
use crate::{BYTES_EACH, Foreign, Tool};
use bytes::Bytes;

const FORM: &str = "trace-cmd's trace.dat";

/// How much memory a format takes, times the length of its text.
const FORMAT_RATIO: usize = 4;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Whether the bytes are a `trace.dat`.
pub(crate) fn is(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The contents that both versions have, in different places.
#[derive(Default)]
struct Parts<'a> {
    header_page: String,
    header_event: String,
    /// System, event, format.
    formats: Vec<(Rc<str>, String, String)>,
    kallsyms: String,
    printk: String,
    cmdlines: String,
    tgids: String,
    uname: String,
    clock: Option<String>,
    /// Per-CPU statistics, as text.
    stats: Vec<String>,
    /// The buffer's pages, by CPU.
    cpus: BTreeMap<u32, Box<dyn Read + 'a>>,
    /// The number of other instances' buffers, which are not read.
    other_buffers: usize,
    /// Whether times must be shifted or scaled.
    shifted: bool,
    damage: Option<String>,
    /// Whether the pages are best read in the order of the file.
    in_order: bool,
    /// Why pages could not be read to their end.
    cut: Rc<OnceCell<String>>,
    /// How many bytes of the file its pages had so far.
    page_bytes: u64,
}

impl<'a> Parts<'a> {
    fn damaged(&mut self, what: impl Into<String>) {
        self.damage.get_or_insert(what.into());
    }

    /// About how much memory the texts take and what is made of them, in bytes.
    fn memory_bytes(&self) -> usize {
        let formats: usize = self.formats.iter().map(|(_, event, text)| event.len() + text.len()).sum();
        let texts = [&self.printk, &self.cmdlines, &self.tgids, &self.kallsyms].map(String::len);
        let lines = [&self.printk, &self.kallsyms].map(|text| text.lines().count());
        FORMAT_RATIO * formats + texts.iter().sum::<usize>() + lines.iter().sum::<usize>() * BYTES_EACH
    }

    /// Counts the bytes of a CPU's pages. Those of different CPUs do not overlap, so all of them
    /// are no longer than the file.
    fn spend(&mut self, length: u64, file: u64) -> Result<(), &'static str> {
        self.page_bytes = self.page_bytes.saturating_add(length);
        if self.page_bytes > file { Err("they are also those of another CPU") } else { Ok(()) }
    }

    /// The pages of a CPU, so many bytes from this place on, as far as the file contains them.
    fn pages(&mut self, cpu: u32, place: &Bytes<'a>, length: u64) {
        if let Err(what) = self.spend(length.min(place.rest()), place.length()) {
            return self.damaged(format!("in the pages of CPU {cpu}: {what}"));
        }
        let (reader, whole) = place.reader(length);
        if !whole {
            self.damaged(format!("it is cut off in the pages of CPU {cpu}"));
        }
        self.cpus.insert(cpu, Box::new(Noting { reader, cpu, cut: Rc::clone(&self.cut) }));
    }
}

/// Notes why a CPU's pages cannot be read.
struct Noting<R> {
    reader: R,
    cpu: u32,
    cut: Rc<OnceCell<String>>,
}

impl<R: Read> Read for Noting<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(into).inspect_err(|error| {
            // Only the first is reported.
            let _ = self.cut.set(format!("in the pages of CPU {}: {error}", self.cpu));
        })
    }
}

/// Reads a `trace.dat`.
///
/// # Errors
/// Those of [`crate::read`].
pub(crate) fn read(all: Source<'_>, budget: &Budget) -> Result<Foreign> {
    let unreadable = |what: String| Error::Unreadable { form: FORM, what };
    let in_order = all.is_packed();
    let mut head = Bytes::new(all, MAGIC.len() as u64);
    let version = head.text().map_err(unreadable)?;
    if head.u8().map_err(unreadable)? != 0 {
        let what = "it was recorded on a big-endian machine, which this program does not read".to_owned();
        return Err(Error::Unsupported { form: FORM, what });
    }
    head.u8().map_err(unreadable)?;
    head.u32().map_err(unreadable)?;
    let parts = match version.as_str() {
        "6" => v6::read(head),
        "7" => v7::read(head),
        other => {
            let what = format!("version {other:.8} is not supported, only 6 and 7: use `trace-cmd convert`");
            return Err(Error::Unsupported { form: FORM, what });
        }
    };
    foreign(Parts { in_order, ..parts.map_err(unreadable)? }, budget)
}

fn foreign(mut parts: Parts<'_>, budget: &Budget) -> Result<Foreign> {
    budget.memory(parts.memory_bytes()).map_err(Error::exceeded)?;
    let mut foreign = Foreign::new(Tool::TraceCmd);
    if parts.shifted {
        let what = "its times follow another machine's clock, or are processor ticks: record with `-C boot`";
        return Err(Error::Unsupported { form: FORM, what: what.to_owned() });
    }
    let formats =
        formats(&parts).map_err(|error| Error::Unreadable { form: FORM, what: error.to_string() })?;
    let dropped = parts.stats.iter().filter_map(|text| statistics(text)).collect::<BTreeMap<_, _>>();
    let cpus = std::mem::take(&mut parts.cpus).into_iter().map(|(cpu, pages)| {
        let dropped = dropped.get(&cpu).map_or(0, |&(_, dropped)| dropped);
        CpuReader { cpu, pages, dropped }
    });
    foreign.lost_events = dropped.values().map(|(overrun, dropped)| overrun.saturating_add(*dropped)).sum();
    let read =
        if parts.in_order { roundtrip_tracefs::read_packed_in_turn } else { roundtrip_tracefs::read_packed };
    let mut trace = read(&formats, cpus.collect(), budget).map_err(|error| match error {
        roundtrip_tracefs::Error::TooMany(exceeded) => Error::exceeded(exceeded),
        error => Error::Unreadable { form: FORM, what: error.to_string() },
    })?;
    // trace-cmd also stores the formats of events that were off.
    trace.recorded = trace.occurred.iter().filter(|event| !event.starts_with("ftrace/")).cloned().collect();
    let whole = dropped.iter().filter(|(_, (overrun, _))| *overrun == 0).map(|(&cpu, _)| cpu);
    trace.begin_whole(&whole.collect());
    let mut threads = Threads::new(budget);
    for line in parts.tgids.lines() {
        let mut words = line.split_whitespace().map(str::parse);
        if let (Some(Ok(tid)), Some(Ok(process))) = (words.next(), words.next()) {
            threads.set_process(tid, process);
        }
    }
    let mut uname = parts.uname.split_whitespace();
    foreign.release = uname.nth(2).unwrap_or_default().to_owned();
    trace.machine = uname.last().unwrap_or_default().to_owned();
    for line in parts.cmdlines.lines() {
        if let Some((tid, comm)) = line.split_once(' ')
            && let Ok(tid) = tid.parse()
        {
            threads.add_name(tid, comm);
        }
    }
    budget.check().map_err(Error::exceeded)?;
    (trace.processes, trace.comms) = (threads.processes, threads.comms);
    foreign.clock = parts.clock.take().map(|text| chosen(&text).to_owned());
    if parts.other_buffers > 0 {
        let many = parts.other_buffers;
        foreign
            .notes
            .push(format!("it contains {many} more buffers of other instances, which were not read"));
    }
    if let Some(what) = parts.damage.as_ref().or(parts.cut.get()).cloned() {
        foreign.damaged(what);
    }
    let damaged: Vec<String> = trace.damaged().iter().map(u32::to_string).collect();
    if !damaged.is_empty() {
        foreign.damaged(format!("pages of CPU {} are damaged", damaged.join(", ")));
    }
    foreign.trace = trace;
    Ok(foreign)
}

fn formats(parts: &Parts<'_>) -> Result<Formats, roundtrip_tracefs::Error> {
    // trace-cmd always stores the formats of the group `ftrace`. Only `print`, which user space
    // writes, is used.
    let wanted = |system: &str, event: &str| system != "ftrace" || event == "print";
    let mut numbers = std::collections::BTreeSet::new();
    let events = parts.formats.iter().filter(|(system, event, text)| {
        let number = text.lines().find_map(|line| line.strip_prefix("ID:"));
        wanted(system, event) && number.is_some_and(|number| numbers.insert(number.trim().to_owned()))
    });
    let events = events.map(|(system, event, text)| (&**system, event.as_str(), text.as_str()));
    let formats = Formats::parse(&parts.header_page, &parts.header_event, events, &parts.printk)?;
    Ok(formats.with_kallsyms(&parts.kallsyms))
}

/// The selected clock: the one in brackets (`local global [boot]`), or a single name.
fn chosen(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(inside, _)| inside);
    inside.unwrap_or(text).trim()
}

/// A CPU, how many of its events were overwritten, and how many were dropped without a mark.
fn statistics(text: &str) -> Option<(u32, (u64, u64))> {
    let of = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse::<u64>().ok())
    };
    let cpu = u32::try_from(of("CPU")?).ok().filter(|&cpu| cpu < MOST_CPUS)?;
    let dropped = of("commit overrun").unwrap_or(0).saturating_add(of("dropped events").unwrap_or(0));
    Some((cpu, (of("overrun").unwrap_or(0), dropped)))
}

#[cfg(test)]
mod tests;
