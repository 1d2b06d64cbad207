//! The commands, one file each.
//!
//! To add one, write `commands/NAME.rs` with a `pub(crate) static COMMAND: Entry<Typed>` (its
//! words, its table of options and its function), and list it in [`ALL`]. Help, manual page,
//! completion and the checks of all tables follow from that line.

mod ab;
mod baseline;
pub(crate) mod begin;
mod compare;
mod completions;
mod doctor;
mod driver;
mod explain;
mod gates;
mod guard;
pub(crate) mod help;
pub(crate) mod latency;
mod latency_options;
mod man;
mod measure;
mod observe;
mod observe_live;
mod observe_options;
pub(crate) mod output;
mod report;
mod service;
mod show;
mod storage_interference;
pub(crate) mod storage_layers;
mod storage_observe;
mod storage_options;
mod storage_study;
mod storage_syscalls;
mod survey;
mod throughput;
pub(crate) mod trace;
mod trace_convert;
mod traits;
pub(crate) mod version;
mod watch;
mod worker;
pub(crate) mod workers;

use crate::args::{Command, Doc, Kind};

/// All commands, in the order of help. A command is registered here and nowhere else.
pub(crate) static ALL: &[&dyn Command] = &[
    &survey::COMMAND,
    &doctor::COMMAND,
    &watch::COMMAND,
    &throughput::COMMAND,
    &latency::COMMAND,
    &baseline::COMMAND,
    &workers::COMMAND,
    &traits::COMMAND,
    &observe::COMMAND,
    &service::LIST,
    &service::CALL,
    &service::DUMP,
    &trace::START,
    &trace::STOP,
    &trace::STATUS,
    &storage_layers::COMMAND,
    &storage_interference::COMMAND,
    &storage_study::COMMAND,
    &storage_observe::COMMAND,
    &storage_syscalls::COMMAND,
    &show::COMMAND,
    &explain::COMMAND,
    &compare::COMMAND,
    &ab::COMMAND,
    &report::COMMAND,
    &trace_convert::COMMAND,
    &help::COMMAND,
    &man::COMMAND,
    &completions::COMMAND,
    &version::COMMAND,
    &worker::COMMAND,
    &guard::COMMAND,
];

/// The commands that start with `words`, without internal ones.
pub(crate) fn beginning_with(words: &[impl AsRef<str>]) -> Vec<&'static dyn Command> {
    let begins = |doc: &Doc| {
        doc.path.len() >= words.len() && doc.path.iter().zip(words).all(|(path, word)| *path == word.as_ref())
    };
    ALL.iter()
        .copied()
        .filter(|command| {
            let doc = command.doc();
            doc.kind != Kind::Hidden && begins(&doc)
        })
        .collect()
}

/// The words that may follow `words`, without duplicates.
pub(crate) fn words_behind(words: &[&str]) -> Vec<&'static str> {
    let mut next: Vec<&str> = beginning_with(words)
        .iter()
        .filter_map(|command| command.doc().path.get(words.len()).copied())
        .collect();
    next.dedup();
    next
}

/// The command with exactly these words or, for one word, the old program of that name.
pub(crate) fn find(words: &[String]) -> Option<&'static dyn Command> {
    let is = |command: &&dyn Command| {
        let doc = command.doc();
        doc.kind != Kind::Hidden && doc.path == words
    };
    ALL.iter().chain(crate::old_names::ALL).copied().find(is)
}

#[cfg(test)]
mod tests;
