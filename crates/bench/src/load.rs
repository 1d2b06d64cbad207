//! Background load: worker processes that do nothing but use CPUs while something is measured. They
//! end with the group in which they were started. Must not know what they disturb.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kernel::root::Root;
use crate::sched;
use crate::worker::{Link, Work, WorkerGroup, WorkerId};
use roundtrip_run::{Load, Scheduling};

/// Starts the hogs in the background of a group, and returns their ids. They begin to spin when the
/// group starts.
///
/// # Errors
/// [`Error::HogsOnEveryCpu`] for real-time hogs on every CPU without real-time throttling, because
/// nothing could end them; else as [`WorkerGroup::spawn`]. A hog that is not permitted its policy
/// reports that when the group starts.
pub fn start(load: &Load, group: &mut WorkerGroup) -> Result<Vec<WorkerId>> {
    let usable = sched::allowed_cpus(0)?.len();
    let unthrottled = Root::real().number("proc/sys/kernel/sched_rt_runtime_us") == Some(-1_i64);
    if load.scheduling.policy.is_realtime() && unthrottled && load.hogs as usize >= usable {
        return Err(Error::HogsOnEveryCpu { hogs: load.hogs, cpus: usable });
    }
    let job = HogJob { scheduling: load.scheduling, cpus: load.cpus.clone() };
    (1..=load.hogs).map(|hog| group.spawn_background(format!("hog {hog}"), &job)).collect()
}

/// One hog.
#[derive(Debug, Serialize, Deserialize)]
pub struct HogJob {
    scheduling: Scheduling,
    cpus: Option<Vec<u32>>,
}

impl Work for HogJob {
    const NAME: &'static str = "hog";

    /// Spins until this process is killed.
    fn run(self, link: &mut Link) -> Result<()> {
        if let Some(cpus) = &self.cpus {
            sched::set_allowed_cpus(0, cpus)?;
        }
        sched::set_scheduling(0, self.scheduling)?;
        link.ready()?;
        loop {
            std::hint::spin_loop();
        }
    }
}
