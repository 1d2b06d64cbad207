//! Prints the figures of an axis as a table with bars, and finds cliffs in them.

use std::io::{self, Write};

/// Describes what "no cliff" means.
pub(crate) const MEANING: &str = "with twice as many clients, calls per second never fall to less than half; with more services \
     or objects no call, registration or look-up takes more than twice what it takes with few; and memory for each further one \
     does not double";

/// The result of one measurement.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sample {
    /// Calls per second, summed over all clients.
    pub(crate) calls_per_s: f64,
    /// The duration of one call: the mean of the clients' medians.
    pub(crate) median_ns: f64,
    /// The 99th percentile of the slowest client.
    pub(crate) p99_ns: f64,
    /// The mean time to register a service.
    pub(crate) register_ns: f64,
    /// The mean time to look a service up.
    pub(crate) look_up_ns: f64,
    /// The memory of all processes, in KiB.
    pub(crate) memory_kb: u64,
}

/// The measurements with one number of clients, services or objects.
pub(crate) struct Point {
    pub(crate) count: u32,
    pub(crate) samples: Vec<Sample>,
}

impl Point {
    /// The median of a figure over the rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Sample) -> f64) -> f64 {
        let mut values: Vec<f64> = self.samples.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// What is varied (clients, services or objects), and the measurements for each count.
pub(crate) struct Axis {
    pub(crate) name: &'static str,
    pub(crate) about: String,
    pub(crate) points: Vec<Point>,
}

/// A figure's name, and a function that returns it.
type Figure = (&'static str, fn(&Sample) -> f64);

impl Axis {
    /// Describes each cliff in one line.
    pub(crate) fn cliffs(&self) -> Vec<String> {
        let mut cliffs = Vec::new();
        let mut found = |count: u32, what: &str, before: f64, now: f64| {
            cliffs.push(format!("{what} with {count} {}: {now:.0} after {before:.0}", self.name));
        };
        if self.name == "clients" {
            for pair in self.points.windows(2) {
                let [before, now] = [0, 1].map(|index| pair[index].median(|sample| sample.calls_per_s));
                if now < before / 2.0 {
                    found(pair[1].count, "calls per second", before, now);
                }
            }
            return cliffs;
        }
        // Skip the first point: its single service or object pays the cost of a process's first
        // call.
        let figures: [Figure; 3] = [
            ("nanoseconds of a call", |sample| sample.median_ns),
            ("nanoseconds of a registration", |sample| sample.register_ns),
            ("nanoseconds of looking one up", |sample| sample.look_up_ns),
        ];
        for (what, figure) in figures {
            for pair in self.points[1..].windows(2) {
                let [before, now] = [&self.points[1], &pair[1]].map(|point| point.median(figure));
                if now > before * 2.0 {
                    found(pair[1].count, what, before, now);
                }
            }
        }
        let kb = |index: usize| self.points[index].median(|sample| sample.memory_kb as f64);
        let each = |from: usize, to: usize| {
            (kb(to) - kb(from)).max(0.0) / f64::from(self.points[to].count - self.points[from].count)
        };
        let last = self.points.len() - 1;
        // Compare the memory per additional item in the last step with that of the steps before it.
        // Ignore differences below 1 MiB.
        let (before, now) = (each(0, last - 1), each(last - 1, last));
        if now > before * 2.0 && kb(last) - kb(last - 1) > 1024.0 {
            found(self.points[last].count, "bytes of memory for each", before * 1024.0, now * 1024.0);
        }
        cliffs
    }
}

/// Prints the table.
pub(crate) fn write(out: &mut impl Write, axis: &Axis) -> io::Result<()> {
    let most = axis.points.iter().map(|point| point.median(|sample| sample.calls_per_s)).fold(1.0, f64::max);
    writeln!(out, "{}", axis.about)?;
    writeln!(
        out,
        "{:>9}  {:>9}  {:>9}  {:>9}  {:>12}  {:>11}  {:>11}  calls per second",
        axis.name, "calls/s", "call [µs]", "p99 [µs]", "register [µs]", "look up [µs]", "memory [MB]"
    )?;
    for point in &axis.points {
        let us = |figure: fn(&Sample) -> f64| point.median(figure) / 1000.0;
        let calls = point.median(|sample| sample.calls_per_s);
        writeln!(
            out,
            "{:>9}  {calls:>9.0}  {:>9.2}  {:>9.2}  {:>13.2}  {:>12.2}  {:>11.1}  {}",
            point.count,
            us(|sample| sample.median_ns),
            us(|sample| sample.p99_ns),
            us(|sample| sample.register_ns),
            us(|sample| sample.look_up_ns),
            point.median(|sample| sample.memory_kb as f64) * 1024.0 / 1e6,
            "#".repeat((calls / most * 30.0).round() as usize),
        )?;
    }
    writeln!(out)
}
