//! Google Benchmark's flags, as defined in its user guide, in one table for all programs with
//! Google Benchmark's output. Each flag can also be set by an environment variable
//! (`BENCHMARK_FILTER`).

use std::path::PathBuf;

use regex_lite::Regex;

use crate::args::values::{boolean, whole};
use crate::args::{Group, Opt};
use roundtrip_report::google_benchmark::TimeUnit;

/// The requested settings.
#[derive(Debug, Clone)]
pub(crate) struct Flags {
    pub(crate) filter: Filter,
    min_time: MinTime,
    min_warm_up_s: f64,
    repetitions: u32,
    pub(crate) enable_random_interleaving: bool,
    pub(crate) report_aggregates_only: bool,
    pub(crate) display_aggregates_only: bool,
    pub(crate) format: FormatName,
    pub(crate) out: Option<PathBuf>,
    pub(crate) out_format: FormatName,
    /// Whether to show colour; `None`: depends on the terminal.
    pub(crate) color: Option<bool>,
    pub(crate) list_tests: bool,
    /// Whether the console format has a column for each counter.
    pub(crate) counters_tabular: bool,
    /// From level 2 on, each batch is reported.
    pub(crate) verbosity: u32,
    pub(crate) time_unit: TimeUnit,
    /// Whether hardware counters are requested.
    pub(crate) perf_counters: bool,
    /// Additional facts for the context, in the given order.
    pub(crate) context: Vec<(String, String)>,
    dry_run: bool,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            min_time: MinTime::Seconds(0.5),
            min_warm_up_s: 0.0,
            repetitions: 1,
            enable_random_interleaving: false,
            report_aggregates_only: false,
            display_aggregates_only: false,
            format: FormatName::Console,
            out: None,
            out_format: FormatName::Json,
            color: None,
            list_tests: false,
            counters_tabular: false,
            verbosity: 0,
            time_unit: TimeUnit::Nanosecond,
            perf_counters: false,
            context: Vec::new(),
            dry_run: false,
        }
    }
}

impl Flags {
    /// The length of a repetition; a dry run makes one call.
    pub(crate) fn min_time(&self) -> MinTime {
        if self.dry_run { MinTime::Iterations(1) } else { self.min_time }
    }

    /// How long each benchmark warms up, in nanoseconds; 0 in a dry run.
    pub(crate) fn min_warm_up_ns(&self) -> u64 {
        if self.dry_run { 0 } else { (self.min_warm_up_s * 1e9) as u64 }
    }

    /// The number of repetitions; 1 in a dry run.
    pub(crate) fn repetitions(&self) -> u32 {
        if self.dry_run { 1 } else { self.repetitions }
    }
}

/// The length of a repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MinTime {
    /// At least this many seconds.
    Seconds(f64),
    /// Exactly this many iterations.
    Iterations(u64),
}

/// The formats by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormatName {
    Console,
    Json,
    Csv,
}

impl FormatName {
    const WORDS: &'static [&'static str] = &["console", "json", "csv"];

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "console" => Ok(Self::Console),
            "json" => Ok(Self::Json),
            "csv" => Ok(Self::Csv),
            _ => Err("expected console, json or csv".to_owned()),
        }
    }
}

/// Which benchmarks run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// The text as typed, for the message that nothing matched.
    pub(crate) text: String,
    regex: Option<Regex>,
    negated: bool,
}

impl Filter {
    /// A regular expression that a name must contain or, with a leading `-`, must not contain. An
    /// empty text and `all` mean all.
    fn parse(text: &str) -> Result<Self, String> {
        let (pattern, negated) = match text.strip_prefix('-') {
            Some(pattern) => (pattern, true),
            None if text == "all" => ("", false),
            None => (text, false),
        };
        let regex = Regex::new(pattern).map_err(|error| format!("not a regular expression: {error}"))?;
        Ok(Self { text: text.to_owned(), regex: (!pattern.is_empty()).then_some(regex), negated })
    }

    /// Whether a benchmark with this name runs.
    pub(crate) fn accepts(&self, name: &str) -> bool {
        self.regex.as_ref().is_none_or(|regex| regex.is_match(name) != self.negated)
    }
}

/// The table for commands whose typed arguments contain [`Flags`].
pub(crate) const fn group<A: AsMut<Flags> + 'static>() -> Group<A> {
    Group { heading: "Google Benchmark's options", options: Table::<A>::OPTIONS }
}

struct Table<A>(std::marker::PhantomData<A>);

impl<A: AsMut<Flags> + 'static> Table<A> {
    const OPTIONS: &'static [Opt<A>] = &[
        Opt::switch(
            &["--benchmark_list_tests"],
            "Prints the names of the benchmarks that would run, and runs none.",
            |typed: &mut A, text| boolean(text).map(|value| typed.as_mut().list_tests = value),
        )
        .or_environment(),
        Opt::value(
            &["--benchmark_filter"],
            "REGEX",
            "Runs the benchmarks whose name the regular expression matches anywhere; with '-' in front, the others.",
            |typed: &mut A, text| Filter::parse(text).map(|value| typed.as_mut().filter = value),
        )
        .default("all")
        .or_environment(),
        Opt::value(
            &["--benchmark_min_time"],
            "TIME",
            "Measures each benchmark for at least this time ('0.5s', or '0.5' as in older scripts), or \
             exactly this many times ('100x').",
            |typed: &mut A, text| min_time(text).map(|value| typed.as_mut().min_time = value),
        )
        .default("0.5s")
        .or_environment(),
        Opt::value(
            &["--benchmark_min_warmup_time"],
            "SECONDS",
            "Runs each benchmark for at least this time before it is measured.",
            |typed: &mut A, text| seconds(text).map(|value| typed.as_mut().min_warm_up_s = value),
        )
        .default("0")
        .or_environment(),
        Opt::value(
            &["--benchmark_repetitions"],
            "N",
            "Repeats each benchmark. From 2 repetitions on, also prints mean, median, standard deviation and \
             coefficient of variation.",
            |typed: &mut A, text| whole(text, 1..=100_000).map(|value| typed.as_mut().repetitions = value),
        )
        .default("1")
        .or_environment(),
        Opt::switch(
            &["--benchmark_enable_random_interleaving"],
            "Runs the repetitions of all benchmarks in random order, so drift of the machine affects all of \
             them alike.",
            |typed: &mut A, text| {
                boolean(text).map(|value| typed.as_mut().enable_random_interleaving = value)
            },
        )
        .or_environment(),
        Opt::switch(
            &["--benchmark_report_aggregates_only"],
            "Reports only statistics, no single repetitions, on the display and in the file.",
            |typed: &mut A, text| boolean(text).map(|value| typed.as_mut().report_aggregates_only = value),
        )
        .or_environment(),
        Opt::switch(
            &["--benchmark_display_aggregates_only"],
            "Reports only statistics on the display; the file has everything.",
            |typed: &mut A, text| boolean(text).map(|value| typed.as_mut().display_aggregates_only = value),
        )
        .or_environment(),
        Opt::one_of(
            &["--benchmark_format"],
            "FORMAT",
            FormatName::WORDS,
            "The format on standard output: console, json or csv.",
            |typed: &mut A, text| FormatName::parse(text).map(|value| typed.as_mut().format = value),
        )
        .default("console")
        .or_environment(),
        Opt::path(
            &["--benchmark_out"],
            "FILE",
            "Also writes the result to a file. It replaces an existing file when the run is complete. A \
             symbolic link that belongs to another user is refused.",
            |typed: &mut A, text| {
                typed.as_mut().out = (!text.is_empty()).then(|| text.into());
                Ok(())
            },
        )
        .or_environment(),
        Opt::one_of(
            &["--benchmark_out_format"],
            "FORMAT",
            FormatName::WORDS,
            "The format of that file: json, console or csv.",
            |typed: &mut A, text| FormatName::parse(text).map(|value| typed.as_mut().out_format = value),
        )
        .default("json")
        .or_environment(),
        Opt::value(
            &["--benchmark_color"],
            "auto|true|false",
            "Colours the console format: 'auto' colours on a terminal.",
            |typed: &mut A, text| {
                typed.as_mut().color = match text {
                    "auto" => None,
                    other => Some(boolean(Some(other)).map_err(|_| "expected auto, true or false".to_owned())?),
                };
                Ok(())
            },
        )
        .default("auto")
        .or_environment(),
        Opt::switch(
            &["--benchmark_counters_tabular"],
            "Gives each counter its own column in the console format.",
            |typed: &mut A, text| boolean(text).map(|value| typed.as_mut().counters_tabular = value),
        )
        .or_environment(),
        Opt::one_of(
            &["--benchmark_time_unit"],
            "UNIT",
            &["ns", "us", "ms", "s"],
            "The unit of printed times: ns, us, ms or s.",
            |typed: &mut A, text| {
                typed.as_mut().time_unit = match text {
                    "us" => TimeUnit::Microsecond,
                    "ms" => TimeUnit::Millisecond,
                    "s" => TimeUnit::Second,
                    _ => TimeUnit::Nanosecond,
                };
                Ok(())
            },
        )
        .default("ns")
        .or_environment(),
        Opt::value(
            &["--benchmark_context"],
            "KEY=VALUE,...",
            "Adds facts to the context of the result.",
            |typed: &mut A, text| custom_context(text).map(|value| typed.as_mut().context = value),
        )
        .or_environment(),
        Opt::value(
            &["--benchmark_perf_counters"],
            "NAME,...",
            "Hardware counters. As in Google Benchmark without libpfm, which is how Android builds it, there are none: \
             a line on standard error says so.",
            |typed: &mut A, text| {
                typed.as_mut().perf_counters = !text.is_empty();
                Ok(())
            },
        )
        .or_environment(),
        Opt::switch(
            &["--benchmark_dry_run"],
            "Makes one call per benchmark without repetition, to check that everything runs.",
            |typed: &mut A, text| boolean(text).map(|value| typed.as_mut().dry_run = value),
        )
        .or_environment(),
        Opt::value(
            &["--v"],
            "N",
            "From 2 on, logs each timed batch on standard error.",
            |typed: &mut A, text| whole(text, 0..=9).map(|value| typed.as_mut().verbosity = value),
        )
        .default("0"),
    ];
}

fn min_time(text: &str) -> Result<MinTime, String> {
    let expected = || "expected seconds or iterations, as in 0.5s, 0.5 or 100x".to_owned();
    if let Some(iterations) = text.strip_suffix('x') {
        return whole(iterations, 1..=1_000_000_000).map(MinTime::Iterations).map_err(|_| expected());
    }
    seconds(text.strip_suffix('s').unwrap_or(text)).map(MinTime::Seconds).map_err(|_| expected())
}

fn seconds(text: &str) -> Result<f64, String> {
    // As strtod(3) reads them, with an exponent ("1e-2"), but neither a sign nor names of numbers.
    let plain = text.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && text.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    match text.parse() {
        Ok(seconds) if plain && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("expected seconds, as in 0.5".to_owned()),
    }
}

fn custom_context(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (key, value) = part
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| format!("'{part}' is not KEY=VALUE"))?;
        if pairs.iter().any(|(known, _)| known == key) {
            return Err(format!("the key '{key}' is given twice"));
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_matches_anywhere_and_a_dash_turns_it_round() {
        let accepts =
            |text: &str, name: &str| Filter::parse(text).expect("a regular expression").accepts(name);
        assert!(accepts("/4$", "BM_sendVec_binder/4") && !accepts("/4$", "BM_sendVec_binder/4k"));
        assert!(accepts("-/4$", "BM_sendVec_binder/4k") && !accepts("-/4$", "BM_sendVec_binder/4"));
        assert!(accepts("", "x") && accepts("all", "x") && accepts("BM_(a|b)", "BM_b"));
        assert!(Filter::parse("(").is_err());
    }

    #[test]
    fn a_minimum_time_is_seconds_or_iterations() {
        assert_eq!(min_time("0.5s"), Ok(MinTime::Seconds(0.5)));
        assert_eq!(min_time("2"), Ok(MinTime::Seconds(2.0)));
        assert_eq!(min_time("100x"), Ok(MinTime::Iterations(100)));
        assert_eq!(min_time("1e-2s"), Ok(MinTime::Seconds(0.01)));
        assert_eq!(min_time("2.5E+1"), Ok(MinTime::Seconds(25.0)));
        for text in ["", "x", "0x", "-1", "1e9", "1e", "e5", "5ms", "s", "100X", "nan", "1e2x"] {
            assert!(min_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_dry_run_overrides_time_and_repetitions() {
        let flags = Flags { dry_run: true, repetitions: 9, ..Flags::default() };
        assert_eq!((flags.min_time(), flags.repetitions()), (MinTime::Iterations(1), 1));
    }

    #[test]
    fn context_keys_are_given_once() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(custom_context("a=b,c=d=e,"), Ok(vec![pair("a", "b"), pair("c", "d=e")]));
        for text in ["a", "=b", "a=1,a=2"] {
            assert!(custom_context(text).is_err(), "{text}");
        }
    }
}
