//! The code that all comparing commands share: which figures to compare, how strictly, in which
//! format, and with which exit status. Must not know where the runs come from.

use analysis::compare::{self, Compared, Difference, Options, Side, Verdict};
use analysis::gate::figure_name;
use report::comparison::{self, Comparison};

use crate::args::{Opt, usage};
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Judging {
    pub(crate) options: Options,
    limits: Vec<Limit>,
    format: Option<String>,
}

/// A limit on how much worse a figure may become.
#[derive(Debug, PartialEq)]
struct Limit {
    name: String,
    percent: f64,
    typed: String,
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
    .default("time,rate,p50,p99,missed,response.p99,response.ratio,futex.ratio")
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
        "Exits with status 1 only if this figure became worse by more than this percentage, as in p99>+5%. \
         Repeatable. Without it, any figure that became worse is enough.",
        |typed: &mut A, text| {
            typed.as_mut().limits.push(limit(text)?);
            Ok(())
        },
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
        |typed: &mut A, text| {
            typed.as_mut().format = Some(text.to_owned());
            Ok(())
        },
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

    /// Compares, prints, and determines the exit status. `notes` are lines about how the runs were
    /// made.
    pub(crate) fn tell(
        mut self,
        names: [&str; 2],
        sides: [&Side; 2],
        (differences, notes): (&[Difference], &[String]),
        terminal: &mut Terminal<'_>,
    ) -> anyhow::Result<Exit> {
        self.add_limited_figures();
        let figures = compare::compare(sides[0], sides[1], &self.options);
        self.check(&figures)?;
        let failed = failed(&figures, &self.limits);
        let compared = Comparison {
            names,
            figures: &figures,
            differences,
            notes,
            failed: &failed,
            margin: self.options.margin,
            noise: self.options.noise,
        };
        let text = match self.format.as_deref() {
            Some("json") => comparison::json(&compared),
            Some("csv") => comparison::csv(&compared),
            Some("markdown") => comparison::markdown(&compared),
            Some("junit") => comparison::junit(&compared),
            Some("html") => report::html::compared(&compared)?,
            _ => comparison::text(&compared, terminal.look),
        };
        terminal.out.write_all(text.as_bytes())?;
        terminal.out.flush()?;
        Ok(if failed.is_empty() { Exit::OK } else { Exit::FAILED })
    }

    /// Adds the figures with limits to the figures that are compared.
    fn add_limited_figures(&mut self) {
        let names = &mut self.options.names;
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
        if limits.is_empty() {
            failed.push((at, format!("worse by {percent:.1}%")));
        }
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
