//! Each storage test in its own tables and files.

pub(crate) mod beside;
pub mod files;
#[cfg(test)]
pub(crate) mod fixture;
pub mod interference;
pub mod measured;
pub mod observed_writes;
pub mod recorded_writes;
pub mod rounds;
mod rows;
pub mod slow_writes;
pub(crate) mod strace;
pub(crate) mod study;
pub mod system_calls;
pub(crate) mod verdict;
pub(crate) mod why;
mod words;
