//! Background load: worker processes that do nothing but use CPUs, as loud neighbours to what is measured. They end
//! with the group that they were started in. Must not know what they disturb.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::job::Job;
use crate::root::{Root, cpu_list};
use crate::sched::{self, Scheduling};
use crate::worker::{Link, WorkerGroup, WorkerId};

/// Processes that spin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// How many.
    pub hogs: u32,
    /// How each is scheduled.
    pub scheduling: Scheduling,
    /// The CPUs that they may use; `None` for all.
    pub cpus: Option<Vec<u32>>,
}

/// The most processes that can be asked for.
const MAX_HOGS: u32 = 4096;

impl FromStr for Load {
    type Err = Error;

    /// Reads `hogs=N[,policy=other|nice:N|fifo:N|rr:N][,cpus=LIST]`. A comma within a CPU list is a plus sign, "0-1+3".
    fn from_str(text: &str) -> Result<Load> {
        let wrong = |why: String| Error::Plan(format!("load '{text}': {why}"));
        let mut load = Load { hogs: 0, scheduling: Scheduling::other(0), cpus: None };
        for part in text.split(',') {
            let (key, value) =
                part.split_once('=').ok_or_else(|| wrong(format!("'{part}' is not KEY=VALUE")))?;
            match key {
                "hogs" => {
                    let hogs = value.parse().ok().filter(|hogs| (1..=MAX_HOGS).contains(hogs));
                    load.hogs =
                        hogs.ok_or_else(|| wrong(format!("hogs must be 1 to {MAX_HOGS}, not '{value}'")))?;
                }
                "policy" => {
                    load.scheduling = value.parse().map_err(|error: Error| wrong(error.to_string()))?
                }
                "cpus" => {
                    let cpus = cpu_list(&value.replace('+', ",")).filter(|cpus| !cpus.is_empty());
                    load.cpus =
                        Some(cpus.ok_or_else(|| wrong(format!("'{value}' is no CPU list such as 0-1+3")))?);
                }
                _ => return Err(wrong(format!("unknown key '{key}': choose from hogs, policy, cpus"))),
            }
        }
        if load.hogs == 0 {
            return Err(wrong("say how many: hogs=N".into()));
        }
        Ok(load)
    }
}

impl Load {
    /// Starts the hogs in the background of a group, and tells which they are. They begin to spin when the group is told to go.
    ///
    /// # Errors
    /// [`Error::Plan`] for real-time hogs on every CPU without real-time throttling, which nobody could end any more;
    /// else as [`WorkerGroup::spawn`]. A hog that may not have its policy says so when the group starts.
    pub fn start(&self, group: &mut WorkerGroup) -> Result<Vec<WorkerId>> {
        let usable = sched::allowed_cpus(0)?.len();
        let unthrottled = Root::real().number("proc/sys/kernel/sched_rt_runtime_us") == Some(-1_i64);
        if self.scheduling.policy.is_realtime() && unthrottled && self.hogs as usize >= usable {
            let text = format!(
                "{} real-time hogs on {usable} CPUs would never let anyone in, for sched_rt_runtime_us is -1: \
                 set it to 950000, or take fewer",
                self.hogs
            );
            return Err(Error::Plan(text));
        }
        let job = Job::Hog(HogJob { scheduling: self.scheduling, cpus: self.cpus.clone() });
        (1..=self.hogs).map(|hog| group.spawn_background(format!("hog {hog}"), &job)).collect()
    }
}

/// One hog.
#[derive(Debug, Serialize, Deserialize)]
pub struct HogJob {
    scheduling: Scheduling,
    cpus: Option<Vec<u32>>,
}

impl HogJob {
    /// Spins until this process is killed.
    pub(crate) fn run(self, link: &mut Link) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use latency::Policy;

    use super::*;

    #[test]
    fn a_load_is_read_from_its_text() {
        let load = |text: &str| text.parse::<Load>().unwrap();
        assert_eq!(load("hogs=2"), Load { hogs: 2, scheduling: Scheduling::other(0), cpus: None });
        assert_eq!(
            load("hogs=3,policy=fifo:50,cpus=0-1+3"),
            Load { hogs: 3, scheduling: Scheduling::fifo(50), cpus: Some(vec![0, 1, 3]) }
        );
        assert_eq!(load("policy=nice:-20,hogs=1").scheduling, Scheduling::other(-20));
        assert_eq!(load("hogs=1,policy=rr:7").scheduling.policy, Policy::RoundRobin);
    }

    #[test]
    fn a_wrong_load_says_what_is_right() {
        for (text, hint) in [
            ("2", "KEY=VALUE"),
            ("hogs=x", "1 to 4096"),
            ("hogs=0", "1 to 4096"),
            ("policy=other", "hogs=N"),
            ("hogs=1,policy=fifo:100", "fifo:1..99"),
            ("hogs=1,policy=nice:20", "nice:-20..19"),
            ("hogs=1,cpus=", "CPU list"),
            ("hogs=1,color=red", "unknown key 'color'"),
        ] {
            let error = text.parse::<Load>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
