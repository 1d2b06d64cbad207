//! Explains a comparison of writes with and without background load from its recording. It connects
//! `run` and `tracefs` to `layers`, and reads run directories. Must not know how anything is shown.

use std::collections::BTreeMap;
use std::path::Path;

use roundtrip_latency::{Comparison, quantile};
use roundtrip_layers::reasons::{Reason, ReasonKind, WakeUpStep};
use roundtrip_layers::storage::{Breakdown, Completion, InterruptUse, Layer, Write, Writes};
use roundtrip_run::RECORDING;
use roundtrip_run::storage::interference::{Beside, InterferenceResult, Measured, Pair};
use roundtrip_tracefs::{Body, Recording};

use crate::damage::{Readable, read_whole};
use crate::error::Error;
use crate::storage::devices;

/// What may make a write longer or shorter: a kind of reason. Leaving an idle state is a mechanism
/// of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// A CPU leaves an idle state.
    IdleExit,
    /// Any other reason.
    Reason(ReasonKind),
}

impl Mechanism {
    fn of(reason: &Reason) -> Self {
        match reason {
            Reason::WakeUp { step: WakeUpStep::IdleExit { .. } } => Self::IdleExit,
            reason => Self::Reason(reason.kind()),
        }
    }
}

/// The calls of one round: for each mechanism that took time in one of them, the median and the
/// mean over all of them, in nanoseconds.
pub type Round = BTreeMap<Mechanism, [f64; 2]>;

/// What the kernel's events show for one side of a comparison.
#[derive(Debug, Default)]
pub struct Side {
    /// For each round, the median over its calls of the time that a call's requests spent at the
    /// device, in nanoseconds.
    pub device_ns: Vec<f64>,
    /// For each round, why its calls did not move.
    pub rounds: Vec<Round>,
    /// The layers in which the calls of all rounds spent their time.
    pub breakdown: Breakdown,
    /// The interrupts of all CPUs during the calls.
    pub interrupts: InterruptUse,
    /// The number of calls for each path of a call's last completion.
    pub completions: BTreeMap<Completion, u64>,
    /// The last frequency of the writer's first CPU in the events, in kHz; `None` without such an
    /// event.
    pub frequency_khz: Option<u32>,
}

/// A comparison, with what the kernel's events show.
#[derive(Debug)]
pub struct Explained<'a> {
    /// What was measured.
    pub beside: &'a Beside,
    /// The sides without and with the condition; `None` if nothing was recorded.
    pub sides: Option<[Side; 2]>,
}

impl Explained<'_> {
    /// The device's time without and with the condition, in nanoseconds: the median of the rounds'
    /// medians. For comparisons without a ratio: a round's median is 0 if most of its calls did not
    /// need the device.
    #[must_use]
    pub fn device_without_ratio(&self) -> Option<[f64; 2]> {
        let median = |side: &Side| {
            let mut rounds = side.device_ns.clone();
            rounds.sort_by(f64::total_cmp);
            quantile(&rounds, 0.5)
        };
        let [alone, beside] = self.sides.as_ref()?;
        Some([median(alone)?, median(beside)?])
    }

    /// The comparison of the device's time with and without the condition, from the events if
    /// recorded, else from the device's counters.
    pub fn device(&self) -> Option<Comparison> {
        match &self.sides {
            Some([alone, beside]) => Comparison::of_rounds(&beside.device_ns, &alone.device_ns).ok(),
            None => self.beside.compare(Measured::request_ns),
        }
    }
}

/// Explains all comparisons whose recording in the run directory is intact. A comparison with a
/// round in a damaged snapshot is not explained, because its rounds are compared in pairs.
pub fn explain<'a>(result: &'a InterferenceResult, directory: &Path) -> Readable<Explained<'a>> {
    let mut out = Readable::default();
    let recording = result.recorder.as_ref().and_then(|_| {
        let opened = Recording::open(&directory.join(RECORDING));
        opened.map_err(|error| out.damage.push(error.into())).ok()
    });
    for beside in &result.comparisons {
        let sides = match &recording {
            Some(recording) => {
                let mut side = |writer, of: fn(&Pair) -> &Measured| {
                    side(result, recording, writer, beside.pairs.iter().map(of), &mut out.damage)
                };
                let alone = side(beside.writer, |pair| &pair.alone);
                let sides = alone.zip(side(beside.writer_beside, |pair| &pair.beside));
                // A recording that ended early may lack one or both sides.
                sides.map(<[Side; 2]>::from).filter(|sides| sides.iter().all(|side| side.breakdown.calls > 0))
            }
            None => None,
        };
        out.results.push(Explained { beside, sides });
    }
    out
}

/// What the events show for one side; `None` if a snapshot of this side is damaged.
fn side<'a>(
    result: &InterferenceResult,
    recording: &Recording,
    writer: usize,
    blocks: impl Iterator<Item = &'a Measured>,
    damage: &mut Vec<Error>,
) -> Option<Side> {
    let devices = devices(&result.path);
    let tid = result.writers.get(writer).map_or(0, |writer| writer.opened.tid);
    let first = result.writer_cpus.first().copied();
    let mut side = Side { breakdown: Breakdown::keeping(0), ..Side::default() };
    for block in blocks {
        let Some(snapshot) = block.snapshot else { continue };
        let trace = read_whole(recording, snapshot, damage)?;
        for event in &trace.events {
            if let Body::Frequency { cpu, khz } = event.body
                && Some(cpu) == first
            {
                side.frequency_khz = Some(khz);
            }
        }
        let writes = Writes::new(&trace, devices.clone());
        side.breakdown.doubts.extend(writes.doubts());
        side.breakdown.unrecorded_switches += writes.unrecorded_switches();
        let mut device_ns = Vec::with_capacity(block.calls.len());
        let mut mechanisms: BTreeMap<Mechanism, Vec<f64>> = BTreeMap::new();
        for call in &block.calls {
            let write = Write { start_ns: call.start_ns, end_ns: call.end_ns, tid };
            let layers = writes.layers(write);
            device_ns.push(layers.total_ns(Layer::Device) as f64);
            let mut own: BTreeMap<Mechanism, u64> = BTreeMap::new();
            for stretch in &layers.reasons {
                *own.entry(Mechanism::of(&stretch.why.reason)).or_default() += stretch.duration_ns();
            }
            own.into_iter().for_each(|(of, ns)| mechanisms.entry(of).or_default().push(ns as f64));
            let interrupts = writes.interrupts(write);
            side.interrupts.count += interrupts.count;
            side.interrupts.handled_ns += interrupts.handled_ns;
            if let Some(completion) = writes.completion(write, &layers) {
                *side.completions.entry(completion).or_default() += 1;
            }
            side.breakdown.add(write, layers);
        }
        side.rounds.push(round(mechanisms, block.calls.len()));
        device_ns.sort_by(f64::total_cmp);
        side.device_ns.extend(quantile(&device_ns, 0.5));
    }
    Some(side)
}

/// The median and the mean of each mechanism over this many calls. Calls without it count as 0.
fn round(mechanisms: BTreeMap<Mechanism, Vec<f64>>, calls: usize) -> Round {
    let of = |mut times: Vec<f64>| {
        times.resize(calls.max(times.len()), 0.0);
        times.sort_by(f64::total_cmp);
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        [quantile(&times, 0.5).unwrap_or(0.0), mean]
    };
    mechanisms.into_iter().map(|(mechanism, times)| (mechanism, of(times))).collect()
}
