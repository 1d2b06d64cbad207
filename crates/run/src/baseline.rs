//! The baseline's plan and result: plain data, stored in run directories. Must not know how
//! anything is measured.

use roundtrip_latency::{Comparison, Histogram};
use serde::{Deserialize, Serialize};

use crate::cpus::CpuPlacement;
use crate::error::Result;
use crate::ipc::Backend;
use crate::plan_fault::{Counted, PlanFault, Unknown};
use crate::recorder::RecorderInfo;

/// The longest request, in bytes.
pub const MAX_SIZE: usize = 16 << 20;

/// The transport to which all others are compared.
pub const FUTEX: &str = "futex";

/// What to measure. Each combination of transport, size and placement runs in short blocks. Each
/// round shuffles their order, so that drift of the machine affects all combinations alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselinePlan {
    /// Sizes of the request and of the reply, in bytes; 1 to [`MAX_SIZE`].
    pub sizes_bytes: Vec<usize>,
    /// How the two sides are placed on CPUs.
    pub placements: Vec<CpuPlacement>,
    /// Names from [`TRANSPORTS`]. The futex baseline is always measured.
    pub transports: Vec<String>,
    /// The number of blocks of each combination. From 6 on, a ratio has a confidence interval.
    pub rounds: u32,
    /// The approximate total time, in nanoseconds. Slow transports make fewer calls instead of
    /// running longer blocks.
    pub budget_ns: u64,
    /// Whether to measure everything twice, interleaved: with and without the flight recorder.
    pub recorder: bool,
}

impl Default for BaselinePlan {
    fn default() -> Self {
        Self {
            sizes_bytes: vec![4, 256, 4096, 65536],
            placements: CpuPlacement::ALL.into(),
            transports: TRANSPORTS
                .iter()
                .filter(|transport| transport.by_default)
                .map(|t| t.name.into())
                .collect(),
            rounds: 9,
            budget_ns: 10_000_000_000,
            recorder: false,
        }
    }
}

impl BaselinePlan {
    /// Rejects a plan that no machine can carry out.
    ///
    /// # Errors
    /// [`crate::Error::Plan`] if the plan is invalid. The error says what is possible instead.
    pub fn check(&self) -> Result<()> {
        if self.sizes_bytes.is_empty() || self.placements.is_empty() {
            return Err(PlanFault::EmptyBaseline.into());
        }
        if let Some(size) = self.sizes_bytes.iter().find(|size| !(1..=MAX_SIZE).contains(*size)) {
            let (what, number) = (Counted::BaselineBytes, *size as u64);
            return Err(PlanFault::OutOfRange { what, number, most: MAX_SIZE as u64 }.into());
        }
        if !(1..=1000).contains(&self.rounds) {
            let (what, number) = (Counted::Rounds, self.rounds.into());
            return Err(PlanFault::OutOfRange { what, number, most: 1000 }.into());
        }
        for name in &self.transports {
            if !TRANSPORTS.iter().any(|transport| transport.name == name) {
                return Err(
                    Unknown::new("transport", name, TRANSPORTS.map(|transport| transport.name)).into()
                );
            }
        }
        Ok(())
    }
}

/// A transport that a plan can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportName {
    /// The transport's name in plans and reports.
    pub name: &'static str,
    /// Whether it is measured without being requested.
    pub by_default: bool,
}

/// All transports, the baseline first.
pub const TRANSPORTS: [TransportName; 10] = {
    const fn usual(name: &'static str) -> TransportName {
        TransportName { name, by_default: true }
    }
    [
        usual(FUTEX),
        usual("eventfd"),
        usual("pipe"),
        usual("unix-stream"),
        usual("unix-seqpacket"),
        usual("mqueue"),
        usual("binder-driver"),
        usual("binder"),
        usual("hwbinder"),
        TransportName { name: "spin", by_default: false },
    ]
};

/// The measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineResult {
    /// The plan.
    pub plan: BaselinePlan,
    /// The cost of one clock reading, in nanoseconds. The time of each call includes about one.
    pub clock_read_cost_ns: f64,
    /// One entry for each transport, size and placement that could be measured.
    pub cells: Vec<BaselineCell>,
    /// What could not be measured, and why.
    pub not_possible: Vec<NotPossible>,
    /// The flight recorder's settings, if the plan uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorder: Option<RecorderInfo>,
    /// How the driver wakes threads, if the driver chooses that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<String>,
}

impl BaselineResult {
    /// The cell of a transport, size and placement.
    #[must_use]
    pub fn cell(&self, transport: &str, size_bytes: usize, placement: CpuPlacement) -> Option<&BaselineCell> {
        self.cells.iter().find(|cell| {
            cell.transport == transport && cell.size_bytes == size_bytes && cell.placement == placement
        })
    }
}

/// One transport at one size and placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaselineCell {
    /// The transport's name.
    pub transport: String,
    /// The binder driver that it uses; `None` for transports without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// Bytes in each direction.
    pub size_bytes: usize,
    /// Where the two sides ran.
    pub placement: CpuPlacement,
    /// The CPUs that the client could use.
    pub client_cpus: Vec<u32>,
    /// The CPUs that the server could use.
    pub server_cpus: Vec<u32>,
    /// The median call of each round, in nanoseconds.
    pub round_medians_ns: Vec<u64>,
    /// All calls of all rounds.
    pub latency: Histogram,
    /// The ratio to the futex baseline with the same size and placement, by round; `None` if the
    /// futex was not measured.
    pub against_futex: Option<Comparison>,
    /// The same calls with the flight recorder on, if the plan uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedCell>,
}

/// A cell with the flight recorder on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedCell {
    /// The median call of each round, in nanoseconds.
    pub round_medians_ns: Vec<u64>,
    /// All calls of all rounds.
    pub latency: Histogram,
    /// The ratio to the same calls with the recorder off, by round.
    pub against_off: Option<Comparison>,
}

impl BaselineCell {
    /// The median of the rounds' medians, in nanoseconds.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        self.quantile_ns(0.5)
    }

    /// A quantile (0 to 1) of the rounds' medians, in nanoseconds, to show how much rounds vary.
    #[must_use]
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        quantile_ns(&self.round_medians_ns, q)
    }
}

impl RecordedCell {
    /// The median of the rounds' medians, in nanoseconds.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        quantile_ns(&self.round_medians_ns, 0.5)
    }
}

fn quantile_ns(medians_ns: &[u64], q: f64) -> Option<f64> {
    let mut medians: Vec<f64> = medians_ns.iter().map(|&ns| ns as f64).collect();
    medians.sort_by(f64::total_cmp);
    roundtrip_latency::quantile(&medians, q)
}

/// Something that was requested and is not possible on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotPossible {
    /// The transport; `None` for all of them.
    pub transport: Option<String>,
    /// Bytes in each direction; `None` for all sizes.
    pub size_bytes: Option<usize>,
    /// The placement; `None` for all placements.
    pub placement: Option<CpuPlacement>,
    /// The reason.
    pub reason: String,
}

/// Compares each cell with the futex cell of the same size and placement, and calls with the
/// recorder on with calls with the recorder off.
pub fn compare(cells: &mut [BaselineCell]) {
    let floats = |medians_ns: &[u64]| medians_ns.iter().map(|&ns| ns as f64).collect::<Vec<_>>();
    let rounds = |cell: &BaselineCell| floats(&cell.round_medians_ns);
    let baselines: Vec<_> = cells
        .iter()
        .filter(|cell| cell.transport == FUTEX)
        .map(|cell| (cell.size_bytes, cell.placement, rounds(cell)))
        .collect();
    for cell in cells {
        cell.against_futex = baselines
            .iter()
            .find(|(size, placement, _)| (*size, *placement) == (cell.size_bytes, cell.placement))
            .and_then(|(_, _, baseline)| Comparison::of_rounds(&rounds(cell), baseline).ok());
        let off = rounds(cell);
        if let Some(recorded) = &mut cell.recorded {
            recorded.against_off = Comparison::of_rounds(&floats(&recorded.round_medians_ns), &off).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_plan_has_every_transport_except_the_spinning_one() {
        let plan = BaselinePlan::default();
        plan.check().unwrap();
        assert_eq!(plan.transports[0], FUTEX);
        assert!(!plan.transports.contains(&"spin".to_owned()));
        assert_eq!(plan.transports.len() + 1, TRANSPORTS.len());
    }

    #[test]
    fn an_impossible_plan_is_refused_with_the_valid_choices() {
        let refused = |change: fn(&mut BaselinePlan)| {
            let mut plan = BaselinePlan::default();
            change(&mut plan);
            plan.check().unwrap_err().to_string()
        };
        assert!(refused(|plan| plan.transports = vec!["pigeon".into()]).contains("unix-stream"));
        assert!(refused(|plan| plan.sizes_bytes = vec![0]).contains("1 to 16777216"));
        assert!(refused(|plan| plan.sizes_bytes = vec![]).contains("at least one size"));
        assert!(refused(|plan| plan.rounds = 0).contains("0 rounds"));
    }

    #[test]
    fn a_ratio_is_formed_within_a_size_and_placement() {
        let cell = |transport: &str, size_bytes, medians: &[u64]| BaselineCell {
            transport: transport.into(),
            backend: None,
            size_bytes,
            placement: CpuPlacement::Same,
            client_cpus: vec![0],
            server_cpus: vec![0],
            round_medians_ns: medians.into(),
            latency: Histogram::new(),
            against_futex: None,
            recorded: None,
        };
        let mut cells =
            [cell("futex", 4, &[100, 200]), cell("pipe", 4, &[150, 300]), cell("pipe", 8, &[150, 300])];
        compare(&mut cells);
        let ratios = cells.map(|cell| cell.against_futex.map(|comparison| comparison.median));
        assert_eq!(ratios, [Some(1.0), Some(1.5), None]);
    }
}
