//! The timer tick as a sign of life: a busy CPU without a tick for several periods did not run, or
//! ran with interrupts off. Must not know whose time that was.

use super::{CpuLine, Current, During, Timeline};

/// The tick periods of kernels (CONFIG_HZ 1000, 300, 250, 100), in nanoseconds.
const PERIODS_NS: [u64; 4] = [1_000_000, 3_333_333, 4_000_000, 10_000_000];

/// The fewest intervals that prove a period.
const ENOUGH: usize = 8;

/// If a CPU has no events for this many tenths of a period, it counts as not running.
const SILENT_PERIODS_TENTHS: u64 = 25;

/// The tick's period, if busy CPUs show one. Other timers also expire, so an interval may be
/// shorter than a period, but not longer. So the 80th percentile of the intervals must match a
/// period.
pub(super) fn length_ns(cpus: &[CpuLine]) -> Option<u64> {
    let mut spacings: Vec<u64> = cpus.iter().flat_map(busy_spacings).collect();
    if spacings.len() < ENOUGH {
        return None;
    }
    spacings.sort_unstable();
    let long = spacings[spacings.len() * 8 / 10];
    PERIODS_NS.into_iter().find(|period| long.abs_diff(*period) <= period / 20)
}

/// Intervals between timer interrupts during which the CPU was never idle.
fn busy_spacings(line: &CpuLine) -> impl Iterator<Item = u64> {
    line.ticks.windows(2).filter_map(|pair| {
        let from = line.current.partition_point(|change| change.0 <= pair[0]).saturating_sub(1);
        let busy = line.current[from..]
            .iter()
            .take_while(|change| change.0 < pair[1])
            .all(|change| !matches!(change.1, Current::Thread(0) | Current::Unknown));
        busy.then_some(pair[1] - pair[0])
    })
}

impl Timeline<'_> {
    /// Stretches without any event on a busy CPU that are much longer than the tick's period.
    pub(crate) fn silences(&self, cpu: u32, from_ns: u64, to_ns: u64) -> Vec<During<()>> {
        let (Some(tick_ns), Some(line)) = (self.tick_ns, self.cpu(cpu)) else { return Vec::new() };
        let limit_ns = tick_ns * SILENT_PERIODS_TENTHS / 10;
        if line.ticks.len() < ENOUGH {
            return Vec::new();
        }
        let times = &line.event_times;
        let first = times.partition_point(|&time| time < from_ns).saturating_sub(1);
        let after = (times.partition_point(|&time| time <= to_ns) + 1).min(times.len());
        let pairs = times.get(first..after).unwrap_or_default().windows(2);
        pairs
            .filter(|pair| pair[1] - pair[0] > limit_ns)
            .filter(|pair| self.gaps.within(Some(cpu), pair[0], pair[1]).is_none())
            .map(|pair| During { begin_ns: pair[0].max(from_ns), end_ns: pair[1].min(to_ns), what: () })
            .filter(|silence| silence.begin_ns < silence.end_ns)
            .collect()
    }
}
