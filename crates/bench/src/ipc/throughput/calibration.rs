//! Finds out how many calls make a batch long enough, as Google Benchmark does
//! (`src/benchmark_runner.cc`): it tries a number of calls, and increases it. Pure: must not know
//! what is called.

use roundtrip_run::ipc::throughput::{Batch, Length, MAX_ITERATIONS};

/// The number of calls in the first try.
pub(super) fn first(length: Length) -> u64 {
    match length {
        Length::Iterations(iterations) => iterations,
        Length::ElapsedNs(_) | Length::CpuNs(_) => 1,
    }
}

/// The number of calls in the next try; `None` if this one was long enough.
pub(super) fn next(length: Length, batch: &Batch) -> Option<u64> {
    let (spent_ns, wanted_ns, enough) = match length {
        Length::Iterations(_) => return None,
        Length::ElapsedNs(wanted_ns) => (batch.elapsed_ns, wanted_ns, false),
        // A client that mostly waits would otherwise make calls forever.
        Length::CpuNs(wanted_ns) => {
            (batch.cpu_ns, wanted_ns, batch.elapsed_ns >= wanted_ns.saturating_mul(5))
        }
    };
    if enough || spent_ns >= wanted_ns || batch.iterations >= MAX_ITERATIONS {
        return None;
    }
    // Slightly more than needed, so that the next try is the last. After a try that is too short
    // for a reliable ratio, the number only grows tenfold.
    let ratio = wanted_ns as f64 / spent_ns.max(1) as f64;
    let factor = if ratio < 10.0 { 1.4 * ratio } else { 10.0 };
    let iterations = (batch.iterations as f64 * factor).round() as u64;
    Some(iterations.clamp(batch.iterations + 1, MAX_ITERATIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch of calls that take 1000 ns, 400 of them on the CPU.
    fn batch(iterations: u64) -> Batch {
        Batch { iterations, elapsed_ns: iterations * 1000, cpu_ns: iterations * 400, one_way_bytes: 0 }
    }

    fn tries(length: Length, batch: impl Fn(u64) -> Batch) -> Vec<u64> {
        std::iter::successors(Some(first(length)), |&iterations| next(length, &batch(iterations))).collect()
    }

    #[test]
    fn a_batch_grows_tenfold_until_it_can_be_trusted_and_then_to_what_is_needed() {
        // 1000 calls take exactly a tenth of the time, which is still too short to be trusted.
        assert_eq!(tries(Length::ElapsedNs(10_000_000), batch), [1, 10, 100, 1000, 10_000]);
        assert_eq!(tries(Length::ElapsedNs(5_000_000), batch), [1, 10, 100, 1000, 7000]);
        assert_eq!(tries(Length::CpuNs(2_000_000), batch), [1, 10, 100, 1000, 7000]);
    }

    #[test]
    fn a_fixed_number_is_run_once() {
        assert_eq!(tries(Length::Iterations(77), batch), [77]);
    }

    #[test]
    fn no_time_at_all_is_one_call() {
        assert_eq!(tries(Length::ElapsedNs(0), batch), [1]);
    }

    #[test]
    fn a_client_that_only_waits_is_called_for_five_times_as_long() {
        let waiting = |iterations| Batch { cpu_ns: 0, ..batch(iterations) };
        assert_eq!(tries(Length::CpuNs(1_000_000), waiting), [1, 10, 100, 1000, 10_000]);
    }

    #[test]
    fn calls_that_take_no_time_end_at_the_limit() {
        let instant = |iterations| Batch { elapsed_ns: 0, cpu_ns: 0, ..batch(iterations) };
        assert_eq!(tries(Length::ElapsedNs(1), instant).last(), Some(&MAX_ITERATIONS));
    }
}
