//! The matrix: which commands are disturbed, how, and what must be reported.

use super::acts::Act;

/// One cell of the matrix.
pub(super) struct Cell {
    pub(super) command: &'static str,
    /// The first letters of the name of the process; "roundtrip" is the command itself.
    pub(super) victim: &'static str,
    pub(super) act: Act,
    /// Part of what must be reported; `None` if the command must print nothing.
    pub(super) says: Option<String>,
}

impl Cell {
    /// The disturbance in words.
    pub(super) fn what(&self) -> String {
        self.act.what(if self.victim == "roundtrip" { "command" } else { self.victim })
    }
}

const LATENCY: &str = "ipc latency --duration 10s --stack binder --callers other";
const SPLIT: &str = "ipc latency --duration 10s --stack binder --callers other --placement split";
const LOADED: &str = "ipc latency --duration 10s --stack binder --callers other --load hogs=1";
const RATE: &str = "ipc latency --duration 10s --stack binder --callers other --rate 200/s";
const EXPLAINED: &str = "ipc latency --duration 10s --stack binder --callers other --explain";
const THROUGHPUT: &str = "ipc throughput --repetitions 200 --min-time 50ms --sizes 4 --stack binder";
const BASELINE: &str = "ipc baseline --transports futex,pipe --sizes 4 --rounds 500 --duration 12s";
const WORKERS: &str = "ipc workers --workers 2 --iterations 300000";
const WRITES: &str = "storage layers --writers native --sizes 4k --calls 2000 --rounds 160 --file-size 1M";
const JAVA: &str = "storage layers --writers java-file --sizes 4k --calls 1000 --rounds 160 --file-size 1M";
const BESIDE: &str = "storage interference --duration 30s";
const BESIDE_HOGS: &str = "storage interference --conditions alone,hog-other --duration 20s --file-size 1M";
const OBSERVED_WRITES: &str = "storage observe --duration 10s";
const OBSERVED_SYSTEM_CALLS: &str = "storage syscalls --duration 10s";
const OBSERVED_CALLS: &str = "ipc observe --duration 10s";

const FAILED: &str = "partial: the measuring failed";
const HUNG_UP: &str = " SIGHUP";
const FROZEN: &str = "state of this process stopped or frozen";
const OFFLINE: &str = "online CPUs ";

/// A process of a measurement: the command, the name of the process, and its role in reports.
type Subject = (&'static str, &'static str, &'static str);

const PROCESSES: &[Subject] = &[
    (LATENCY, "client-1", "client of pair 1"),
    (LATENCY, "server-1", "server of pair 1"),
    (LATENCY, "manager", "binder service manager"),
    (LOADED, "hog", "hog 1"),
    (WRITES, "writer", "native writer"),
    (JAVA, "java", "Java of the java-file writer"),
    (WORKERS, "worker", "worker 0"),
];

/// Commands with a recorder.
const RECORDERS: &[&str] =
    &[EXPLAINED, WRITES, BESIDE, OBSERVED_WRITES, OBSERVED_SYSTEM_CALLS, OBSERVED_CALLS];

/// What is done to the file of a recording, and what must be reported.
const TO_RECORDERS: &[(Act, &str)] = &[
    (Act::Recorder("tracing_on", "0"), "changed tracing_on of this recording"),
    (Act::Recorder("set_event", ""), "changed set_event of this recording"),
    (Act::Recorder("tracing_cpumask", "1"), "changed tracing_cpumask of this recording"),
    (Act::Recorder("buffer_size_kb", "8"), "changed buffer_size_kb of this recording"),
    (Act::Recorder("trace_clock", "local"), "changed trace_clock of this recording"),
    (Act::ReadPipe, "read the events of this recording"),
    (Act::ClearBuffer, "of this recording between"),
];

/// Every cell.
pub(super) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut add = |command, victim, act, says: String| {
        cells.push(Cell { command, victim, act, says: Some(says) });
    };
    for &(command, victim, role) in PROCESSES {
        // Java may not have written anything yet.
        add(command, victim, Act::KILL, "killed by SIGKILL".to_owned());
        for seconds in [1, 10] {
            add(command, victim, Act::Stop { seconds }, format!("state of {role}"));
        }
        add(command, victim, Act::Freeze, format!(" of {role}"));
        add(command, victim, Act::Shrink, format!("CPUs of {role}"));
        add(command, victim, Act::Cpuset, format!(" of {role}"));
        add(command, victim, Act::Idle, format!("scheduling of {role}"));
    }
    for command in [THROUGHPUT, BASELINE] {
        add(command, "", Act::KILL, FAILED.to_owned());
    }
    for victim in ["client-1", "server-1"] {
        add(RATE, victim, Act::Stop { seconds: 1 }, "stopped for a time".to_owned());
        add(SPLIT, victim, Act::Shrink, FAILED.to_owned());
    }
    for command in [LATENCY, WORKERS, WRITES, BESIDE, OBSERVED_WRITES, OBSERVED_SYSTEM_CALLS, OBSERVED_CALLS]
    {
        add(command, "roundtrip", Act::HANG_UP, HUNG_UP.to_owned());
        add(command, "roundtrip", Act::Stop { seconds: 1 }, FROZEN.to_owned());
        add(command, "roundtrip", Act::Stop { seconds: 10 }, FROZEN.to_owned());
        add(command, "roundtrip", Act::Freeze, FROZEN.to_owned());
        add(command, "roundtrip", Act::Shrink, "CPUs of this process".to_owned());
    }
    for command in [OBSERVED_WRITES, OBSERVED_SYSTEM_CALLS, OBSERVED_CALLS] {
        add(command, "roundtrip", Act::NoFiles, FAILED.to_owned());
    }
    for &command in RECORDERS {
        TO_RECORDERS.iter().for_each(|&(act, says)| add(command, "", act, says.to_owned()));
    }
    add(BESIDE_HOGS, "hog", Act::Shrink, "hog-other ended early".to_owned());
    add(BESIDE_HOGS, "roundtrip", Act::Cpuset, "hog-other ended early".to_owned());
    for (command, says) in [
        (LATENCY, OFFLINE),
        (SPLIT, FAILED),
        (THROUGHPUT, OFFLINE),
        (WRITES, OFFLINE),
        (WORKERS, OFFLINE),
        (OBSERVED_WRITES, OFFLINE),
        (BESIDE_HOGS, "hog-other ended early"),
    ] {
        add(command, "", Act::CpuOff, says.to_owned());
    }
    for command in [LATENCY, OBSERVED_WRITES] {
        cells.push(Cell { command, victim: "roundtrip", act: Act::KILL, says: None });
    }
    cells
}
