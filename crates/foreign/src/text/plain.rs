//! The kernel's usual text: `TASK-PID (TGID) [CPU] FLAGS SECONDS.MICROSECONDS: EVENT: fields`. TGID
//! and FLAGS may be missing. Source: the kernel's `trace_print_context`.

use roundtrip_tracefs::EventContext;

use super::line::{Line, digits, event, of_flags, time_ns};

/// The most columns between the CPU and the time.
const MAX_COLUMNS: usize = 3;

/// Reads a line whose CPU begins at the bracket at `at`.
pub(super) fn with_cpu_at(text: &str, at: usize) -> Option<Line<'_>> {
    let (cpu, rest) = text[at + 1..].split_once(']')?;
    let cpu = digits(cpu)?;
    let mut who = text[..at].trim_end();
    let mut process = None;
    if let Some(inner) = who.strip_suffix(')') {
        let (before, number) = inner.rsplit_once('(')?;
        process = digits(number.trim());
        who = before.trim_end();
    }
    let (comm, tid) = who.rsplit_once('-')?;
    let (mut word, mut after) = rest.trim_start().split_once(' ')?;
    let mut context = EventContext::Unknown;
    // Some kernels add columns after FLAGS.
    for _ in 0..MAX_COLUMNS {
        if word.ends_with(':') {
            break;
        }
        if context == EventContext::Unknown {
            context = of_flags(word);
        }
        (word, after) = after.trim_start().split_once(' ')?;
    }
    let time_ns = time_ns(word.strip_suffix(':')?)?;
    let (event, said) = event(after.trim_start())?;
    Some(Line { comm: comm.trim_start(), tid: digits(tid)?, process, cpu, context, time_ns, event, said })
}
