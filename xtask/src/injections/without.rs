//! `cargo xtask without`: whether the prediction of what is left without a cause comes true. Each
//! trial measures calls or writes with two injected causes, takes one of them away, measures again,
//! and compares the second run with what the first one predicted. Knows the program's options and
//! its JSON, but not its code.
//!
//! Not a step of `cargo xtask test`: it takes nearly two hours, and needs root.

mod cases;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::measure::{end, explained, injector, victims};
use super::prepared;
use crate::shell::{self, say};
use cases::{CASES, Case, Of, Setting, WRITER, WRITES};

const HELP: &str = "\
Usage: cargo xtask without [OPTIONS]

Measures calls and writes with two injected causes, takes one of them away, measures again, and compares the misses,
p99.9 and the worst of the second run with what roundtrip explain predicts from the first one. Prints a table, and
fails if fewer than 95% of the predictions hold, or if the ends of half of the intervals of a figure differ by more
than a factor of 2. Needs root, Python, two CPUs, and a machine that does little else. Takes an hour and three quarters.

  --only WORDS   only the causes whose name contains one of these, separated by commas
  --of LIST      only these, of calls and writes
  --trials N     how many trials of each cause (default 20)
  --seconds S    how long each run is measured (default 12)
  --dir DIR      where writes go (default /var/tmp); must be on a disk
  --binary FILE  measures with this binary instead of one that is built now";

/// The least share of predictions that hold, in percent.
const HOLD_PERCENT: usize = 95;

/// The largest ratio of the ends of an interval, in the median.
const WIDEST: f64 = 2.0;

struct Asked {
    only: Vec<String>,
    of: Vec<String>,
    trials: usize,
    seconds: u32,
    directory: PathBuf,
    binary: Option<PathBuf>,
}

/// Measures and judges. The table goes to standard output, everything else to standard error.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let asked = match shell::asked("without", HELP, arguments, parse) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    match measure_all(&asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("without: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let mut asked = Asked {
        only: Vec::new(),
        of: vec!["calls".into(), "writes".into()],
        trials: 20,
        seconds: 12,
        directory: "/var/tmp".into(),
        binary: None,
    };
    let mut words = arguments.iter();
    while let Some(option) = words.next() {
        let mut value = || words.next().with_context(|| format!("{option} needs a value"));
        match option.as_str() {
            "--only" => asked.only = value()?.split(',').map(str::to_owned).collect(),
            "--of" => asked.of = value()?.split(',').map(str::to_owned).collect(),
            "--trials" => asked.trials = value()?.parse().context("--trials needs a number")?,
            "--seconds" => asked.seconds = value()?.parse().context("--seconds needs a number")?,
            "--dir" => asked.directory = value()?.into(),
            "--binary" => asked.binary = Some(value()?.into()),
            _ => bail!("unknown option '{option}'"),
        }
    }
    ensure!(asked.trials > 0 && asked.seconds > 0, "nothing to measure");
    let known = |of: &String| [Of::Calls, Of::Writes].iter().any(|one| one.name() == of);
    ensure!(asked.of.iter().all(known), "--of: choose from calls, writes");
    Ok(asked)
}

impl Asked {
    fn wants(&self, case: &Case) -> bool {
        let is_of = self.of.iter().any(|of| of == case.of.name());
        is_of && (self.only.is_empty() || self.only.iter().any(|word| case.name.contains(word)))
    }
}

/// The figures that are predicted.
const FIGURES: [&str; 3] = ["missed", "p99.9", "worst"];

/// How often the predictions of one figure held, and the ratios of the ends of their intervals.
#[derive(Default)]
struct Tally {
    held: usize,
    trials: usize,
    widths: Vec<f64>,
}

impl Tally {
    fn add(&mut self, (low, high): (u64, u64), found: u64) {
        self.trials += 1;
        self.held += usize::from((low..=high).contains(&found));
        self.widths.push(high as f64 / low.max(1) as f64);
    }

    /// The median of the ratios.
    fn width(&self) -> f64 {
        let mut widths = self.widths.clone();
        widths.sort_by(f64::total_cmp);
        widths.get(widths.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

fn measure_all(asked: &Asked) -> Result<()> {
    let program = prepared(asked.binary.as_deref(), &["--release"])?;
    let folder = asked.directory.join(format!("roundtrip-without-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let measured = trials(asked, &program, &folder);
    fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    let all = measured?;
    let mut wrong = Vec::new();
    for (figure, tally) in FIGURES.iter().zip(&all) {
        if tally.held * 100 < tally.trials * HOLD_PERCENT {
            wrong.push(format!("{figure} held in only {} of {}", tally.held, tally.trials));
        }
        if tally.width() > WIDEST {
            wrong.push(format!("the ends of {figure} differ by a factor of {:.2}", tally.width()));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

/// All trials, with a line for each cause and one for the sum.
fn trials(asked: &Asked, program: &Path, folder: &Path) -> Result<[Tally; 3]> {
    let mut out = std::io::stdout();
    writeln!(
        out,
        "| of | taken away | trials | missed | p99.9 | worst | not named |\n|---|---|---|---|---|---|---|"
    )?;
    let mut all: [Tally; 3] = Default::default();
    for case in CASES.iter().filter(|case| asked.wants(case)) {
        let (mut tallies, mut unnamed): ([Tally; 3], _) = (Default::default(), 0);
        for trial in 1..=asked.trials {
            let [first, second] = [true, false].map(|with| {
                run(case, with, program, folder, asked.seconds).with_context(|| case.name.to_owned())
            });
            let (first, second) = (first?, second?);
            let predicted = prediction(&first.explained, case.words)?;
            for (at, figure) in FIGURES.iter().enumerate() {
                // What is not predicted does not come true.
                let of = predicted.map_or((1, 0), |predicted| predicted[at]);
                let found = second.figures[at];
                if !(of.0..=of.1).contains(&found) {
                    say(&format!("{}, trial {trial}: {figure} {found} is not within {of:?}", case.name));
                }
                tallies[at].add(of, found);
                all[at].add(of, found);
            }
            unnamed += usize::from(predicted.is_none());
        }
        writeln!(out, "{}", row(case.of.name(), case.name, &tallies, unnamed))?;
    }
    writeln!(out, "{}", row("all", "", &all, 0))?;
    Ok(all)
}

fn row(of: &str, name: &str, tallies: &[Tally; 3], unnamed: usize) -> String {
    let cells = tallies.each_ref().map(|tally| format!("{} ({:.2})", tally.held, tally.width()));
    format!("| {of} | {name} | {} | {} | {unnamed} |", tallies[0].trials, cells.join(" | "))
}

/// A run: what `explain` says, and its own figures.
struct Measured {
    explained: Value,
    figures: [u64; 3],
}

fn run(case: &Case, with: bool, program: &Path, folder: &Path, seconds: u32) -> Result<Measured> {
    let target = folder.join("target");
    let run = folder.join("run");
    for made in [&target, &run] {
        if made.exists() {
            fs::remove_dir_all(made).with_context(|| format!("remove {}", made.display()))?;
        }
    }
    fs::create_dir_all(&target).with_context(|| format!("create {}", target.display()))?;
    let Setting { deadline_ms, stays, goes } = case.of.setting();
    let mut command = Command::new(program);
    let options = match case.of {
        Of::Calls => format!(
            "ipc latency --driver emulated --stack hwbinder --format csv --explain --callers fifo:10 --inheritance on \
             --client-cpus 1 --server-cpus 1 --work 200us --deadline {deadline_ms}ms --duration {seconds}s --inject \
             sleep,every={}ms,for={}ms",
            stays.every_ms, stays.for_ms
        ),
        Of::Writes => format!("storage observe --format csv --deadline {deadline_ms}ms --buffer 32M"),
    };
    command.args(options.split(' ')).arg("--out").arg(&run);
    if case.of == Of::Writes {
        command.args(["--", "python3", "-c", WRITES]).arg(target.join("victim")).arg(seconds.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("start the measurement")?;
    let log = folder.join("injected.csv");
    fs::write(&log, "").context("create the log")?;
    let mut injectors = Vec::new();
    if case.of == Of::Writes {
        victims(&mut child, WRITER)?;
        let kind = if case.kind == "hog" { "storm" } else { "hog" };
        injectors.push(injector(kind, &[], stays, (&log, &target))?);
    }
    if with {
        let pids = victims(&mut child, case.victims)?;
        injectors.push(injector(case.kind, &pids, goes, (&log, &target))?);
    }
    let output = child.wait_with_output()?;
    injectors.into_iter().try_for_each(end)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stored = fs::read(run.join("run.json")).context("read the run")?;
    Ok(Measured {
        explained: explained(program, &[], &run)?,
        figures: figures(&serde_json::from_slice(&stored).context("the run's JSON")?, deadline_ms)?,
    })
}

/// The intervals of the misses, p99.9 and the worst without a cause; `None` if no cause has one of
/// these words.
fn prediction(explained: &Value, words: &[&str]) -> Result<Option<[(u64, u64); 3]>> {
    let all = explained["without"].as_array().filter(|all| !all.is_empty());
    let all =
        all.or_else(|| explained["writes"]["without"].as_array()).or_else(|| explained["without"].as_array());
    let all = all.context("no field 'without'")?;
    let named =
        |of: &&Value| of["cause"].as_str().is_some_and(|cause| words.iter().any(|word| cause.contains(word)));
    let Some(of) = all.iter().find(named) else { return Ok(None) };
    let interval = |name: &str| {
        let end = |end: &str| of[name][end].as_u64().with_context(|| format!("no {name}.{end}: {of}"));
        Ok::<_, anyhow::Error>((end("low")?, end("high")?))
    };
    Ok(Some([interval("missed")?, interval("p99_9_ns")?, interval("worst_ns")?]))
}

/// The misses, p99.9 and the worst of a run, from its histograms.
fn figures(run: &Value, deadline_ms: u32) -> Result<[u64; 3]> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut worst_ns = 0;
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let results = &run["results"];
    let callers = list(&results["latency"]["series"]).into_iter().flat_map(|series| list(&series["pairs"]));
    let callers = callers.flat_map(|pair| list(&pair["callers"]));
    for of in callers.chain(list(&results["observed_writes"]["rows"])) {
        let latency = &of["latency"];
        worst_ns = worst_ns.max(latency["max_ns"].as_u64().unwrap_or(0));
        for bucket in list(&latency["counts"]) {
            let (ns, count) = (bucket[0].as_u64(), bucket[1].as_u64());
            *counts.entry(ns.context("a bucket")?).or_default() += count.context("a count")?;
        }
    }
    let all: u64 = counts.values().sum();
    ensure!(all >= 1000, "only {all} operations");
    let missed = counts.range(u64::from(deadline_ms) * 1_000_000..).map(|(_, count)| count).sum();
    let mut longer = 0;
    let tail = counts.iter().rev().find(|(_, count)| {
        longer += **count;
        longer > all / 1000
    });
    Ok([missed, tail.map_or(0, |(ns, _)| *ns), worst_ns])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_and_predictions_are_read_from_json() {
        let latency =
            json!({"max_ns": 9_000_000, "counts": [[100_000, 1997], [6_000_000, 2], [9_000_000, 1]]});
        let run =
            json!({"results": {"latency": {"series": [{"pairs": [{"callers": [{"latency": latency}]}]}]}}});
        assert_eq!(figures(&run, 4).unwrap(), [3, 6_000_000, 9_000_000]);
        assert!(figures(&json!({}), 4).is_err());
        let interval = |low, high| json!({"estimate": low, "low": low, "high": high});
        let left = json!({
            "cause": "behind inj-hog", "missed": interval(1, 2), "p99_9_ns": interval(3, 4), "worst_ns": interval(5, 6)
        });
        for explained in [json!({"without": [left]}), json!({"without": [], "writes": {"without": [left]}})] {
            assert_eq!(prediction(&explained, &["inj-hog"]).unwrap(), Some([(1, 2), (3, 4), (5, 6)]));
            assert_eq!(prediction(&explained, &["stopped"]).unwrap(), None);
        }
        assert!(prediction(&json!({}), &[]).is_err());
    }

    #[test]
    fn there_are_six_causes_of_calls_and_of_writes() {
        let of = |of: Of| CASES.iter().filter(|case| case.of == of).count();
        assert_eq!((of(Of::Calls), of(Of::Writes)), (6, 6));
        let asked = parse(&["--of", "writes", "--only", "lock,FIFO"].map(str::to_owned)).unwrap();
        assert_eq!(CASES.iter().filter(|case| asked.wants(case)).count(), 3);
        assert!(
            parse(&["--trials".into(), "0".into()]).is_err() && parse(&["--of".into(), "x".into()]).is_err()
        );
    }

    #[test]
    fn a_prediction_holds_within_its_ends() {
        let mut tally = Tally::default();
        [(1, 3), (4, 9)].into_iter().for_each(|of| tally.add(of, 3));
        assert_eq!((tally.held, tally.trials, tally.width()), (1, 2, 3.0));
    }
}
