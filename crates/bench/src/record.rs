//! One run: the results, the machine, what changed on it, and how much other processes used its
//! CPUs. Must not know what is measured.

use roundtrip_run::environment::Environment;
use roundtrip_run::{Partial, Results, Run};

use crate::environment::{self, CpuTimes};
use crate::kernel::root::Root;
use crate::worker::Cut;
use crate::{clock, conditions, left_behind, worker};

/// Makes a run: removes what killed runs left behind, reads the environment, measures, and computes
/// the shares of CPU time. The closure may add to the environment what only it knows. A run that a
/// signal or a failure cut short says so.
///
/// # Errors
/// The errors of the closure.
pub fn record<E>(measure: impl FnOnce(&mut Environment) -> Result<Results, E>) -> Result<Run, E> {
    let left = left_behind::remove();
    let mut environment = environment::collect();
    left_behind::note(&mut environment.facts);
    let before = CpuTimes::read(&Root::real());
    let begun_ns = clock::now_ns();
    conditions::begin();
    let measured = measure(&mut environment);
    environment.changes = conditions::finish();
    let results = measured?;
    let after_ns = clock::now_ns() - begun_ns;
    let after = CpuTimes::read(&Root::real());
    environment.cpu_shares = before.zip(after).and_then(|(before, after)| before.shares_until(&after));
    let partial = worker::cut_short_by().map(|cut| match cut {
        Cut::Signal(signal) => Partial { signal: Some(worker::signal_name(signal)), failure: None, after_ns },
        Cut::Failure(failure) => Partial { signal: None, failure: Some(failure), after_ns },
    });
    let mut run = Run { partial, ..Run::new(environment, results, roundtrip_tracefs::foreign_clock()) };
    run.warnings.extend(left);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_run_has_the_cpu_shares_and_what_the_test_added() {
        let run = record(|environment| {
            environment.driver = Some("emulated".into());
            // The CPU shares need at least one tick.
            std::thread::sleep(std::time::Duration::from_millis(60));
            Ok::<_, Error>(Results::default())
        })
        .unwrap();
        assert_eq!(run.environment.driver.as_deref(), Some("emulated"));
        assert!(run.environment.cpu_shares.is_some());
    }
}
