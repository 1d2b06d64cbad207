//! Google Benchmark's output: results as plain data, and its three formats. Scripts read these
//! formats, so they match a current Google Benchmark (its `docs/user_guide.md`, and the output of
//! its reporters). Measures nothing: the caller provides the figures.

mod aggregate;
mod console;
mod csv;
mod format;
mod json;

use std::collections::BTreeMap;

pub use aggregate::{Statistic, aggregates};
pub use console::Console;
pub use csv::Csv;
pub use format::Format;
pub use json::Json;

/// The context, written before all rows.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Local time with its offset from UTC, as in RFC 3339.
    pub date: String,
    /// The machine's host name.
    pub host_name: String,
    /// `argv[0]`.
    pub executable: String,
    /// The number of online CPUs.
    pub num_cpus: u32,
    /// The highest frequency of a CPU, in MHz.
    pub mhz_per_cpu: f64,
    /// Whether a cpufreq governor other than `performance` is in use; `None` if unknown.
    pub cpu_scaling_enabled: Option<bool>,
    /// Whether addresses are randomised (ASLR); `None` if unknown.
    pub aslr_enabled: Option<bool>,
    /// The caches of the first CPU.
    pub caches: Vec<Cache>,
    /// The 1, 5 and 15 minute load averages.
    pub load_avg: Vec<f64>,
    /// The version of this program, instead of the library's.
    pub library_version: String,
    /// Whether this program was built with debug assertions.
    pub debug_build: bool,
    /// Additional facts, each under its own key.
    pub custom: Vec<(String, String)>,
}

/// A CPU cache as in `/sys/devices/system/cpu/cpu0/cache`.
#[derive(Debug, Clone)]
pub struct Cache {
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// The cache's level; 1 is the closest to the CPU.
    pub level: u32,
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// The number of CPUs that share it.
    pub num_sharing: u32,
}

/// One row of the result.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// The index of the family of benchmarks.
    pub family_index: usize,
    /// The index of the benchmark within its family, from 0.
    pub per_family_instance_index: usize,
    /// The benchmark's name without an aggregate's suffix: `BM_sendVec_binder/4`.
    pub run_name: String,
    /// Whether it is a repetition or an aggregate.
    pub kind: RowKind,
    /// The number of repetitions of the benchmark.
    pub repetitions: u32,
    /// The number of threads that ran it.
    pub threads: u32,
    /// The number of timed calls; for an aggregate, the number of repetitions in it.
    pub iterations: u64,
    /// Real time per iteration in nanoseconds; for a coefficient of variation, the ratio.
    pub real_time_ns: f64,
    /// CPU time per iteration in nanoseconds; for a coefficient of variation, the ratio.
    pub cpu_time_ns: f64,
    /// Further figures by name. All three formats know `bytes_per_second`.
    pub counters: BTreeMap<String, Counter>,
    /// The benchmark's label.
    pub label: String,
    /// Why there are no figures; `None` if there are.
    pub error: Option<String>,
}

/// Whether a row was measured or computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// One repetition.
    Iteration {
        /// Counted from 0.
        repetition_index: u32,
    },
    /// A statistic over all repetitions.
    Aggregate(Statistic),
}

impl Default for RowKind {
    fn default() -> Self {
        Self::Iteration { repetition_index: 0 }
    }
}

/// An additional figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counter {
    /// The figure.
    pub value: f64,
    /// Whether it is per second.
    pub is_rate: bool,
    /// Whether its prefixes are powers of 1024.
    pub is_binary: bool,
}

/// Google Benchmark's name for the counter of bytes per second.
pub const BYTES_PER_SECOND: &str = "bytes_per_second";

impl Counter {
    /// A rate in bytes per second.
    #[must_use]
    pub const fn bytes_per_second(value: f64) -> Self {
        Self { value, is_rate: true, is_binary: true }
    }
}

impl Row {
    /// The printed name. The name of an aggregate ends with the statistic.
    #[must_use]
    pub fn name(&self) -> String {
        match self.kind {
            RowKind::Iteration { .. } => self.run_name.clone(),
            RowKind::Aggregate(statistic) => format!("{}_{}", self.run_name, statistic.name()),
        }
    }

    /// Whether the times are ratios.
    fn is_ratio(&self) -> bool {
        self.kind == RowKind::Aggregate(Statistic::Cv)
    }

    /// The times in `unit`, as printed.
    fn times(&self, unit: TimeUnit) -> (f64, f64) {
        let scale = if self.is_ratio() { 1.0 } else { unit.per_ns() };
        (self.real_time_ns * scale, self.cpu_time_ns * scale)
    }
}

/// The unit of printed times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeUnit {
    #[default]
    /// ns.
    Nanosecond,
    /// us.
    Microsecond,
    /// ms.
    Millisecond,
    /// s.
    Second,
}

impl TimeUnit {
    /// `ns`, `us`, `ms` or `s`.
    #[must_use]
    pub const fn name(self) -> &'static str {
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

/// A number in the format of C's `printf("%g")`, which these formats use: six significant digits.
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
mod tests {
    use super::general;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (12.345, "12.345"),
            (0.089_922_7, "0.0899227"),
            (2.722_08e9, "2.72208e+09"),
            (1e-5, "1e-05"),
            (100_000.0, "100000"),
            (999_999.5, "1e+06"),
            (22636.4, "22636.4"),
            (-1.5, "-1.5"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(general(value), text);
        }
    }
}
