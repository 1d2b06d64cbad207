//! Parses values with units: durations, sizes, rates, CPU lists. An error says what was expected.
//! The caller adds where.

use std::convert::Infallible;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

/// Stores a value unless it is invalid.
pub(crate) fn set<T, E: Display>(place: &mut Option<T>, value: Result<T, E>) -> Result<(), String> {
    *place = Some(value.map_err(|error| error.to_string())?);
    Ok(())
}

/// Stores a value in place of a default, unless it is invalid.
pub(crate) fn put<T, E: Display>(place: &mut T, value: Result<T, E>) -> Result<(), String> {
    *place = value.map_err(|error| error.to_string())?;
    Ok(())
}

/// Adds a value to those that were typed before, unless it is invalid.
pub(crate) fn push<T, E: Display>(place: &mut Vec<T>, value: Result<T, E>) -> Result<(), String> {
    place.push(value.map_err(|error| error.to_string())?);
    Ok(())
}

/// Any text.
pub(crate) fn any<T: for<'a> From<&'a str>>(text: &str) -> Result<T, Infallible> {
    Ok(text.into())
}

/// A comma-separated list.
pub(crate) fn list<T: FromStr>(text: &str) -> Result<Vec<T>, T::Err> {
    text.split(',').map(str::parse).collect()
}

/// The name of a file or directory. An empty name would mean the current directory, so it is
/// rejected.
pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("a name must not be empty".to_owned()) } else { Ok(text.into()) }
}

/// A whole number within a range.
pub(crate) fn whole<T>(text: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    // `parse` would accept a leading '+'. No script of the old programs uses that, but typos do.
    text.parse()
        .ok()
        .filter(|value| range.contains(value) && !text.starts_with('+'))
        .ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
}

/// A switch's value. No value means true. The words are those of Google Benchmark.
pub(crate) fn boolean(text: Option<&str>) -> Result<bool, String> {
    match text.map(str::to_ascii_lowercase).as_deref() {
        None | Some("true" | "t" | "yes" | "y" | "on" | "1") => Ok(true),
        Some("false" | "f" | "no" | "n" | "off" | "0") => Ok(false),
        Some(_) => Err("expected true or false".to_owned()),
    }
}

/// A duration in nanoseconds, from a number with a unit: `250ms`, `1.5s`, `2us`, `1h`; 1 ns to 10
/// 000 h.
pub(crate) fn duration_ns(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 6] =
        [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let expected = || "expected a number with its unit: ns, us, ms, s, m or h, as in 250ms".to_owned();
    let (number, unit) = split_unit(text);
    let scale = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(expected)?.1;
    let ns = (decimal(number).ok_or_else(expected)? * scale).round();
    if !(1.0..=3600e9 * 1e4).contains(&ns) {
        return Err("expected a duration from 1ns to 10000h".to_owned());
    }
    Ok(ns as u64)
}

/// How long an interval of a live view is, in nanoseconds: 200 ms to 1 min.
pub(crate) fn interval_ns(text: &str) -> Result<u64, String> {
    let ns = duration_ns(text)?;
    if (200_000_000..=60_000_000_000).contains(&ns) { Ok(ns) } else { Err("expected 200ms to 1m".to_owned()) }
}

/// A size in bytes: `4`, `4k` (4096), `1M`; up to 1 GiB.
pub(crate) fn size_bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = split_unit(text);
    let shift = match unit {
        "" => 0,
        "k" | "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        _ => return Err("expected a size in bytes, as in 4, 4k or 1M".to_owned()),
    };
    whole::<usize>(number, 0..=(1 << 30) >> shift)
        .map(|value| value << shift)
        .map_err(|_| "expected a size in bytes up to 1024M, as in 4, 4k or 1M".to_owned())
}

/// The size of a trace buffer in kilobytes, from its size in bytes: at least 64.
pub(crate) fn buffer_kilobytes(text: &str) -> Result<u64, String> {
    Ok((size_bytes(text)? as u64).div_ceil(1024).max(64))
}

/// Comma-separated sizes in bytes. `4-64k` stands for 4 and each doubling up to 64k.
pub(crate) fn sizes_bytes(text: &str) -> Result<Vec<usize>, String> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let Some((first, last)) = part.split_once('-') else {
            sizes.push(size_bytes(part)?);
            continue;
        };
        let (first, last) = (size_bytes(first)?, size_bytes(last)?);
        if first == 0 || first > last {
            return Err(format!("{part}: expected a range that doubles upwards, as in 4-64k"));
        }
        sizes.extend(
            std::iter::successors(Some(first), |size| Some(size * 2)).take_while(|&size| size <= last),
        );
    }
    Ok(sizes)
}

/// CPU numbers in the kernel's format, `0,2-3`, ascending without duplicates.
pub(crate) fn cpu_list(text: &str) -> Result<Vec<u32>, String> {
    roundtrip_run::cpus::chosen(text).ok_or_else(|| "expected CPU numbers, as in 0,2-3".to_owned())
}

/// A rate per second: `1000/s`, `1.5k/s`, `1000`.
pub(crate) fn rate_per_s(text: &str) -> Result<f64, String> {
    let (number, unit) = split_unit(text.strip_suffix("/s").unwrap_or(text));
    let scale = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        _ => 0.0,
    };
    decimal(number)
        .map(|value| value * scale)
        .filter(|rate| (1e-3..=1e9).contains(rate))
        .ok_or_else(|| "expected a rate from 0.001/s to 1000M/s, as in 1000/s".to_owned())
}

/// Splits a number from the unit after it.
fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()))
}

/// A plain decimal number: digits and at most one point, independent of the locale.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_number_and_a_unit() {
        for (text, ns) in [
            ("250ms", 250_000_000),
            ("2s", 2_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1.5us", 1500),
            ("7ns", 7),
        ] {
            assert_eq!(duration_ns(text), Ok(ns), "{text}");
        }
        for text in ["", "5", "ms", "-1s", "1e3s", "0s", "1 s", "infs", "20000h", "1,5s", "1d"] {
            assert!(duration_ns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_binary_and_ranges_double() {
        assert_eq!((size_bytes("0"), size_bytes("4k"), size_bytes("64k")), (Ok(0), Ok(4096), Ok(65536)));
        assert_eq!(size_bytes("1024M"), Ok(1 << 30));
        for text in ["", "k", "4kb", "-4", "1.5k", "1025M", "99999999999999999999"] {
            assert!(size_bytes(text).is_err(), "{text}");
        }
        assert_eq!(sizes_bytes("4,1k-4k"), Ok(vec![4, 1024, 2048, 4096]));
        for text in ["", "4,", "0-4", "8-4", "-4"] {
            assert!(sizes_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wrong_cpu_list_says_what_is_right() {
        assert_eq!(cpu_list("3,1-3,0"), Ok(vec![0, 1, 2, 3]));
        assert_eq!(cpu_list("0,"), Err("expected CPU numbers, as in 0,2-3".into()));
    }

    #[test]
    fn rates_are_per_second() {
        assert_eq!(
            (rate_per_s("1000/s"), rate_per_s("1.5k/s"), rate_per_s("2")),
            (Ok(1000.0), Ok(1500.0), Ok(2.0))
        );
        for text in ["", "/s", "0", "-1", "1/m", "1e3", "nan"] {
            assert!(rate_per_s(text).is_err(), "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_checked_against_their_range() {
        assert_eq!(whole("16", 1..=16_u32), Ok(16));
        assert_eq!(whole("17", 1..=16_u32), Err("expected a whole number from 1 to 16".into()));
        for text in ["0", "", "+5", "5x", "-1", "99999999999"] {
            assert!(whole(text, 1..=16_u32).is_err(), "{text}");
        }
    }

    #[test]
    fn a_switch_without_a_value_is_on() {
        assert_eq!(
            (boolean(None), boolean(Some("FALSE")), boolean(Some("1"))),
            (Ok(true), Ok(false), Ok(true))
        );
        assert!(boolean(Some("2")).is_err());
    }
}
