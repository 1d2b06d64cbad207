//! How fast pages become events, in the time that this thread's CPU worked for it (other load makes it slower only through shared caches).
//!
//! ```text
//! cargo run --release -p tracefs --example speed
//! ```
//!
//! The pages are the test fixtures', repeated to 8 MiB for each CPU, each repetition later than the one before it.

#[path = "../tests/common/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use std::error::Error;
use std::io::Write as _;

use fixture::Fixture;
use rustix::time::{ClockId, clock_gettime};
use tracefs::{CpuPages, Period};

/// For each CPU, as `atrace -b 8000` has.
const BYTES: usize = 8 << 20;
const REPETITIONS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    for fixture in Fixture::all() {
        let cpus = fixture.repeated(BYTES);
        let pages: Vec<_> =
            cpus.iter().map(|(cpu, bytes)| CpuPages { cpu: *cpu, bytes, dropped: 0 }).collect();
        let bytes: usize = pages.iter().map(|pages| pages.bytes.len()).sum();
        let mut best_ns = i64::MAX;
        let mut events = 0;
        for _ in 0..REPETITIONS {
            let before_ns = cpu_time_ns();
            let trace = tracefs::read(&fixture.formats, &pages, Period::default())?;
            best_ns = best_ns.min(cpu_time_ns() - before_ns);
            assert!(trace.losses.is_empty(), "{:?}", trace.losses.first());
            events = trace.events.len();
        }
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let (megabytes_s, each_ns) = (bytes as f64 * 1e3 / best_ns as f64, best_ns as f64 / events as f64);
        writeln!(
            std::io::stdout(),
            "{}: {} CPUs, {} MiB, {events} events: {:.1} ms, {megabytes_s:.0} MB/s, {each_ns:.1} ns per event",
            fixture.name,
            pages.len(),
            bytes >> 20,
            best_ns as f64 / 1e6
        )?;
    }
    Ok(())
}

fn cpu_time_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
