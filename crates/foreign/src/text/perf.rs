//! What `perf script` prints of tracepoints: `COMM TID [CPU] SECONDS.MICROSECONDS: SYSTEM:EVENT:
//! fields`. With `-F +pid`, the process and the thread are `PID/TID`, and with a period, a number
//! precedes the event. Source: perf's `builtin-script.c`.

use super::line::{Line, digits, time_ns};
use roundtrip_tracefs::EventContext;

/// Reads a line whose CPU begins at the bracket at `at`.
pub(super) fn with_cpu_at(text: &str, at: usize) -> Option<Line<'_>> {
    let (cpu, rest) = text[at + 1..].split_once(']')?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (comm, who) = text[..at].trim_end().rsplit_once(' ')?;
    let (process, tid) = match who.split_once('/') {
        Some((process, tid)) => (Some(digits(process)?), tid),
        None => (None, who),
    };
    let mut rest = rest.trim_start();
    if let Some((period, after)) = rest.split_once(' ')
        && digits(period).is_some()
    {
        rest = after.trim_start();
    }
    let (name, said) = rest.split_once(": ").or_else(|| Some((rest.strip_suffix(':')?, "")))?;
    // Samples have no system: `cycles:P`. What follows a tracepoint's name restricts it.
    let mut parts = name.split(':');
    let first = parts.next()?;
    let event = parts.next().filter(|part| part.len() > 3).unwrap_or(first);
    let named = !name.is_empty() && name.len() <= 128 && !name.contains(char::is_whitespace);
    (named && !name.starts_with(RECORD)).then_some(())?;
    Some(Line {
        comm: comm.trim(),
        tid: digits(tid)?,
        process,
        cpu: digits(cpu)?,
        context: EventContext::Unknown,
        time_ns: time_ns(time)?,
        event,
        said: said.trim(),
    })
}

/// What the names of perf's records that are no samples begin with: `COMM TID [CPU] TIME:
/// PERF_RECORD_FORK…`.
const RECORD: &str = "PERF_RECORD_";

/// Whether a line is such a record, which `perf script --show-task-events` and similar options
/// print.
pub(super) fn is_record(text: &str) -> bool {
    text.rsplit_once(RECORD).is_some_and(|(before, _)| before.trim_end().ends_with(':'))
}

/// `COMM TID [CPU] TIME: PERF_RECORD_LOST lost 12`: the CPU and how many of its events were lost.
/// `perf script --show-lost-events` prints these lines.
pub(super) fn lost(text: &str) -> Option<(u32, u64)> {
    let (before, record) = text.rsplit_once(RECORD)?;
    let events = record.strip_prefix("LOST lost ").or_else(|| record.strip_prefix("LOST_SAMPLES lost "))?;
    let (cpu, _time) = before.rsplit_once('[')?.1.split_once(']')?;
    Some((digits(cpu)?, events.trim_end().parse().ok()?))
}

/// Whether a line is a stack frame, as perf prints it below an event: an address and a function.
pub(super) fn is_frame(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let address = words.next().is_some_and(|word| {
        (4..=16).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    text.starts_with([' ', '\t']) && address && words.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_and_without_processes_and_periods() {
        let of = |text: &'static str| {
            let line = text.match_indices('[').find_map(|(at, _)| with_cpu_at(text, at))?;
            Some((line.comm, line.process, line.tid, line.cpu, line.time_ns, line.event, line.said))
        };
        let plain =
            "            a [1] b  4167 [001]  4714.850164:           sched:sched_waking: comm=x: y pid=18";
        let waking = ("sched_waking", "comm=x: y pid=18");
        assert_eq!(of(plain), Some(("a [1] b", None, 4167, 1, 4_714_850_164_000, waking.0, waking.1)));
        let with_process = "perf  4166/4167  [000]  4714.850144021:   1 raw_syscalls:sys_exit: NR 16 = 0";
        assert_eq!(
            of(with_process),
            Some(("perf", Some(4166), 4167, 0, 4_714_850_144_021, "sys_exit", "NR 16 = 0"))
        );
        let sample = "dd 5 [000] 1.000001:  250000 cycles:P:  ffffffff8110a0b1 f+0x1 ([kernel.kallsyms])";
        assert_eq!(of(sample).unwrap().5, "cycles");
        let with_chain = "dd 5 [000] 1.000001: binder:binder_lock:";
        assert_eq!((of(with_chain).unwrap().5, of(with_chain).unwrap().6), ("binder_lock", ""));
        assert_eq!(of("hello 1 [000] 1.0: x: y"), None);
        assert_eq!(of("hello [000] 1.000001: x: y"), None);
    }

    #[test]
    fn a_frame_of_a_call_chain_is_no_event() {
        assert!(is_frame("\tffffffff8110a0b1 schedule+0x21 ([kernel.kallsyms])"));
        assert!(is_frame("            7f12 [unknown] (/system/lib64/libc.so)"));
        assert!(!is_frame("garbage of a file") && !is_frame("  some words"));
    }

    #[test]
    fn records_that_are_no_samples_are_told_apart_and_lost_events_counted() {
        for (text, expected) in [
            ("   a [1]  7424 [000]   395.645204: PERF_RECORD_LOST lost 11", Some((0, 11))),
            (":7427  7427 [012]   395.652569: PERF_RECORD_LOST_SAMPLES lost 5", Some((12, 5))),
            ("   dd  5 [001]  1.000001: PERF_RECORD_LOST lost many", None),
            ("   dd  5 [001]  1.000001: PERF_RECORD_COMM: dd:5/5", None),
            ("   dd  5 [001]  1.000001: PERF_RECORD_MMAP2 5/5: [0x1000]: r-xp /lost 3", None),
        ] {
            assert!(is_record(text), "{text}");
            assert_eq!(lost(text), expected, "{text}");
            assert!(with_cpu_at(text, text.rfind("[0").unwrap()).is_none(), "{text}");
        }
        assert!(!is_record("PERF_RECORD_ 5 [001] 1.000001: x:y: z"));
    }
}
