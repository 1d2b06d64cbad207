//! The parts of a run, one for each test: the only list of tests.

use serde::{Deserialize, Serialize};

use crate::baseline::BaselineResult;
use crate::error::Result;
use crate::figures::Figure;
use crate::ipc::Backend;
use crate::ipc::latency::LatencyResult;
use crate::ipc::observe::ObserveResult;
use crate::ipc::throughput::ThroughputResult;
use crate::ipc::traits::TraitsResult;
use crate::ipc::workers::WorkersResult;
use crate::kinds;
use crate::storage::StorageResult;
use crate::storage::interference::InterferenceResult;
use crate::storage::observe::ObserveWritesResult;
use crate::storage::system_calls::SystemCallsResult;
use crate::test::{Recording, Test, Tested, different};

/// Everything that must exist for each test: its part of a run, and its place in [`TESTS`].
macro_rules! tests {
    ($($(#[$about:meta])* $name:ident: $result:ty,)*) => {
        /// All tests, in the order of reports: the answer of a run is that of its first test.
        pub const TESTS: &[Test] = &[$(kinds::$name::TEST),*];

        /// The names of all tests.
        pub const NAMES: &[&str] = &[$(kinds::$name::TEST.name),*];

        /// The parts of a run; each is present if it was measured.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Results {
            $($(#[$about])*
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $name: Option<$result>,)*
        }

        impl Results {
            /// The parts that were measured, in the order of [`TESTS`].
            pub fn parts(&self) -> impl Iterator<Item = &dyn Tested> {
                let all = [$(self.$name.as_ref().map(|part| part as &dyn Tested)),*];
                all.into_iter().flatten()
            }

            pub(crate) fn merge(&mut self, other: &Self) -> Result<()> {
                $(match (&mut self.$name, &other.$name) {
                    (Some(ours), Some(theirs)) => ours.merge(theirs)?,
                    (None, None) => {}
                    _ => return Err(different("tests")),
                })*
                Ok(())
            }
        }

        $(impl From<$result> for Results {
            fn from(part: $result) -> Self {
                Self { $name: Some(part), ..Self::default() }
            }
        })*
    };
}

tests! {
    /// Latency against a deadline.
    latency: LatencyResult,
    /// Throughput by payload size.
    throughput: ThroughputResult,
    /// Round trips by mechanisms other than binder.
    baseline: BaselineResult,
    /// Many workers that call each other.
    workers: WorkersResult,
    /// Other programs' calls.
    observed_calls: ObserveResult,
    /// Other programs' synchronous writes.
    observed_writes: ObserveWritesResult,
    /// Other programs' system calls.
    system_calls: SystemCallsResult,
    /// Binder compared with hwbinder.
    traits: TraitsResult,
    /// Synchronous writes.
    storage: StorageResult,
    /// Synchronous writes with and without background load.
    interference: InterferenceResult,
}

impl Results {
    /// The figures that the results themselves contain. A recording may show more.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        let parts = self.parts();
        parts
            .flat_map(|part| part.groups().into_iter().flat_map(|group| part.test().figures(&group)))
            .collect()
    }

    /// The warnings that the tests themselves produced, without duplicates.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for warning in self.parts().flat_map(Tested::warnings) {
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
        all
    }

    /// The driver of the run's calls; `None` if there was no driver, as in a run of writes.
    #[must_use]
    pub fn backend(&self) -> Option<&Backend> {
        self.parts().find_map(Tested::backend)
    }

    /// Whether that driver was the emulated one; `None` if there was no driver.
    #[must_use]
    pub fn is_emulated(&self) -> Option<bool> {
        // Observing calls needs events, which only the kernel's driver produces.
        let observed = self.observed_calls.as_ref().map(|_| false);
        observed.or(self.backend().map(Backend::is_emulated))
    }

    /// Whether other programs were observed. In that case, this program itself was not measured.
    #[must_use]
    pub fn observed(&self) -> bool {
        self.parts().any(Tested::observed)
    }

    /// Whether a recorder ended early, or its recording is lost, so that something requested is
    /// missing.
    #[must_use]
    pub fn recording_ended(&self) -> bool {
        self.parts().any(|part| matches!(part.recording(), Recording::Ended(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_has_one_name_everywhere() {
        let text = include_str!("../../../docs/gates.md");
        let form = roundtrip_stored::to_text(&Results::default()).unwrap();
        assert_eq!(form, "{}");
        for test in TESTS {
            assert!(text.contains(&format!("\n| `{}` |", test.name)), "{}", test.name);
            assert_eq!(TESTS.iter().filter(|other| other.name == test.name).count(), 1, "{}", test.name);
        }
    }
}
