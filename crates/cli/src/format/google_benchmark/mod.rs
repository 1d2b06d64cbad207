//! Google Benchmark's output: what a benchmark measured, as plain data, and its three formats. Scripts read these
//! formats, so they follow a current Google Benchmark (its `docs/user_guide.md` and what its reporters print).
//! Measures nothing; where the figures come from is the caller's business.

mod aggregate;
mod console;
mod csv;
pub(crate) mod flags;
mod json;
mod output;

use std::collections::BTreeMap;

pub(crate) use aggregate::{Statistic, aggregates};
pub(crate) use output::Output;

/// What is said once, before all rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    /// Local time with its offset from UTC, as in RFC 3339.
    pub(crate) date: String,
    pub(crate) host_name: String,
    /// `argv[0]`.
    pub(crate) executable: String,
    pub(crate) num_cpus: u32,
    pub(crate) mhz_per_cpu: f64,
    /// Whether a cpufreq governor other than `performance` is at work; `None` where nobody knows.
    pub(crate) cpu_scaling_enabled: Option<bool>,
    /// Whether addresses are randomised; `None` where nobody knows.
    pub(crate) aslr_enabled: Option<bool>,
    pub(crate) caches: Vec<Cache>,
    /// The 1, 5 and 15 minute load averages.
    pub(crate) load_avg: Vec<f64>,
    pub(crate) library_version: String,
    /// Whether this program was built with debug assertions.
    pub(crate) debug_build: bool,
    /// Further facts, each under its own key.
    pub(crate) custom: Vec<(String, String)>,
}

/// One CPU cache, as `/sys/devices/system/cpu/cpu0/cache` describes it.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    /// `Data`, `Instruction` or `Unified`.
    pub(crate) kind: String,
    pub(crate) level: u32,
    pub(crate) size_bytes: u64,
    /// CPUs that share it.
    pub(crate) num_sharing: u32,
}

/// One line of the result.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    /// Which family of benchmarks, and which of its members.
    pub(crate) family_index: usize,
    pub(crate) per_family_instance_index: usize,
    /// `BM_sendVec_binder/4`: without an aggregate's ending.
    pub(crate) run_name: String,
    pub(crate) kind: RowKind,
    pub(crate) repetitions: u32,
    pub(crate) threads: u32,
    /// Calls that were timed; of an aggregate, the repetitions that it is made of.
    pub(crate) iterations: u64,
    /// Real time per iteration in nanoseconds; of a coefficient of variation, the ratio.
    pub(crate) real_time_ns: f64,
    /// CPU time per iteration in nanoseconds; of a coefficient of variation, the ratio.
    pub(crate) cpu_time_ns: f64,
    /// Further figures by name; `bytes_per_second` is one that all three formats know.
    pub(crate) counters: BTreeMap<String, Counter>,
    pub(crate) label: String,
    /// Why there are no figures.
    pub(crate) error: Option<String>,
}

/// Whether a row was measured or computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    Iteration { repetition_index: u32 },
    Aggregate(Statistic),
}

impl Default for RowKind {
    fn default() -> Self {
        Self::Iteration { repetition_index: 0 }
    }
}

/// A figure beside the times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counter {
    pub(crate) value: f64,
    /// Whether it is per second.
    pub(crate) is_rate: bool,
    /// Whether a thousand of it is 1024.
    pub(crate) is_binary: bool,
}

/// The counter that Google Benchmark calls so, in bytes per second.
pub(crate) const BYTES_PER_SECOND: &str = "bytes_per_second";

impl Counter {
    /// A rate in bytes per second.
    pub(crate) const fn bytes_per_second(value: f64) -> Self {
        Self { value, is_rate: true, is_binary: true }
    }
}

impl Row {
    /// The name as printed: an aggregate's ends in the statistic.
    pub(crate) fn name(&self) -> String {
        match self.kind {
            RowKind::Iteration { .. } => self.run_name.clone(),
            RowKind::Aggregate(statistic) => format!("{}_{}", self.run_name, statistic.name()),
        }
    }

    /// Whether the times are ratios instead of times.
    fn is_ratio(&self) -> bool {
        self.kind == RowKind::Aggregate(Statistic::Cv)
    }

    /// The times as they are printed in `unit`.
    fn times(&self, unit: TimeUnit) -> (f64, f64) {
        let scale = if self.is_ratio() { 1.0 } else { unit.per_ns() };
        (self.real_time_ns * scale, self.cpu_time_ns * scale)
    }
}

/// The unit of printed times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TimeUnit {
    #[default]
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
}

impl TimeUnit {
    /// `ns`, `us`, `ms` or `s`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nanosecond => "ns",
            Self::Microsecond => "us",
            Self::Millisecond => "ms",
            Self::Second => "s",
        }
    }

    const fn per_ns(self) -> f64 {
        match self {
            Self::Nanosecond => 1.0,
            Self::Microsecond => 1e-3,
            Self::Millisecond => 1e-6,
            Self::Second => 1e-9,
        }
    }
}

/// A number as C's `printf("%g")` writes it, which is how these formats write theirs: six significant digits.
fn general(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan".into()
        } else {
            format!("{}inf", if value < 0.0 { "-" } else { "" })
        };
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        trimmed(&format!("{value:.decimals$}", decimals = (5 - exponent) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
    }
}

#[cfg(test)]
mod tests;
