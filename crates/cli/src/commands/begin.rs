//! `roundtrip` without arguments: the commands that one begins with. It is not in the list of
//! commands, because it has no words.

use super::{doctor, explain, observe, storage_observe, survey};
use crate::VERSION;
use crate::args::{self, Command, Entry, Kind};
use crate::terminal::{Exit, Terminal};

/// The commands that one begins with, in the order in which they help.
static FIRST: &[&dyn Command] =
    &[&doctor::COMMAND, &survey::COMMAND, &storage_observe::COMMAND, &observe::COMMAND, &explain::COMMAND];

/// The command.
pub(crate) static COMMAND: Entry<()> = Entry {
    path: &[],
    kind: Kind::Hidden,
    summary: "names the commands that one begins with",
    description: "Names the commands that one begins with.",
    positionals: None,
    groups: &[],
    examples: &[],
    run: |(), terminal: &mut Terminal<'_>| {
        let text = args::first_help(VERSION, FIRST, args::help_width(terminal.look));
        terminal.out.write_all(terminal.look.fit(text).as_bytes())?;
        Ok(Exit::OK)
    },
};
