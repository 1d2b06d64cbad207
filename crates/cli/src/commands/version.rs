//! `roundtrip version` and `roundtrip --version`: the version, and how the program was built.

use crate::VERSION;
use crate::args::{Entry, Kind};
use crate::terminal::{Exit, Terminal};

/// The command.
pub(crate) static COMMAND: Entry<()> = Entry {
    path: &["version"],
    kind: Kind::Command,
    summary: "prints the version",
    description: "Prints the version, the build profile and the target architecture.",
    positionals: None,
    groups: &[],
    examples: &[],
    run: |(), terminal: &mut Terminal<'_>| {
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        writeln!(terminal.out, "roundtrip {VERSION} ({build}, {})", std::env::consts::ARCH)?;
        Ok(Exit::OK)
    },
};
