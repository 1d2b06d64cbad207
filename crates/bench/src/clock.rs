//! The clock of all measurements: CLOCK_BOOTTIME in nanoseconds, which user space, tracefs
//! (`trace_clock=boot`) and Perfetto share. Must not know what is timed.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot, including suspend (clock_gettime(2), CLOCK_BOOTTIME).
///
/// On x86-64 and arm64 the kernel's vDSO answers without a system call.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    // Both parts are non-negative for this clock, and the sum does not overflow for 584 years of
    // uptime.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of the calling thread, in nanoseconds (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID).
/// Makes a system call.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The cost of one clock reading, in nanoseconds: that of the fastest of several batches, because
/// every disturbance makes a batch slower.
///
/// An interval between two readings includes about one such cost.
pub fn read_cost_ns() -> f64 {
    const BATCHES: u32 = 20;
    const READS: u32 = 500;
    (0..BATCHES)
        .map(|_| {
            let start = now_ns();
            for _ in 0..READS {
                std::hint::black_box(now_ns());
            }
            (now_ns() - start) as f64 / f64::from(READS)
        })
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards() {
        let mut last = now_ns();
        for _ in 0..10_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_reading_costs_something_finite() {
        let cost = read_cost_ns();
        assert!(cost > 0.0 && cost < 1_000_000.0, "{cost} ns");
    }
}
