//! `schd-dbg`: latency of the binder stack, in the format of Android's program.

use roundtrip_run::ipc::Stack;

use super::libhwbinder_latency::{DESCRIPTION, FLAGS, Typed, run};
use crate::args::{Entry, Group, Kind};

/// The program.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["schd-dbg"],
    kind: Kind::OldName,
    summary: "measures latency, deadlines and scheduling of the binder stack",
    description: DESCRIPTION,
    positionals: None,
    groups: &[Group { heading: "Options", options: FLAGS }],
    examples: &[("schd-dbg -i 5000 -pair 3", "Three pairs, 10000 calls each.")],
    run: |typed, terminal| run(&typed, Stack::Binder, terminal),
};
