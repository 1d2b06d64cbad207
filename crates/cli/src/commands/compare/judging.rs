//! The code that all comparing commands share: which figures to compare, how strictly, in which
//! format, and with which exit status. Must not know where the runs come from.

use roundtrip_analysis::compare::{self, Compared, Difference, Options, Side, Verdict};
use roundtrip_analysis::gate::figure_name;
use roundtrip_report::comparison::{self, Comparison};

use crate::args::values::{push, set};
use crate::args::{Opt, usage, values};
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Judging {
    pub(crate) options: Options,
    limits: Vec<Limit>,
    format: Option<String>,
    /// The typed names of the sides.
    pub(crate) names: Vec<String>,
}

/// A limit on how much worse a figure may become.
#[derive(Debug, PartialEq)]
struct Limit {
    name: String,
    percent: f64,
    typed: String,
}

/// The names of the sides.
pub(crate) struct Names<'a> {
    pub(crate) of: [&'a str; 2],
    /// Whether the user chose them.
    pub(crate) chosen: bool,
}

impl<'a> Names<'a> {
    /// The names that were typed, or else these.
    pub(crate) fn or(typed: &'a [String], else_of: [&'a str; 2]) -> anyhow::Result<Self> {
        match typed {
            [] => Ok(Self { of: else_of, chosen: false }),
            [base, new] => Ok(Self { of: [base, new], chosen: true }),
            _ => {
                Err(usage!("--name: expected two names, one for each side, as in --name before --name after"))
            }
        }
    }
}

/// What is known about the runs of both sides.
pub(crate) struct About<'a> {
    pub(crate) differences: &'a [Difference],
    /// How the runs were made, one line each.
    pub(crate) notes: &'a [String],
    /// What would help if the runs allow no verdict, one line each.
    pub(crate) hints: &'a [String],
    /// How long a pair took, in nanoseconds; `None` if that is not known.
    pub(crate) pair_ns: Option<u64>,
}

/// `--name`.
pub(crate) const fn name<A: AsMut<Judging>>() -> Opt<A> {
    Opt::value(
        &["--name"],
        "NAME",
        "A name for a side: type it twice, as in --name before --name after.",
        |typed: &mut A, text| push(&mut typed.as_mut().names, values::any(text)),
    )
}

/// `--figures`.
pub(crate) const fn figures<A: AsMut<Judging>>() -> Opt<A> {
    Opt::value(
        &["--figures"],
        "NAME,...",
        "The figures to compare: time, rate, cpu, mean, p50, p90, p95, p99, p99.9, p99.99, max, missed; those \
         of a leg with the prefix 'request.', 'handling.' or 'reply.'; those of a layer as in 'device.mean'. \
         Each additional figure costs statistical power.",
        |typed: &mut A, text| {
            let names = text.split(',').map(|name| figure_name(name.trim()));
            typed.as_mut().options.names = names.collect::<Result<_, _>>()?;
            Ok(())
        },
    )
    .default("time, rate, p50, p99, p99.9, max, missed, response.p99, response.ratio, futex.ratio")
}

/// `--margin`.
pub(crate) const fn margin<A: AsMut<Judging>>() -> Opt<A> {
    Opt::value(
        &["--margin"],
        "PERCENT",
        "Differences up to this size count as the same.",
        |typed: &mut A, text| {
            typed.as_mut().options.margin = percent(text)? / 100.0;
            Ok(())
        },
    )
    .default("2%")
}

/// `--noise`.
pub(crate) const fn noise<A: AsMut<Judging>>() -> Opt<A> {
    Opt::value(
        &["--noise"],
        "PERCENT",
        "How much runs of the same thing may differ from one time to another. Used only if the sides were not \
         measured alternately, or have too few runs for a test.",
        |typed: &mut A, text| {
            typed.as_mut().options.noise = percent(text)? / 100.0;
            Ok(())
        },
    )
    .default("30%")
}

/// `--fail-on`.
pub(crate) const fn fail_on<A: AsMut<Judging>>() -> Opt<A> {
    Opt::value(
        &["--fail-on"],
        "NAME>+PERCENT",
        "Exits with status 3 if this figure became worse by more than this percentage, as in p99>+5%. \
         Repeatable. Without it, the status is 0, whatever was found.",
        |typed: &mut A, text| push(&mut typed.as_mut().limits, limit(text)),
    )
}

/// `--format`.
pub(crate) const fn format<A: AsMut<Judging>>() -> Opt<A> {
    Opt::one_of(
        &["--format"],
        "FORMAT",
        &["text", "json", "csv", "markdown", "junit", "html"],
        "The output format: csv has full precision, markdown is for a pull request, junit for a CI server, \
         html is a page.",
        |typed: &mut A, text| set(&mut typed.as_mut().format, values::any(text)),
    )
    .default("text")
}

/// Parses a percentage: `5%` or `5`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let number = number.ok().filter(|percent| percent.is_finite() && (0.0..=1000.0).contains(percent));
    number.ok_or_else(|| format!("'{text}' is not a percentage from 0 to 1000"))
}

/// Parses a limit such as `p99>+5%`.
fn limit(text: &str) -> Result<Limit, String> {
    let wrong = || format!("'{text}': expected a figure and how much worse it may become, as in p99>+5%");
    let (name, by) = text.split_once(">+").ok_or_else(wrong)?;
    let name = name.trim();
    let percent = percent(by).map_err(|_| wrong())?;
    Ok(Limit { name: figure_name(name)?, percent, typed: text.to_owned() })
}

impl Judging {
    /// Treats the n-th runs of both sides as pairs.
    pub(crate) fn paired(mut self) -> Self {
        self.options.paired = true;
        self
    }

    /// The options of the comparison. The figures with limits are among those that are compared.
    pub(crate) fn options(&self) -> Options {
        let mut options = self.options.clone();
        let names = &mut options.names;
        for limit in &self.limits {
            let usual = names.is_empty() && compare::MAIN.contains(&limit.name.as_str());
            if usual || names.contains(&limit.name) {
                continue;
            }
            if names.is_empty() {
                *names = compare::MAIN.map(str::to_owned).to_vec();
            }
            names.push(limit.name.clone());
        }
        options
    }

    /// Compares, prints, and determines the exit status.
    pub(crate) fn tell(
        self,
        names: Names<'_>,
        sides: [&Side; 2],
        About { differences, notes, hints, pair_ns }: About<'_>,
        terminal: &mut Terminal<'_>,
    ) -> anyhow::Result<Exit> {
        let figures = compare::compare(sides[0], sides[1], &self.options());
        self.check(&figures)?;
        let failed = failed(&figures, &self.limits);
        let compared = Comparison {
            names: names.of,
            named: names.chosen,
            figures: &figures,
            differences,
            notes,
            hints,
            pair_ns,
            failed: &failed,
            margin: self.options.margin,
            noise: self.options.noise,
        };
        let text = match self.format.as_deref() {
            Some("json") => comparison::json(&compared),
            Some("csv") => comparison::csv(&compared),
            Some("markdown") => comparison::markdown(&compared),
            Some("junit") => comparison::junit(&compared),
            Some("html") => roundtrip_report::html::compared(&compared)?,
            _ => comparison::text(&compared, terminal.look),
        };
        terminal.out.write_all(text.as_bytes())?;
        terminal.out.flush()?;
        Ok(if failed.is_empty() { Exit::OK } else { Exit::VIOLATED })
    }

    /// Rejects a comparison without figures, or without a figure that has a limit.
    fn check(&self, figures: &[Compared]) -> anyhow::Result<()> {
        for limit in &self.limits {
            if !figures.iter().any(|compared| compared.name == limit.name) {
                return Err(usage!(
                    "--fail-on {}: the two sides have no figure '{}' in common",
                    limit.typed,
                    limit.name
                ));
            }
        }
        anyhow::ensure!(
            !figures.is_empty(),
            "the two sides have none of the compared figures in common; choose others with --figures"
        );
        Ok(())
    }
}

/// The indexes of the figures that fail, each with the reason.
fn failed(figures: &[Compared], limits: &[Limit]) -> Vec<(usize, String)> {
    let worse = |compared: &Compared| compared.worse_percent().filter(|_| compared.verdict == Verdict::Worse);
    let mut failed = Vec::new();
    for (at, compared) in figures.iter().enumerate() {
        let Some(percent) = worse(compared) else { continue };
        let beyond = limits.iter().find(|limit| limit.name == compared.name && percent > limit.percent);
        if let Some(limit) = beyond {
            failed.push((at, format!("worse by {percent:.1}%, and --fail-on {} is the limit", limit.typed)));
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_name_and_a_percentage() {
        let typed = |text: &str| limit(text).map(|limit| (limit.name, limit.percent));
        assert_eq!(typed("p99>+5%"), Ok(("p99".into(), 5.0)));
        assert_eq!(typed("request.p50 >+ 2.5"), Ok(("request.p50".into(), 2.5)));
        assert_eq!(typed("miss>+0%"), Ok(("missed".into(), 0.0)));
        for wrong in ["p99", "p99>5%", "p99>+x", "p99>+-1%", "p99>+inf"] {
            assert!(typed(wrong).unwrap_err().contains("p99>+5%"), "{wrong}");
        }
        for wrong in [">+5%", "p 99>+1%", "nonsense>+1%"] {
            assert!(typed(wrong).unwrap_err().contains("there is no figure '"), "{wrong}");
        }
    }
}
