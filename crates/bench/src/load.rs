//! Background load: worker processes that do nothing but use CPUs, as loud neighbours to what is
//! measured. They end with the group that they were started in. Must not know what they disturb.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::root::Root;
use crate::sched;
use crate::worker::{Link, Work, WorkerGroup, WorkerId};
use run::{Load, Scheduling};

/// Starts the hogs in the background of a group, and tells which they are. They begin to spin when
/// the group is told to go.
///
/// # Errors
/// [`Error::HogsOnEveryCpu`] for real-time hogs on every CPU without real-time throttling, which
/// nobody could end any more; else as [`WorkerGroup::spawn`]. A hog that may not have its policy
/// says so when the group starts.
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
