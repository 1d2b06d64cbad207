//! Whether another program takes events out of the buffers of a recording, from the kernel's
//! counters. Must not know where they are read.

use std::collections::BTreeMap;

/// Events must be recorded within this time after recording has started, in nanoseconds: this
/// program itself wakes up more often.
const FIRST_WITHIN_NS: u64 = 1_000_000_000;

/// How many events were taken out of each CPU's buffer (`read events` in `per_cpu/cpuN/stats`), as
/// this process left it.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    left: BTreeMap<u32, u64>,
    /// What the counters were before the buffers were cleared. Clearing does not reset those of
    /// CPUs that are offline (`tracing_reset_online_cpus` in the kernel's trace.c).
    before: BTreeMap<u32, u64>,
    /// No first event is later than this, if this process recorded one at once.
    pub(crate) mark_ns: Option<u64>,
    found: Option<&'static str>,
}

impl Readers {
    /// Compares a CPU's counter with what this process left. To be called before this process takes
    /// out events.
    pub(crate) fn look(&mut self, cpu: u32, read: u64) {
        let left = self.left.get(&cpu).copied().unwrap_or(0);
        if read == left || self.before.get(&cpu) == Some(&read) {
            return;
        }
        let what = if read > left { "read the events" } else { "cleared the buffer" };
        self.found.get_or_insert(what);
    }

    /// Notes what this process has left.
    pub(crate) fn leave(&mut self, cpu: u32, read: u64) {
        self.left.insert(cpu, read);
    }

    /// Notes that this process has cleared the buffers.
    pub(crate) fn clear(&mut self) {
        self.before = std::mem::take(&mut self.left);
    }

    /// Notes what was recorded from `started_ns` to `stopped_ns`: `first_ns` is the time of the
    /// first event on any CPU, `overwritten` whether a buffer was too small for all events. All
    /// times are in nanoseconds of one clock.
    pub(crate) fn recorded(
        &mut self,
        started_ns: u64,
        stopped_ns: u64,
        first_ns: Option<u64>,
        overwritten: bool,
    ) {
        let first_ns = first_ns.unwrap_or(stopped_ns);
        let by_ns = self.mark_ns.take().unwrap_or(started_ns.saturating_add(FIRST_WITHIN_NS));
        if !overwritten && first_ns > by_ns {
            self.found.get_or_insert("cleared the buffer");
        }
    }

    /// What another program did: "read the events".
    pub(crate) fn found(&self) -> Option<&'static str> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(act: impl FnOnce(&mut Readers)) -> Option<&'static str> {
        let mut readers = Readers::default();
        readers.look(0, 0);
        readers.leave(0, 50);
        assert_eq!(readers.found(), None);
        act(&mut readers);
        readers.found()
    }

    #[test]
    fn what_another_program_reads_or_clears_is_found() {
        assert_eq!(found(|readers| readers.look(0, 50)), None);
        assert_eq!(found(|readers| readers.look(0, 51)), Some("read the events"));
        assert_eq!(found(|readers| readers.look(1, 1)), Some("read the events"));
        assert_eq!(found(|readers| readers.look(0, 0)), Some("cleared the buffer"));
    }

    #[test]
    fn after_a_clear_counters_begin_anew_except_on_offline_cpus() {
        let after = |read| {
            found(|readers| {
                readers.clear();
                readers.look(0, read);
            })
        };
        assert_eq!([0, 50, 51].map(after), [None, None, Some("read the events")]);
    }

    #[test]
    fn a_recording_without_its_first_events_was_cleared() {
        let second = 1_000_000_000;
        let of = |first_ns, overwritten| {
            found(|readers| readers.recorded(second, 9 * second, first_ns, overwritten))
        };
        assert_eq!(of(Some(2 * second), false), None);
        assert_eq!(of(Some(5 * second), true), None, "the buffer was full");
        assert_eq!(of(Some(5 * second), false), Some("cleared the buffer"));
        assert_eq!(of(None, false), Some("cleared the buffer"));
        let marked = |first_ns| {
            found(|readers| {
                readers.mark_ns = Some(second + 10);
                readers.recorded(second, second + 1_000, first_ns, false);
            })
        };
        assert_eq!(marked(Some(second + 10)), None);
        assert_eq!(marked(Some(second + 11)), Some("cleared the buffer"));
        assert_eq!(marked(None), Some("cleared the buffer"));
        let short = |readers: &mut Readers| readers.recorded(second, second + 10, None, false);
        assert_eq!(found(short), None);
    }
}
