//! The text of `--help` for the program and for groups of commands.

use super::help::entry;
use super::{Command, Kind};

/// What the program does.
const SUMMARY: &str = "shows where the time goes in Binder calls and synchronous writes";

/// The commands that one begins with.
pub(crate) fn first(version: &str, commands: &[&dyn Command], width: usize) -> String {
    let mut out = format!("roundtrip {version}: {SUMMARY}\n\nBegin with one of these:\n");
    list(&mut out, commands, width);
    out.push_str(
        "\n'roundtrip help' lists all commands; 'roundtrip COMMAND --help' explains one command, and\n\
         'roundtrip help TERM' a term in reports.\n",
    );
    out
}

/// Help on the whole program.
pub(crate) fn program(
    version: &str,
    commands: &[&dyn Command],
    old_names: &[&dyn Command],
    width: usize,
) -> String {
    let mut out = format!(
        "roundtrip {version}: {SUMMARY}\n\n\
         Usage: roundtrip COMMAND [OPTION]...\n\nCommands:\n"
    );
    list(&mut out, commands, width);
    if !old_names.is_empty() {
        out.push_str(
            "\nCalled by one of these names, roundtrip takes that program's flags and prints its \
             format:\n",
        );
        list(&mut out, old_names, width);
    }
    out.push_str(
        "\n'roundtrip COMMAND --help' explains one command, 'roundtrip help terms' the terms in reports;\n\
         'roundtrip --version' prints the version.\n",
    );
    out
}

/// Help on the commands with the same first words.
pub(crate) fn group(words: &str, commands: &[&dyn Command], width: usize) -> String {
    let mut out = format!("Usage: roundtrip {words} COMMAND [OPTION]...\n\nCommands:\n");
    list(&mut out, commands, width);
    out.push_str(&format!("\n'roundtrip {words} COMMAND --help' explains one command.\n"));
    out
}

fn list(out: &mut String, commands: &[&dyn Command], width: usize) {
    for doc in commands.iter().map(|command| command.doc()).filter(|doc| doc.kind != Kind::Hidden) {
        entry(out, &doc.words(), doc.summary, width);
    }
}
