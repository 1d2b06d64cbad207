//! A survey: one run that shows a newcomer what this machine can do, in about half a minute. It
//! consists of a short baseline, throughput at a few sizes, and latency against a deadline. Must
//! not know how it is shown.

use roundtrip_run::Results;
use roundtrip_run::survey::{Parts, SurveyPlan};

use crate::error::Result;
use crate::ipc::latency::{self as latency_test, Notice};
use crate::ipc::throughput;
use crate::progress::Progress;
use crate::worker::{Spawner, cut_short_by, keep};
use crate::{baseline, sched};

/// Runs all tests of a survey, one after the other.
///
/// # Errors
/// [`Error::Run`](crate::Error::Run) if the time is too short, and the errors of the tests.
pub fn run(plan: &SurveyPlan, spawner: &Spawner, progress: &mut dyn FnMut(Progress)) -> Result<Results> {
    let Parts { baseline, throughput, latency } = plan.parts(sched::allowed_cpus(0)?.len())?;
    let [of_baseline, of_throughput, of_latency] = SurveyPlan::SHARES_PERCENT;
    let mut part = |before: u64, share: u64, step: Progress<'_>| progress(of_all(before, share, step));
    let mut results = Results {
        baseline: Some(baseline::run(&baseline, spawner, &mut |step| part(0, of_baseline, step))?),
        ..Results::default()
    };
    // If a signal or a failure cuts a test short, its result is kept, and the later tests are
    // skipped.
    results.throughput = unless_cut(|| {
        throughput::run(&throughput, spawner, &mut |step| part(of_baseline, of_throughput, step))
    })?;
    results.latency = unless_cut(|| {
        latency_test::run(&latency, spawner, &mut |notice| {
            if let Notice::Progress(step) = notice {
                part(of_baseline + of_throughput, of_latency, step);
            }
        })
    })?;
    Ok(results)
}

/// A test's result; `None` if the survey ended before the test had measured anything.
fn unless_cut<T>(test: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    if cut_short_by().is_some() {
        return Ok(None);
    }
    match test() {
        Ok(result) => Ok(Some(result)),
        Err(error) => keep(error, true).map(|()| None),
    }
}

/// Converts progress in one test to progress in the survey: the test takes `share` percent of the
/// time after `before` percent.
fn of_all(before: u64, share: u64, Progress { what, done, total }: Progress<'_>) -> Progress<'_> {
    Progress { what, done: before * total + share * done.min(total), total: 100 * total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_of_each_test_is_part_of_the_total() {
        let step = |done| Progress { what: "latency", done, total: 50 };
        let percent = |Progress { done, total, .. }: Progress<'_>| 100 * done / total;
        assert_eq!(percent(of_all(0, 40, step(0))), 0);
        assert_eq!(percent(of_all(40, 20, step(25))), 50);
        assert_eq!(percent(of_all(60, 40, step(50))), 100);
        assert_eq!(SurveyPlan::SHARES_PERCENT.iter().sum::<u64>(), 100);
    }
}
