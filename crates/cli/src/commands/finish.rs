//! The end of every command that measures: it stores the run, prints it, and then prints its
//! warnings. With this order, a failure loses the least.

use std::path::Path;

use analysis::slow_calls::{self, Kept};
use bench::place::Place;
use run::Run;

use super::output::RunOutput;
use crate::terminal::{Exit, Terminal, nobody_reads};

/// Stores the run if a directory was requested, prints it, then prints its warnings. A run that
/// cannot be stored is still printed. A run is stored even if the output's reader is gone.
pub(crate) fn finish(
    run: &Run,
    place: Option<Place>,
    output: &RunOutput,
    terminal: &mut Terminal<'_>,
    print: impl FnOnce(&mut Terminal<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let stored = place.map_or(Ok(()), |place| store(run, &place));
    let printed = print(terminal).and_then(|()| Ok(terminal.out.flush()?));
    match printed {
        // A closed output is not a failure, and does not hide other failures.
        Err(error) if !nobody_reads(&error) => {
            if let Err(error) = &stored {
                // Report this error here, because the command can return only one of the two
                // errors.
                let _ = writeln!(terminal.err, "roundtrip: {}", report::inert::line(&format!("{error:#}")));
            }
            return Err(error);
        }
        _ => {}
    }
    for warning in run.warnings.iter().filter(|_| !output.quiet) {
        // If standard error is closed too, the error cannot be reported.
        let _ = writeln!(terminal.err, "roundtrip: warning: {}", report::inert::line(warning));
    }
    stored?;
    if let Some(partial) = &run.partial {
        if !output.quiet {
            let line = report::environment::partial(partial);
            let _ = writeln!(terminal.err, "roundtrip: {}", report::inert::line(&line));
        }
        return Ok(Exit::signalled(&partial.signal));
    }
    Ok(if run.results.recording_ended() { Exit::FAILED } else { Exit::OK })
}

/// What delayed the slow calls that were kept; empty if none were kept.
pub(crate) fn explanations(run: &Run, directory: Option<&Path>) -> anyhow::Result<String> {
    let (Some(directory), Some(kept)) = (directory, Kept::of(run)) else { return Ok(String::new()) };
    let explained = slow_calls::explain(&kept, directory, |_| true, Some(&report::inert::name))?;
    let text = report::explanation::text(&explained, &kept);
    Ok(if text.is_empty() { text } else { format!("\n{text}") })
}

/// Writes the run beside the recording, and moves both into place. If that fails, keeps what was
/// already stored, and reports where.
fn store(run: &Run, place: &Place) -> anyhow::Result<()> {
    let stored = run.write(place.path()).map_err(bench::Error::from).and_then(|_| place.keep());
    stored.map_err(|error| match place.save_rest() {
        Some(rest) => anyhow::Error::from(error)
            .context(format!("what was already stored of the run is kept in {}", rest.display())),
        None => error.into(),
    })
}
