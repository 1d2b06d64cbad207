//! Completion scripts for shells, from the tables: commands, flags, and the words that a value can
//! be. What the shells have in common is here.

mod fish;
mod posix;

use std::collections::BTreeSet;

use super::table::OptDoc;
use super::{Command, Doc, Kind, ValueKind};

pub(crate) use fish::script as fish;
pub(crate) use posix::{bash, zsh};

/// What can stand behind an option.
enum Behind {
    /// No value, or one that need not be there.
    Nothing,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Some of these words, separated by commas.
    List(&'static [&'static str]),
    /// A file or a directory.
    File,
    /// A value that no shell can guess.
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

/// What documentation shows of these.
fn docs(list: &[&dyn Command]) -> Vec<Doc> {
    list.iter().map(|command| command.doc()).filter(|doc| doc.kind != Kind::Hidden).collect()
}

/// The words of all commands: what commands about commands take.
fn all_words(commands: &[Doc]) -> String {
    let words: BTreeSet<&str> = commands.iter().flat_map(|doc| doc.path).copied().collect();
    words.into_iter().collect::<Vec<_>>().join(" ")
}

/// All beginnings of commands, each with a space behind every word: "", "ipc ".
fn prefixes(commands: &[Doc]) -> BTreeSet<String> {
    let begin = |doc: &Doc, n: usize| doc.path[..n].iter().map(|word| format!("{word} ")).collect();
    commands.iter().flat_map(|doc| (0..doc.path.len()).map(move |n| begin(doc, n))).collect()
}

/// The words that can follow such a beginning.
fn next_words<'d>(commands: &'d [Doc], prefix: &str) -> BTreeSet<&'d str> {
    let n = prefix.split_whitespace().count();
    commands
        .iter()
        .filter(|doc| format!("{} ", doc.words()).starts_with(prefix))
        .filter_map(|doc| doc.path.get(n).copied())
        .collect()
}
