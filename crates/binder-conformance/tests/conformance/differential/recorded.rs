//! The results of a real kernel for sequences of commands, as a fixture. Any machine can compare
//! the emulated driver with it.
//!
//! The fixture contains the sequences too, so they do not change with the generator. `cargo xtask
//! sequences --record` writes the file in a guest. Every run of the guests checks that the kernel
//! still has these results.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde::{Deserialize, Serialize};

use super::stage::{Looking, Stage, StepResult};
use super::steps::Step;
use super::{common_features, difference, generator, use_one_cpu};
use crate::Device;

/// The results of one kernel.
struct Fixture {
    /// A file in `fixtures/binder`. A new recording goes to the file that [`RECORD`] names.
    name: &'static str,
    /// How that kernel's releases begin.
    release: &'static str,
    /// The file's text, so that this program runs without the project beside it.
    text: &'static str,
}

macro_rules! fixture {
    ($release:literal) => {
        Fixture {
            name: concat!("fixtures/binder/linux-", $release, ".json"),
            release: concat!($release, "."),
            text: include_str!(concat!("../../../../../fixtures/binder/linux-", $release, ".json")),
        }
    };
}

/// Linux 6.1 shows its state in the format that these tests read; 7.0 has freeze notifications.
const FIXTURES: [Fixture; 2] = [fixture!("6.1"), fixture!("7.0")];

/// The environment variable that names the file for a new recording.
const RECORD: &str = "RECORD_SEQUENCES_TO";

/// The number of sequences without priorities, which need no permissions, and with them.
const COUNTS: [(bool, usize); 2] = [(false, 36), (true, 18)];
const SEED: u64 = 61;

/// The content of a fixture. Most steps and lines occur many times, so each is in a table once.
#[derive(Serialize, Deserialize)]
struct Recorded {
    kernel: String,
    /// Whether that kernel has `BR_TRANSACTION_PENDING_FROZEN`.
    reports_frozen_receivers: bool,
    steps: Vec<Step>,
    texts: Vec<String>,
    sequences: Vec<Sequence>,
}

#[derive(Serialize, Deserialize)]
struct Sequence {
    /// Threads change their priorities, and nodes have minimum priorities.
    priorities: bool,
    looking: bool,
    /// Indices in the table of steps.
    steps: Vec<usize>,
    /// The result of each step, up to the first one that the scheduler decides.
    texts: Vec<usize>,
    /// The lines of the state after each step.
    states: Vec<Vec<usize>>,
}

/// A table without duplicates.
#[derive(Default)]
struct Table {
    places: BTreeMap<String, usize>,
    texts: Vec<String>,
}

impl Table {
    fn place_of(&mut self, text: &str) -> usize {
        *self.places.entry(text.to_owned()).or_insert_with(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        })
    }
}

/// The results before the first one that the scheduler decides.
fn determined(mut results: Vec<StepResult>) -> Vec<StepResult> {
    let end = results.iter().position(|result| result.undetermined).unwrap_or(results.len());
    results.truncate(end);
    results
}

fn looking(looks: bool) -> Looking {
    if looks { Looking::Sometimes } else { Looking::Never }
}

/// Returns true if results of this kernel are recorded, or are to be recorded now.
pub(crate) fn is_of_this_kernel() -> bool {
    std::env::var_os(RECORD).is_some() || fixture_of_this_kernel().is_some()
}

fn release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a mounted /proc");
    release.trim().to_owned()
}

fn fixture_of_this_kernel() -> Option<Fixture> {
    let release = release();
    FIXTURES.into_iter().find(|fixture| release.starts_with(fixture.release))
}

/// Checks that the kernel driver still has its recorded results, or records them if requested.
pub(crate) fn matches_or_records<D: Device>() {
    match (std::env::var_os(RECORD), fixture_of_this_kernel()) {
        (Some(path), _) => record::<D>(path.into()),
        (None, Some(fixture)) => {
            COUNTS.iter().for_each(|&(priorities, _)| compare::<D>(&fixture, priorities));
        }
        (None, None) => panic!("no results of Linux {} are recorded", release()),
    }
}

/// Checks that sequences with or without `priorities` have the results of each recorded kernel.
pub(crate) fn matches_recordings<D: Device>(priorities: bool) {
    FIXTURES.iter().for_each(|fixture| compare::<D>(fixture, priorities));
}

fn record<D: Device>(path: PathBuf) {
    use_one_cpu();
    let stage = Stage::<D>::new();
    let (mut steps, mut texts, mut step_texts) = (Vec::new(), Table::default(), Table::default());
    let mut sequences = Vec::new();
    for (priorities, count) in COUNTS {
        let rng_seed = RngSeed::Fixed(SEED);
        let mut runner = TestRunner::new(Config { rng_seed, failure_persistence: None, ..Config::default() });
        let generated = generator::steps(priorities, common_features(&stage.device, &stage.device));
        for case in 0..count {
            let sequence = generated.new_tree(&mut runner).expect("no filters").current();
            let looks = D::shows_state() && case % 4 != 3;
            let results = determined(stage.replay(&sequence, looking(looks)));
            let places = sequence.iter().map(|step| {
                let place = step_texts.place_of(&format!("{step:?}"));
                if place == steps.len() {
                    steps.push(step.clone());
                }
                place
            });
            sequences.push(Sequence {
                priorities,
                looking: looks,
                steps: places.collect(),
                texts: results.iter().map(|result| texts.place_of(&result.text)).collect(),
                states: results
                    .iter()
                    .map(|result| result.state.lines().map(|line| texts.place_of(line)).collect())
                    .collect(),
            });
        }
    }
    let recorded = Recorded {
        kernel: release(),
        reports_frozen_receivers: D::reports_frozen_receivers(),
        steps,
        texts: texts.texts,
        sequences,
    };
    let text = roundtrip_stored::to_text(&recorded).expect("a value that JSON can hold");
    // A line for each sequence, so that changes can be read.
    let text = text.replace("},{\"priorities\"", "},\n{\"priorities\"");
    std::fs::write(&path, text + "\n").unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    println!("{} holds {} sequences", path.display(), recorded.sequences.len());
}

fn compare<D: Device>(fixture: &Fixture, priorities: bool) {
    let name = fixture.name;
    let recorded: Recorded = roundtrip_stored::read_text(fixture.text.as_bytes())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    use_one_cpu();
    let stage = Stage::<D>::new();
    let chosen = recorded.sequences.iter().enumerate().filter(|(_, found)| found.priorities == priorities);
    let mut compared = 0;
    for (at, sequence) in chosen {
        let steps: Vec<Step> = sequence.steps.iter().map(|&place| recorded.steps[place].clone()).collect();
        let text = |place: &usize| recorded.texts[*place].as_str();
        let expected: Vec<StepResult> = sequence
            .texts
            .iter()
            .zip(&sequence.states)
            .map(|(result, state)| StepResult {
                text: text(result).to_owned(),
                state: state.iter().map(|line| format!("{}\n", text(line))).collect(),
                undetermined: false,
            })
            .collect();
        let found = determined(stage.replay(&steps, looking(sequence.looking)));
        let reports_frozen = recorded.reports_frozen_receivers || !D::reports_frozen_receivers();
        if let Some(difference) = difference(&expected, &found, reports_frozen) {
            let upto: String = steps[..=difference.at].iter().map(|step| format!("{step:?}\n")).collect();
            panic!(
                "sequence {at} of {name}, recorded on Linux {}: {}\n{upto}If the kernel's results have \
                 changed, record them again: cargo xtask sequences --record",
                recorded.kernel, difference.text
            );
        }
        compared += expected.len().min(found.len());
    }
    assert!(compared > 300, "only {compared} steps were compared");
}
