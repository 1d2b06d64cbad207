//! The kernel's text with the option `latency-format`, which the latency tracers (`irqsoff`,
//! `wakeup` and others) turn on: `  <idle>-0         1d.s4. 4716488569us : EVENT: fields`. Times
//! are in microseconds of the trace's clock. Thread names are cut after eight characters. With the
//! option `verbose`: `  <idle>       0   1 16 00000004 0000002a [14323f54] 338837.332ms
//! (+0.011ms): EVENT: fields`. Source: the kernel's `trace_print_lat_context`.

use roundtrip_tracefs::EventContext;

use super::line::{Line, digits, event, of_flags};

/// The length at which the kernel cuts a thread's name, in characters.
const NAME: usize = 8;

/// Reads a line.
pub(super) fn line(text: &str) -> Option<Line<'_>> {
    short(text).or_else(|| {
        text.match_indices(" [").take(8).find_map(|(at, open)| verbose(text, at, at + open.len()))
    })
}

/// Reads a line without `verbose`. A thread's name counts as unknown if the kernel may have cut it.
fn short(text: &str) -> Option<Line<'_>> {
    let (before, after) = text.match_indices("us").take(8).find_map(|(at, unit)| {
        let (before, after) = (&text[..at], &text[at + unit.len()..]);
        // The mark shows roughly how long it was until the next event.
        let after = after.strip_prefix([' ', '+', '!', '#', '*', '@', '$'])?.strip_prefix(": ")?;
        Some((before, after))
    })?;
    let (who, time) = before.trim_end().rsplit_once(' ')?;
    let time_ns = time.parse::<u64>().ok()?.checked_mul(1000)?;
    let (who, place) = who.trim_end().rsplit_once(' ')?;
    let (cpu, flags) = place.split_at(place.find(|c: char| !c.is_ascii_digit())?);
    let (comm, tid) = who.trim().rsplit_once('-')?;
    let (event, said) = event(after)?;
    Some(Line {
        comm: if comm.len() < NAME { comm } else { "<...>" },
        tid: digits(tid)?,
        process: None,
        cpu: digits(cpu)?,
        context: of_flags(flags),
        time_ns,
        event,
        said,
    })
}

/// Reads a line with `verbose`. The hexadecimal time begins at `begin`, and all before it ends at
/// `end`.
fn verbose(text: &str, end: usize, begin: usize) -> Option<Line<'_>> {
    let (time, rest) = text[begin..].split_once("] ")?;
    let time_ns = u64::from_str_radix(time, 16).ok()?.checked_mul(1000)?;
    let (times, after) = rest.split_once("): ")?;
    let (since_begin, until_next) = times.strip_suffix("ms")?.split_once("ms (+")?;
    since_begin.parse::<f64>().ok().and(until_next.parse::<f64>().ok())?;
    let mut who = text[..end].trim();
    let mut word = || {
        let (before, word) = who.rsplit_once(' ')?;
        who = before.trim_end();
        Some(word)
    };
    let [_entry, _preempt_count, flags, cpu, tid] = [word()?, word()?, word()?, word()?, word()?];
    let (event, said) = event(after)?;
    Some(Line {
        comm: who,
        tid: digits(tid)?,
        process: None,
        cpu: digits(cpu)?,
        context: of_bits(digits(flags)?),
        time_ns,
        event,
        said,
    })
}

/// The context in the kernel's `TRACE_FLAG_*`: 8 is a hard interrupt, 16 a softirq and 64 an
/// interrupt that cannot be masked.
fn of_bits(flags: u32) -> EventContext {
    match (flags & (8 | 64), flags & 16) {
        (0, 0) => EventContext::Thread,
        (0, _) => EventContext::Softirq,
        _ => EventContext::Interrupt,
    }
}

/// How many events the header says are in the buffer, and how many were written:
/// `# latency: 16 us, #4/9, CPU#0 | (M:preempt VP:0, …)`.
pub(super) fn counts(text: &str) -> Option<&str> {
    text.strip_prefix("# latency: ")?.split_once(" us, #")?.1.split(',').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_cpu_and_flags_in_one_word_and_its_time_in_microseconds() {
        let of = |text| {
            let line: Line<'_> = line(text)?;
            Some((line.comm, line.tid, line.cpu, line.context, line.time_ns, line.event, line.said))
        };
        let waking = "  <idle>-0         1d.s4. 4716488569us!: sched_waking: comm=a us: b pid=5";
        let said = "comm=a us: b pid=5";
        let softirq = EventContext::Softirq;
        assert_eq!(of(waking), Some(("<idle>", 0, 1, softirq, 4_716_488_569_000, "sched_waking", said)));
        // Older kernels print fewer flags.
        let old = "com.exam-12345  12d..2    3us : binder_return: cmd=BR_REPLY";
        let thread = EventContext::Thread;
        assert_eq!(of(old), Some(("<...>", 12345, 12, thread, 3000, "binder_return", "cmd=BR_REPLY")));
        let function = "  <idle>-0         0dNs3.    0us+: _raw_spin_lock_irq <-run_timer_softirq";
        let caller = "_raw_spin_lock_irq <-run_timer_softirq";
        assert_eq!(of(function), Some(("<idle>", 0, 0, softirq, 0, "function", caller)));
        assert_eq!(of("it took 12us : the-end 3"), None);
        assert_eq!(of("a-1 [000] d..2 1.000001: x: 5us : y"), None);
    }

    #[test]
    fn a_verbose_line_has_its_flags_as_a_number_and_its_time_in_hexadecimal() {
        let of = |text| {
            let line: Line<'_> = line(text)?;
            Some((line.comm, line.tid, line.cpu, line.context, line.time_ns, line.event, line.said))
        };
        let waking = "    a [b] thread    5937   1 53 00000004 0000002a [14323f71] 338837.361ms (+0.026ms): \
                      sched_waking: comm=x [1] us: y pid=41";
        let (softirq, said) = (EventContext::Softirq, "comm=x [1] us: y pid=41");
        let time_ns = 0x1432_3f71 * 1000;
        assert_eq!(of(waking), Some(("a [b] thread", 5937, 1, softirq, time_ns, "sched_waking", said)));
        for (flags, context) in [
            (0, EventContext::Thread),
            (37, EventContext::Thread),
            (9, EventContext::Interrupt),
            (25, EventContext::Interrupt),
            (65, EventContext::Interrupt),
        ] {
            let text = format!("<...> 7 0 {flags} 00000000 00000001 [0000000f] 0.015ms (+0.000ms): a: b");
            let line = line(&text).unwrap();
            assert_eq!((line.context, line.time_ns, line.event), (context, 15_000, "a"));
        }
        assert_eq!(of("a 7 0 0 00000000 00000001 [0000000f] 0.015ms: a: b"), None);
        assert_eq!(of("7 0 0 00000000 00000001 [0000000f] 0.015ms (+0.000ms): a: b"), None);
    }

    #[test]
    fn the_header_says_how_many_events_were_overwritten() {
        let header = "# latency: 0 us, #101/250, CPU#0 | (M:PREEMPT(none) VP:0, KP:0, SP:0 HP:0 #P:2)";
        assert_eq!(counts(header), Some("101/250"));
        assert_eq!(counts("# entries-in-buffer/entries-written: 1/1"), None);
    }
}
