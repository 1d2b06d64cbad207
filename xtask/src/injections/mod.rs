//! `cargo xtask injections`: makes real calls and writes slow in known ways, alone and beside other
//! load, and compares the sentences that explain them with what was done. Knows the program's
//! options and its JSON, but not its code.
//!
//! Not a step of `cargo xtask test`: it takes half an hour, and needs root.

mod beside;
mod judge;
mod measure;
mod scenarios;
pub(crate) mod without;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

use crate::shell::{self, cargo, is_root, say, target_dir};
use beside::Beside;
use judge::{Tally, Verdict, patterns, share};
use measure::{Extent, Shown};
use scenarios::{By, Measured, SCENARIOS, Scenario};

const HELP: &str = "\
Usage: cargo xtask injections [OPTIONS]

Makes calls and writes slow in known ways, alone, beside a compiler and beside a database, and compares the sentence of
each slow one with the injector's log. Counts the calls and writes that lost at least half of their delay to
what was injected. Prints a table, and fails if fewer than 95% of these sentences name it, or more than 1% something
else. Needs root, Python, and two CPUs. Takes half an hour; the machine may be busy.

  --only WORDS     only the scenarios whose name contains one of these, separated by commas
  --of LIST        only these, of calls, writes, and inject: the calls that ipc latency --inject disturbs
  --beside LIST    only beside these, of alone, compile, database
  --seconds S      how long each is measured (default 10)
  --dir DIR        where writes go (default /var/tmp); must be on a disk
  --binary FILE    measures with this binary instead of one that is built now
  --keep           keeps the run of the last scenario, for roundtrip explain";

/// The least share of disturbed operations whose cause must be named, and the most that may be
/// named wrongly, in percent.
const RIGHT_PERCENT: u64 = 95;
const WRONG_PERCENT: u64 = 1;

/// What is disturbed, and by whom.
const KINDS: [&str; 3] = ["calls", "writes", "inject"];

fn kind(scenario: &Scenario) -> &'static str {
    match (scenario.measured, scenario.by) {
        (_, By::Itself(_)) => "inject",
        (Measured::Calls, _) => "calls",
        _ => "writes",
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    only: Vec<String>,
    of: Vec<String>,
    beside: Vec<Beside>,
    extent: Extent,
    directory: PathBuf,
    binary: Option<PathBuf>,
    keep: bool,
}

/// Measures and judges. The table goes to standard output, everything else to standard error.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let asked = match shell::asked("injections", HELP, arguments, parse) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    match measure_all(&asked).and_then(|rows| judge_all(&rows)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("injections: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let mut asked = Asked {
        only: Vec::new(),
        of: KINDS.map(str::to_owned).into(),
        beside: Beside::ALL.into(),
        extent: Extent { seconds: 10 },
        directory: "/var/tmp".into(),
        binary: None,
        keep: false,
    };
    let mut words = arguments.iter();
    while let Some(option) = words.next() {
        let mut value = || words.next().with_context(|| format!("{option} needs a value"));
        match option.as_str() {
            "--only" => asked.only = value()?.split(',').map(str::to_owned).collect(),
            "--of" => asked.of = value()?.split(',').map(str::to_owned).collect(),
            "--beside" => asked.beside = value()?.split(',').map(beside).collect::<Result<_>>()?,
            "--seconds" => asked.extent.seconds = value()?.parse().context("--seconds needs a number")?,
            "--dir" => asked.directory = value()?.into(),
            "--binary" => asked.binary = Some(value()?.into()),
            "--keep" => asked.keep = true,
            _ => bail!("unknown option '{option}'"),
        }
    }
    ensure!(asked.extent.seconds > 0, "--seconds 0 measures nothing");
    let unknown = asked.of.iter().find(|of| !KINDS.contains(&of.as_str()));
    ensure!(unknown.is_none(), "--of: choose from {}", KINDS.join(", "));
    Ok(asked)
}

fn beside(name: &str) -> Result<Beside> {
    let known = Beside::ALL.into_iter().find(|beside| beside.name() == name);
    known.with_context(|| format!("--beside {name}: choose from alone, compile, database"))
}

/// The result of one scenario beside one load.
struct Row {
    scenario: &'static Scenario,
    tally: Tally,
}

fn measure_all(asked: &Asked) -> Result<Vec<Row>> {
    let program = prepared(asked.binary.as_deref(), &[])?;
    let folder = asked.directory.join(format!("roundtrip-injections-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let rows = measure_beside(asked, &program, &folder);
    if asked.keep {
        say(&format!("kept in {}", folder.display()));
    } else {
        std::fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    rows
}

/// The program to measure with: this binary, or one that is built now with these options of
/// Cargo's. Fails where nothing can be measured.
fn prepared(binary: Option<&Path>, options: &[&str]) -> Result<PathBuf> {
    ensure!(is_root(), "needs root");
    ensure!(std::thread::available_parallelism()?.get() >= 2, "needs two CPUs");
    if let Some(binary) = binary {
        return binary.canonicalize().with_context(|| format!("--binary {}", binary.display()));
    }
    cargo(&[&["build", "--package", "roundtrip"], options].concat())?;
    let profile = if options.contains(&"--release") { "release" } else { "debug" };
    Ok(target_dir().join(profile).join("roundtrip"))
}

fn measure_beside(asked: &Asked, program: &Path, folder: &Path) -> Result<Vec<Row>> {
    let mut out = std::io::stdout();
    let mut rows = Vec::new();
    for &beside in &asked.beside {
        let load = beside.start(folder)?;
        writeln!(out, "{HEAD}")?;
        for scenario in SCENARIOS.iter().filter(|scenario| asked.wants(scenario)) {
            let shown = measure::run(scenario, program, &folder.join("scenario"), asked.extent);
            let tally = match shown {
                Ok(shown) => tally(scenario, &shown),
                Err(error) => {
                    say(&format!("{} could not be measured: {error:#}", scenario.name));
                    Tally::default()
                }
            };
            writeln!(out, "{}", row(scenario, beside, &tally))?;
            rows.push(Row { scenario, tally });
        }
        drop(load);
    }
    Ok(rows)
}

impl Asked {
    fn wants(&self, scenario: &Scenario) -> bool {
        let is_of = self.of.iter().any(|of| of == kind(scenario));
        is_of && (self.only.is_empty() || self.only.iter().any(|word| scenario.name.contains(word)))
    }
}

const HEAD: &str = "\
| of | injected | beside | load | disturbed | right | cannot tell | wrong | others |\n\
|---|---|---|---|---|---|---|---|---|";

fn row(scenario: &Scenario, beside: Beside, tally: &Tally) -> String {
    let of = match scenario.measured {
        Measured::Calls => "calls",
        Measured::Writes => "writes",
        Measured::JournalledWrites => "journalled writes",
    };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let Tally { right, cannot_tell, wrong, others, .. } = tally;
    format!(
        "| {of} | {}{} | {} | {load} | {} | {right} | {cannot_tell} | {wrong} | {others} |",
        scenario.name,
        if matches!(scenario.by, By::Itself(_)) { " *" } else { "" },
        beside.name(),
        tally.disturbed(),
    )
}

/// Judges all slow operations. Says what was named instead of the cause.
fn tally(scenario: &Scenario, shown: &Shown) -> Tally {
    let mut tally = Tally { without_sentence: shown.without_sentence, ..Tally::default() };
    let mut missed = Vec::new();
    for operation in &shown.operations {
        let verdict = operation.judge(&shown.stretches, scenario.victim, scenario.words);
        match verdict {
            None => tally.others += 1,
            Some(Verdict::Right) => tally.right += 1,
            Some(Verdict::CannotTell) => tally.cannot_tell += 1,
            Some(Verdict::Wrong) => tally.wrong += 1,
        }
        if matches!(verdict, Some(Verdict::CannotTell | Verdict::Wrong)) {
            missed.push(operation.sentence.as_str());
        }
    }
    for (sentence, count) in patterns(missed.into_iter()) {
        say(&format!("{}: {count} times: {sentence}", scenario.name));
    }
    tally
}

/// Sums up, and fails if the sentences are not as good as required.
fn judge_all(rows: &[Row]) -> Result<()> {
    let mut out = std::io::stdout();
    let sum = |of: &dyn Fn(&Scenario) -> bool| {
        let mut sum = Tally::default();
        rows.iter().filter(|row| of(row.scenario)).for_each(|row| sum.add(&row.tally));
        sum
    };
    writeln!(out, "\n| sum | disturbed | right (%) | cannot tell (%) | wrong (%) |\n|---|---|---|---|---|")?;
    for (name, sum) in [
        ("calls", sum(&|one| kind(one) == "calls")),
        ("writes", sum(&|one| kind(one) == "writes")),
        ("calls, by `--inject` *", sum(&|one| kind(one) == "inject")),
    ] {
        let (all, Tally { right, cannot_tell, wrong, .. }) = (sum.disturbed(), &sum);
        let shares = [*right, *cannot_tell, *wrong].map(|part| share(part, all));
        writeln!(out, "| {name} | {all} | {} |", shares.join(" | "))?;
    }
    let all = sum(&|_| true);
    let none: Vec<&str> =
        rows.iter().filter(|row| row.tally.disturbed() == 0).map(|row| row.scenario.name).collect();
    if !none.is_empty() {
        say(&format!("these disturbed nothing: {}", none.join(", ")));
    }
    if all.without_sentence > 0 {
        say(&format!("{} more slow operations have no sentence of their own", all.without_sentence));
    }
    ensure!(all.disturbed() > 0, "nothing was disturbed");
    let right_enough = all.right * 100 >= all.disturbed() * RIGHT_PERCENT;
    ensure!(right_enough, "fewer than {RIGHT_PERCENT}% name the cause");
    let few_wrong = all.wrong * 100 <= all.disturbed() * WRONG_PERCENT;
    ensure!(few_wrong, "more than {WRONG_PERCENT}% name something else");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Asked> {
        parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn everything_is_measured_unless_options_say_less() {
        let all = parsed("").unwrap();
        assert!(SCENARIOS.iter().all(|scenario| all.wants(scenario)) && all.beside == Beside::ALL);
        let some = parsed("--only quota,SIGSTOP --of writes --beside compile --seconds 3").unwrap();
        let wanted = SCENARIOS.iter().filter(|scenario| some.wants(scenario));
        assert_eq!(wanted.map(|one| one.name).collect::<Vec<_>>(), ["SIGSTOP of the writer", "CPU quota"]);
        assert_eq!((some.beside, some.extent.seconds), (vec![Beside::Compile], 3));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in
            ["--only", "--of files", "--of calls,", "--beside rain", "--seconds x", "--seconds 0", "--all"]
        {
            assert!(parsed(words).is_err(), "{words}");
        }
    }

    fn row(scenario: &'static Scenario, right: u64, cannot_tell: u64, wrong: u64) -> Row {
        Row { scenario, tally: Tally { right, cannot_tell, wrong, ..Tally::default() } }
    }

    #[test]
    fn too_few_right_sentences_and_too_many_wrong_ones_fail() {
        let of = |right, cannot_tell, wrong| judge_all(&[row(&SCENARIOS[0], right, cannot_tell, wrong)]);
        assert!(of(95, 4, 1).is_ok());
        assert!(of(94, 6, 0).is_err() && of(97, 1, 2).is_err() && of(0, 0, 0).is_err());
    }
}
