//! The run directory: plan, environment and results in one versioned JSON file that all later
//! commands read. It is written completely or not at all. Must not know how results are made or
//! shown.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;

use roundtrip_files::Budget;
use roundtrip_stored::Form;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::results::Results;

/// The name of the run's file in a run directory.
pub const FILE_NAME: &str = "run.json";

/// The name of the folder with recordings of kernel events.
pub const RECORDING: &str = "recording";

/// The name of the file with all samples.
pub const SAMPLES: &str = "latency-samples.csv";

/// The name of the file with the injected disturbances.
pub const INJECTED: &str = "injected.csv";

/// Everything that a run directory may contain. The run itself comes last: if it exists, so does
/// everything else.
pub const FILES: [&str; 4] = [RECORDING, SAMPLES, INJECTED, FILE_NAME];

/// The maximum size of a run's file, in bytes.
const MOST_BYTES: u64 = 256 << 20;

/// The value of the file's "schema" field.
const SCHEMA: &str = "roundtrip.run";

/// The version of the file's layout.
const VERSION: u64 = 1;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The machine.
    pub environment: Environment,
    /// The labels that the user gave the run.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Why the run is incomplete, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
    /// The results, each with its plan.
    pub results: Results,
    /// What a reader must know before trusting the figures: losses, refusals, disturbances.
    pub warnings: Vec<String>,
}

/// A signal or a failure ended the measurement. The run contains what was complete before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Partial {
    /// The signal's name: "SIGINT".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// What failed: "client of pair 1 (pid 4711) was killed by SIGKILL".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// How long the run had lasted then, in nanoseconds.
    pub after_ns: u64,
}

#[derive(Serialize)]
struct Stored<'a> {
    schema: &'static str,
    version: u64,
    #[serde(flatten)]
    run: &'a Run,
}

impl Run {
    /// Makes a run, with the warnings that follow from its environment and its results. `machine`
    /// is an additional warning about the machine.
    #[must_use]
    pub fn new(environment: Environment, results: Results, machine: Option<String>) -> Self {
        let mut warnings = environment.warnings(results.observed());
        warnings.extend(machine);
        warnings.extend(results.warnings());
        Self { environment, labels: Labels::default(), partial: None, results, warnings }
    }

    /// The run as the JSON text of a run directory.
    ///
    /// # Errors
    /// [`Error::NotJson`] for figures that JSON cannot represent.
    pub fn to_json(&self) -> Result<String> {
        let stored = Stored { schema: SCHEMA, version: VERSION, run: self };
        let json = roundtrip_stored::to_text(&stored);
        json.map(|json| json + "\n").map_err(|error| Error::NotJson { reason: error.to_string() })
    }

    /// Writes the run into a directory, which is created if it does not exist, and returns the
    /// file's path. After an error, no new file is left behind, and an earlier run is unchanged.
    ///
    /// # Errors
    /// [`Error::File`] if the directory or the file cannot be written, for example because there is
    /// no space, or because the directory already contains a run.
    #[cfg(feature = "write")]
    pub fn write(&self, directory: &Path) -> Result<std::path::PathBuf> {
        let made = !directory.exists();
        std::fs::create_dir_all(directory).map_err(|source| Error::file("create", directory, source))?;
        let path = directory.join(FILE_NAME);
        let json = self.to_json();
        let written = json.and_then(|json| {
            roundtrip_files::write(&path, json.as_bytes(), roundtrip_files::Existing::Keep)
                .map_err(|cause| Error::file("write", &path, cause))
        });
        if made && written.is_err() {
            // Ignore an error here, so that the first error is reported.
            let _ = std::fs::remove_dir(directory);
        }
        written.map(|()| path)
    }

    /// The run directory at a path, which may also name the run's file.
    #[must_use]
    pub fn directory(path: &Path) -> &Path {
        if path.is_dir() { path } else { path.parent().unwrap_or(path) }
    }

    /// Reads a run from its directory, or from the file itself.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::NotARun`] if it is not a run or from a newer
    /// version.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_shown(path, |text| Cow::Borrowed(text))
    }

    /// Like [`Run::read`], with `shown` of each text in its place.
    ///
    /// # Errors
    /// As [`Run::read`].
    pub fn read_shown(path: &Path, shown: for<'a> fn(&'a str) -> Cow<'a, str>) -> Result<Self> {
        let path = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
        let not_a_run = |reason: String| Error::NotARun { path: path.clone(), reason };
        let bytes = roundtrip_files::read(&path, MOST_BYTES).map_err(|cause| match cause.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                not_a_run(format!("cannot read it: {cause}; name a directory that --out or 'survey' created"))
            }
            _ => Error::file("read", &path, cause),
        })?;
        let form = match roundtrip_stored::read_text::<Form>(&bytes) {
            Ok(form) => form,
            Err(error) if error.is_json() => Form::default(),
            Err(error) => return Err(not_a_run(format!("not JSON, or cut off: {error}"))),
        };
        if form.schema != SCHEMA {
            return Err(not_a_run(format!("not a stored run: its \"schema\" is not \"{SCHEMA}\"")));
        }
        match form.version.as_u64() {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => {
                return Err(not_a_run(format!(
                    "unknown version {newer}: made by a newer Roundtrip; this one reads version {VERSION}"
                )));
            }
            _ => return Err(not_a_run(format!("unknown version {}", form.version))),
        }
        let budget = Budget::new(roundtrip_stored::MAX_MEMORY_BYTES, u64::MAX, u64::MAX);
        roundtrip_stored::read_within(&bytes, shown, budget)
            .map_err(|error| not_a_run(format!("damaged: {error}")))
    }
}

#[cfg(all(test, feature = "write"))]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn run() -> Run {
        Run {
            environment: Environment::default(),
            labels: Labels::default(),
            partial: None,
            results: Results::default(),
            warnings: vec!["a warning".into()],
        }
    }

    /// A temporary folder of a test.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("roundtrip-run-{}-{number}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn directory() -> (Folder, PathBuf) {
        let root = Folder::new();
        std::fs::write(root.path("file"), "not a directory").unwrap();
        let directory = root.path("runs/one");
        (root, directory)
    }

    fn written(root: &Folder, text: &str) -> String {
        let path = root.path("run.json");
        std::fs::write(&path, text).unwrap();
        Run::read(&path).unwrap_err().to_string()
    }

    #[test]
    fn a_run_is_read_back_as_it_was_written() {
        let (_root, directory) = directory();
        let run = run();
        let path = run.write(&directory).unwrap();
        assert_eq!(Run::read(&directory).unwrap(), run);
        assert_eq!(Run::read(&path).unwrap(), run);
        let names: Vec<_> =
            std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [FILE_NAME], "no temporary file is left");
    }

    #[test]
    fn labels_are_stored_and_a_run_without_them_opens() {
        let (_root, directory) = directory();
        let mut labelled = run();
        labelled.labels.add("build=1234").unwrap();
        labelled.partial = Some(Partial { signal: Some("SIGINT".into()), failure: None, after_ns: 5 });
        let path = labelled.write(&directory).unwrap();
        assert_eq!(Run::read(&directory).unwrap(), labelled);
        // A run without them has neither field.
        let text = run().to_json().unwrap();
        assert!(!text.contains("labels") && !text.contains("partial"), "{text}");
        std::fs::write(&path, text).unwrap();
        assert_eq!(Run::read(&path).unwrap(), run());
    }

    #[test]
    fn a_run_that_cannot_be_written_leaves_nothing() {
        let (root, directory) = directory();
        let error = run().write(&root.path("file/below")).unwrap_err().to_string();
        assert!(error.contains("file/below"), "{error}");
        // A directory with the file's name makes the last step fail.
        std::fs::create_dir_all(directory.join(FILE_NAME)).unwrap();
        run().write(&directory).unwrap_err();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn a_newer_version_is_named_as_such() {
        let error = written(&Folder::new(), "{\"schema\":\"roundtrip.run\",\"version\":7}");
        assert!(error.contains("unknown version 7: made by a newer Roundtrip"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_a_run_is_refused_with_its_path() {
        let root = Folder::new();
        for (text, hint) in [
            ("{\"schema\":\"roundtrip.run\",\"ver", "cut off"),
            ("{\"hello\":1}", "not a stored run"),
            ("[]", "not a stored run"),
            ("{\"schema\":\"roundtrip.run\"}", "unknown version null"),
            ("{\"schema\":\"roundtrip.run\",\"version\":1}", "damaged: missing field"),
        ] {
            let error = written(&root, text);
            assert!(error.contains(hint) && error.contains("run.json"), "{text}: {error}");
        }
        assert!(Run::read(&root.path("nowhere")).unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn unknown_fields_of_a_newer_roundtrip_are_ignored() {
        let (_root, directory) = directory();
        let path = run().write(&directory).unwrap();
        let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        value["results"]["telepathy"] = serde_json::json!({"ns": 0});
        std::fs::write(&path, value.to_string()).unwrap();
        Run::read(&path).unwrap();
    }
}
