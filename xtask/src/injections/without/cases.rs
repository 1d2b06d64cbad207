//! The causes that are taken away, and how calls and writes are measured meanwhile.

use super::super::measure::Pace;

/// How calls or writes are measured.
pub(super) struct Setting {
    /// Both causes delay an operation by more.
    pub(super) deadline_ms: u32,
    /// How often the cause that stays disturbs, and for how long. Its times drift against those of
    /// the cause that is taken away.
    pub(super) stays: Pace,
    /// The same of the cause that is taken away.
    pub(super) goes: Pace,
}

impl Of {
    /// Disturbances are longer than what happens on an idle machine: 10 ms to calls, 20 ms to
    /// writes to a disk.
    pub(super) fn setting(self) -> Setting {
        let pace = |every_ms, for_ms| Pace { every_ms, for_ms };
        match self {
            Self::Calls => Setting { deadline_ms: 8, stays: pace(61, 12), goes: pace(250, 20) },
            Self::Writes => Setting { deadline_ms: 18, stays: pace(97, 25), goes: pace(250, 40) },
        }
    }
}

/// A cause that is taken away.
pub(super) struct Case {
    pub(super) of: Of,
    pub(super) name: &'static str,
    /// The injector's kind, and whom it disturbs.
    pub(super) kind: &'static str,
    pub(super) victims: &'static [&'static str],
    /// A cause that contains one of these is the injected one.
    pub(super) words: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Calls,
    Writes,
}

impl Of {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Writes => "writes",
        }
    }
}

const fn case(
    of: Of,
    name: &'static str,
    kind: &'static str,
    victims: &'static [&'static str],
    words: &'static [&'static str],
) -> Case {
    Case { of, name, kind, victims, words }
}

const CLIENT: &[&str] = &["client-1"];
const SERVER: &[&str] = &["server-1"];
pub(super) const WRITER: &[&str] = &["victim"];

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    case(Of::Calls, "FIFO process", "hog", &[], &["inj-hog"]),
    case(Of::Calls, "deadline processes", "deadline", &[], &["inj-deadline"]),
    case(Of::Calls, "many short processes", "storm", &[], &["inj-storm"]),
    case(Of::Calls, "SIGSTOP of the client", "stop", CLIENT, &["stopped"]),
    case(Of::Calls, "debugger at the server", "trace", SERVER, &["stopped"]),
    case(Of::Calls, "freezer", "freeze", SERVER, &["frozen", "inj-freeze"]),
    case(Of::Writes, "FIFO process", "hog", &[], &["inj-hog"]),
    case(Of::Writes, "deadline processes", "deadline", &[], &["inj-deadline"]),
    case(Of::Writes, "many short processes", "storm", &[], &["inj-storm"]),
    case(Of::Writes, "six threads of a process", "threads", &[], &["inj-threads"]),
    case(Of::Writes, "FIFO processes on every CPU", "everywhere", &[], &["inj-everywhere"]),
    case(Of::Writes, "lock of the file", "inode", &[], &["inj-inode"]),
];

/// A writer on CPU 1 that makes writes durable one by one: its file, and how many seconds it
/// writes.
pub(super) const WRITES: &str = "\
import os, sys, time
open('/proc/self/comm', 'w').write('victim')
os.sched_setaffinity(0, {1})
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DSYNC, 0o600)
block, at = bytes(4096), 0
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    os.pwrite(file, block, at % (4 << 20))
    at += 4096
";
