//! The programs that this one replaces, one file each. When called under such a name, the binary
//! accepts that program's flags and prints that program's format. A file here translates flags and
//! writes one format. It measures nothing.
//!
//! To add one, write `old_names/NAME.rs` with a `pub(crate) static COMMAND: Entry<Typed>` of
//! `Kind::OldName`, and list it in [`ALL`].

mod atrace;
mod binder_throughput_test;
mod hwbinder_throughput_test;
mod libbinder_benchmark;
mod libhwbinder_benchmark;
mod libhwbinder_latency;
mod schd_dbg;
mod sendvec;

use crate::args::Command;

/// All old names. One is registered here and nowhere else.
pub(crate) static ALL: &[&dyn Command] = &[
    &libbinder_benchmark::COMMAND,
    &libhwbinder_benchmark::COMMAND,
    &schd_dbg::COMMAND,
    &libhwbinder_latency::COMMAND,
    &binder_throughput_test::COMMAND,
    &hwbinder_throughput_test::COMMAND,
    &atrace::COMMAND,
];

/// The program with this name. Android's scripts append the word size: `libhwbinder_latency64`.
pub(crate) fn called(name: &str) -> Option<&'static dyn Command> {
    let named = |name: &str| ALL.iter().find(|command| command.doc().path[0] == name).copied();
    let without_word_size = || ["32", "64"].iter().find_map(|size| named(name.strip_suffix(size)?));
    named(name).or_else(without_word_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_also_answered_to_with_the_word_size_behind_it() {
        for command in ALL {
            let name = command.doc().path[0];
            for ending in ["", "32", "64"] {
                let found = called(&format!("{name}{ending}"));
                assert_eq!(found.map(|found| found.doc().path[0]), Some(name), "{name}{ending}");
            }
        }
        for name in ["libhwbinder_latency16", "libhwbinder_latency6464", "64", "", "roundtrip64"] {
            assert!(called(name).is_none(), "{name}");
        }
    }
}
