//! The run directory: what was planned, on what machine, and what came of it, in one versioned JSON file that every
//! later command reads. Written whole or not at all. Must not know how results are made or shown.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::floor::FloorResult;

/// The name of the file in a run directory.
pub const FILE_NAME: &str = "run.json";

/// What the file says it is.
const SCHEMA: &str = "roundtrip.run";

/// The version of the file's layout. A new optional field leaves it alone; anything that an older Roundtrip would
/// misread raises it.
const VERSION: u64 = 1;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The machine.
    pub environment: Environment,
    /// What was measured, each part beside its plan.
    pub results: Results,
    /// What a reader must know before trusting the figures: losses, refusals, disturbances.
    pub warnings: Vec<String>,
}

/// The parts of a run, each there if it was measured. A further test adds its result here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// Round trips by other means than binder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<FloorResult>,
}

#[derive(Serialize)]
struct Stored<'a> {
    schema: &'static str,
    version: u64,
    #[serde(flatten)]
    run: &'a Run,
}

impl Run {
    /// Writes the run into a directory, which is made if it is not there, and returns the file's path. On an error
    /// nothing is left behind, and a run that was there before stays as it was.
    ///
    /// # Errors
    /// [`Error::File`] when the directory or the file cannot be written, also for want of space.
    pub fn write(&self, directory: &Path) -> Result<PathBuf> {
        let made = !directory.exists();
        std::fs::create_dir_all(directory).map_err(|source| Error::file("create", directory, source))?;
        let path = directory.join(FILE_NAME);
        let partial = directory.join(format!(".{FILE_NAME}.{}", std::process::id()));
        let result = self.write_file(&partial).and_then(|()| {
            std::fs::rename(&partial, &path).map_err(|source| Error::file("write", &path, source))
        });
        if let Err(error) = result {
            // The error to tell is the first one; these may fail because there is nothing to remove.
            let _ = std::fs::remove_file(&partial);
            if made {
                let _ = std::fs::remove_dir(directory);
            }
            return Err(error);
        }
        Ok(path)
    }

    fn write_file(&self, path: &Path) -> Result<()> {
        let stored = Stored { schema: SCHEMA, version: VERSION, run: self };
        let mut json = serde_json::to_vec(&stored).map_err(|source| Error::file("write", path, source))?;
        json.push(b'\n');
        let write = || {
            let mut file = File::create(path)?;
            file.write_all(&json)?;
            // Renaming a file whose bytes are not on the disk yet could leave an empty one after a power failure.
            file.sync_all()
        };
        write().map_err(|source| Error::file("write", path, source))
    }

    /// Reads a run from its directory, or from the file itself.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, [`Error::NotARun`] when it is something else or of a newer version.
    pub fn read(path: &Path) -> Result<Run> {
        let path = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
        let bytes = std::fs::read(&path).map_err(|source| Error::file("read", &path, source))?;
        let not_a_run = |reason: String| Error::NotARun { path: path.clone(), reason };
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|error| not_a_run(format!("not JSON, or cut off: {error}")))?;
        if value["schema"] != SCHEMA {
            return Err(not_a_run(format!("not a recorded run: its \"schema\" is not \"{SCHEMA}\"")));
        }
        match value["version"].as_u64() {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => {
                return Err(not_a_run(format!(
                    "unknown version {newer}: made by a newer Roundtrip; this one reads version {VERSION}"
                )));
            }
            _ => return Err(not_a_run(format!("unknown version {}", value["version"]))),
        }
        // From the bytes, for an error then tells line and column.
        serde_json::from_slice(&bytes).map_err(|error| not_a_run(format!("damaged: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{Fixture, Root, fixture};

    fn run() -> Run {
        Run {
            environment: Environment::collect(),
            results: Results::default(),
            warnings: vec!["a warning".into()],
        }
    }

    fn directory() -> (Fixture, PathBuf) {
        let root = fixture(&[("file", "not a directory")]);
        let directory = root.path("runs/one");
        (root, directory)
    }

    fn written(root: &Root, text: &str) -> String {
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
    fn a_run_that_cannot_be_written_leaves_nothing() {
        let (root, directory) = directory();
        let error = run().write(&root.path("file/below")).unwrap_err().to_string();
        assert!(error.contains("file/below"), "{error}");
        // A directory in the file's place makes the last step fail.
        std::fs::create_dir_all(directory.join(FILE_NAME)).unwrap();
        run().write(&directory).unwrap_err();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn a_newer_version_is_named_as_such() {
        let error = written(&fixture(&[("x", "")]), "{\"schema\":\"roundtrip.run\",\"version\":7}");
        assert!(error.contains("unknown version 7: made by a newer Roundtrip"), "{error}");
    }

    #[test]
    fn what_is_no_run_is_refused_with_its_path() {
        let root = fixture(&[("x", "")]);
        for (text, hint) in [
            ("{\"schema\":\"roundtrip.run\",\"ver", "cut off"),
            ("{\"hello\":1}", "not a recorded run"),
            ("[]", "not a recorded run"),
            ("{\"schema\":\"roundtrip.run\"}", "unknown version null"),
            ("{\"schema\":\"roundtrip.run\",\"version\":1}", "damaged: missing field"),
        ] {
            let error = written(&root, text);
            assert!(error.contains(hint) && error.contains("run.json"), "{text}: {error}");
        }
        assert!(Run::read(&root.path("nowhere")).unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn fields_of_a_later_roundtrip_are_passed_over() {
        let (_root, directory) = directory();
        let path = run().write(&directory).unwrap();
        let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        value["results"]["telepathy"] = serde_json::json!({"ns": 0});
        std::fs::write(&path, value.to_string()).unwrap();
        Run::read(&path).unwrap();
    }
}
