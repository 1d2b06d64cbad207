//! Merges several runs of one plan: combines their calls and rounds. Must not know how a run was
//! made or is shown.

use crate::directory::Run;
use crate::error::Result;
use crate::test::different;

impl Run {
    /// Adds the calls of another run of the same plan on the same driver. The merged run keeps the
    /// environment of this run. Differences between the environments become warnings.
    ///
    /// # Errors
    /// [`Error::NotMerged`](crate::Error) if the runs measured different things. In that case,
    /// nothing is merged.
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

#[cfg(test)]
mod tests {
    use roundtrip_latency::Histogram;

    use super::*;
    use crate::baseline::{BaselineCell, BaselinePlan, BaselineResult, FUTEX};
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
