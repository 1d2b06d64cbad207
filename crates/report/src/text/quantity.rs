//! Numbers for people: with a suitable unit, three significant digits, and a decimal point in every
//! locale.

use roundtrip_latency::Histogram;

/// A duration in nanoseconds with a suitable unit: `950 ns`, `2.31 us`, `48.0 ms`, `3.20 s`, `12.5
/// min`.
#[must_use]
pub fn duration(ns: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")];
    if !ns.is_finite() {
        return "-".to_owned();
    }
    if ns.abs() >= 600e9 {
        return format!("{} min", three_digits(ns / 60e9));
    }
    if ns.abs() < 1000.0 {
        // Only means have fractions of a nanosecond.
        return if ns.fract() == 0.0 { format!("{ns:.0} ns") } else { format!("{} ns", three_digits(ns)) };
    }
    // The unit is chosen after rounding, so 999.6 us is 1.00 ms.
    let (scale, unit) =
        UNITS.into_iter().rev().find(|(scale, _)| ns.abs() >= scale * 0.9995).unwrap_or(UNITS[0]);
    format!("{} {unit}", three_digits(ns / scale))
}

/// A duration like [`duration`], or `-` if it is not known.
pub(crate) fn duration_or_dash(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| duration(ns as f64))
}

/// Durations in a few words: these percentiles, unless there are too few durations for one, and the
/// longest: `p50 8.00 us, p99 9.10 us, worst 48.0 ms`.
pub(crate) fn percentiles(times: &Histogram, percents: &[f64]) -> String {
    let known = percents.iter().filter_map(|&percent| Some((percent, times.percentile_ns(percent)?)));
    let known = known.map(|(percent, ns)| format!("p{percent} {}, ", duration(ns as f64)));
    format!("{}worst {}", known.collect::<String>(), duration_or_dash(times.max_ns()))
}

/// A number as `%g` of C and streams of C++ print it, with at most this many significant digits:
/// `0.2`, `48612.8`, `1.96102e+06`, `5e-05`.
pub(crate) fn general(value: f64, digits: usize) -> String {
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    // Rounded to these digits, `d.ddde-7`.
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if exponent < -4 || exponent >= digits as i32 => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", short(mantissa), exponent.abs())
        }
        Ok(exponent) => short(&format!("{value:.*}", (digits as i32 - 1 - exponent).max(0) as usize)),
        Err(_) => scientific,
    }
}

/// A rate in bytes per second: `114 kB/s`, `2.40 GB/s` (powers of 1000).
#[must_use]
pub fn byte_rate(bytes_per_s: f64) -> String {
    const UNITS: [(f64, &str); 5] =
        [(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")];
    if !bytes_per_s.is_finite() {
        return "-".to_owned();
    }
    let (scale, unit) =
        UNITS.into_iter().rev().find(|(scale, _)| bytes_per_s.abs() >= scale * 0.9995).unwrap_or(UNITS[0]);
    format!("{} {unit}", three_digits(bytes_per_s / scale))
}

/// A size in bytes, as in the names of benchmarks: `4`, `1024`, `2k`, `64k`.
#[must_use]
pub fn size(bytes: usize) -> String {
    if bytes > 1024 && bytes.is_multiple_of(1024) { format!("{}k", bytes / 1024) } else { bytes.to_string() }
}

/// A size in bytes, for a sentence: `4 B`, `64 KiB`.
#[must_use]
pub fn length(bytes: usize) -> String {
    if bytes >= 1024 && bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else {
        format!("{bytes} B")
    }
}

/// Three significant digits, but at least all digits of the whole number.
#[must_use]
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// CPU numbers, separated by `between`: "0,1,2".
pub(crate) fn cpus<'a>(cpus: impl IntoIterator<Item = &'a u32>, between: &str) -> String {
    cpus.into_iter().map(u32::to_string).collect::<Vec<_>>().join(between)
}

/// CPU numbers for a table's cell: "0,1,2", or "-" without CPUs.
pub(crate) fn cpus_or_dash<'a>(list: impl IntoIterator<Item = &'a u32>) -> String {
    let text = cpus(list, ",");
    if text.is_empty() { "-".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with `printf "%.6g\n" VALUE` of the GNU core utilities.
    #[test]
    fn numbers_are_those_of_cs_general_format() {
        for (value, text) in [
            (0.0, "0"),
            (0.195, "0.195"),
            (0.001_234_567, "0.00123457"),
            (0.000_05, "5e-05"),
            (1.0, "1"),
            (48_612.84, "48612.8"),
            (999_999.6, "1e+06"),
            (1_961_021.7, "1.96102e+06"),
            (100_000.0, "100000"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(general(value, 6), text);
        }
        assert_eq!([general(0.16, 4), general(123_456.7, 4)], ["0.16", "1.235e+05"]);
    }

    #[test]
    fn durations_get_the_unit_that_fits() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (950.0, "950 ns"),
            (1.25, "1.25 ns"),
            (2310.0, "2.31 us"),
            (99_960.0, "100 us"),
            (999_600.0, "1.00 ms"),
            (48_000_000.0, "48.0 ms"),
            (3.2e9, "3.20 s"),
            (59.9e9, "59.9 s"),
            (750e9, "12.5 min"),
            (-2310.0, "-2.31 us"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn byte_rates_count_in_thousands() {
        assert_eq!(byte_rate(8.0 / 69_974e-9), "114 kB/s");
        assert_eq!(byte_rate(2.4e9), "2.40 GB/s");
        assert_eq!(byte_rate(0.0), "0.00 B/s");
    }

    #[test]
    fn sizes_are_named_as_the_benchmarks_name_them() {
        assert_eq!([4, 1024, 1536, 2048, 65536].map(size), ["4", "1024", "1536", "2k", "64k"]);
    }
}
