//! The outputs for rows: the display and, if requested, a file that appears only when it is
//! complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use roundtrip_files::{Existing, NewFile};
use roundtrip_report::google_benchmark::{Console, Context, Csv, Format, Json, Row, aggregates};

use super::flags::{Flags, FormatName};
use crate::terminal::Terminal;

/// The outputs of one run.
pub(crate) struct Output {
    display: Box<dyn Format>,
    file: Option<(Box<dyn Format>, OutFile)>,
    display_aggregates_only: bool,
    file_aggregates_only: bool,
}

impl Output {
    /// Opens the outputs that the flags request. `names` are those of all benchmarks that will run.
    ///
    /// # Errors
    /// If the file of `--benchmark_out` cannot be created.
    pub(crate) fn open(flags: &Flags, names: &[String], terminal: &Terminal<'_>) -> anyhow::Result<Self> {
        let colour = flags.color.unwrap_or(terminal.look.colour);
        let make = |format: FormatName, colour: bool| -> Box<dyn Format> {
            match format {
                FormatName::Console => Box::new(Console::new(
                    names,
                    flags.repetitions() > 1,
                    flags.time_unit,
                    flags.counters_tabular,
                    colour,
                )),
                FormatName::Json => Box::new(Json::new(flags.time_unit)),
                FormatName::Csv => Box::new(Csv::new(flags.time_unit)),
            }
        };
        let file = match &flags.out {
            None => None,
            Some(path) => Some((make(flags.out_format, false), OutFile::create(path)?)),
        };
        Ok(Self {
            display: make(flags.format, colour),
            file,
            display_aggregates_only: flags.report_aggregates_only || flags.display_aggregates_only,
            file_aggregates_only: flags.report_aggregates_only,
        })
    }

    /// Reports the context.
    pub(crate) fn begin(&mut self, context: &Context, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
        self.display.begin(context, terminal.out, terminal.err)?;
        if let Some((format, file)) = &mut self.file {
            let path = file.path.display().to_string();
            format.begin(context, file.writer(), &mut io::sink()).with_context(|| format!("write {path}"))?;
        }
        Ok(())
    }

    /// Reports all repetitions of one benchmark, and their aggregates.
    pub(crate) fn benchmark(
        &mut self,
        repetitions: &[Row],
        terminal: &mut Terminal<'_>,
    ) -> anyhow::Result<()> {
        let statistics = aggregates(repetitions);
        // A single repetition has no aggregates, and is always shown.
        let select = |aggregates_only: bool| match aggregates_only && !statistics.is_empty() {
            true => statistics.clone(),
            false => [repetitions, &statistics].concat(),
        };
        self.display.rows(&select(self.display_aggregates_only), terminal.out)?;
        if let Some((format, file)) = &mut self.file {
            let path = file.path.display().to_string();
            format
                .rows(&select(self.file_aggregates_only), file.writer())
                .with_context(|| format!("write {path}"))?;
        }
        Ok(())
    }

    /// Completes the outputs. Only now does the file appear under its name.
    pub(crate) fn end(mut self, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
        self.display.end(terminal.out)?;
        if let Some((mut format, mut file)) = self.file.take() {
            let path = file.path.display().to_string();
            format
                .end(file.writer())
                .and_then(|()| file.complete())
                .with_context(|| format!("write {path}"))?;
        }
        Ok(())
    }
}

/// A file that appears, or replaces an earlier one, when it is complete. Google Benchmark truncates
/// an existing file at once, and scripts rely on that replacement.
struct OutFile {
    path: PathBuf,
    writer: Writer,
}

enum Writer {
    New(NewFile),
    /// A pipe, a device, or another file that is not regular. It is written directly.
    Special(BufWriter<File>),
}

impl OutFile {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let failed = || format!("cannot create {}", path.display());
        let place = roundtrip_files::followed(path).with_context(failed)?;
        let special = fs::metadata(&place).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let writer = if special {
            special_file(&place).map(|file| Writer::Special(BufWriter::new(file)))
        } else {
            NewFile::create(&place, Existing::Replace).map(Writer::New)
        };
        Ok(Self { path: path.to_owned(), writer: writer.with_context(failed)? })
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.writer {
            Writer::New(file) => file,
            Writer::Special(file) => file,
        }
    }

    fn complete(self) -> io::Result<()> {
        match self.writer {
            Writer::New(file) => file.complete(),
            Writer::Special(mut file) => file.flush(),
        }
    }
}

fn special_file(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).open(path)?;
    // Check again, because the file may have been replaced since the first check.
    let exchanged = file.metadata()?.is_file();
    if exchanged { Err(io::Error::other("a regular file has replaced it")) } else { Ok(file) }
}
