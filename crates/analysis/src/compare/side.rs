//! The runs of one side of a comparison, from any program.

use std::path::{Path, PathBuf};

use roundtrip_run::Run;
use roundtrip_sorting::SmallSort as _;

use super::{Changed, google};
use crate::analysed::Analysed;
use crate::error::{Error, Result};
use crate::figures::{self, Figure};

/// The maximum number of runs of one side.
const MOST_RUNS: usize = 1000;

/// One run.
#[derive(Debug)]
pub struct Measured {
    /// The path that it was read from.
    pub path: PathBuf,
    /// When the run was made; `None` if it does not say so, and for another program's run.
    pub date: Option<String>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// The run itself; `None` for another program's run.
    pub run: Option<Run>,
}

/// The runs of one side, which count as repetitions.
#[derive(Debug, Default)]
pub struct Side {
    /// The runs in the given order.
    pub runs: Vec<Measured>,
}

impl Side {
    /// Reads runs. For a directory that is not a run, reads the run directories in it, sorted by
    /// name. Also reads the JSON that Google Benchmark writes.
    ///
    /// # Errors
    /// [`Error::Run`] for a file that cannot be read or is not a run, [`Error::Damaged`] for a
    /// damaged recording.
    pub fn read(paths: &[PathBuf]) -> Result<Self> {
        let mut runs = Vec::new();
        for path in paths {
            for path in runs_at(path) {
                if runs.len() == MOST_RUNS {
                    return Err(Error::TooManyRuns(MOST_RUNS));
                }
                runs.push(measured(path)?);
            }
        }
        Ok(Self { runs })
    }

    /// This figure of every run, with the new side's values of the labels that changed; `None` if
    /// one run lacks it or has too few samples for it.
    pub(super) fn of(&self, figure: &Figure, changed: &[Changed]) -> Option<Vec<&Figure>> {
        let mut wanted = figure.clone();
        for (key, value) in &mut wanted.of {
            if let Some(change) = changed.iter().find(|change| change.key == *key) {
                change.new.clone_into(value);
            }
        }
        let same = |other: &&Figure| other.same_as(&wanted) && other.value.is_some();
        self.runs.iter().map(|run| run.figures.iter().find(same)).collect()
    }

    /// The value of a label, if it is the same in all figures of all runs.
    pub(super) fn only_value(&self, key: &str) -> Option<&str> {
        let figures = self.runs.iter().flat_map(|run| &run.figures);
        let mut values = figures
            .map(|figure| figure.of.iter().find(|(other, _)| *other == key).map(|(_, value)| value.as_str()));
        let first = values.next()??;
        values.all(|value| value == Some(first)).then_some(first)
    }
}

/// The run at a path, or the runs in that directory.
fn runs_at(path: &Path) -> Vec<PathBuf> {
    let is_run = |path: &Path| path.join(roundtrip_run::FILE_NAME).exists();
    if !path.is_dir() || is_run(path) || !scanned(path).is_empty() {
        return vec![path.to_owned()];
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_any = |path: &PathBuf| is_run(path) || !scanned(path).is_empty();
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_any).collect();
    runs.sort();
    if runs.is_empty() { vec![path.to_owned()] } else { runs }
}

/// The runs of one scan that `ab` stored in a directory, whose name is a number: their names, which
/// are OPTION=VALUE, and their paths.
fn scanned(path: &Path) -> Vec<(String, PathBuf)> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let is_run = path.join(roundtrip_run::FILE_NAME).exists();
    if is_run || name.is_empty() || !name.iter().all(u8::is_ascii_digit) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut runs: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter(|(name, path)| name.contains('=') && path.join(roundtrip_run::FILE_NAME).exists())
        .collect();
    runs.sort();
    runs
}

fn measured(path: PathBuf) -> Result<Measured> {
    let parts = scanned(&path).into_iter().map(|(name, path)| {
        let mut part = one_run(path)?;
        part.figures.iter_mut().for_each(|figure| figure.of.push(("scan", name.clone())));
        Ok::<_, Error>(part)
    });
    let mut parts = parts.collect::<Result<Vec<Measured>>>()?;
    // In the order in which they were measured.
    parts.small_sort_by(|one, other| one.date.cmp(&other.date));
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else { return one_run(path) };
    all.figures.extend(parts.flat_map(|part| part.figures));
    Ok(Measured { path, ..all })
}

fn one_run(path: PathBuf) -> Result<Measured> {
    if let Some(figures) = google::read(&path)? {
        return Ok(Measured { path, date: None, figures, run: None });
    }
    let run = Run::read(&path)?;
    let Analysed { layers, beside, damage, .. } = Analysed::read(&run, Run::directory(&path), 0);
    // The figures of a damaged recording must not be compared.
    if let Some(damage) = damage.into_iter().next() {
        return Err(damage);
    }
    let figures = figures::of(&run.results, &layers, &beside);
    drop((layers, beside));
    Ok(Measured { path, date: Some(run.environment.date.clone()), figures, run: Some(run) })
}
