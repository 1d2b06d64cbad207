//! The end of every command that measures: the run is stored, printed and commented, in the order that loses least.

use std::path::Path;

use bench::run::Run;

use crate::terminal::{Exit, Terminal};

/// Stores the run if a directory is given, has it printed, then says what to beware of. A run that cannot be stored is
/// still shown, and a reader that goes away does not cost the stored one.
pub(crate) fn finish(
    run: &Run,
    directory: Option<&Path>,
    terminal: &mut Terminal<'_>,
    print: impl FnOnce(&mut Terminal<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let stored = directory.map_or(Ok(()), |directory| run.write(directory).map(drop));
    print(terminal)?;
    terminal.out.flush()?;
    for warning in &run.warnings {
        writeln!(terminal.err, "roundtrip: warning: {warning}")?;
    }
    stored?;
    Ok(Exit::OK)
}
