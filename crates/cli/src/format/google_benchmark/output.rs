//! Where rows go: to the display and, if asked for, to a file that appears only when it is complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::console::Console;
use super::csv::Csv;
use super::flags::{Flags, FormatName};
use super::json::Json;
use super::{Context, Row, aggregates};
use crate::terminal::Terminal;

/// One of the formats, fed in the order begin, rows, rows, …, end.
pub(super) trait Format {
    fn begin(&mut self, context: &Context, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()>;
    fn rows(&mut self, rows: &[Row], out: &mut dyn Write) -> io::Result<()>;
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.flush()
    }
}

/// The outputs of one run.
pub(crate) struct Output {
    display: Box<dyn Format>,
    file: Option<(Box<dyn Format>, OutFile)>,
    display_aggregates_only: bool,
    file_aggregates_only: bool,
}

impl Output {
    /// Opens the outputs that the flags ask for. `names` are those of all benchmarks that will run.
    ///
    /// # Errors
    /// The file of `--benchmark_out` cannot be created.
    pub(crate) fn open(flags: &Flags, names: &[String], terminal: &Terminal<'_>) -> anyhow::Result<Self> {
        let colour = flags.color.unwrap_or(terminal.out_colour);
        let make = |format: FormatName, colour: bool| -> Box<dyn Format> {
            match format {
                FormatName::Console => Box::new(Console::new(names, flags, colour)),
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

    /// Reports what is said once.
    pub(crate) fn begin(&mut self, context: &Context, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
        self.display.begin(context, terminal.out, terminal.err)?;
        if let Some((format, file)) = &mut self.file {
            let path = file.path.display().to_string();
            format
                .begin(context, &mut file.writer, &mut io::sink())
                .with_context(|| format!("write {path}"))?;
        }
        Ok(())
    }

    /// Reports all repetitions of one benchmark, and what they amount to.
    pub(crate) fn benchmark(
        &mut self,
        repetitions: &[Row],
        terminal: &mut Terminal<'_>,
    ) -> anyhow::Result<()> {
        let statistics = aggregates(repetitions);
        // A single repetition is its own aggregate: it is shown whatever was asked for.
        let select = |aggregates_only: bool| match aggregates_only && !statistics.is_empty() {
            true => statistics.clone(),
            false => [repetitions, &statistics].concat(),
        };
        self.display.rows(&select(self.display_aggregates_only), terminal.out)?;
        if let Some((format, file)) = &mut self.file {
            let path = file.path.display().to_string();
            format
                .rows(&select(self.file_aggregates_only), &mut file.writer)
                .with_context(|| format!("write {path}"))?;
        }
        Ok(())
    }

    /// Completes the outputs; only now does the file exist under its name.
    pub(crate) fn end(mut self, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
        self.display.end(terminal.out)?;
        if let Some((mut format, mut file)) = self.file.take() {
            let path = file.path.display().to_string();
            format
                .end(&mut file.writer)
                .and_then(|()| file.complete())
                .with_context(|| format!("write {path}"))?;
        }
        Ok(())
    }
}

/// A file that is written under a temporary name and removed unless it is completed.
struct OutFile {
    path: PathBuf,
    /// `None` where the path is no ordinary file (a pipe, a device): that is written to as it stands.
    temporary: Option<PathBuf>,
    writer: BufWriter<File>,
}

impl OutFile {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let special = fs::metadata(path).is_ok_and(|found| !found.is_file());
        let temporary = (!special).then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}.tmp", std::process::id()));
            PathBuf::from(name)
        });
        let opened = match &temporary {
            Some(temporary) => File::create(temporary),
            None => File::options().write(true).open(path),
        };
        let file = opened.with_context(|| format!("create {}", path.display()))?;
        Ok(Self { path: path.to_owned(), temporary, writer: BufWriter::new(file) })
    }

    fn complete(mut self) -> io::Result<()> {
        self.writer.flush()?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The run failed already; that a leftover cannot be removed adds nothing to its reason.
            let _ = fs::remove_file(temporary);
        }
    }
}
