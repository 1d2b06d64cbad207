//! Merges several runs of one plan: combines their calls and rounds. Must not know how a run was
//! made or is shown.

use crate::baseline::{self, BaselineResult};
use crate::directory::Run;
use crate::error::{Error, MergeFault, Result};
use crate::ipc::latency::LatencyResult;
use crate::ipc::throughput::ThroughputResult;
use crate::ipc::workers::{Above, WorkersResult};
use crate::results::Results;

impl Run {
    /// Adds the calls of another run of the same plan on the same driver. The merged run keeps the
    /// environment of this run. Differences between the environments become warnings.
    ///
    /// # Errors
    /// [`Error::NotMerged`] if the runs measured different things. In that case, nothing is merged.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        let (ours, theirs) = (&self.environment, &other.environment);
        if ours.driver != theirs.driver {
            return Err(different("drivers"));
        }
        let mut warnings = Vec::new();
        if (&ours.host_name, &ours.kernel.release) != (&theirs.host_name, &theirs.kernel.release) {
            warnings.push(format!(
                "merged with a run from another machine or kernel: {}, Linux {}",
                theirs.host_name, theirs.kernel.release
            ));
        }
        if ours.build_profile != theirs.build_profile {
            warnings.push("merged with a run of another build profile".to_owned());
        }
        let mut results = self.results.clone();
        results.merge(&other.results)?;
        self.results = results;
        self.labels.keep_common(&other.labels);
        self.partial = self.partial.take().or_else(|| other.partial.clone());
        warnings.extend(other.warnings.iter().cloned());
        for warning in warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        Ok(())
    }
}

impl Results {
    fn merge(&mut self, other: &Self) -> Result<()> {
        both(&mut self.baseline, &other.baseline, merge_baseline)?;
        both(&mut self.throughput, &other.throughput, merge_throughput)?;
        both(&mut self.latency, &other.latency, merge_latency)?;
        both(&mut self.workers, &other.workers, merge_workers)?;
        both(&mut self.observed_calls, &other.observed_calls, |_, _| never("observed calls"))?;
        both(&mut self.observed_writes, &other.observed_writes, |_, _| never("observed writes"))?;
        both(&mut self.storage, &other.storage, |_, _| never("recordings of writes"))?;
        both(&mut self.interference, &other.interference, |_, _| never("comparisons of writes"))?;
        both(&mut self.traits, &other.traits, |_, _| never("comparisons of the stacks"))
    }
}

/// Merges a part that both runs have. It is an error if only one has it.
fn both<T>(ours: &mut Option<T>, theirs: &Option<T>, merge: fn(&mut T, &T) -> Result<()>) -> Result<()> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => merge(ours, theirs),
        (None, None) => Ok(()),
        _ => Err(different("tests")),
    }
}

fn never(what: &'static str) -> Result<()> {
    Err(Error::NotMerged(MergeFault::Never { what }))
}

fn different(what: &'static str) -> Error {
    Error::NotMerged(MergeFault::Different { what })
}

fn same_plan<P: PartialEq>(ours: &P, theirs: &P) -> Result<()> {
    if ours == theirs { Ok(()) } else { Err(different("plans")) }
}

fn merge_baseline(ours: &mut BaselineResult, theirs: &BaselineResult) -> Result<()> {
    same_plan(&ours.plan, &theirs.plan)?;
    for cell in &mut ours.cells {
        let Some(more) = theirs.cell(&cell.transport, cell.size_bytes, cell.placement) else { continue };
        cell.round_medians_ns.extend(&more.round_medians_ns);
        cell.latency.merge(&more.latency);
        if let (Some(ours), Some(theirs)) = (&mut cell.recorded, &more.recorded) {
            ours.round_medians_ns.extend(&theirs.round_medians_ns);
            ours.latency.merge(&theirs.latency);
        }
    }
    baseline::compare(&mut ours.cells);
    Ok(())
}

fn merge_throughput(ours: &mut ThroughputResult, theirs: &ThroughputResult) -> Result<()> {
    same_plan(&ours.plan, &theirs.plan)?;
    for (row, more) in ours.rows.iter_mut().zip(&theirs.rows) {
        row.batches.extend(&more.batches);
        if let (Some(latency), Some(more)) = (&mut row.latency, &more.latency) {
            latency.merge(more);
        }
    }
    Ok(())
}

fn merge_latency(ours: &mut LatencyResult, theirs: &LatencyResult) -> Result<()> {
    same_plan(&ours.plan, &theirs.plan)?;
    // A run without permission for real-time callers has fewer callers.
    if ours.realtime_refused.is_some() != theirs.realtime_refused.is_some() {
        return Err(different("callers"));
    }
    for (series, more) in ours.series.iter_mut().zip(&theirs.series) {
        for (pair, more) in series.pairs.iter_mut().zip(&more.pairs) {
            pair.merge(more);
        }
        let callers = || series.pairs.iter().flat_map(|pair| &pair.callers);
        let failed = callers().map(|caller| caller.not_inherited).sum();
        let total = callers().map(|caller| caller.count()).sum();
        series.verdict.merge(&more.verdict, failed, total);
    }
    ours.inherited_by_pi_futex |= theirs.inherited_by_pi_futex;
    Ok(())
}

fn merge_workers(ours: &mut WorkersResult, theirs: &WorkersResult) -> Result<()> {
    same_plan(&ours.plan, &theirs.plan)?;
    // The merged rate is all calls divided by the total time, not the mean of the two rates.
    let calls = |result: &WorkersResult| result.iterations_per_s * result.wall_ns as f64;
    let calls_times_ns = calls(ours) + calls(theirs);
    ours.wall_ns += theirs.wall_ns;
    ours.iterations_per_s = calls_times_ns / ours.wall_ns as f64;
    ours.latency.merge(&theirs.latency);
    for (caller, more) in ours.callers.iter_mut().zip(&theirs.callers) {
        caller.wall_ns += more.wall_ns;
        caller.latency.merge(&more.latency);
    }
    // After a training round, each run has its own threshold. Counts above different thresholds
    // cannot be added.
    ours.above = match (ours.above, theirs.above) {
        (Some(above), Some(more)) if above.threshold_ns == more.threshold_ns => Some(Above {
            threshold_ns: above.threshold_ns,
            count: above.count + more.count,
            worst_ns: above.worst_ns.max(more.worst_ns),
        }),
        _ => None,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use latency::Histogram;

    use super::*;
    use crate::baseline::{BaselineCell, BaselinePlan, FUTEX};
    use crate::cpus::CpuPlacement;
    use crate::environment::Environment;

    fn run(medians_ns: &[u64]) -> Run {
        let cell = |transport: &str, factor: u64| {
            let medians: Vec<u64> = medians_ns.iter().map(|ns| ns * factor).collect();
            BaselineCell {
                transport: transport.into(),
                backend: None,
                size_bytes: 4,
                placement: CpuPlacement::Same,
                client_cpus: vec![0],
                server_cpus: vec![0],
                latency: medians.iter().fold(Histogram::new(), |mut all, &ns| {
                    all.record(ns);
                    all
                }),
                round_medians_ns: medians,
                against_futex: None,
                recorded: None,
            }
        };
        let baseline = BaselineResult {
            plan: BaselinePlan::default(),
            clock_read_cost_ns: 20.0,
            cells: vec![cell(FUTEX, 1), cell("pipe", 2)],
            not_possible: vec![],
            recorder: None,
            wake_up: None,
        };
        Run { warnings: vec!["noisy".into()], ..Run::new(Environment::default(), baseline.into(), None) }
    }

    #[test]
    fn merged_runs_have_all_rounds_and_each_warning_once() {
        let (mut first, second) = (run(&[1000, 1100]), run(&[1200]));
        first.merge(&second).unwrap();
        let baseline = first.results.baseline.as_ref().unwrap();
        let pipe = baseline.cell("pipe", 4, CpuPlacement::Same).unwrap();
        assert_eq!(pipe.round_medians_ns, [2000, 2200, 2400]);
        assert_eq!(pipe.latency.count(), 3);
        assert_eq!(pipe.against_futex.unwrap().median, 2.0);
        assert_eq!(first.warnings, ["noisy"]);
    }

    #[test]
    fn runs_of_different_things_stay_apart() {
        let first = run(&[1000]);
        let refused = |change: fn(&mut Run)| {
            let (mut ours, mut theirs) = (first.clone(), run(&[1000]));
            change(&mut theirs);
            let error = ours.merge(&theirs).unwrap_err().to_string();
            assert_eq!(ours, first, "nothing is merged");
            error
        };
        assert!(refused(|run| run.environment.driver = Some("kernel".into())).contains("drivers"));
        assert!(refused(|run| run.results.baseline = None).contains("tests"));
        assert!(refused(|run| run.results.baseline.as_mut().unwrap().plan.rounds = 1).contains("plans"));
    }

    #[test]
    fn another_machine_is_a_warning() {
        let (mut first, mut second) = (run(&[1000]), run(&[1000]));
        second.environment.host_name = "elsewhere".into();
        first.merge(&second).unwrap();
        assert!(first.warnings.iter().any(|warning| warning.contains("elsewhere")), "{:?}", first.warnings);
    }
}
