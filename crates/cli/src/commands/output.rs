//! The options of every command that leaves a run: how it is printed and where it is stored. Prints
//! nothing, and stores nothing.

use std::io::Write;
use std::path::{Path, PathBuf};

use bench::place::Place;
use bench::scratch::Scratch;
use bench::worker::Interrupts;
use files::Existing;
use report::csv::with_labels;
use report::look::Look;
use report::run::Divided;
use run::environment::Environment;
use run::{Labels, Results, Run};

use crate::args::values::set;
use crate::args::{Opt, values};
use crate::progress::ProgressLine;

/// What was typed of them.
#[derive(Default)]
pub(crate) struct RunOutput {
    /// `None`: a table.
    pub(crate) format: Option<String>,
    pub(crate) out: Option<PathBuf>,
    /// What becomes of a run that is there.
    pub(crate) existing: Existing,
    pub(crate) labels: Labels,
    /// A histogram of all calls behind the tables.
    pub(crate) histogram: bool,
    /// Neither progress nor warnings on standard error.
    pub(crate) quiet: bool,
}

/// Where files of a run go while it is made.
pub(crate) enum Directory {
    /// It is asked for, and stays.
    Asked(Place),
    /// It lasts as long as this value.
    Scratch(Scratch),
}

impl Directory {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Asked(place) => place.path(),
            Self::Scratch(scratch) => scratch.path(),
        }
    }

    /// The place that is asked for. What is not asked for ends here.
    pub(crate) fn asked(self) -> Option<Place> {
        match self {
            Self::Asked(place) => Some(place),
            Self::Scratch(_) => None,
        }
    }
}

impl RunOutput {
    /// Makes the run's directory, before anything is measured in vain. To be held until the run has
    /// been stored.
    pub(crate) fn place(&self) -> bench::Result<Option<Place>> {
        self.out.as_deref().map(|out| Place::prepare(out, self.existing)).transpose()
    }

    /// As [`RunOutput::place`]; where no directory is asked for, one that lasts as long as the
    /// command.
    pub(crate) fn directory(&self) -> anyhow::Result<Directory> {
        Ok(match self.place()? {
            Some(place) => Directory::Asked(place),
            None => {
                // From here on a signal finds somebody who removes it.
                Interrupts::watch()?;
                Directory::Scratch(Scratch::new()?)
            }
        })
    }
}

impl RunOutput {
    /// The line that shows how far the run is, on standard error.
    pub(crate) fn progress<'a>(&self, err: &'a mut dyn Write) -> ProgressLine<'a> {
        if self.quiet { ProgressLine::hidden(err) } else { ProgressLine::new(err) }
    }

    /// Makes a run, as [`bench::record`] does, with the labels that were typed.
    ///
    /// # Errors
    /// The closure's.
    pub(crate) fn record<E>(
        &self,
        measure: impl FnOnce(&mut Environment) -> Result<Results, E>,
    ) -> Result<Run, E> {
        let run = bench::record(measure)?;
        Ok(Run { labels: self.labels.clone(), ..run })
    }
}

impl RunOutput {
    /// A run in the format that is asked for: `name` is the command's, `csv` and `tables` are its
    /// own.
    ///
    /// # Errors
    /// None for a run that can be stored.
    pub(crate) fn text(
        &self,
        name: &str,
        shown: &Run,
        divided: Divided<'_>,
        look: Look,
        csv: impl FnOnce() -> String,
        tables: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        Ok(match self.format.as_deref() {
            Some("json") => shown.to_json()?,
            Some("csv") => with_labels(csv(), &shown.labels),
            Some("markdown") => report::figures::markdown(name, shown, divided),
            _ => report::run::page(shown, divided, &tables(), look) + &self.histograms(shown, look),
        })
    }

    /// What stands behind the tables, if it is asked for.
    pub(crate) fn histograms(&self, run: &Run, look: Look) -> String {
        if self.histogram { look.fit(report::histogram::page(run, look)) } else { String::new() }
    }
}

/// The formats of a result.
pub(crate) const FORMATS: &[&str] = &["table", "json", "csv", "markdown"];

/// What they are.
pub(crate) const FORMATS_HELP: &str = "The output format: json is the same as run.json in a run directory, markdown has a line for each figure.";

/// `--format`, one of these words, of which the first is the default.
pub(crate) const fn format<A: AsMut<RunOutput>>(
    words: &'static [&'static str],
    help: &'static str,
) -> Opt<A> {
    Opt::one_of(&["--format"], "FORMAT", words, help, |typed: &mut A, text| {
        typed.as_mut().format = Some(text.to_owned());
        Ok(())
    })
    .default(words[0])
}

/// `--out`, with what is in the directory.
pub(crate) const fn out<A: AsMut<RunOutput>>(help: &'static str) -> Opt<A> {
    Opt::path(&["--out"], "DIR", help, |typed: &mut A, text| set(&mut typed.as_mut().out, values::path(text)))
}

/// `--force`, beside `--out`.
pub(crate) const fn force<A: AsMut<RunOutput>>() -> Opt<A> {
    Opt::flag(&["--force"], "Replaces an existing run in the directory.", |typed: &mut A| {
        typed.as_mut().existing = Existing::Replace;
    })
}

/// `--label`.
pub(crate) const fn label<A: AsMut<RunOutput>>() -> Opt<A> {
    Opt::value(
        &["--label"],
        "KEY=VALUE",
        "Stores this label with the run, as in build=1234; every report shows it. A key consists of letters, \
         digits, '.', '_' and '-'. Repeatable.",
        |typed: &mut A, text| typed.as_mut().labels.add(text).map_err(|error| error.to_string()),
    )
}

/// `--quiet`.
pub(crate) const fn quiet<A: AsMut<RunOutput>>() -> Opt<A> {
    Opt::flag(
        &["--quiet", "-q"],
        "Prints the result and errors only: no progress, no warnings on standard error. JSON and the stored run keep \
         the warnings.",
        |typed: &mut A| typed.as_mut().quiet = true,
    )
}

/// What `--histogram` does.
pub(crate) const HISTOGRAM: &str =
    "Also draws how the durations are distributed, with the deadline marked. Both axes are logarithmic.";

/// `--histogram`.
pub(crate) const fn histogram<A: AsMut<RunOutput>>() -> Opt<A> {
    Opt::flag(&["--histogram"], HISTOGRAM, |typed: &mut A| typed.as_mut().histogram = true)
}
