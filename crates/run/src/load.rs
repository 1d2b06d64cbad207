//! Background load in a plan: processes that only use CPUs. Must not know how they are started.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cpus::list_within;
use crate::error::{Error, Result};
use crate::plan_fault::{TextFault, Unknown};
use crate::scheduling::Scheduling;

/// Processes that spin (hogs).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The number of processes.
    pub hogs: u32,
    /// How each process is scheduled.
    pub scheduling: Scheduling,
    /// The allowed CPUs; `None` for all.
    pub cpus: Option<Vec<u32>>,
}

/// The maximum number of processes.
const MAX_HOGS: u32 = 4096;

impl FromStr for Load {
    type Err = Error;

    /// Parses `hogs=N[,policy=other|nice:N|fifo:N|rr:N][,cpus=LIST]`. In a CPU list, plus signs
    /// replace commas: "0-1+3".
    fn from_str(text: &str) -> Result<Self> {
        Self::read(text).map_err(|fault| Error::Load { text: text.to_owned(), fault })
    }
}

impl Load {
    fn read(text: &str) -> Result<Self, TextFault> {
        let mut load = Self { hogs: 0, scheduling: Scheduling::other(0), cpus: None };
        for part in text.split(',') {
            let (key, value) =
                part.split_once('=').ok_or_else(|| TextFault::NotKeyValue { part: part.to_owned() })?;
            match key {
                "hogs" => {
                    let hogs = value.parse().ok().filter(|hogs| (1..=MAX_HOGS).contains(hogs));
                    let wrong = || TextFault::HogsOutOfRange { value: value.to_owned(), most: MAX_HOGS };
                    load.hogs = hogs.ok_or_else(wrong)?;
                }
                "policy" => load.scheduling = Scheduling::read(value)?,
                "cpus" => {
                    let wrong = || TextFault::NotCpus { value: value.to_owned() };
                    load.cpus = Some(list_within(value).ok_or_else(wrong)?);
                }
                _ => return Err(Unknown::new("key", key, ["hogs", "policy", "cpus"]).into()),
            }
        }
        if load.hogs == 0 {
            return Err(TextFault::NoHogs);
        }
        Ok(load)
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_latency::Policy;

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
    fn the_error_for_an_invalid_load_says_what_is_valid() {
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
