//! CPUs in plans: lists of them, and where the two sides of a call run. Must not know which CPUs a machine has.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Reads the kernel's list format, "0-3,5" (Documentation/admin-guide/cputopology.rst); `None` when it is malformed.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // No machine has more, and a malformed list must not fill the memory.
        if first > last || last > 1 << 20 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Reads a CPU list that is part of another text, where a comma would end it: "0-1+3" is CPUs 0, 1 and 3. `None` when it is
/// malformed or names no CPU.
pub(crate) fn list_within(text: &str) -> Option<Vec<u32>> {
    cpu_list(&text.replace('+', ",")).filter(|cpus| !cpus.is_empty())
}

/// Where the two sides of a round trip run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuPlacement {
    /// Both pinned to one CPU.
    Same,
    /// Pinned to two CPUs.
    Split,
    /// Wherever the kernel puts them, beginning on two CPUs.
    Free,
}

impl CpuPlacement {
    /// Every placement, in the order of reports.
    pub const ALL: [CpuPlacement; 3] = [CpuPlacement::Same, CpuPlacement::Split, CpuPlacement::Free];

    /// The name in arguments and reports.
    pub fn name(self) -> &'static str {
        match self {
            CpuPlacement::Same => "same",
            CpuPlacement::Split => "split",
            CpuPlacement::Free => "free",
        }
    }
}

impl fmt::Display for CpuPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CpuPlacement {
    type Err = Error;

    fn from_str(text: &str) -> Result<CpuPlacement> {
        let found = CpuPlacement::ALL.into_iter().find(|placement| placement.name() == text);
        found.ok_or_else(|| Error::Plan(format!("unknown placement '{text}': choose from same, split, free")))
    }
}

/// The CPUs of the client and of the server, from those that may be used; `None` if there are not enough.
pub fn place(placement: CpuPlacement, usable: &[u32]) -> Option<(Vec<u32>, Vec<u32>)> {
    match (placement, usable) {
        (CpuPlacement::Same, [first, ..]) => Some((vec![*first], vec![*first])),
        (CpuPlacement::Split, [first, second, ..]) => Some((vec![*first], vec![*second])),
        (CpuPlacement::Free, _) => Some((usable.to_vec(), usable.to_vec())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpu_list("0-3,5\n"), Some(vec![0, 1, 2, 3, 5]));
        assert_eq!(cpu_list("0"), Some(vec![0]));
        assert_eq!(cpu_list(""), Some(vec![]));
        assert_eq!(cpu_list("3-1"), None);
        assert_eq!(cpu_list("0-4294967295"), None);
        assert_eq!(cpu_list("x"), None);
    }

    #[test]
    fn one_cpu_has_no_split() {
        assert_eq!(place(CpuPlacement::Split, &[3]), None);
        assert_eq!(place(CpuPlacement::Same, &[3]), Some((vec![3], vec![3])));
        assert_eq!(place(CpuPlacement::Free, &[3]), Some((vec![3], vec![3])));
        assert_eq!(place(CpuPlacement::Split, &[3, 5, 7]), Some((vec![3], vec![5])));
    }

    #[test]
    fn placements_are_read_by_name() {
        for placement in CpuPlacement::ALL {
            assert_eq!(placement.name().parse::<CpuPlacement>().unwrap(), placement);
        }
        assert!("both".parse::<CpuPlacement>().is_err());
    }
}
