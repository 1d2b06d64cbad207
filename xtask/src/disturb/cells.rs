//! The matrix: which commands are disturbed, how, and what must be reported.

use super::acts::Act;

/// One cell of the matrix.
pub(super) struct Cell {
    pub(super) command: &'static str,
    /// The first letters of the name of the process; "roundtrip" is the command itself.
    pub(super) victim: &'static str,
    pub(super) act: Act,
    /// Part of what must be reported.
    pub(super) says: &'static str,
}

impl Cell {
    /// The disturbance in words.
    pub(super) fn what(&self) -> String {
        self.act.what(if self.victim == "roundtrip" { "command" } else { self.victim })
    }
}

const fn cell(command: &'static str, victim: &'static str, act: Act, says: &'static str) -> Cell {
    Cell { command, victim, act, says }
}

const LATENCY: &str = "ipc latency --duration 10s --stack binder --callers other";
const SPLIT: &str = "ipc latency --duration 10s --stack binder --callers other --placement split";
const LOADED: &str = "ipc latency --duration 10s --stack binder --callers other --load hogs=1";
const RATE: &str = "ipc latency --duration 10s --stack binder --callers other --rate 200/s";
const EXPLAINED: &str = "ipc latency --duration 10s --stack binder --callers other --explain";
const THROUGHPUT: &str = "ipc throughput --repetitions 200 --min-time 50ms --sizes 4 --stack binder";
const BASELINE: &str = "ipc baseline --transports futex,pipe --sizes 4 --rounds 500 --duration 12s";
const WORKERS: &str = "ipc workers --workers 2 --iterations 300000";
const WRITES: &str = "storage layers --writers native --sizes 4k --calls 500 --rounds 40 --file-size 1M";
const JAVA: &str = "storage layers --writers java --sizes 4k --calls 500 --rounds 40 --file-size 1M";
const BESIDE: &str = "storage interference --duration 30s";
const FAILED: &str = "partial: the measuring failed";
const STOPPED: &str = "stopped for a time";
const FROZEN: &str = "stopped or frozen";
const OFFLINE: &str = "online CPUs ";

/// Every cell.
pub(super) const CELLS: &[Cell] = &[
    cell(LATENCY, "client-1", Act::KILL, FAILED),
    cell(LATENCY, "server-1", Act::KILL, FAILED),
    cell(LATENCY, "manager", Act::KILL, FAILED),
    cell(LOADED, "hog", Act::KILL, FAILED),
    cell(THROUGHPUT, "client", Act::KILL, FAILED),
    cell(BASELINE, "", Act::KILL, FAILED),
    // Its only round has no result.
    cell(WORKERS, "", Act::KILL, "was killed by SIGKILL"),
    cell(WRITES, "writer", Act::KILL, FAILED),
    cell(JAVA, "java", Act::KILL, FAILED),
    cell(LATENCY, "roundtrip", Act::HANG_UP, "partial: SIGHUP ended the measuring"),
    cell(WRITES, "roundtrip", Act::HANG_UP, "partial: SIGHUP ended the measuring"),
    cell(RATE, "client-1", Act::Stop { seconds: 1 }, STOPPED),
    cell(RATE, "server-1", Act::Stop { seconds: 1 }, STOPPED),
    cell(LATENCY, "client-1", Act::Stop { seconds: 10 }, STOPPED),
    cell(LATENCY, "server-1", Act::Stop { seconds: 1 }, STOPPED),
    cell(LATENCY, "roundtrip", Act::Stop { seconds: 2 }, FROZEN),
    cell(LOADED, "hog", Act::Stop { seconds: 2 }, STOPPED),
    cell(WRITES, "writer", Act::Stop { seconds: 1 }, STOPPED),
    cell(LATENCY, "client-1", Act::Freeze, "control group of client of pair 1"),
    cell(LATENCY, "roundtrip", Act::Freeze, FROZEN),
    cell(LATENCY, "client-1", Act::Shrink, "CPUs of client of pair 1"),
    cell(LATENCY, "server-1", Act::Shrink, "CPUs of server of pair 1"),
    cell(SPLIT, "client-1", Act::Shrink, FAILED),
    cell(SPLIT, "server-1", Act::Shrink, FAILED),
    cell(LOADED, "hog", Act::Shrink, "CPUs of "),
    cell(WRITES, "writer", Act::Shrink, "CPUs of "),
    cell(LATENCY, "", Act::CpuOff, OFFLINE),
    cell(SPLIT, "", Act::CpuOff, FAILED),
    cell(THROUGHPUT, "", Act::CpuOff, OFFLINE),
    cell(WRITES, "", Act::CpuOff, OFFLINE),
    cell(BESIDE, "", Act::CpuOff, OFFLINE),
    cell(LATENCY, "client-1", Act::Idle, "scheduling of client of pair 1"),
    cell(LATENCY, "server-1", Act::Idle, "scheduling of server of pair 1"),
    cell(LOADED, "hog", Act::Idle, "scheduling of "),
    cell(WRITES, "writer", Act::Idle, "scheduling of "),
    cell(EXPLAINED, "", Act::Recorder("tracing_on", "0"), "changed tracing_on"),
    cell(EXPLAINED, "", Act::Recorder("set_event", ""), "changed set_event"),
    cell(EXPLAINED, "", Act::Recorder("tracing_cpumask", "1"), "changed tracing_cpumask"),
    cell(EXPLAINED, "", Act::Recorder("buffer_size_kb", "8"), "changed buffer_size_kb"),
    cell(EXPLAINED, "", Act::Recorder("trace_clock", "local"), "changed trace_clock"),
    cell(WRITES, "", Act::Recorder("tracing_cpumask", "1"), "changed tracing_cpumask"),
];
