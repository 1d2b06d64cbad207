//! The kernel's text of a trace: `/sys/kernel/tracing/trace` and `trace_pipe`, atrace's output,
//! what `trace-cmd report` and `perf script` print, and the HTML page that systrace writes around
//! it. Reads it line by line, so that memory depends only on what is kept. Must not know what
//! events mean.

mod calls;
mod dump;
mod event_text;
mod latency;
mod line;
mod perf;
mod plain;
mod report;
mod storage;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};

use roundtrip_files::Budget;
use roundtrip_tracefs::{Body, Event};

use crate::bodies;
use crate::collect::{Collected, MOST_CPUS};
use crate::error::{Error, Result};
use crate::opening::failure;
use crate::threads::Threads;
use crate::{Foreign, Tool};
use dump::Dump;
pub(crate) use dump::program;
use event_text::EventText;
use line::Line;

/// A file with at least this many unreadable lines counts as damaged. Fewer are normal: Android's
/// tools print a few lines between the kernel's.
const MANY_UNREADABLE: u64 = 20;

/// The longest line that is read, in bytes. The kernel's are shorter than a page.
const MOST_LINE_BYTES: u64 = 1 << 16;

/// Reads a line of one of the kernel's forms.
fn of_the_kernel(text: &str) -> Option<Line<'_>> {
    brackets(text).find_map(|at| plain::with_cpu_at(text, at)).or_else(|| latency::line(text))
}

/// Reads a line of `perf script`.
fn of_perf(text: &str) -> Option<Line<'_>> {
    brackets(text).find_map(|at| perf::with_cpu_at(text, at))
}

/// Where a line's CPU may begin. Thread names may contain brackets.
fn brackets(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices('[').take(8).map(|(at, _)| at)
}

/// Reads the kernel's text; `None` if it contains no events.
///
/// # Errors
/// Those of [`crate::read_within`].
pub(crate) fn read(mut input: impl BufRead, budget: &Budget) -> Result<Option<Foreign>> {
    let mut reader = Reader::new(budget);
    let mut foreign = Foreign::new(Tool::Text);
    let mut bytes = Vec::new();
    for number in 1.. {
        budget.step().map_err(Error::exceeded)?;
        reader.collected.check(&foreign.trace.names)?;
        match next_line(&mut input, &mut bytes) {
            Ok(true) => reader.line(number, &String::from_utf8_lossy(&bytes), &mut foreign),
            Ok(false) => break,
            Err(error) => {
                foreign.damaged(format!("after line {}: {}", number - 1, failure(&error)?));
                break;
            }
        }
    }
    if reader.found == 0 {
        return Ok(None);
    }
    if reader.unreadable >= MANY_UNREADABLE {
        let (first, many) = (reader.first_unreadable, reader.unreadable);
        foreign.damaged(format!("{many} lines are not in the kernel's format, the first at line {first}"));
    }
    foreign.notes.push("the kernel's text rounds times to microseconds".to_owned());
    if reader.lost_before > 0 {
        foreign.notes.push(format!(
            "the trace's buffer was full: its oldest {} events were overwritten",
            reader.lost_before
        ));
    }
    foreign.lost_events = reader.lost;
    if reader.by_perf && reader.lost == 0 {
        foreign.notes.push(
            "perf script prints how many events were lost only with `--show-lost-events`, and then as lines \
             of this text; there are none"
                .to_owned(),
        );
    }
    if !reader.undecoded.is_empty() {
        let events: Vec<String> =
            reader.undecoded.iter().take(5).map(|(name, events)| format!("{name} ({events})")).collect();
        foreign.notes.push(format!(
            "events with another text than this program knows were left out: {}",
            events.join(", ")
        ));
    }
    if reader.complete {
        reader.collected.all_whole();
    }
    reader.collected.finish(&mut foreign)?;
    foreign.trace.processes = reader.threads.processes;
    foreign.trace.comms = reader.threads.comms;
    // Only x86 has these events.
    if foreign.trace.recorded.iter().any(|event| event.starts_with("irq_vectors/")) {
        "x86_64".clone_into(&mut foreign.trace.machine);
    }
    Ok(Some(foreign))
}

/// Whether a text contains an event.
pub(crate) fn has_events(mut input: impl BufRead) -> bool {
    let mut bytes = Vec::new();
    while next_line(&mut input, &mut bytes).unwrap_or(false) {
        let text = String::from_utf8_lossy(&bytes);
        if of_the_kernel(&text).or_else(|| of_perf(&text)).is_some() {
            return true;
        }
    }
    false
}

/// Reads the next line, or as much of it as a line may have. Returns whether there is one.
fn next_line(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    input.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', bytes)?;
    if bytes.len() as u64 == MOST_LINE_BYTES && bytes.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
    }
    Ok(!bytes.is_empty())
}

struct Reader<'b> {
    collected: Collected<'b>,
    threads: Threads<'b>,
    found: u64,
    unreadable: u64,
    first_unreadable: u64,
    /// Events that have a decoded form but lack one of its fields: how many, by name.
    undecoded: BTreeMap<String, u64>,
    lost: u64,
    lost_before: u64,
    /// Whether the header says that the buffers kept every event.
    complete: bool,
    /// Whether `perf script` wrote the text.
    by_perf: bool,
    dump: Dump,
}

impl<'b> Reader<'b> {
    fn new(budget: &'b Budget) -> Self {
        Self {
            collected: Collected::new(budget),
            threads: Threads::new(budget),
            found: 0,
            unreadable: 0,
            first_unreadable: 0,
            undecoded: BTreeMap::new(),
            lost: 0,
            lost_before: 0,
            complete: false,
            by_perf: false,
            dump: Dump::default(),
        }
    }

    fn line(&mut self, number: u64, text: &str, foreign: &mut Foreign) {
        // In systrace's page, the text is inside a script element. Until 2014, it was a string,
        // whose line ends were escaped.
        let text = text.trim_end();
        let text = text.strip_suffix("\\n\\").unwrap_or(text);
        if let Some(line) = of_the_kernel(text) {
            self.event(number, &line, foreign);
        } else if let Some(line) = of_perf(text) {
            self.by_perf = true;
            self.event(number, &line, foreign);
        } else if let Some((cpu, events)) = lost(text) {
            self.lost = self.lost.saturating_add(events.unwrap_or(0));
            self.collected.lost(cpu, events);
        } else if let Some(counts) = text
            .trim_start_matches("# ")
            .strip_prefix("entries-in-buffer/entries-written:")
            .or_else(|| latency::counts(text))
        {
            let mut counts = counts.split(['/', ' ', '#']).filter_map(|word| word.parse::<u64>().ok());
            if let (Some(kept), Some(written)) = (counts.next(), counts.next()) {
                self.lost_before = written.saturating_sub(kept);
                self.complete = written == kept;
            }
        } else if !self.dump.line(text, &mut self.threads)
            && self.found > 0
            && !text.is_empty()
            && !text.starts_with(['#', '<'])
            && !is_frame(text)
            && !perf::is_record(text)
        {
            self.unreadable(number);
        }
    }

    fn unreadable(&mut self, number: u64) {
        if self.unreadable == 0 {
            self.first_unreadable = number;
        }
        self.unreadable += 1;
    }

    fn event(&mut self, number: u64, line: &Line<'_>, foreign: &mut Foreign) {
        self.found += 1;
        if line.cpu >= MOST_CPUS {
            return self.unreadable(number);
        }
        if let Some(process) = line.process {
            self.threads.set_process(line.tid, process);
        }
        if line.tid != 0 && line.comm != "<...>" {
            self.threads.add_name(line.tid, line.comm);
        }
        // In the kernel's text, an event of trace_marker has the name of the function that wrote
        // it.
        let name = if line.event == "tracing_mark_write" { "print" } else { line.event };
        let rewritten = report::in_the_kernels_form(name, line.said);
        let said = EventText::new(name, rewritten.as_deref().unwrap_or(line.said), line.context);
        let system = bodies::system(name);
        let found = match calls::call(name, line.said) {
            None if !bodies::decodes(name) => {
                self.collected.seen(line.cpu, line.time_ns);
                return self.collected.has_named(system, name);
            }
            None => bodies::body(name, &said, &mut foreign.trace).map(|body| (body, None)),
            Some((body, event)) => Some((body, Some(event))),
        };
        let Some((body, event)) = found else {
            self.collected.seen(line.cpu, line.time_ns);
            *self.undecoded.entry(name.to_owned()).or_default() += 1;
            return;
        };
        match event {
            Some(event) => self.collected.has(&event),
            None => self.collected.has_named(system, name),
        }
        if let Body::Fork { child, .. } = body
            && let Some(&process) = self.threads.processes.get(&line.tid)
        {
            self.threads.add_process(child, process);
        }
        self.collected.add(Event { time_ns: line.time_ns, cpu: line.cpu, tid: line.tid, body });
    }
}

/// Whether a line is a stack frame below an event: the kernel's ` => function`, or perf's form.
fn is_frame(text: &str) -> bool {
    text.trim_start().starts_with("=> ") || perf::is_frame(text)
}

/// `CPU:3 [LOST 12 EVENTS]`; from `trace-cmd report` also `CPU:3 [12 EVENTS DROPPED]`; or perf's
/// form.
fn lost(text: &str) -> Option<(u32, Option<u64>)> {
    if let Some((cpu, events)) = perf::lost(text).filter(|&(cpu, _)| cpu < MOST_CPUS) {
        return Some((cpu, Some(events)));
    }
    let (cpu, rest) = text.trim_start().strip_prefix("CPU:")?.split_once(" [")?;
    let inside = rest.strip_suffix(']')?;
    let kernels = inside.strip_prefix("LOST ").and_then(|rest| rest.strip_suffix("EVENTS"));
    let events = kernels.or_else(|| inside.strip_suffix("EVENTS DROPPED"))?.trim();
    Some((cpu.parse().ok().filter(|&cpu| cpu < MOST_CPUS)?, events.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8]) -> Result<Option<Foreign>> {
        super::read(input, &Budget::unlimited())
    }

    #[test]
    fn a_text_that_names_too_many_threads_is_refused() {
        let line = |tid: usize| {
            format!(
                " x-{tid} ({tid}) [000] d..2. 1.000001: sched_waking: comm=x pid=5 prio=98 target_cpu=001\n"
            )
        };
        let text = |threads: usize| (1..=threads).map(line).collect::<String>();
        let budget = || Budget::new(1 << 20, u64::MAX, u64::MAX);
        assert!(super::read(text(1000).as_bytes(), &budget()).unwrap().is_some());
        let error = super::read(text(10_000).as_bytes(), &budget()).unwrap_err().to_string();
        assert!(error.contains("take more than 1 MiB of memory"), "{error}");
    }

    #[test]
    fn the_kernels_text_is_read_with_and_without_processes_and_flags() {
        let text = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 4/9   #P:2\n#\n\
            a b-c-12      (     10) [001] d..2.   100.000001: sched_switch: prev_comm=a b-c prev_pid=12 prev_prio=120 \
            prev_state=D ==> next_comm=swapper/1 next_pid=0 next_prio=120\n\
            CPU:1 [LOST 7 EVENTS]\n\
            <idle>-0       [001]   100.000005: sched_waking: comm=x prio=3 pid=5 prio=98 target_cpu=001\n\
            \x20    srv-7     (-----) [000] ....1   100.000009: binder_transaction: transaction=5 dest_node=0 dest_proc=4 \
            dest_thread=9 reply=1 flags=0x0 code=0x5f4e5446\n\
            \x20    srv-7     [000] .....   100.000010: other_event: anything\n";
        let mut foreign = read(text.as_bytes()).unwrap().unwrap();
        foreign.trace.unpack();
        let trace = &foreign.trace;
        assert_eq!(trace.events.len(), 3);
        let Body::Switch { prev, prev_state, next } = trace.events[0].body else { panic!("{trace:?}") };
        assert_eq!((prev.tid, prev_state.letter(), next.tid), (12, "D", 0));
        assert_eq!(trace.names.text(prev.comm), "a b-c");
        assert_eq!((trace.events[0].time_ns, trace.events[0].cpu), (100_000_001_000, 1));
        let Body::Waking { thread, target_cpu: 1, .. } = trace.events[1].body else { panic!("{trace:?}") };
        assert_eq!((thread.tid, thread.prio, trace.names.text(thread.comm)), (5, 98, "x prio=3"));
        let Body::BinderTransaction { debug_id: 5, to_thread: 9, reply: true, code: 0x5f4e_5446, .. } =
            trace.events[2].body
        else {
            panic!("{trace:?}")
        };
        assert_eq!(trace.processes, [(12, 10)].into());
        assert_eq!((foreign.lost_events, trace.losses.len()), (7, 1));
        assert!(trace.has("other/other_event") && foreign.damage.is_none());
        assert!(foreign.notes.iter().any(|note| note.contains("oldest 5 events")));
    }

    #[test]
    fn other_text_is_refused() {
        assert!(read(&b"hello\nworld [000] 1.0: x"[..]).unwrap().is_none());
        assert!(read(&b""[..]).unwrap().is_none());
    }

    #[test]
    fn a_text_of_too_many_events_is_refused_in_one_line() {
        let line = "srv-7 [000] ..... 100.000010: binder_transaction_received: transaction=5\n";
        let budget = || Budget::new(u64::MAX, 20, 30);
        let events = |count| super::read(line.repeat(count).as_bytes(), &budget());
        assert_eq!(events(20).unwrap().unwrap().trace.event_count(), 20);
        let refused = events(21).unwrap_err().to_string();
        assert!(refused.starts_with("it is too large: it has more than 20 events: "), "{refused}");
        let lines = super::read("\n".repeat(31).as_bytes(), &budget()).unwrap_err().to_string();
        assert!(lines.contains("more than 30 parts"), "{lines}");
    }
}
