//! `atrace`: records the kernel's global trace with the options and the output of Android's
//! program.

use crate::args::{Entry, Group, Kind};
use crate::atrace::{self, Front, Typed};

/// Android's defaults.
const FRONT: Front = Front {
    name: "atrace",
    kilobytes: 2048,
    only_starts: false,
    started: |_, terminal| {
        write!(terminal.out, "capturing trace...")?;
        Ok(())
    },
};

/// The program.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["atrace"],
    kind: Kind::OldName,
    summary: "records the kernel's events of some categories",
    description: "Records the events of these categories in the kernel's global trace for some seconds and prints \
                  them, or starts a recording that a later call dumps or stops. Every earlier setting of the trace \
                  is restored at the end. It does not touch a trace that another program uses. Needs root.",
    positionals: Some(atrace::POSITIONALS),
    groups: &[
        atrace::WHAT,
        Group {
            heading: "Buffers",
            options: &[atrace::size(&["-b"], "2048", atrace::at_least::<1>), atrace::CIRCULAR],
        },
        atrace::WHEN,
        atrace::OUTPUT,
    ],
    examples: &[
        (
            "atrace --async_start -b 8000 -c sched idle workq binder_driver sync freq",
            "Starts recording what matters for latency.",
        ),
        ("atrace --async_stop -o trace.txt", "Stores it."),
    ],
    run: |typed, terminal| atrace::record(&typed, &FRONT, terminal),
};
