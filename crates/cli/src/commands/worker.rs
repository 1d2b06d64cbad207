//! `roundtrip __worker`: the command with which this program starts itself as a worker process. For
//! internal use.

use roundtrip_bench::worker;

use crate::args::{Entry, Kind};
use crate::terminal::Exit;

/// The command.
pub(crate) static COMMAND: Entry<()> = Entry {
    path: &[worker::COMMAND],
    kind: Kind::Hidden,
    summary: "does one job for the process that started it",
    description: "Reads a job from standard input and reports on standard output, both in frames.",
    positionals: None,
    groups: &[],
    examples: &[],
    run: |(), _| Ok(if worker::main(roundtrip_bench::JOBS) { Exit::OK } else { Exit::FAILED }),
};
