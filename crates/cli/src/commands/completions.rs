//! `roundtrip completions`: a script that completes command lines in a shell.

use super::ALL;
use crate::args::{self, Entry, Kind, Positionals, ValueKind};
use crate::old_names;
use crate::terminal::{Exit, Terminal};

/// The command. There is one shell so far, so its name is checked and not kept.
pub(crate) static COMMAND: Entry<()> = Entry {
    path: &["completions"],
    kind: Kind::Command,
    summary: "prints a script that completes command lines",
    description: "Prints a completion script for a shell, to be loaded by the shell's start-up file.",
    positionals: Some(Positionals {
        usage: "SHELL",
        help: "The shell: bash.",
        count: 1..=1,
        kind: ValueKind::OneOf(&["bash"]),
        set: |(), _| Ok(()),
    }),
    groups: &[],
    examples: &[("source <(roundtrip completions bash)", "Completes in the running shell.")],
    run: |(), terminal: &mut Terminal<'_>| {
        terminal.out.write_all(args::bash_completion(ALL, old_names::ALL).as_bytes())?;
        Ok(Exit::OK)
    },
};
