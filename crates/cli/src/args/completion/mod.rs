//! Completion scripts for shells, generated from the tables: commands, flags, and values. This file
//! has the code that all shells share.

mod fish;
mod posix;

use std::collections::BTreeSet;

use super::table::OptDoc;
use super::{Command, Doc, Kind, ValueKind};

pub(crate) use fish::script as fish;
pub(crate) use posix::{bash, zsh};

/// What may follow an option.
enum Behind {
    /// No value, or an optional one.
    Nothing,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A comma-separated list of these words.
    List(&'static [&'static str]),
    /// A file or a directory.
    File,
    /// A value that cannot be completed.
    Any,
}

fn behind(option: &OptDoc) -> Behind {
    match (option.value, option.kind) {
        (None | Some((_, false)), _) => Behind::Nothing,
        (_, ValueKind::OneOf(words)) => Behind::Word(words),
        (_, ValueKind::ListOf(words)) => Behind::List(words),
        (_, ValueKind::Path) => Behind::File,
        (_, ValueKind::Text | ValueKind::Number) => Behind::Any,
    }
}

/// The documentation of these commands.
fn docs(list: &[&dyn Command]) -> Vec<Doc> {
    list.iter().map(|command| command.doc()).filter(|doc| doc.kind != Kind::Hidden).collect()
}

/// The words of all commands, which `help` and similar commands accept.
fn all_words(commands: &[Doc]) -> String {
    let words: BTreeSet<&str> = commands.iter().flat_map(|doc| doc.path).copied().collect();
    words.into_iter().collect::<Vec<_>>().join(" ")
}

/// All prefixes of commands, with a space after each word: "", "ipc ".
fn prefixes(commands: &[Doc]) -> BTreeSet<String> {
    let begin = |doc: &Doc, n: usize| doc.path[..n].iter().map(|word| format!("{word} ")).collect();
    commands.iter().flat_map(|doc| (0..doc.path.len()).map(move |n| begin(doc, n))).collect()
}

/// The words that may follow a prefix.
fn next_words<'d>(commands: &'d [Doc], prefix: &str) -> BTreeSet<&'d str> {
    let n = prefix.split_whitespace().count();
    commands
        .iter()
        .filter(|doc| format!("{} ", doc.words()).starts_with(prefix))
        .filter_map(|doc| doc.path.get(n).copied())
        .collect()
}
