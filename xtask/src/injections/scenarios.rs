//! What is injected into what, and which words of a sentence name it.

/// A measurement, a disturbance of it, and how a sentence names that.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) measured: Measured,
    /// The measuring command's options.
    pub(super) options: &'static str,
    pub(super) by: By,
    /// Which thread is disturbed.
    pub(super) victim: Victim,
    /// A sentence that contains one of these names the cause.
    pub(super) words: &'static [&'static str],
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    /// Calls.
    Calls,
    /// Writes to the disk.
    Writes,
    /// Writes to a file system with a journal, on a loop device.
    JournalledWrites,
}

/// Which thread of an operation is disturbed. A disturbance delays an operation only while the
/// operation is with that thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Client,
    Server,
    /// Whichever the operation is with.
    Any,
}

/// Who disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The measuring program itself: its `--inject`.
    Itself(&'static str),
    /// `injector.py`, with this kind, for the processes whose names begin with these.
    Outside(&'static str, &'static [&'static str]),
}

/// Where the processes of a scenario run that are on one CPU.
pub(super) const CPU: &str = "1";

/// Two real-time threads on different CPUs, which other load on the machine does not delay.
const APART: &str = "--callers fifo:10 --inheritance on --client-cpus 0 --server-cpus 1 --deadline 2ms";
/// Both on one CPU.
const TOGETHER: &str = "--callers fifo:10 --inheritance on --client-cpus 1 --server-cpus 1 --deadline 2ms";
/// The duration of a file write is not configurable, and is shorter than the other disturbances.
const FILE: &str = "--callers fifo:10 --inheritance on --client-cpus 0 --server-cpus 1 --deadline 1ms";
/// A real-time client whose server stays an ordinary thread.
const INVERTED: &str = "--callers fifo:99 --inheritance off --client-cpus 0 --server-cpus 1 --deadline 4ms";
/// Ordinary threads.
const ORDINARY: &str = "--callers other --client-cpus 0 --server-cpus 1 --deadline 4ms";
/// Both on one CPU.
const NEIGHBOURS: &str = "--callers other --client-cpus 1 --server-cpus 1 --deadline 4ms";
/// On any CPU.
const FREE: &str = "--callers other --placement free --deadline 4ms";
/// The server uses its CPU most of the time.
const WORKING: &str = "--callers other --client-cpus 0 --server-cpus 1 --work 1ms --deadline 15ms";
/// The same for real-time threads.
const LONG: &str =
    "--callers fifo:10 --inheritance on --client-cpus 1 --server-cpus 1 --work 2ms --deadline 3ms";

const WRITER: &str = "--policy fifo:10 --cpus 1";
const ORDINARY_WRITER: &str = "--policy other --cpus 1";
const FREE_WRITER: &str = "--policy other";

const SERVER: &[&str] = &["server-1"];
const CLIENT: &[&str] = &["client-1"];
const BOTH: &[&str] = &["client-1", "server-1"];
const THE_WRITER: &[&str] = &["writer"];
const NOBODY: &[&str] = &[];

const STOPPED: &[&str] = &["stopped"];
/// Where no event shows that a thread was frozen, the one that thawed it is the one it waited for.
const FROZEN: &[&str] = &["frozen", "waited for inj-freeze"];

/// Every scenario. Those of `--inject` were used to develop explanations, the others were not.
#[rustfmt::skip]
pub(super) const SCENARIOS: &[Scenario] = &[
    inject("FIFO hog on the server's CPU", "hog,cpus=1", Victim::Server, APART, &["injector"]),
    inject("FIFO hog on the client's CPU", "hog,cpus=0", Victim::Client, APART, &["injector"]),
    inject("FIFO hog on a shared CPU", "hog,cpus=1", Victim::Any, TOGETHER, &["injector"]),
    inject("nice -20 hog", "hog,cpus=1,policy=nice:-20,for=8ms", Victim::Server, ORDINARY, &["injector"]),
    inject("RT client, CFS server", "hog,cpus=1,policy=fifo:50", Victim::Server, INVERTED, &["injector"]),
    inject("lock holder", "lock,cpus=0", Victim::Server, APART, &["injector"]),
    inject("lock holder, preempted", "lock-preempted,cpus=0", Victim::Server, APART, &["injector"]),
    inject("sleep", "sleep", Victim::Server, APART, &["slept"]),
    inject("extra work", "work", Victim::Server, APART, &["server itself ran"]),
    inject("SIGSTOP of the server", "stop,cpus=0", Victim::Server, APART, STOPPED),
    inject("fsync", "fsync", Victim::Server, FILE, &["for a device", "server itself ran"]),
    inject("packets of a FIFO sender", "flood,cpus=1,policy=fifo:50", Victim::Server, APART, &["injector", "softirq"]),
    calls("FIFO process", "hog", NOBODY, TOGETHER, &["inj-hog"]),
    calls("four ordinary processes", "crowd", NOBODY, NEIGHBOURS, &["inj-crowd"]),
    calls("deadline processes", "deadline", NOBODY, TOGETHER, &["inj-deadline"]),
    calls("many short processes", "storm", NOBODY, TOGETHER, &["inj-storm"]),
    calls("six threads of a process", "threads", NOBODY, TOGETHER, &["inj-threads"]),
    calls("server made SCHED_IDLE", "demote", SERVER, NEIGHBOURS, &["inj-demote"]),
    calls("both moved to a busy CPU", "move", BOTH, FREE, &["inj-move"]),
    calls("SIGSTOP of the client", "stop", CLIENT, APART, STOPPED),
    calls("debugger at the server", "trace", SERVER, APART, STOPPED),
    calls("freezer", "freeze", SERVER, APART, FROZEN),
    calls("CPU quota", "quota", SERVER, WORKING, &["CPU quota"]),
    calls("multicast packets", "packets", NOBODY, LONG, &["softirq", "interrupt"]),
    writes("FIFO process", "hog", NOBODY, WRITER, &["inj-hog"]),
    writes("four ordinary processes", "crowd", NOBODY, ORDINARY_WRITER, &["inj-crowd"]),
    writes("deadline processes", "deadline", NOBODY, WRITER, &["inj-deadline"]),
    writes("many short processes", "storm", NOBODY, WRITER, &["inj-storm"]),
    writes("six threads of a process", "threads", NOBODY, WRITER, &["inj-threads"]),
    writes("writer made SCHED_IDLE", "demote", THE_WRITER, ORDINARY_WRITER, &["inj-demote"]),
    writes("writer moved to a busy CPU", "move", THE_WRITER, FREE_WRITER, &["inj-move"]),
    writes("SIGSTOP of the writer", "stop", THE_WRITER, WRITER, STOPPED),
    writes("debugger at the writer", "trace", THE_WRITER, WRITER, STOPPED),
    writes("freezer", "freeze", THE_WRITER, WRITER, FROZEN),
    writes("CPU quota", "quota", THE_WRITER, ORDINARY_WRITER, &["CPU quota"]),
    writes("I/O limit", "iolimit", THE_WRITER, WRITER, &["I/O limit"]),
    writes("lock of the file", "inode", NOBODY, WRITER, &["inj-inode"]),
    journalled("FIFO processes on every CPU", "everywhere", WRITER, &["inj-everywhere"]),
];

const fn inject(
    name: &'static str,
    by: &'static str,
    victim: Victim,
    options: &'static str,
    words: &'static [&'static str],
) -> Scenario {
    Scenario { name, measured: Measured::Calls, options, by: By::Itself(by), victim, words }
}

const fn calls(
    name: &'static str,
    kind: &'static str,
    victims: &'static [&'static str],
    options: &'static str,
    words: &'static [&'static str],
) -> Scenario {
    let victim = match victims {
        [one] if one.as_bytes()[0] == b's' => Victim::Server,
        [one] if one.as_bytes()[0] == b'c' => Victim::Client,
        _ => Victim::Any,
    };
    Scenario { name, measured: Measured::Calls, options, by: By::Outside(kind, victims), victim, words }
}

const fn writes(
    name: &'static str,
    kind: &'static str,
    victims: &'static [&'static str],
    options: &'static str,
    words: &'static [&'static str],
) -> Scenario {
    Scenario { measured: Measured::Writes, ..calls(name, kind, victims, options, words) }
}

const fn journalled(
    name: &'static str,
    kind: &'static str,
    options: &'static str,
    words: &'static [&'static str],
) -> Scenario {
    Scenario { measured: Measured::JournalledWrites, ..calls(name, kind, THE_WRITER, options, words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_injector_knows_every_kind_and_every_kind_is_used() {
        let known = include_str!("injector.py").split("KINDS = {").nth(1).unwrap();
        let mut known: Vec<&str> =
            known.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next()).collect();
        let mut used: Vec<&str> = SCENARIOS
            .iter()
            .filter_map(|scenario| match scenario.by {
                By::Outside(kind, _) => Some(kind),
                By::Itself(_) => None,
            })
            .collect();
        used.sort_unstable();
        used.dedup();
        known.sort_unstable();
        assert_eq!(known, used);
    }

    #[test]
    fn at_least_twelve_kinds_from_outside_disturb_calls_and_as_many_disturb_writes() {
        let outside = |calls: bool| {
            let is = |scenario: &&Scenario| (scenario.measured == Measured::Calls) == calls;
            SCENARIOS.iter().filter(is).filter(|one| matches!(one.by, By::Outside(..))).count()
        };
        assert!(outside(true) >= 12 && outside(false) >= 12);
    }
}
