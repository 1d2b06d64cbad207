//! The one path of every command that measures: it measures with progress, reads what was recorded,
//! stores the run, prints it, then prints its warnings and the violated gates. The run is stored
//! first, so that an output that fails does not lose it.

use std::path::Path;

use roundtrip_analysis::Analysed;
use roundtrip_analysis::slow_calls::{self, Kept};
use roundtrip_bench::Progress;
use roundtrip_bench::directory::place::Place;
use roundtrip_report::explanation::Shown;
use roundtrip_report::text::inert;
use roundtrip_run::environment::Environment;
use roundtrip_run::{Results, Run};

pub(crate) use super::output::{Common, Measures};
use super::output::{Directory, RunOutput};
use crate::terminal::{Exit, Terminal, nobody_reads};

impl Common {
    /// Measures, then ends as [`Common::end`] does. `name` is the command's name.
    pub(crate) fn measure(
        &self,
        name: &str,
        directory: Option<Directory>,
        terminal: &mut Terminal<'_>,
        work: impl FnOnce(&mut Environment, &mut dyn FnMut(Progress<'_>)) -> roundtrip_bench::Result<Results>,
    ) -> anyhow::Result<Exit> {
        let run = self.record(terminal, work)?;
        self.end(name, &run, directory, terminal, |_, _| Ok(false))
    }

    /// Measures, with a progress line.
    pub(crate) fn record(
        &self,
        terminal: &mut Terminal<'_>,
        work: impl FnOnce(&mut Environment, &mut dyn FnMut(Progress<'_>)) -> roundtrip_bench::Result<Results>,
    ) -> roundtrip_bench::Result<Run> {
        let mut line = self.output.progress(terminal.err);
        self.output.record(|environment| work(environment, &mut |progress| line.show(progress)))
    }

    /// Stores and prints a run. `own` prints it if the command has a format or a report of its own,
    /// and returns whether it did.
    ///
    /// If a recording cannot be read, only what it shows is missing. This is the error that remains
    /// when everything else is done.
    pub(crate) fn end(
        &self,
        name: &str,
        run: &Run,
        directory: Option<Directory>,
        terminal: &mut Terminal<'_>,
        own: impl FnOnce(&Analysed<'_>, &mut Terminal<'_>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Exit> {
        let output = &self.output;
        let shown = inert::measured(run, output.is_for_programs())?;
        let path = directory.as_ref().map(Directory::path);
        let stored = directory.as_ref().is_some_and(Directory::is_asked);
        let read = |path| Analysed::read(&shown, path, output.slowest.unwrap_or(1));
        let mut analysed = path.map_or_else(|| Analysed::bare(&shown), read);
        let mut missing = analysed.damage.drain(..).next().map(anyhow::Error::from);
        let explained = path.filter(|_| output.is_table()).map(|path| {
            let rest = if stored { REST } else { "" };
            explanations(&shown, path, Shown { last: terminal.look.is_terminal, rest, ..Shown::default() })
        });
        let explained = explained.unwrap_or_else(|| Ok(String::new())).unwrap_or_else(|error| {
            missing.get_or_insert(error);
            String::new()
        });
        let exit = finish(run, directory.and_then(Directory::asked), output, terminal, |terminal| {
            if own(&analysed, terminal)? {
                return Ok(());
            }
            let text = output.text(name, &analysed, terminal.look)? + &terminal.look.fit(explained);
            Ok(terminal.out.write_all(text.as_bytes())?)
        })?;
        let exit = self.gates.judge(&Analysed { run, ..analysed }, exit, terminal);
        missing.map_or(Ok(exit), Err)
    }
}

/// Stores the run if a directory was requested, prints it, then prints its warnings. A run that
/// cannot be stored is still printed. A run is stored even if the output's reader is gone.
fn finish(
    run: &Run,
    place: Option<Place>,
    output: &RunOutput,
    terminal: &mut Terminal<'_>,
    print: impl FnOnce(&mut Terminal<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let stored = place.map_or(Ok(()), |place| store(run, &place));
    let printed = print(terminal).and_then(|()| Ok(terminal.out.flush()?));
    match printed {
        // That nobody reads the output is no failure, and hides no other. After SIGHUP, the
        // terminal is usually gone.
        Err(error) if !nobody_reads(&error) && !hung_up(run) => {
            if let Err(error) = &stored {
                // Report this error here, because the command can return only one of the two
                // errors.
                let _ = writeln!(terminal.err, "roundtrip: {}", inert::line(&format!("{error:#}")));
            }
            return Err(error);
        }
        _ => {}
    }
    for warning in run.warnings.iter().filter(|_| !output.quiet) {
        // If standard error is closed too, the error cannot be reported.
        let _ = writeln!(terminal.err, "roundtrip: warning: {}", inert::line(warning));
    }
    stored?;
    if let Some(partial) = &run.partial {
        // A failure is printed even with --quiet.
        if !output.quiet || partial.failure.is_some() {
            let line = roundtrip_report::environment::partial(partial);
            let _ = writeln!(terminal.err, "roundtrip: {}", inert::line(&line));
        }
        return Ok(partial.signal.as_deref().map_or(Exit::FAILED, Exit::signalled));
    }
    Ok(if run.results.recording_ended() { Exit::FAILED } else { Exit::OK })
}

/// Whether SIGHUP ended the run.
fn hung_up(run: &Run) -> bool {
    run.partial.as_ref().is_some_and(|partial| partial.signal.as_deref() == Some("SIGHUP"))
}

/// How to see more of a stored run.
const REST: &str = "`roundtrip explain --all` on the run shows all with their parts.";

/// What delayed the slow calls that were kept; empty if none were kept.
fn explanations(run: &Run, directory: &Path, shown: Shown<'_>) -> anyhow::Result<String> {
    let Some(kept) = Kept::of(run) else { return Ok(String::new()) };
    let explained = slow_calls::explain(&kept, directory, |_| true, Some(&inert::name))?;
    let text = roundtrip_report::explanation::text(&explained, &kept, shown);
    Ok(if text.is_empty() { text } else { format!("\n{text}") })
}

/// Writes the run beside the recording, and moves both into place. If that fails, keeps what was
/// already stored, and reports where.
fn store(run: &Run, place: &Place) -> anyhow::Result<()> {
    let stored = run.write(place.path()).map_err(roundtrip_bench::Error::from).and_then(|_| place.keep());
    stored.map_err(|error| match place.save_rest() {
        Some(rest) => anyhow::Error::from(error)
            .context(format!("what was already stored of the run is kept in {}", rest.display())),
        None => error.into(),
    })
}
