//! `roundtrip completions`: a script that completes command lines in a shell.

use super::ALL;
use crate::args::{self, Entry, Kind, Positionals, ValueKind};
use crate::old_names;
use crate::terminal::{Exit, Terminal};

/// The arguments as typed: the shell.
#[derive(Default)]
pub(crate) struct Typed {
    shell: String,
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["completions"],
    kind: Kind::Command,
    summary: "prints a script that completes command lines",
    description: "Prints a completion script for a shell. Load it from the shell's start-up file.",
    positionals: Some(Positionals {
        usage: "SHELL",
        help: "The shell.",
        count: 1..=1,
        kind: ValueKind::OneOf(&["bash", "zsh", "fish"]),
        set: |typed, text| {
            text.clone_into(&mut typed.shell);
            Ok(())
        },
    }),
    groups: &[],
    examples: &[
        ("source <(roundtrip completions bash)", "Enables completion in the current bash or zsh."),
        ("roundtrip completions fish | source", "Enables completion in the current fish."),
    ],
    run: |typed, terminal: &mut Terminal<'_>| {
        let script = match typed.shell.as_str() {
            "zsh" => args::zsh_completion(ALL, old_names::ALL),
            "fish" => args::fish_completion(ALL, old_names::ALL),
            _ => args::bash_completion(ALL, old_names::ALL),
        };
        terminal.out.write_all(script.as_bytes())?;
        Ok(Exit::OK)
    },
};
