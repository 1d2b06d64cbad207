//! CPUs in plans: lists of them, and where the two sides of a call run. Must not know which CPUs a
//! machine has.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::plan_fault::Unknown;

/// Parses the kernel's list format, "0-3,5" (Documentation/admin-guide/cputopology.rst); `None` if
/// it is malformed.
#[must_use]
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // No machine has more CPUs than this, and a malformed list must not exhaust memory.
        if first > last || last > 1 << 20 || cpus.len() > 1 << 20 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// The largest CPU number that a kernel can have: `NR_CPUS` is at most 8192.
const LAST: u32 = 8191;

/// Parses a user's CPU list, "0,2-3": ascending, without duplicates. `None` if the list is
/// malformed or empty, or has a number that no kernel supports.
#[must_use]
pub fn chosen(text: &str) -> Option<Vec<u32>> {
    // The kernel's lists may contain white space and end with a comma. User input may not.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'-'));
    if !plain || text.split(',').any(str::is_empty) {
        return None;
    }
    let mut cpus = cpu_list(text)?;
    cpus.sort_unstable();
    cpus.dedup();
    cpus.last().is_some_and(|&last| last <= LAST).then_some(cpus)
}

/// Like [`chosen`], for a list inside text that uses commas as separators. Plus signs replace the
/// list's commas: "0-1+3" means CPUs 0, 1 and 3.
pub(crate) fn list_within(text: &str) -> Option<Vec<u32>> {
    chosen(&text.replace('+', ","))
}

/// Formats ascending CPU numbers like the kernel: "0-3,8".
#[must_use]
pub fn ranges(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Where the two sides of a round trip run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuPlacement {
    /// Both sides are pinned to one CPU.
    Same,
    /// The sides are pinned to two different CPUs.
    Split,
    /// The sides are not pinned, but start on two different CPUs.
    Free,
}

impl CpuPlacement {
    /// Every placement, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Same, Self::Split, Self::Free];

    /// The name in arguments and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Split => "split",
            Self::Free => "free",
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

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|placement| placement.name() == text);
        let names = Self::ALL.map(Self::name);
        found.ok_or_else(|| Unknown::new("placement", text, names).into())
    }
}

/// Selects the CPUs for the client and for the server from the usable ones; `None` if there are too
/// few.
#[must_use]
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
    fn requested_cpus_are_sorted_without_duplicates() {
        assert_eq!(chosen("0,2-3"), Some(vec![0, 2, 3]));
        assert_eq!(chosen("3,1-3,0"), Some(vec![0, 1, 2, 3]));
        assert_eq!(list_within("3+0-1"), Some(vec![0, 1, 3]));
        for text in ["", "0,", "3-1", "a", "1-", "-1", "+1", " 1", "8192", "0-99999999"] {
            assert_eq!(chosen(text), None, "{text}");
        }
    }

    #[test]
    fn cpus_are_shown_as_the_kernel_lists_them() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }

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
