//! `roundtrip __guard`: the command with which this program starts the process that cleans up if it
//! is killed. For internal use.

use roundtrip_bench::left_behind;

use crate::args::{Entry, Kind};
use crate::terminal::Exit;

/// The command.
pub(crate) static COMMAND: Entry<()> = Entry {
    path: &[left_behind::GUARD],
    kind: Kind::Hidden,
    summary: "removes what the process that started it leaves behind if it is killed",
    description: "Waits until standard input ends.",
    positionals: None,
    groups: &[],
    examples: &[],
    run: |(), _| {
        left_behind::stand_guard();
        Ok(Exit::OK)
    },
};
