//! The end of every command that measures: the run is stored, printed and commented, in the order that loses least.

use std::path::Path;

use bench::run::{RECORDING, Run};

use crate::terminal::{Exit, Terminal};

/// Stores the run if a directory is given, has it printed, then says what to beware of. A run that cannot be stored is
/// still shown, and a reader that goes away does not cost the stored one.
pub(crate) fn finish(
    run: &Run,
    directory: Option<&Path>,
    terminal: &mut Terminal<'_>,
    print: impl FnOnce(&mut Terminal<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let stored = directory.map_or(Ok(()), |directory| {
        run.write(directory).map(drop).inspect_err(|_| {
            // A recording without its run says nothing, and beside an earlier run it would say something wrong.
            if run.results.latency.as_ref().is_some_and(|result| result.explained.is_some()) {
                let _ = std::fs::remove_dir_all(directory.join(RECORDING));
            }
        })
    });
    print(terminal)?;
    terminal.out.flush()?;
    for warning in &run.warnings {
        writeln!(terminal.err, "roundtrip: warning: {warning}")?;
    }
    stored?;
    Ok(Exit::OK)
}
