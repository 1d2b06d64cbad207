//! The run directory: what was planned, on what machine, and what came of it, in one versioned JSON file that every
//! later command reads. Written whole or not at all. Must not know how results are made or shown.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use files::Existing;
use serde::{Deserialize, Serialize};

use crate::environment::{CpuTimes, Environment};
use crate::error::{Error, Result};
use crate::floor::FloorResult;
use crate::ipc::latency::LatencyResult;
use crate::ipc::throughput::ThroughputResult;
use crate::ipc::traits::TraitsResult;
use crate::ipc::workers::WorkersResult;
use crate::root::Root;
use crate::storage::StorageResult;
use crate::storage::interference::InterferenceResult;

/// The name of the file in a run directory.
pub const FILE_NAME: &str = "run.json";

/// The name of the folder in a run directory that holds what the kernel recorded of slow calls.
pub const RECORDING: &str = "recording";

/// The name of the file in a run directory that lists every sample.
pub const SAMPLES: &str = "latency-samples.csv";

/// The name of the file in a run directory that lists what was done to disturb the calls.
pub const INJECTED: &str = "injected.csv";

/// All that a run directory may hold. The run itself comes last: where it is, everything is.
pub(crate) const FILES: [&str; 4] = [RECORDING, SAMPLES, INJECTED, FILE_NAME];

/// The longest file that is read as a run, in bytes.
const MOST_BYTES: u64 = 256 << 20;

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
    /// Latency against a deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyResult>,
    /// Throughput by payload size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputResult>,
    /// Binder against hwbinder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traits: Option<TraitsResult>,
    /// Synchronous writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageResult>,
    /// Synchronous writes beside neighbours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interference: Option<InterferenceResult>,
    /// Many workers that call each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersResult>,
}

impl Results {
    /// What the tests themselves say that a reader must know, each once.
    fn warnings(&self) -> Vec<String> {
        let ended = [
            self.storage.as_ref().and_then(|result| result.recording_ended.clone()),
            self.interference.as_ref().and_then(|result| result.recording_ended.clone()),
        ];
        let limits = [
            self.latency.as_ref().map(|result| &result.warnings),
            self.throughput.as_ref().map(|result| &result.limits),
            self.workers.as_ref().map(|result| &result.limits),
        ];
        let mut all: Vec<String> = Vec::new();
        for warning in limits.into_iter().flatten().flatten() {
            if !all.contains(warning) {
                all.push(warning.clone());
            }
        }
        all.extend(ended.into_iter().flatten());
        all
    }

    /// Whether there was a recorder that could not go on, or whose recording is lost: not all that was asked for is there.
    #[must_use]
    pub fn recording_ended(&self) -> bool {
        let latency = self.latency.as_ref().and_then(|result| result.explained.as_ref());
        latency.is_some_and(|kept| kept.recorder.is_some() && kept.not_recorded.is_some())
            || self.storage.as_ref().is_some_and(|result| result.recording_ended.is_some())
            || self.interference.as_ref().is_some_and(|result| result.recording_ended.is_some())
    }
}

impl From<FloorResult> for Results {
    fn from(floor: FloorResult) -> Results {
        Results { floor: Some(floor), ..Results::default() }
    }
}

impl From<LatencyResult> for Results {
    fn from(latency: LatencyResult) -> Results {
        Results { latency: Some(latency), ..Results::default() }
    }
}

impl From<ThroughputResult> for Results {
    fn from(throughput: ThroughputResult) -> Results {
        Results { throughput: Some(throughput), ..Results::default() }
    }
}

impl From<TraitsResult> for Results {
    fn from(traits: TraitsResult) -> Results {
        Results { traits: Some(traits), ..Results::default() }
    }
}

impl From<StorageResult> for Results {
    fn from(storage: StorageResult) -> Results {
        Results { storage: Some(storage), ..Results::default() }
    }
}

impl From<InterferenceResult> for Results {
    fn from(interference: InterferenceResult) -> Results {
        Results { interference: Some(interference), ..Results::default() }
    }
}

impl From<WorkersResult> for Results {
    fn from(workers: WorkersResult) -> Results {
        Results { workers: Some(workers), ..Results::default() }
    }
}

#[derive(Serialize)]
struct Stored<'a> {
    schema: &'static str,
    version: u64,
    #[serde(flatten)]
    run: &'a Run,
}

/// From this share of the CPU time on, other processes are worth a warning.
const FOREIGN_SHARE: f64 = 0.05;

/// From this share on, so is a hypervisor.
const STOLEN_SHARE: f64 = 0.01;

impl Run {
    /// Makes a run: looks at the machine, measures, and looks whose the CPU time was. The closure may fill in what of the
    /// environment only it knows.
    ///
    /// # Errors
    /// The closure's.
    pub fn record<E>(
        measure: impl FnOnce(&mut Environment) -> std::result::Result<Results, E>,
    ) -> std::result::Result<Run, E> {
        let mut environment = Environment::collect();
        let before = CpuTimes::read(&Root::real());
        let results = measure(&mut environment)?;
        let after = CpuTimes::read(&Root::real());
        environment.cpu_shares = before.zip(after).and_then(|(before, after)| before.shares_until(&after));
        let mut warnings = warnings(&environment);
        warnings.extend(tracefs::foreign_clock());
        warnings.extend(results.warnings());
        Ok(Run { environment, results, warnings })
    }

    /// The run as the JSON text that a run directory holds.
    ///
    /// # Errors
    /// [`Error::Plan`] for figures that JSON cannot hold.
    pub fn to_json(&self) -> Result<String> {
        let stored = Stored { schema: SCHEMA, version: VERSION, run: self };
        let json = stored::to_text(&stored);
        json.map(|json| json + "\n")
            .map_err(|error| Error::Plan(format!("the run cannot be written as JSON: {error}")))
    }

    /// Writes the run into a directory, which is made if it is not there, and returns the file's path. On an error
    /// nothing is left behind, and a run that was there before stays as it was.
    ///
    /// # Errors
    /// [`Error::File`] when the directory or the file cannot be written, also for want of space or since there is a run.
    pub fn write(&self, directory: &Path) -> Result<PathBuf> {
        let made = !directory.exists();
        std::fs::create_dir_all(directory).map_err(|source| Error::file("create", directory, source))?;
        let path = directory.join(FILE_NAME);
        let json = self.to_json();
        let written = json.and_then(|json| {
            files::write(&path, json.as_bytes(), Existing::Keep)
                .map_err(|cause| Error::file("write", &path, cause))
        });
        if made && written.is_err() {
            // The error to tell is the first one.
            let _ = std::fs::remove_dir(directory);
        }
        written.map(|()| path)
    }

    /// Reads a run from its directory, or from the file itself.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, [`Error::NotARun`] when it is something else or of a newer version.
    pub fn read(path: &Path) -> Result<Run> {
        let path = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
        let not_a_run = |reason: String| Error::NotARun { path: path.clone(), reason };
        let bytes = files::read(&path, MOST_BYTES).map_err(|cause| match cause.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => not_a_run(format!(
                "cannot read it: {cause}; name a directory that --out or 'survey' has made"
            )),
            _ => Error::file("read", &path, cause),
        })?;
        let value =
            stored::parse(&bytes).map_err(|error| not_a_run(format!("not JSON, or cut off: {error}")))?;
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
        stored::read(&value).map_err(|error| not_a_run(format!("damaged: {error}")))
    }
}

/// What makes every figure of a run doubtful, whatever was measured.
fn warnings(environment: &Environment) -> Vec<String> {
    let mut warnings = Vec::new();
    if environment.build_profile != "release" {
        warnings
            .push("this is a debug build: its figures are too high, measure with a release build".to_owned());
    }
    if let Some(shares) = environment.cpu_shares {
        if shares.foreign >= FOREIGN_SHARE {
            let percent = shares.foreign * 100.0;
            warnings.push(format!(
                "other processes used {percent:.0}% of all CPU time during the run: repeat it on a quieter machine"
            ));
        }
        if shares.stolen >= STOLEN_SHARE {
            let percent = shares.stolen * 100.0;
            warnings.push(format!("the hypervisor took {percent:.0}% of all CPU time during the run"));
        }
    }
    if let Some(quota) = environment.cgroups.cpu_quota_cpus {
        warnings
            .push(format!("the control group allows {quota} CPUs' time only: the kernel may pause the run"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::CpuShares;
    use crate::root::{Fixture, fixture};

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
    fn what_disturbs_a_run_is_a_warning() {
        let mut environment = Environment::collect();
        environment.build_profile = "release".into();
        environment.cgroups.cpu_quota_cpus = None;
        environment.cpu_shares = Some(CpuShares { own: 0.9, foreign: 0.01, stolen: 0.0 });
        assert_eq!(warnings(&environment), Vec::<String>::new());
        environment.build_profile = "debug".into();
        environment.cgroups.cpu_quota_cpus = Some(0.5);
        environment.cpu_shares = Some(CpuShares { own: 0.5, foreign: 0.12, stolen: 0.03 });
        let warnings = warnings(&environment).join("\n");
        for hint in ["debug build", "12%", "hypervisor took 3%", "0.5 CPUs"] {
            assert!(warnings.contains(hint), "{warnings}");
        }
    }

    #[test]
    fn a_recorded_run_knows_whose_the_time_was_and_what_the_test_filled_in() {
        let run = Run::record(|environment| {
            environment.driver = Some("emulated".into());
            // A tick has to pass before anything can be said.
            std::thread::sleep(std::time::Duration::from_millis(60));
            Ok::<_, Error>(Results::default())
        })
        .unwrap();
        assert_eq!(run.environment.driver.as_deref(), Some("emulated"));
        assert!(run.environment.cpu_shares.is_some());
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
        let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        value["results"]["telepathy"] = serde_json::json!({"ns": 0});
        std::fs::write(&path, value.to_string()).unwrap();
        Run::read(&path).unwrap();
    }
}
