//! Reasons and causes as JSON.

use roundtrip_layers::Thread;
use roundtrip_layers::reasons::{OfKind, OfProcess, ReasonKind, Row};
use serde::Serialize;

use crate::explanation::names::{group, process_of, thing};

/// A [`Row`], with its name.
#[derive(Serialize)]
pub(crate) struct RowJson {
    kind: ReasonKind,
    cause: String,
    process: Option<String>,
    class: Option<String>,
    calls: u64,
    lost_ns: u64,
    worst_ns: u64,
}

impl From<&Row> for RowJson {
    fn from(row: &Row) -> Self {
        let (process, class) = process_of(&row.subject);
        Self {
            kind: row.kind,
            cause: group(row.kind, &row.subject),
            process,
            class,
            calls: row.operations,
            lost_ns: row.lost_ns,
            worst_ns: row.worst_ns,
        }
    }
}

/// All time of one kind of reason.
#[derive(Serialize)]
pub(crate) struct KindJson<'a> {
    kind: ReasonKind,
    sum_ns: u64,
    lost_ns: u64,
    processes: Vec<ProcessJson<'a>>,
}

impl<'a> From<&'a OfKind> for KindJson<'a> {
    fn from(of: &'a OfKind) -> Self {
        let processes = of.processes.iter().map(ProcessJson::from).collect();
        Self { kind: of.kind, sum_ns: of.sum_ns, lost_ns: of.lost_ns, processes }
    }
}

/// All time of one kind and one process.
#[derive(Serialize)]
struct ProcessJson<'a> {
    pid: Option<u32>,
    name: Option<&'a str>,
    class: Option<String>,
    /// What names the reason if no process does.
    what: Option<String>,
    sum_ns: u64,
    lost_ns: u64,
    threads: Vec<ThreadJson<'a>>,
}

impl<'a> From<&'a OfProcess> for ProcessJson<'a> {
    fn from(of: &'a OfProcess) -> Self {
        let process = of.process.as_ref();
        Self {
            pid: process.map(|process| process.pid),
            name: process.map(|process| process.name.as_str()),
            class: process.map(|process| process.class.name()),
            what: process.is_none().then(|| thing(of.reason())),
            sum_ns: of.sum_ns,
            lost_ns: of.lost_ns,
            threads: of
                .threads
                .iter()
                .map(|of| ThreadJson { thread: of.thread.as_ref(), sum_ns: of.sum_ns })
                .collect(),
        }
    }
}

/// All time of one kind and one thread.
#[derive(Serialize)]
struct ThreadJson<'a> {
    thread: Option<&'a Thread>,
    sum_ns: u64,
}
