//! `roundtrip compare`: whether runs are better or worse than others. Reads runs; measures nothing.

use std::path::PathBuf;

use analysis::compare::{self, Compared, Difference, Options, Side, Verdict};
use report::comparison::{self, Comparison};
use report::inert;

use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage};
use crate::terminal::{Exit, Terminal};

/// What was typed.
#[derive(Default)]
pub(crate) struct Typed {
    paths: Vec<PathBuf>,
    base: Vec<PathBuf>,
    options: Options,
    limits: Vec<Limit>,
    anyway: bool,
    format: Option<String>,
}

/// A figure must not become worse by more than this.
#[derive(Debug, PartialEq)]
struct Limit {
    name: String,
    percent: f64,
    typed: String,
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["compare"],
    kind: Kind::Command,
    summary: "tells whether runs are better or worse than others",
    description: "Compares stored runs: for each figure the ratio with its interval, and a verdict \
                  (worse, better, same, cannot tell). Ends with status 1 if a figure became worse. \
                  \n\n\
                  Several runs of one side count as its repetitions. A verdict rests on how much they \
                  differ among each other: 4 runs a side are the least, 10 show what a single pair \
                  cannot. Runs of other drivers, processors, governors or options are refused. \
                  \n\n\
                  Also reads the JSON that Google Benchmark writes.",
    positionals: Some(Positionals {
        usage: "BASE NEW...",
        help: "Run directories, directories that hold run directories, or Google Benchmark's JSON files.",
        count: 2..=1000,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| {
            typed.paths.push(text.into());
            Ok(())
        },
    }),
    groups: &[
        Group {
            heading: "Comparison",
            options: &[
                Opt::path(
                    &["--base"],
                    "RUN",
                    "A further run of the base. Repeatable.",
                    |typed: &mut Typed, text| {
                        typed.base.push(text.into());
                        Ok(())
                    },
                ),
                Opt::flag(
                    &["--paired"],
                    "The n-th runs of both sides were made beside each other.",
                    |typed: &mut Typed| typed.options.paired = true,
                ),
                Opt::value(
                    &["--figures"],
                    "NAME,...",
                    "Which figures: time, rate, cpu, mean, p50, p90, p95, p99, p99.9, p99.99, max, missed; \
                     those of a leg behind 'request.', 'handling.' or 'reply.'; a layer's as 'device.mean'. \
                     Each further one makes a chance finding more probable. [default: time, rate, p50, p99, \
                     missed, response.p99, response.ratio, futex.ratio]",
                    |typed: &mut Typed, text| {
                        typed.options.names = text.split(',').map(|name| name.trim().to_owned()).collect();
                        Ok(())
                    },
                ),
                Opt::value(
                    &["--margin"],
                    "PERCENT",
                    "Figures that differ by no more than this are the same. [default: 2%]",
                    |typed: &mut Typed, text| {
                        typed.options.margin = percent(text)? / 100.0;
                        Ok(())
                    },
                ),
                Opt::value(
                    &["--noise"],
                    "PERCENT",
                    "How much single runs of the same thing may differ; only used with fewer than 4 runs a \
                     side. [default: 30%]",
                    |typed: &mut Typed, text| {
                        typed.options.noise = percent(text)? / 100.0;
                        Ok(())
                    },
                ),
                Opt::flag(
                    &["--anyway"],
                    "Compares runs that are refused otherwise, and tells in what they differ.",
                    |typed: &mut Typed| typed.anyway = true,
                ),
            ],
        },
        Group {
            heading: "Output",
            options: &[
                Opt::value(
                    &["--fail-on"],
                    "NAME>+PERCENT",
                    "Status 1 only if this figure became worse by more than so many percent: p99>+5%. \
                     Repeatable. Without it any figure that became worse is enough.",
                    |typed: &mut Typed, text| {
                        typed.limits.push(limit(text)?);
                        Ok(())
                    },
                ),
                Opt::one_of(
                    &["--format"],
                    "FORMAT",
                    &["text", "json", "markdown", "junit"],
                    "How to print it: markdown is for a pull request, junit for a CI server.",
                    |typed: &mut Typed, text| {
                        typed.format = Some(text.to_owned());
                        Ok(())
                    },
                )
                .default("text"),
            ],
        },
    ],
    examples: &[
        ("roundtrip compare monday tuesday", "Compares two runs, or two directories of runs."),
        (
            "roundtrip compare --fail-on 'p99>+5%' --format junit before after > compare.xml",
            "Fails if the 99th percentile became worse by more than 5%.",
        ),
    ],
    run,
};

/// `5%` or `5`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let number = number.ok().filter(|percent| percent.is_finite() && (0.0..=1000.0).contains(percent));
    number.ok_or_else(|| format!("'{text}' is no percentage from 0 to 1000"))
}

/// `p99>+5%`.
fn limit(text: &str) -> Result<Limit, String> {
    let wrong = || format!("'{text}': write a figure's name and by how much it may become worse: p99>+5%");
    let (name, by) = text.split_once(">+").ok_or_else(wrong)?;
    let name = name.trim();
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(wrong());
    }
    Ok(Limit { name: name.to_owned(), percent: percent(by).map_err(|_| wrong())?, typed: text.to_owned() })
}

fn run(mut typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut new_paths = typed.paths.split_off(1);
    let mut base_paths = typed.paths;
    let names = [base_paths.first(), new_paths.first()]
        .map(|path| path.map(|path| path.display().to_string()).unwrap_or_default());
    base_paths.append(&mut typed.base);
    new_paths.dedup();
    let (base, new) = (Side::read(&base_paths)?, Side::read(&new_paths)?);
    if typed.options.paired && base.runs.len() != new.runs.len() {
        return Err(usage!(
            "--paired: the base has {} runs and the new side {}: pairs need as many",
            base.runs.len(),
            new.runs.len()
        ));
    }
    let differences = compare::differences(&base, &new);
    refuse(&differences, typed.anyway)?;
    let options = &mut typed.options;
    for limit in &typed.limits {
        let named = if options.names.is_empty() {
            compare::MAIN.contains(&limit.name.as_str())
        } else {
            options.names.contains(&limit.name)
        };
        if !named {
            if options.names.is_empty() {
                options.names = compare::MAIN.map(str::to_owned).to_vec();
            }
            options.names.push(limit.name.clone());
        }
    }
    let figures = compare::compare(&base, &new, options);
    for limit in &typed.limits {
        if !figures.iter().any(|compared| compared.name == limit.name) {
            return Err(usage!(
                "--fail-on {}: the runs have no figure '{}' in common",
                limit.typed,
                limit.name
            ));
        }
    }
    if figures.is_empty() {
        anyhow::bail!(
            "the runs have none of the figures in common that are compared; --figures names others"
        );
    }
    let failed = failed(&figures, &typed.limits);
    let told = Comparison {
        names: [&names[0], &names[1]],
        figures: &figures,
        differences: &differences,
        failed: &failed,
        margin: options.margin,
        noise: options.noise,
    };
    let text = match typed.format.as_deref() {
        Some("json") => comparison::json(&told),
        Some("markdown") => comparison::markdown(&told),
        Some("junit") => comparison::junit(&told),
        _ => comparison::text(&told, terminal.look),
    };
    terminal.out.write_all(text.as_bytes())?;
    terminal.out.flush()?;
    Ok(if failed.is_empty() { Exit::OK } else { Exit::FAILED })
}

/// Runs that tell of something else than what is compared.
fn refuse(differences: &[Difference], anyway: bool) -> anyhow::Result<()> {
    let refused: Vec<String> = differences
        .iter()
        .filter(|difference| difference.refused)
        .map(|difference| {
            let Difference { what, base, other, .. } = difference;
            format!("{what}: {} and {}", inert::line(base), inert::line(other))
        })
        .collect();
    if refused.is_empty() || anyway {
        return Ok(());
    }
    Err(usage!("these runs are not comparable ({}); --anyway compares them", refused.join("; ")))
}

/// The figures that fail, and why.
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
        for wrong in ["p99", "p99>5%", ">+5%", "p99>+x", "p99>+-1%", "p 99>+1%", "p99>+inf"] {
            assert!(typed(wrong).unwrap_err().contains("p99>+5%"), "{wrong}");
        }
    }
}
