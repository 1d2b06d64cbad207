//! `roundtrip help`: prints the same as `--help`, for the program, a group of commands or one
//! command.

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
    path: &["help"],
    kind: Kind::Command,
    summary: "explains a command, or the terms in reports",
    description: "Prints what 'roundtrip COMMAND --help' prints or, without a command, the list of all \
                  commands. 'help terms' explains all terms in reports, 'help TERM' one of them. 'help terms TERM' \
                  also explains a term that is a command's word.",
    positionals: Some(Positionals {
        usage: "[COMMAND|TERM]...",
        help: "The command's words, as in 'help ipc latency', an old program's name, or terms.",
        count: 0..=8,
        kind: ValueKind::Text,
        set: |typed, word| push(&mut typed.words, values::any(word)),
    }),
    groups: &[],
    examples: &[
        ("roundtrip help ipc latency", "Explains a command."),
        ("roundtrip help looper", "Explains a term in a report."),
    ],
    run,
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let words = typed.words;
    let width = args::help_width(terminal.look);
    let explained = |terms: &[String]| {
        roundtrip_report::terms::text(terms, |out, terms, meaning| {
            args::help_entry(out, terms, meaning, width);
        })
    };
    let text = if words.is_empty() {
        args::program_help(VERSION, ALL, old_names::ALL, width)
    } else if let Some(wanted) = words.strip_prefix(&["terms".to_owned()]) {
        explained(wanted).ok_or_else(|| {
            usage!("no such term: '{}'; 'roundtrip help terms' lists all", wanted.join("', '"))
        })?
    } else if let Some(command) = find(&words) {
        args::command_help(&command.doc(), width)
    } else {
        match beginning_with(&words) {
            group if group.is_empty() => {
                explained(&words).ok_or_else(|| usage!("no command, and no term: '{}'", words.join(" ")))?
            }
            group => args::group_help(&words.join(" "), &group, width),
        }
    };
    terminal.out.write_all(terminal.look.fit(text).as_bytes())?;
    Ok(Exit::OK)
}
