//! The parts of a run, one for each test, and their warnings.

use serde::{Deserialize, Serialize};

use crate::baseline::BaselineResult;
use crate::ipc::latency::LatencyResult;
use crate::ipc::observe::ObserveResult;
use crate::ipc::throughput::ThroughputResult;
use crate::ipc::traits::TraitsResult;
use crate::ipc::workers::WorkersResult;
use crate::storage::StorageResult;
use crate::storage::interference::InterferenceResult;
use crate::storage::observe::ObserveWritesResult;

/// The parts of a run; each is present if it was measured. A new test adds its result here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// Round trips by mechanisms other than binder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "floor")]
    pub baseline: Option<BaselineResult>,
    /// Latency against a deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyResult>,
    /// Throughput by payload size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputResult>,
    /// Binder compared with hwbinder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traits: Option<TraitsResult>,
    /// Synchronous writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageResult>,
    /// Synchronous writes with and without background load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interference: Option<InterferenceResult>,
    /// Other programs' calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_calls: Option<ObserveResult>,
    /// Other programs' synchronous writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_writes: Option<ObserveWritesResult>,
    /// Many workers that call each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersResult>,
}

impl Results {
    /// The warnings that the tests themselves produced, without duplicates.
    pub(crate) fn warnings(&self) -> Vec<String> {
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
        all.extend(self.observed_calls.iter().flat_map(ObserveResult::warnings));
        all.extend(self.observed_writes.iter().flat_map(ObserveWritesResult::warnings));
        all
    }

    /// Whether other programs were observed. In that case, this program itself was not measured.
    #[must_use]
    pub fn observed(&self) -> bool {
        self.observed_calls.is_some() || self.observed_writes.is_some()
    }

    /// Whether a recorder ended early, or its recording is lost, so that something requested is
    /// missing.
    #[must_use]
    pub fn recording_ended(&self) -> bool {
        let latency = self.latency.as_ref().and_then(|result| result.explained.as_ref());
        latency.is_some_and(|kept| kept.recorder.is_some() && kept.not_recorded.is_some())
            || self.observed_calls.as_ref().is_some_and(|result| result.not_recorded.is_some())
            || self.observed_writes.as_ref().is_some_and(|result| result.not_recorded.is_some())
            || self.storage.as_ref().is_some_and(|result| result.recording_ended.is_some())
            || self.interference.as_ref().is_some_and(|result| result.recording_ended.is_some())
    }
}

impl From<BaselineResult> for Results {
    fn from(baseline: BaselineResult) -> Self {
        Self { baseline: Some(baseline), ..Self::default() }
    }
}

impl From<LatencyResult> for Results {
    fn from(latency: LatencyResult) -> Self {
        Self { latency: Some(latency), ..Self::default() }
    }
}

impl From<ThroughputResult> for Results {
    fn from(throughput: ThroughputResult) -> Self {
        Self { throughput: Some(throughput), ..Self::default() }
    }
}

impl From<TraitsResult> for Results {
    fn from(traits: TraitsResult) -> Self {
        Self { traits: Some(traits), ..Self::default() }
    }
}

impl From<StorageResult> for Results {
    fn from(storage: StorageResult) -> Self {
        Self { storage: Some(storage), ..Self::default() }
    }
}

impl From<InterferenceResult> for Results {
    fn from(interference: InterferenceResult) -> Self {
        Self { interference: Some(interference), ..Self::default() }
    }
}

impl From<WorkersResult> for Results {
    fn from(workers: WorkersResult) -> Self {
        Self { workers: Some(workers), ..Self::default() }
    }
}

impl From<ObserveResult> for Results {
    fn from(observed: ObserveResult) -> Self {
        Self { observed_calls: Some(observed), ..Self::default() }
    }
}

impl From<ObserveWritesResult> for Results {
    fn from(observed: ObserveWritesResult) -> Self {
        Self { observed_writes: Some(observed), ..Self::default() }
    }
}
