//! The worker program of the integration tests, with their jobs and the crate's own. With the
//! argument `parent` it acts as the parent whose end is tested.
#![allow(clippy::print_stdout)]

mod jobs;

use std::process::ExitCode;
use std::time::Duration;

use jobs::TestJob;
use roundtrip_bench::worker::{self, Registered, Spawner, WorkerGroup};
use roundtrip_bench::{JOBS, Result};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(worker::COMMAND) if worker::main(&[JOBS, &[Registered::of::<TestJob>()]].concat()) => {
            ExitCode::SUCCESS
        }
        Some("parent") => match parent() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => ExitCode::from(error.exit_status()),
        },
        _ => ExitCode::FAILURE,
    }
}

/// Starts two workers that never end, prints their pids, and waits for them.
fn parent() -> Result<()> {
    let mut group = WorkerGroup::new(Spawner::default())?;
    let workers = [group.spawn("first", &TestJob::Sleep)?, group.spawn("second", &TestJob::Sleep)?];
    group.start(Duration::from_secs(30))?;
    println!("{} {}", group.pid(workers[0]), group.pid(workers[1]));
    while group.next(None)?.is_some() {}
    Ok(())
}
