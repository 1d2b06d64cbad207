//! `libhwbinder_benchmark`: throughput of the hwbinder stack, in Google Benchmark's formats.

use roundtrip_run::ipc::{Mode, Stack};

use super::sendvec;
use crate::args::values::put;
use crate::args::{Entry, Group, Kind, Opt};
use crate::google_benchmark::flags::{self, Flags};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    mode: Mode,
    flags: Flags,
}

impl AsMut<Flags> for Typed {
    fn as_mut(&mut self) -> &mut Flags {
        &mut self.flags
    }
}

/// The program.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["libhwbinder_benchmark"],
    kind: Kind::OldName,
    summary: "measures round trips of the hwbinder stack by payload size",
    description: sendvec::DESCRIPTION,
    positionals: None,
    groups: &[
        Group {
            heading: "Options",
            options: &[Opt::one_of(
                &["-m"],
                "MODE",
                &["BINDERIZE", "PASSTHROUGH"],
                "BINDERIZE calls a server process over the driver, PASSTHROUGH the service in the client's own process.",
                |typed: &mut Typed, text| put(&mut typed.mode, text.parse()),
            )
            .default("BINDERIZE")],
        },
        flags::group(),
    ],
    examples: &[
        ("libhwbinder_benchmark", "Measures 4 bytes to 64 KiB."),
        ("libhwbinder_benchmark -m PASSTHROUGH", "Measures the call without IPC."),
    ],
    run: |typed, terminal| sendvec::run(&typed.flags, Stack::Hwbinder, typed.mode, terminal),
};
