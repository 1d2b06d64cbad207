//! `cargo xtask observe-cost`: what `storage observe` costs the programs that it observes. Runs
//! fio, SQLite and PostgreSQL in turn with and without the observer, and prints a table of ratios.
//! Must not know how a program is started, nor how a ratio is formed.
//!
//! Not a step of `cargo xtask test`: it takes minutes, and its figures need an idle machine.

mod cluster;
mod observer;
mod pairs;
mod programs;
mod scratch;
mod workload;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

use crate::shell::{self, cargo, is_root, say, target_dir};
use observer::Observer;
use pairs::{Block, Blocks};
use programs::{PROGRAMS, Program};
use roundtrip_skips::Quiet;
use scratch::Scratch;
use workload::Workload;

const HELP: &str = "\
Usage: cargo xtask observe-cost [OPTIONS]

Measures what `storage observe` costs fio, SQLite and PostgreSQL: each runs alternately alone and observed, and a
table has the ratio of the times per operation. Needs root, and an otherwise idle machine. Takes about four minutes.

  --pairs N        how often each program runs alone and observed (default 10; an interval needs 6)
  --seconds S      how long each of these runs takes (default 2)
  --programs LIST  only these, of fio, sqlite-wal, sqlite-rollback, pgbench
  --binary FILE    observes with this binary instead of one that is built now; given twice, it compares both
  --dir DIR        where the programs write (default /var/tmp); must be on a disk";

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    pairs: usize,
    seconds: u32,
    programs: Vec<&'static str>,
    binaries: Vec<PathBuf>,
    directory: PathBuf,
}

/// Measures. The table goes to standard output, everything else to standard error.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let asked = match shell::asked("observe-cost", HELP, arguments, parse) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    let table = measure(&asked);
    match table.and_then(|table| Ok(std::io::stdout().write_all(table.as_bytes())?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("observe-cost: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let all = PROGRAMS.iter().map(|program| program.name).collect();
    let mut asked =
        Asked { pairs: 10, seconds: 2, programs: all, binaries: Vec::new(), directory: "/var/tmp".into() };
    let mut words = arguments.iter();
    while let Some(option) = words.next() {
        let mut value = || words.next().with_context(|| format!("{option} needs a value"));
        match option.as_str() {
            "--pairs" => asked.pairs = whole(value()?)? as usize,
            "--seconds" => asked.seconds = whole(value()?)?,
            "--programs" => asked.programs = value()?.split(',').map(known).collect::<Result<_>>()?,
            "--binary" => asked.binaries.push(value()?.into()),
            "--dir" => asked.directory = value()?.into(),
            _ => bail!("unknown option '{option}'"),
        }
    }
    ensure!(asked.binaries.len() <= 2, "--binary can be given twice at most");
    Ok(asked)
}

fn whole(text: &str) -> Result<u32> {
    let number = text.parse().ok().filter(|number| (1..=1000).contains(number));
    number.with_context(|| format!("'{text}' is not a whole number from 1 to 1000"))
}

fn known(name: &str) -> Result<&'static str> {
    let program = PROGRAMS.iter().find(|program| program.name == name);
    Ok(program.with_context(|| format!("there is no program '{name}'"))?.name)
}

fn measure(asked: &Asked) -> Result<String> {
    ensure!(is_root(), "needs root");
    let binaries = binaries(&asked.binaries)?;
    let scratch = Scratch::create(&asked.directory)?;
    let mut running = Vec::new();
    for program in PROGRAMS.iter().filter(|program| asked.programs.contains(&program.name)) {
        match program.prepare(&scratch, asked.seconds) {
            Ok(workload) => running.push(Running { program, workload, blocks: Blocks::new(binaries.len()) }),
            // The others are measured all the same.
            Err(reason) => say(&format!("{} is left out: {reason:#}", program.name)),
        }
    }
    ensure!(!running.is_empty(), "none of these programs can be run");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    // So that a database that leaves its parent still belongs to this process, and is no
    // disturbance.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let quiet = Quiet::watch();
    for pair in 0..asked.pairs {
        for one in &mut running {
            one.pair(pair, &binaries)?;
        }
    }
    let disturbance = quiet.disturbance().map(|why| format!("{why}: these figures mean little\n"));
    let rows: Vec<(&str, &Blocks)> = running.iter().map(|one| (one.program.title, &one.blocks)).collect();
    Ok(format!("{}{}\n{}", machine(&load), disturbance.unwrap_or_default(), pairs::table(&rows)))
}

/// A program that is measured, and what it did so far.
struct Running {
    program: &'static Program,
    workload: Box<dyn Workload>,
    blocks: Blocks,
}

impl Running {
    /// One block alone and one with each binary's observer. Every other time in reverse order, so
    /// that what becomes slower with time falls on all.
    fn pair(&mut self, pair: usize, binaries: &[PathBuf]) -> Result<()> {
        let mut order: Vec<Option<usize>> = (0..binaries.len()).map(Some).collect();
        order.insert(0, None);
        if pair % 2 == 1 {
            order.reverse();
        }
        for which in order {
            match which {
                None => self.blocks.alone.push(self.workload.run()?),
                Some(at) => {
                    let observer = Observer::start(&binaries[at], self.program.process)?;
                    let rate = self.workload.run()?;
                    let seen = observer.stop()?;
                    // It may have lost everything beside other programs' events; the table says so.
                    ensure!(
                        seen.calls + seen.lost_events > 0,
                        "the observer saw no write of {}",
                        self.program.process
                    );
                    self.blocks.observed[at].push(Block { rate, seen });
                }
            }
        }
        say(&format!("pair {}: {}", pair + 1, self.blocks.last(self.program.name)));
        Ok(())
    }
}

fn binaries(given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if given.is_empty() {
        cargo(&["build", "--release", "--package", "roundtrip"])?;
        return Ok(vec![target_dir().join("release/roundtrip")]);
    }
    let whole = |file: &PathBuf| file.canonicalize().with_context(|| format!("--binary {}", file.display()));
    given.iter().map(whole).collect()
}

/// What the figures depend on.
fn machine(load: &str) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let others = load.split(' ').next().unwrap_or_default();
    format!("Linux {}, {cpus} CPUs; load average {others} before it began\n", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Asked> {
        parse(&shell::split(words))
    }

    #[test]
    fn everything_is_measured_unless_options_say_less() {
        let asked = parsed("").unwrap();
        assert_eq!((asked.pairs, asked.seconds, asked.programs.len()), (10, 2, 4));
        let asked = parsed("--pairs 6 --seconds 3 --programs pgbench,fio --dir /srv --binary a --binary b");
        let expected = Asked {
            pairs: 6,
            seconds: 3,
            programs: vec!["pgbench", "fio"],
            binaries: vec!["a".into(), "b".into()],
            directory: "/srv".into(),
        };
        assert_eq!(asked.unwrap(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            "--pairs",
            "--pairs 0",
            "--pairs x",
            "--seconds 1001",
            "--programs mysql",
            "--binary a --binary b --binary c",
            "--loud",
        ] {
            assert!(parsed(words).is_err(), "{words}");
        }
    }

    #[test]
    fn every_program_is_named_in_the_help() {
        for program in PROGRAMS {
            assert!(HELP.contains(program.name), "{}", program.name);
        }
    }
}
