//! The end of every command that measures: the run is stored, printed and commented, in the order
//! that loses least.

use std::path::Path;

use analysis::slow_calls::{self, Kept};
use bench::place::Place;
use run::Run;

use super::output::RunOutput;
use crate::terminal::{Exit, Terminal, nobody_reads};

/// Stores the run if there is a place for it, has it printed, then says what to beware of. A run
/// that cannot be stored is still shown, and a reader that goes away does not cost the stored one.
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
        // A reader that goes away is no failure, and hides none.
        Err(error) if !nobody_reads(&error) => {
            if let Err(error) = &stored {
                // Only one of both can be what the command ends with.
                let _ = writeln!(terminal.err, "roundtrip: {}", report::inert::line(&format!("{error:#}")));
            }
            return Err(error);
        }
        _ => {}
    }
    for warning in run.warnings.iter().filter(|_| !output.quiet) {
        // With standard error gone as well there is nobody left to tell.
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

/// Why the slow calls were slow, as far as any were kept.
pub(crate) fn explanations(run: &Run, directory: Option<&Path>) -> anyhow::Result<String> {
    let (Some(directory), Some(kept)) = (directory, Kept::of(run)) else { return Ok(String::new()) };
    let explained = slow_calls::explain(&kept, directory, |_| true, Some(&report::inert::name))?;
    let text = report::explanation::text(&explained, &kept);
    Ok(if text.is_empty() { text } else { format!("\n{text}") })
}

/// Puts the run beside what was recorded, and all in its place; or keeps what can be kept.
fn store(run: &Run, place: &Place) -> anyhow::Result<()> {
    let stored = run.write(place.path()).map_err(bench::Error::from).and_then(|_| place.keep());
    stored.map_err(|error| match place.save_rest() {
        Some(rest) => anyhow::Error::from(error)
            .context(format!("what was already stored of the run is kept in {}", rest.display())),
        None => error.into(),
    })
}
