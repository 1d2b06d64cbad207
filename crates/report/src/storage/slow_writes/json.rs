//! Slow writes as JSON.

use std::collections::BTreeMap;

use roundtrip_analysis::Analysed;
use roundtrip_layers::reasons::{Across, ReasonKind};
use roundtrip_layers::storage::{Layer, Layers};
use roundtrip_run::Cause;
use serde::Serialize;

use super::{SlowWrite, causes, chosen, times, without};
use crate::explanation::names::thing;
use crate::explanation::without::Json as LeftJson;
use crate::storage::why;

/// Why a write was slow, for programs.
#[derive(Serialize)]
pub(crate) struct WhyJson {
    /// The sentence.
    verdict: String,
    /// The time by reason, the largest first.
    reasons: Vec<ReasonJson>,
    /// By layer: how much of it is a wait for a CPU that another thread had.
    behind_ns: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct ReasonJson {
    reason: ReasonKind,
    time_ns: u64,
    /// Without what such writes usually take.
    lost_ns: u64,
    processes: Vec<ProcessJson>,
}

#[derive(Serialize)]
struct ProcessJson {
    pid: Option<u32>,
    name: Option<String>,
    class: Option<String>,
    /// What names the reason if no process does.
    what: Option<String>,
    time_ns: u64,
    lost_ns: u64,
    threads: Vec<ThreadJson>,
}

#[derive(Serialize)]
struct ThreadJson {
    tid: Option<u32>,
    name: Option<String>,
    time_ns: u64,
}

impl WhyJson {
    pub(crate) fn of(layers: &Layers) -> Self {
        let process = |of: &roundtrip_layers::reasons::OfProcess| ProcessJson {
            pid: of.process.as_ref().map(|process| process.pid),
            name: of.process.as_ref().map(|process| process.name.clone()),
            class: of.process.as_ref().map(|process| process.class.name()),
            what: of.process.is_none().then(|| thing(of.reason())),
            time_ns: of.sum_ns,
            lost_ns: of.lost_ns,
            threads: of
                .threads
                .iter()
                .map(|of| ThreadJson {
                    tid: of.thread.as_ref().map(|thread| thread.tid),
                    name: of.thread.as_ref().map(|thread| thread.comm.clone()),
                    time_ns: of.sum_ns,
                })
                .collect(),
        };
        let reasons = layers.summed().kinds;
        let reason = |of: &roundtrip_layers::reasons::OfKind| ReasonJson {
            reason: of.kind,
            time_ns: of.sum_ns,
            lost_ns: of.lost_ns,
            processes: of.processes.iter().map(process).collect(),
        };
        let behind = Layer::ALL.into_iter().map(|layer| (layer.name(), layers.behind_ns(layer)));
        Self {
            verdict: why::sentence(layers),
            reasons: reasons.iter().map(reason).collect(),
            behind_ns: behind.filter(|(_, ns)| *ns > 0).collect(),
        }
    }
}

/// What delayed slow writes, without the times of each.
pub(crate) fn summed(causes: &Across) -> Vec<Cause> {
    let causes = roundtrip_analysis::causes::stored(causes, &thing).causes;
    causes.into_iter().map(|cause| Cause { without: None, ..cause }).collect()
}

/// The slow writes of a run, as a part of the JSON of explanations.
#[derive(Serialize)]
pub(crate) struct Json {
    slow_writes: Vec<SlowJson>,
    over_limit: u64,
    causes: Vec<Cause>,
    without: Vec<LeftJson>,
}

#[derive(Serialize)]
struct SlowJson {
    number: usize,
    write: String,
    pid: u32,
    tid: u32,
    start_ns: u64,
    end_ns: u64,
    snapshot: Option<u32>,
    layers: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    why: WhyJson,
}

impl Json {
    pub(crate) fn of(analysed: &Analysed<'_>, all: &[SlowWrite<'_>], only: Option<usize>) -> Self {
        let slow = |slow: &SlowWrite<'_>| SlowJson {
            number: slow.number,
            write: slow.what.clone(),
            pid: slow.pid,
            tid: slow.write.tid,
            start_ns: slow.write.start_ns,
            end_ns: slow.write.end_ns,
            snapshot: slow.snapshot,
            layers: times(&slow.layers),
            why: WhyJson::of(&slow.layers),
        };
        let causes = causes(analysed, all);
        let observed = analysed.run.results.observed_writes.as_ref();
        Self {
            slow_writes: chosen(all, only).map(slow).collect(),
            over_limit: observed.map_or(0, |result| result.over_limit),
            causes: summed(&causes),
            without: without(analysed, &causes).iter().map(LeftJson::from).collect(),
        }
    }
}
