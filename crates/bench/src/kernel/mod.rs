//! What the kernel says of this machine and its threads: files, limits and counters. Must not judge
//! it.

pub mod cgroup;
pub mod counters;
pub(crate) mod kills;
pub mod root;
pub(crate) mod stat;
pub(crate) mod usage;
