//! `roundtrip man`: a manual page in the macros that `man` reads.

use super::{ALL, beginning_with, find};
use crate::args::values::push;
use crate::args::{self, Entry, Kind, Positionals, ValueKind, usage, values};
use crate::terminal::{Exit, Terminal};
use crate::{VERSION, old_names};

/// The arguments as typed: the words of a command.
#[derive(Default)]
pub(crate) struct Typed {
    words: Vec<String>,
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["man"],
    kind: Kind::Command,
    summary: "prints a manual page",
    description: "Prints the manual page of a command, of a group of commands or, without COMMAND, of the \
                  whole program, as source for man(1).",
    positionals: Some(Positionals {
        usage: "[COMMAND]...",
        help: "The command's words, or an old program's name.",
        count: 0..=8,
        kind: ValueKind::Text,
        set: |typed, word| push(&mut typed.words, values::any(word)),
    }),
    groups: &[],
    examples: &[("roundtrip man | man -l -", "Shows the program's page.")],
    run,
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let words = typed.words;
    let page = if words.is_empty() {
        args::program_man(VERSION, ALL, old_names::ALL)
    } else if let Some(command) = find(&words) {
        args::command_man(&command.doc(), VERSION)
    } else {
        match beginning_with(&words) {
            group if group.is_empty() => return Err(usage!("no manual page for '{}'", words.join(" "))),
            group => args::group_man(&words.join(" "), VERSION, &group),
        }
    };
    terminal.out.write_all(page.as_bytes())?;
    Ok(Exit::OK)
}
