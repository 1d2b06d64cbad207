//! The kernel's text of a trace: `/sys/kernel/tracing/trace`, atrace's output (also compressed with
//! `-z`), and the HTML page that systrace writes around it. Must not know what events mean.

mod calls;
mod line;
mod storage;

use std::collections::BTreeMap;

use tracefs::{Body, Event};

use crate::bodies;
use crate::collect::{Collected, MOST_CPUS};
use crate::compressed::{Method, unpack};
use crate::error::{Error, Result};
use crate::{Foreign, MOST_UNPACKED_BYTES, Tool};
use line::{Line, Said};

/// A file with at least this many unreadable lines counts as damaged. Fewer are normal: Android's
/// tools print a few lines between the kernel's.
const MANY_UNREADABLE: u64 = 20;

/// Reads the kernel's text.
///
/// # Errors
/// Those of [`crate::read`].
pub(crate) fn read(bytes: &[u8]) -> Result<Foreign> {
    let unpacked = unpack_atrace(bytes)?;
    let text = String::from_utf8_lossy(unpacked.as_deref().unwrap_or(bytes));
    let mut reader = Reader::default();
    let mut foreign = Foreign::new(Tool::Text);
    for (number, text) in (1u64..).zip(text.lines()) {
        reader.line(number, text, &mut foreign);
    }
    if reader.found == 0 {
        return Err(Error::Unknown);
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
    reader.collected.finish(&mut foreign);
    foreign.trace.processes = reader.processes;
    foreign.comms = reader.comms;
    // Only x86 has these events.
    if foreign.trace.recorded.iter().any(|event| event.starts_with("irq_vectors/")) {
        "x86_64".clone_into(&mut foreign.trace.machine);
    }
    Ok(foreign)
}

/// Decompresses the output of `atrace -z`: a zlib stream after a line `TRACE:`.
fn unpack_atrace(bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    const MARK: &[u8] = b"TRACE:\n";
    let head = &bytes[..bytes.len().min(4096)];
    let at = head.windows(MARK.len()).position(|window| window == MARK).map_or(0, |at| at + MARK.len());
    // The zlib header (RFC 1950): deflate, a window of 32 kB, and check bits over both bytes.
    let packed = matches!(bytes[at..], [0x78, flags, ..] if (0x7800 + u32::from(flags)).is_multiple_of(31));
    if !packed {
        return Ok(None);
    }
    let unpacked = unpack(Method::Zlib, &bytes[at..], &mut { MOST_UNPACKED_BYTES });
    unpacked.map(Some).map_err(|what| Error::Unreadable { form: "atrace's compressed text", what })
}

#[derive(Default)]
struct Reader {
    collected: Collected,
    processes: BTreeMap<u32, u32>,
    comms: BTreeMap<u32, String>,
    found: u64,
    unreadable: u64,
    first_unreadable: u64,
    lost: u64,
    lost_before: u64,
}

impl Reader {
    fn line(&mut self, number: u64, text: &str, foreign: &mut Foreign) {
        // In systrace's page, the text is inside a script element.
        let text = text.trim_end();
        if let Some(line) = Line::parse(text) {
            self.event(&line, foreign);
        } else if let Some((cpu, events)) = lost(text) {
            self.lost = self.lost.saturating_add(events.unwrap_or(0));
            self.collected.lost(cpu, events);
        } else if let Some(counts) =
            text.trim_start_matches("# ").strip_prefix("entries-in-buffer/entries-written:")
        {
            let mut counts = counts.split(['/', ' ', '#']).filter_map(|word| word.parse::<u64>().ok());
            if let (Some(kept), Some(written)) = (counts.next(), counts.next()) {
                self.lost_before = written.saturating_sub(kept);
            }
        } else if self.found > 0 && !text.is_empty() && !text.starts_with(['#', '<']) {
            if self.unreadable == 0 {
                self.first_unreadable = number;
            }
            self.unreadable += 1;
        }
    }

    fn event(&mut self, line: &Line<'_>, foreign: &mut Foreign) {
        self.found += 1;
        if line.cpu >= MOST_CPUS {
            self.unreadable += 1;
            return;
        }
        if let Some(process) = line.process {
            self.processes.insert(line.tid, process);
        }
        if line.tid != 0 && line.comm != "<...>" && !self.comms.contains_key(&line.tid) {
            self.comms.insert(line.tid, line.comm.to_owned());
        }
        // In the kernel's text, an event of trace_marker has the name of the function that wrote
        // it.
        let name = if line.event == "tracing_mark_write" { "print" } else { line.event };
        let said = Said::new(name, line.said);
        let system = bodies::system(name);
        let found = match calls::call(name, line.said) {
            None if system == "other" => return self.collected.has(&format!("other/{name}")),
            None => {
                let body = bodies::body(name, &said, &mut foreign.trace);
                body.map(|body| (body, format!("{system}/{name}")))
            }
            call => call,
        };
        let Some((body, event)) = found else {
            self.unreadable += 1;
            return;
        };
        self.collected.has(&event);
        if let Body::Fork { child, .. } = body
            && let Some(&process) = self.processes.get(&line.tid)
        {
            self.processes.entry(child).or_insert(process);
        }
        self.collected.add(Event { time_ns: line.time_ns, cpu: line.cpu, tid: line.tid, body });
    }
}

/// `CPU:3 [LOST 12 EVENTS]`.
fn lost(text: &str) -> Option<(u32, Option<u64>)> {
    let (cpu, rest) = text.trim_start().strip_prefix("CPU:")?.split_once(" [LOST ")?;
    let events = rest.strip_suffix("EVENTS]")?.trim();
    Some((cpu.parse().ok().filter(|&cpu| cpu < MOST_CPUS)?, events.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let foreign = read(text.as_bytes()).unwrap();
        let trace = &foreign.trace;
        assert_eq!(trace.events.len(), 3);
        let Body::Switch { prev, prev_state, next } = trace.events[0].body else { panic!("{trace:?}") };
        assert_eq!((prev.tid, prev_state.letter(), next.tid), (12, "D", 0));
        assert_eq!(trace.names.text(prev.comm), "a b-c");
        assert_eq!((trace.events[0].time_ns, trace.events[0].cpu), (100_000_001_000, 1));
        let Body::Waking { thread, target_cpu: 1 } = trace.events[1].body else { panic!("{trace:?}") };
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
        assert!(matches!(read(b"hello\nworld [000] 1.0: x"), Err(Error::Unknown)));
        assert!(matches!(read(b""), Err(Error::Unknown)));
    }
}
