//! Google Benchmark's console format: the context on standard error, and a table with fixed columns
//! on standard output.

use std::io::{self, Write};

use anstyle::AnsiColor;

use super::aggregate::LONGEST_ENDING;
use super::format::Format;
use super::{Context, Counter, Row, TimeUnit, general};

/// The state of the console format.
pub struct Console {
    unit: TimeUnit,
    colour: bool,
    tabular: bool,
    name_width: usize,
    header_printed: bool,
}

impl Console {
    /// `names` are those of all benchmarks that will run. The first column is as wide as the
    /// longest.
    pub fn new(names: &[String], repeated: bool, unit: TimeUnit, tabular: bool, colour: bool) -> Self {
        let longest = names.iter().map(String::len).max().unwrap_or(0).max(10);
        let ending = if repeated { LONGEST_ENDING } else { 0 };
        Self { unit, colour, tabular, name_width: longest + ending, header_printed: false }
    }

    fn header(&self, first: &Row) -> String {
        let counters: String = match (first.counters.is_empty(), self.tabular) {
            (true, _) => String::new(),
            (false, true) => first.counters.keys().map(|name| format!(" {name:>10}")).collect(),
            (false, false) => " UserCounters...".into(),
        };
        let titles = format!(
            "{:<width$} {:>13} {:>15} {:>12}{counters}",
            "Benchmark",
            "Time",
            "CPU",
            "Iterations",
            width = self.name_width
        );
        let rule = "-".repeat(titles.len());
        format!("{rule}\n{titles}\n{rule}\n")
    }

    fn line(&self, row: &Row) -> String {
        let mut line =
            self.paint(&format!("{:<width$} ", row.name(), width = self.name_width), AnsiColor::Green);
        if let Some(error) = &row.error {
            line += &self.paint(&format!("ERROR OCCURRED: '{error}'"), AnsiColor::Red);
            return line + &self.plain("\n");
        }
        let (real, cpu) = row.times(self.unit);
        let times = if row.is_ratio() {
            format!("{:>10.2} {:<4} {:>10.2} {:<4} ", 100.0 * real, "%", 100.0 * cpu, "%")
        } else {
            let time = |value| time(value, self.unit);
            format!("{} {unit:<4} {} {unit:<4} ", time(real), time(cpu), unit = self.unit.name())
        };
        line += &self.paint(&times, AnsiColor::Yellow);
        line += &self.paint(&format!("{:>10}", row.iterations), AnsiColor::Cyan);
        for (name, counter) in &row.counters {
            let value = if row.is_ratio() {
                format!("{:.2}%", 100.0 * counter.value)
            } else {
                format!("{}{}", human_readable(*counter), if counter.is_rate { "/s" } else { "" })
            };
            line += &self.plain(&match self.tabular {
                true => format!(" {value:>width$}", width = name.len().max(10)),
                false => format!(" {name}={value}"),
            });
        }
        if !row.label.is_empty() {
            line += &self.plain(&format!(" {}", row.label));
        }
        line + &self.plain("\n")
    }

    fn paint(&self, text: &str, colour: AnsiColor) -> String {
        // Google Benchmark's own codes: `ESC[0;32m` and `ESC[m`.
        match self.colour {
            true => format!("\x1b[0;3{}m{text}\x1b[m", colour as u8),
            false => text.to_owned(),
        }
    }

    fn plain(&self, text: &str) -> String {
        if self.colour { format!("{text}\x1b[m") } else { text.to_owned() }
    }
}

impl Format for Console {
    fn begin(&mut self, context: &Context, _: &mut dyn Write, err: &mut dyn Write) -> io::Result<()> {
        basic_context(context, err)
    }

    fn rows(&mut self, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
        if let (Some(first), false) = (rows.first(), self.header_printed) {
            self.header_printed = true;
            out.write_all(self.header(first).as_bytes())?;
        }
        for row in rows {
            out.write_all(self.line(row).as_bytes())?;
        }
        out.flush()
    }
}

/// The context as text, which the console and CSV formats write to standard error.
pub(super) fn basic_context(context: &Context, err: &mut dyn Write) -> io::Result<()> {
    let Context { date, executable, num_cpus, mhz_per_cpu, .. } = context;
    let plural = if *num_cpus > 1 { "s" } else { "" };
    writeln!(
        err,
        "{date}\nRunning {executable}\nRun on ({num_cpus} X {} MHz CPU {plural})",
        general(*mhz_per_cpu)
    )?;
    if !context.caches.is_empty() {
        writeln!(err, "CPU Caches:")?;
    }
    for cache in &context.caches {
        write!(err, "  L{} {} {} KiB", cache.level, cache.kind, cache.size_bytes / 1024)?;
        match cache.num_sharing {
            0 => writeln!(err)?,
            sharing => writeln!(err, " (x{})", num_cpus / sharing)?,
        }
    }
    if !context.load_avg.is_empty() {
        let averages: Vec<String> = context.load_avg.iter().map(|average| format!("{average:.2}")).collect();
        writeln!(err, "Load Average: {}", averages.join(", "))?;
    }
    for (key, value) in &context.custom {
        writeln!(err, "{key}: {value}")?;
    }
    if context.cpu_scaling_enabled == Some(true) {
        writeln!(
            err,
            "***WARNING*** CPU scaling is enabled, the benchmark real time measurements may be noisy and will \
             incur extra overhead."
        )?;
    }
    if context.aslr_enabled == Some(true) {
        writeln!(err, "***WARNING*** ASLR is enabled, the results may have unreproducible noise in them.")?;
    }
    if context.debug_build {
        writeln!(err, "***WARNING*** Library was built as DEBUG. Timings may be affected.")?;
    }
    err.flush()
}

/// A time in ten columns. The fewer digits there are before the point, the more are after it.
/// Nanoseconds are whole numbers, as in the version that Android's scripts were written for: they
/// read integers.
fn time(value: f64, unit: TimeUnit) -> String {
    match value {
        v if unit == TimeUnit::Nanosecond && v <= 9_999_999_999.0 => format!("{v:>10.0}"),
        v if v < 1.0 => format!("{v:>10.3}"),
        v if v < 10.0 => format!("{v:>10.2}"),
        v if v < 100.0 => format!("{v:>10.1}"),
        v if v > 9_999_999_999.0 => {
            let text = format!("{v:.4e}");
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{mantissa}e+{exponent:0>2}")
        }
        v => format!("{v:>10.0}"),
    }
}

/// A counter with a prefix for its power of 1000 or 1024: `12.345k`, `3.22704Gi`.
fn human_readable(counter: Counter) -> String {
    const LARGE: [&str; 8] = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
    const SMALL: [&str; 8] = ["m", "u", "n", "p", "f", "a", "z", "y"];
    let (one_k, binary) = if counter.is_binary { (1024.0, "i") } else { (1000.0, "") };
    let sign = if counter.value < 0.0 { "-" } else { "" };
    let value = counter.value.abs();
    // A value from 0.01 to one less than a thousand of its unit has no prefix.
    let limit = one_k - 1.0;
    if value > limit {
        let mut scaled = value;
        for prefix in LARGE {
            scaled /= one_k;
            if scaled <= limit {
                // Prefixes for powers of 1024 are Ki, Mi, …, with a capital K.
                let prefix = if counter.is_binary && prefix == "k" { "K" } else { prefix };
                return format!("{sign}{}{prefix}{binary}", general(scaled));
            }
        }
    } else if value < 0.01 {
        let mut scaled = value;
        for prefix in SMALL {
            scaled *= one_k;
            if scaled >= 1.0 {
                return format!("{sign}{}{prefix}", general(scaled));
            }
        }
    }
    format!("{sign}{}", general(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_ten_columns() {
        for (value, text, whole) in [
            (0.0, "     0.000", "         0"),
            (1.149, "      1.15", "         1"),
            (8.01, "      8.01", "         8"),
            (12.34, "      12.3", "        12"),
            (70302.4, "     70302", "     70302"),
            (12_345_678_901.0, "1.2346e+10", "1.2346e+10"),
        ] {
            assert_eq!(time(value, TimeUnit::Microsecond), text);
            assert_eq!(time(value, TimeUnit::Nanosecond), whole);
        }
    }

    #[test]
    fn counters_get_prefixes_as_google_benchmark_gives_them() {
        for (value, is_binary, text) in [
            (12345.0, false, "12.345k"),
            (999.0, false, "999"),
            (999.5, false, "0.9995k"),
            (0.0, false, "0"),
            (0.5, false, "0.5"),
            (0.0025, false, "2.5m"),
            (3.464_998_9e9, true, "3.22703Gi"),
            (2048.0, true, "2Ki"),
            (-12345.0, false, "-12.345k"),
            (71.4516, false, "71.4516"),
        ] {
            assert_eq!(human_readable(Counter { value, is_rate: false, is_binary }), text);
        }
    }
}
