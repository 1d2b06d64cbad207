//! Carries a survey out: one run that shows a newcomer what this machine can do, in about half a minute. A short floor,
//! throughput at a few sizes, and latency against a deadline, each by its own test. Must not know how it is shown.

use run::Results;
use run::survey::{Parts, SurveyPlan};

use crate::error::Result;
use crate::ipc::latency::{self as latency_test, Notice};
use crate::ipc::throughput;
use crate::progress::Progress;
use crate::worker::Spawner;
use crate::{floor, sched};

/// Runs all tests of a survey, one after the other.
///
/// # Errors
/// [`Error::Run`](crate::Error::Run) for too short a time; those of the tests.
pub fn run(plan: &SurveyPlan, spawner: &Spawner, progress: &mut dyn FnMut(Progress)) -> Result<Results> {
    let Parts { floor, throughput, latency } = plan.parts(sched::allowed_cpus(0)?.len())?;
    Ok(Results {
        floor: Some(floor::run(&floor, spawner, progress)?),
        throughput: Some(throughput::run(&throughput, spawner, progress)?),
        latency: Some(latency_test::run(&latency, spawner, &mut |notice| {
            if let Notice::Progress(step) = notice {
                progress(step);
            }
        })?),
        ..Results::default()
    })
}
