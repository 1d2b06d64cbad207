//! The names that a gate may use: every figure of every test, with its unit. A test compares this
//! list with the figures themselves.

use roundtrip_layers::storage::Layer;
use roundtrip_run::{TESTS, TIMES, Test};

use crate::figures::{OF_LAYER, Unit};

/// The descriptions of these tests.
pub(super) fn of(tests: &[&str]) -> impl Iterator<Item = &'static Test> {
    TESTS.iter().filter(move |test| tests.contains(&test.name))
}

/// A figure's unit; `None` if the test has no figure of that name.
pub(super) fn unit(test: &Test, name: &str) -> Option<Unit> {
    let is_layer = |name: &str| {
        let mut layers = Layer::ALL.iter().filter_map(|layer| name.strip_prefix(layer.name()));
        layers.any(|rest| OF_LAYER.contains(&rest))
    };
    let mut prefixes = test.layers.iter().filter_map(|prefix| name.strip_prefix(prefix));
    let layer = prefixes.any(is_layer).then_some(Unit::Nanoseconds);
    test.unit(name).map(|(unit, _)| unit).or(layer)
}

/// The names of all figures of these tests, for an error message. Names of the same form are
/// combined.
pub(super) fn names(tests: &[&str]) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for test in of(tests) {
        for prefix in test.times {
            match *prefix {
                "" => TIMES.iter().for_each(|name| add((*name).to_owned())),
                prefix => add(format!("{prefix}{} to {prefix}max", TIMES[0])),
            }
        }
        test.numbers.iter().for_each(|(name, ..)| add((*name).to_owned()));
        for prefix in test.layers {
            Layer::ALL.iter().for_each(|layer| add(format!("{prefix}{}.mean", layer.name())));
        }
    }
    names.join(", ")
}
