//! The options of every command that produces a run: how it is printed and where it is stored.
//! Prints and stores nothing.

use std::io::Write;
use std::path::{Path, PathBuf};

use roundtrip_analysis::Analysed;
use roundtrip_bench::directory::place::Place;
use roundtrip_bench::directory::scratch::Scratch;
use roundtrip_bench::worker::Interrupts;
use roundtrip_files::Existing;
use roundtrip_report::text::look::Look;
use roundtrip_run::environment::Environment;
use roundtrip_run::ipc::DriverPlan;
use roundtrip_run::{Labels, Results, Run};

use super::gates::{self, Gated, Gates};
use crate::args::values::set;
use crate::args::{Group, Opt, values};
use crate::progress::ProgressLine;

/// The arguments of every measuring command, as typed.
#[derive(Default)]
pub(crate) struct Common {
    /// The driver, for commands that measure over one.
    pub(crate) driver: DriverPlan,
    pub(crate) output: RunOutput,
    pub(crate) gates: Gates,
}

/// The typed arguments of a command that measures.
pub(crate) trait Measures: Sized + 'static {
    /// The tests whose figures are in the command's result.
    const TESTS: &'static [&'static str];
    /// The possible values of `--require`.
    const REQUIRES: &'static [&'static str] = &[];
    /// The help on gates.
    const GATES: &'static str = gates::FIGURES;
    /// The option for the format.
    const FORMAT: Opt<Self> = format(FORMATS, FORMATS_HELP);
    /// The option for the run directory.
    const OUT: Opt<Self> = out("Also writes the run into this directory.");

    fn common(&mut self) -> &mut Common;
}

impl<A: Measures> Gated for A {
    const TESTS: &'static [&'static str] = <A as Measures>::TESTS;
    const REQUIRES: &'static [&'static str] = <A as Measures>::REQUIRES;
    const GATES: &'static str = <A as Measures>::GATES;

    fn gates(&mut self) -> &mut Gates {
        &mut self.common().gates
    }
}

/// How the run is printed and stored, as typed.
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
    /// The number of slowest writes of each series that are shown in detail.
    pub(crate) slowest: Option<usize>,
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

    /// Whether the user requested it.
    pub(crate) fn is_asked(&self) -> bool {
        matches!(self, Self::Asked(_))
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
    pub(crate) fn place(&self) -> roundtrip_bench::Result<Option<Directory>> {
        let place = self.out.as_deref().map(|out| Place::prepare(out, self.existing));
        Ok(place.transpose()?.map(Directory::Asked))
    }

    /// Like [`RunOutput::place`]. If no directory is requested, creates a temporary one, which is
    /// removed when the command ends.
    pub(crate) fn directory(&self) -> anyhow::Result<Directory> {
        if let Some(place) = self.place()? {
            return Ok(place);
        }
        // From here on, a signal no longer kills the process at once, so that it can remove the
        // directory.
        Interrupts::watch()?;
        Ok(Directory::Scratch(Scratch::new()?))
    }

    /// Whether the result is printed as tables.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.format.as_deref(), None | Some("table"))
    }

    /// Whether the format keeps foreign text as it is, because programs read it.
    pub(crate) fn is_for_programs(&self) -> bool {
        matches!(self.format.as_deref(), Some("json" | "google" | "android"))
    }

    /// The progress line on standard error.
    pub(crate) fn progress<'a>(&self, err: &'a mut dyn Write) -> ProgressLine<'a> {
        if self.quiet { ProgressLine::hidden(err) } else { ProgressLine::new(err) }
    }

    /// Makes a run like [`roundtrip_bench::record`], with the labels that were typed.
    ///
    /// # Errors
    /// The errors of the closure.
    pub(crate) fn record<E>(
        &self,
        measure: impl FnOnce(&mut Environment) -> Result<Results, E>,
    ) -> Result<Run, E> {
        let run = roundtrip_bench::record(measure)?;
        Ok(Run { labels: self.labels.clone(), ..run })
    }

    /// A run in the requested format. `name` is the command's name.
    ///
    /// # Errors
    /// If the run has figures that JSON cannot represent.
    pub(crate) fn text(&self, name: &str, analysed: &Analysed<'_>, look: Look) -> anyhow::Result<String> {
        Ok(match self.format.as_deref() {
            Some("json") => roundtrip_report::run::json(analysed)?,
            Some("csv") => roundtrip_report::figures::whole_csv(name, analysed),
            Some("markdown") => roundtrip_report::figures::markdown(name, analysed),
            _ => roundtrip_report::run::page(analysed, look) + &self.histograms(analysed.run, look),
        })
    }

    /// The histograms that follow the tables, if requested.
    pub(crate) fn histograms(&self, run: &Run, look: Look) -> String {
        if self.histogram { look.fit(roundtrip_report::histogram::page(run, look)) } else { String::new() }
    }
}

/// The formats of a result.
pub(crate) const FORMATS: &[&str] = &["table", "json", "csv", "markdown"];

/// The description of the formats.
pub(crate) const FORMATS_HELP: &str = "The output format: json is the same as run.json in a run directory, csv and markdown have a line for each figure.";

/// `--format`, with these values. The first one is the default.
pub(crate) const fn format<A: Measures>(words: &'static [&'static str], help: &'static str) -> Opt<A> {
    Opt::one_of(&["--format"], "FORMAT", words, help, |typed: &mut A, text| {
        set(&mut typed.common().output.format, values::any(text))
    })
    .default(words[0])
}

/// `--out`, with a description of the directory's contents.
pub(crate) const fn out<A: Measures>(help: &'static str) -> Opt<A> {
    Opt::path(&["--out"], "DIR", help, |typed: &mut A, text| {
        set(&mut typed.common().output.out, values::path(text))
    })
}

/// `--force`, for use with `--out`.
pub(crate) const fn force<A: Measures>() -> Opt<A> {
    Opt::flag(&["--force"], "Replaces an existing run in the directory.", |typed: &mut A| {
        typed.common().output.existing = Existing::Replace;
    })
}

/// `--label`.
pub(crate) const fn label<A: Measures>() -> Opt<A> {
    Opt::value(
        &["--label"],
        "KEY=VALUE",
        "Stores this label with the run, as in build=1234; every report shows it. A key consists of letters, \
         digits, '.', '_' and '-'. Repeatable.",
        |typed: &mut A, text| typed.common().output.labels.add(text).map_err(|error| error.to_string()),
    )
}

/// `--quiet`.
pub(crate) const fn quiet<A: Measures>() -> Opt<A> {
    Opt::flag(
        &["--quiet", "-q"],
        "Prints the result and errors only: no progress, no warnings on standard error. JSON and the stored run keep \
         the warnings.",
        |typed: &mut A| typed.common().output.quiet = true,
    )
}

/// The description of `--histogram`.
pub(crate) const HISTOGRAM: &str =
    "Also draws how the durations are distributed, with the deadline marked. Both axes are logarithmic.";

/// `--histogram`.
pub(crate) const fn histogram<A: Measures>() -> Opt<A> {
    Opt::flag(&["--histogram"], HISTOGRAM, |typed: &mut A| typed.common().output.histogram = true)
}

/// The options of a command's output.
pub(crate) const fn group<A: Measures>() -> Group<A> {
    Group { heading: "Output", options: Options::<A>::ALL }
}

struct Options<A>(std::marker::PhantomData<A>);

impl<A: Measures> Options<A> {
    const ALL: &'static [Opt<A>] = &[A::FORMAT, A::OUT, force(), label(), histogram(), quiet()];
}
