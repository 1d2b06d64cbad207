//! `libbinder_benchmark`: throughput of the binder stack, in Google Benchmark's formats.

use roundtrip_run::ipc::{Mode, Stack};

use super::sendvec;
use crate::args::{Entry, Kind};
use crate::google_benchmark::flags::{self, Flags};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed(Flags);

impl AsMut<Flags> for Typed {
    fn as_mut(&mut self) -> &mut Flags {
        &mut self.0
    }
}

/// The program.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["libbinder_benchmark"],
    kind: Kind::OldName,
    summary: "measures round trips of the binder stack by payload size",
    description: sendvec::DESCRIPTION,
    positionals: None,
    groups: &[flags::group()],
    examples: &[
        ("libbinder_benchmark", "Measures 4 bytes to 64 KiB."),
        (
            "libbinder_benchmark --benchmark_filter=/64k --benchmark_out=a.json",
            "Measures one size, and stores a result that Google Benchmark's compare.py reads.",
        ),
    ],
    run: |Typed(flags), terminal| sendvec::run(&flags, Stack::Binder, Mode::Binderize, terminal),
};
