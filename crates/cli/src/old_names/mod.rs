//! The programs that this one replaces, one file each: called under such a name, the binary takes that program's
//! flags and prints that program's format. A file here translates flags and writes one format; it measures nothing.
//!
//! To add one: write `old_names/NAME.rs` with a `pub(crate) static COMMAND: Entry<Typed>` of `Kind::OldName`, and
//! name it in [`ALL`].

mod binder_throughput_test;
mod hwbinder_throughput_test;
mod libbinder_benchmark;
mod libhwbinder_benchmark;
mod libhwbinder_latency;
mod schd_dbg;
mod sendvec;

use crate::args::Command;

/// Every old name. One is registered here and nowhere else.
pub(crate) static ALL: &[&dyn Command] = &[
    &libbinder_benchmark::COMMAND,
    &libhwbinder_benchmark::COMMAND,
    &schd_dbg::COMMAND,
    &libhwbinder_latency::COMMAND,
    &binder_throughput_test::COMMAND,
    &hwbinder_throughput_test::COMMAND,
];
