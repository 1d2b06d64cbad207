//! The options of every command that produces a run: how it is printed and where it is stored.
//! Prints and stores nothing.

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

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct RunOutput {
    /// The output format; `None` means a table.
    pub(crate) format: Option<String>,
    pub(crate) out: Option<PathBuf>,
    /// What to do with an existing run.
    pub(crate) existing: Existing,
    pub(crate) labels: Labels,
    /// Whether to print a histogram of all calls after the tables.
    pub(crate) histogram: bool,
    /// Whether to omit progress and warnings on standard error.
    pub(crate) quiet: bool,
}

/// Where files of a run are written.
pub(crate) enum Directory {
    /// A directory that the user requested, which is kept.
    Asked(Place),
    /// A temporary directory.
    Scratch(Scratch),
}

impl Directory {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Asked(place) => place.path(),
            Self::Scratch(scratch) => scratch.path(),
        }
    }

    /// The requested directory. Removes a temporary directory.
    pub(crate) fn asked(self) -> Option<Place> {
        match self {
            Self::Asked(place) => Some(place),
            Self::Scratch(_) => None,
        }
    }
}

impl RunOutput {
    /// Creates the run's directory before anything is measured. Keep the returned value until the
    /// run has been stored.
    pub(crate) fn place(&self) -> bench::Result<Option<Place>> {
        self.out.as_deref().map(|out| Place::prepare(out, self.existing)).transpose()
    }

    /// Like [`RunOutput::place`]. If no directory is requested, creates a temporary one, which is
    /// removed when the command ends.
    pub(crate) fn directory(&self) -> anyhow::Result<Directory> {
        Ok(match self.place()? {
            Some(place) => Directory::Asked(place),
            None => {
                // From here on, a signal no longer kills the process at once, so that it can remove
                // the directory.
                Interrupts::watch()?;
                Directory::Scratch(Scratch::new()?)
            }
        })
    }
}

impl RunOutput {
    /// The progress line on standard error.
    pub(crate) fn progress<'a>(&self, err: &'a mut dyn Write) -> ProgressLine<'a> {
        if self.quiet { ProgressLine::hidden(err) } else { ProgressLine::new(err) }
    }

    /// Makes a run like [`bench::record`], with the labels that were typed.
    ///
    /// # Errors
    /// The errors of the closure.
    pub(crate) fn record<E>(
        &self,
        measure: impl FnOnce(&mut Environment) -> Result<Results, E>,
    ) -> Result<Run, E> {
        let run = bench::record(measure)?;
        Ok(Run { labels: self.labels.clone(), ..run })
    }
}

impl RunOutput {
    /// A run in the requested format. `name` is the command's name, and `csv` and `tables` render
    /// its own formats.
    ///
    /// # Errors
    /// If the run has figures that JSON cannot represent.
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

    /// The histograms that follow the tables, if requested.
    pub(crate) fn histograms(&self, run: &Run, look: Look) -> String {
        if self.histogram { look.fit(report::histogram::page(run, look)) } else { String::new() }
    }
}

/// The formats of a result.
pub(crate) const FORMATS: &[&str] = &["table", "json", "csv", "markdown"];

/// The description of the formats.
pub(crate) const FORMATS_HELP: &str = "The output format: json is the same as run.json in a run directory, markdown has a line for each figure.";

/// `--format`, with these values. The first one is the default.
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

/// `--out`, with a description of the directory's contents.
pub(crate) const fn out<A: AsMut<RunOutput>>(help: &'static str) -> Opt<A> {
    Opt::path(&["--out"], "DIR", help, |typed: &mut A, text| set(&mut typed.as_mut().out, values::path(text)))
}

/// `--force`, for use with `--out`.
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

/// The description of `--histogram`.
pub(crate) const HISTOGRAM: &str =
    "Also draws how the durations are distributed, with the deadline marked. Both axes are logarithmic.";

/// `--histogram`.
pub(crate) const fn histogram<A: AsMut<RunOutput>>() -> Opt<A> {
    Opt::flag(&["--histogram"], HISTOGRAM, |typed: &mut A| typed.as_mut().histogram = true)
}
