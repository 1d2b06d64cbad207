//! `roundtrip explain RUN` for runs of writes: why the slow ones were slow. `analysis` reads their
//! recordings, `report` shows them.

use std::path::Path;

use roundtrip_analysis::Analysed;
use roundtrip_report::explanation::json;
use roundtrip_report::storage::slow_writes::{self, SlowWrite, Summed};
use roundtrip_run::{RECORDING, Run};
use roundtrip_tracefs::Recording;

use super::Typed;
use crate::args::usage;
use crate::terminal::{Exit, Terminal};
use crate::trace_file::{self, Form};

/// How many of the slowest writes of each series are explained, unless `--slowest` says.
const KEPT: usize = 20;

/// Whether a run has writes that can be explained.
pub(super) fn are_in(run: &Run) -> bool {
    run.results.storage.is_some() || run.results.observed_writes.is_some()
}

/// Explains a run's slow writes.
pub(super) fn run(
    typed: &Typed,
    run: &Run,
    path: &Path,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<Exit> {
    let directory = Run::directory(path);
    let keep = typed.slowest.map_or(KEPT, |slowest| slowest as usize);
    let mut analysed = Analysed::read(run, directory, keep);
    let all = slow_writes::of(&analysed);
    let count = all.len();
    if let Some(number) = typed.number.filter(|&number| number > count) {
        return Err(usage!("there is no slow write {number}: {} keeps {count}", path.display()));
    }
    match &typed.out {
        Some(out) => {
            if typed.format.is_some() {
                return Err(usage!("--format and -o exclude each other"));
            }
            trace(&all, typed, directory, out, terminal)?;
        }
        None => {
            let observed = run.results.observed_writes.as_ref();
            // `storage layers` has no deadline: it keeps the slowest.
            let over_limit = observed.map(|result| result.over_limit);
            let only = typed.number;
            let text = match typed.format.as_deref() {
                Some("json") => json::writes_json(&analysed, &all, only)?,
                Some("csv") => slow_writes::csv(&all, only),
                Some("markdown") => slow_writes::markdown(&all, only),
                _ => {
                    let causes = slow_writes::causes(&analysed, &all);
                    let left = slow_writes::without(&analysed, &causes);
                    let summed = Summed { causes: &causes, left: &left, over_limit };
                    terminal.look.fit(slow_writes::text(&all, summed, only, terminal.look))
                }
            };
            terminal.out.write_all(text.as_bytes())?;
        }
    }
    terminal.out.flush()?;
    drop(all);
    analysed.damage.pop().map_or(Ok(Exit::OK), |error| Err(error.into()))
}

/// Writes what the kernel recorded around one slow write, with all slow writes in it.
fn trace(
    all: &[SlowWrite<'_>],
    typed: &Typed,
    directory: &Path,
    out: &Path,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<()> {
    if Form::of(out)? != Form::Perfetto {
        return Err(usage!("{}: slow writes are shown in a .perfetto-trace file", out.display()));
    }
    let mut recorded = all.iter().filter_map(|slow| Some((slow.number, slow.snapshot?)));
    let Some((_, snapshot)) = recorded.find(|(at, _)| typed.number.is_none_or(|number| number == *at)) else {
        let which =
            typed.number.map_or_else(|| "any slow write".into(), |number| format!("slow write {number}"));
        anyhow::bail!("{} holds no kernel events of {which}", directory.display())
    };
    let recording = Recording::open(&directory.join(RECORDING))?;
    let within: Vec<&SlowWrite<'_>> = all.iter().filter(|slow| slow.snapshot == Some(snapshot)).collect();
    let numbers: Vec<String> = within.iter().map(|slow| slow.number.to_string()).collect();
    let tracks = slow_writes::tracks(&within);
    let trace = trace_file::write(&recording, snapshot, &tracks, Form::Perfetto, (out, typed.existing))?;
    writeln!(terminal.out, "{}", trace_file::summary(out, &trace))?;
    roundtrip_analysis::refuse_damage(&recording, snapshot, &trace)?;
    writeln!(terminal.out, "it explains slow write {} of {}", numbers.join(", "), all.len())?;
    Ok(())
}
