//! The names of processes and things in sentences, and of rows over many operations. Pure: reasons
//! in, text out.

use roundtrip_layers::reasons::{
    Alike, Class, Io, Limit, Most, OfKind, OfProcess, Process, Reason, ReasonKind, Stop, Subject, WakeUpStep,
};
use roundtrip_run::OTHERS;

use super::words::{interrupt, system_call, unknown};
use crate::text::quantity::duration;

/// Who or what has most of a reason's time.
pub(crate) struct Largest {
    /// How much of the time that is, "8.10 ms of that", unless it is all of it.
    part: Option<String>,
    /// The one, or how many there are and the largest.
    name: String,
}

impl Largest {
    /// Behind a word, as a part of the sentence: " behind rustc", ", 8.10 ms of that behind rustc".
    pub(crate) fn after(&self, word: &str) -> String {
        match &self.part {
            Some(part) => format!(", {part}{word} {}", self.name),
            None => format!("{word} {}", self.name),
        }
    }

    /// In brackets: " (write)", " (93.2 ms of that: write)".
    pub(crate) fn in_brackets(&self) -> String {
        match &self.part {
            Some(part) => format!(" ({part}: {})", self.name),
            None => format!(" ({})", self.name),
        }
    }
}

/// The process or thing that names the reason: the one that has at least half, or how many there
/// are and the largest.
pub(crate) fn largest(of: &OfKind) -> Largest {
    let took = |one: &OfProcess| duration(one.lost_ns as f64);
    match of.largest() {
        None => Largest { part: None, name: "nothing known".into() },
        Some(Most::One(one)) => {
            let is_part = of.processes.len() > 1 && took(one) != duration(of.lost_ns as f64);
            let part = is_part.then(|| format!("{} of that", took(one)));
            Largest { part, name: named(of.kind, one, 1) }
        }
        Some(Most::Of(Alike { first, count, of: all, .. })) if count == all => {
            Largest { part: None, name: named(of.kind, first, count) }
        }
        Some(Most::Of(Alike { first, count, lost_ns, of: all })) => {
            let many = if first.process.is_some() { "processes" } else { many(of.kind) };
            let (who, took) = (named(of.kind, first, count), duration(lost_ns as f64));
            Largest { part: None, name: format!("{all} {many}, most of all {who}: {took}") }
        }
    }
}

/// Several things that name a reason of a kind.
fn many(kind: ReasonKind) -> &'static str {
    match kind {
        ReasonKind::Device => "operations",
        ReasonKind::Interrupted => "interrupts",
        ReasonKind::Throttled => "limits",
        ReasonKind::SlowCpu | ReasonKind::CpuGone => "CPUs",
        ReasonKind::WakeUp => "steps",
        ReasonKind::BehindIo => "others",
        _ => "causes",
    }
}

/// What names a reason, in words that follow those of its kind. `alike` processes have the same
/// name.
fn named(kind: ReasonKind, one: &OfProcess, alike: usize) -> String {
    let name = match &one.process {
        Some(process) if alike > 1 => format!("{alike} processes named {}", self::process(process)),
        Some(process) => with_thread(process, one),
        None => thing(one.reason()),
    };
    match (kind, one.reason()) {
        (ReasonKind::BusyPool, _) => format!("{name}{}", brackets(calls(one))),
        (ReasonKind::BehindIo, Reason::BehindIo { what: Io::Requests, .. }) if one.process.is_some() => {
            format!("behind requests of {name}")
        }
        (ReasonKind::BehindIo, _) if one.process.is_some() => format!("for a commit of {name}"),
        _ => name,
    }
}

/// "code 1, 30.0 ms each": the calls of a process that kept a pool busy.
fn calls(one: &OfProcess) -> String {
    let code = one.most(|why| match why.reason {
        Reason::BusyPool { code, .. } => code,
        _ => None,
    });
    let times: Vec<u64> = one
        .why()
        .filter_map(|(why, _)| match why.reason {
            Reason::BusyPool { call_ns, .. } => call_ns,
            _ => None,
        })
        .collect();
    let mut out: Vec<String> = code.map(|code| format!("code {code}")).into_iter().collect();
    if let (Some(&least), Some(&most)) = (times.iter().min(), times.iter().max()) {
        let (least, most) = (duration(least as f64), duration(most as f64));
        out.push(if least == most { format!("{least} each") } else { format!("{least} to {most} each") });
    }
    out.join(", ")
}

/// A process, with its thread if that has at least half and says more.
pub(super) fn with_thread(process: &Process, of: &OfProcess) -> String {
    let name = self::process(process);
    let thread = of.threads.first().filter(|thread| thread.sum_ns * 2 >= of.sum_ns);
    let comm = thread.and_then(|thread| thread.thread.as_ref()).map(|thread| thread.comm.as_str());
    // A thread's name is cut to 15 bytes.
    let says_more =
        |comm: &&str| !comm.is_empty() && !process.name.ends_with(comm) && !process.name.starts_with(comm);
    comm.filter(says_more).map_or_else(|| name.clone(), |comm| format!("{name}, thread {comm}"))
}

/// A process with its class, unless that is the default one.
pub(crate) fn process(process: &Process) -> String {
    let name =
        if process.name.is_empty() { format!("process {}", process.pid) } else { process.name.clone() };
    with_class(name, process.class)
}

/// A name with a class, unless that is the default one: "hog [real-time 50]".
fn with_class(name: String, of: Class) -> String {
    match of {
        Class::Unknown | Class::Ordinary(0) => name,
        of => format!("{name} [{}]", of.name()),
    }
}

/// What names a reason if no process does.
pub fn thing(reason: &Reason) -> String {
    match reason {
        Reason::OwnWork => "its own work".into(),
        Reason::SlowCpu { cpu } => format!("the low frequency of CPU {cpu}"),
        Reason::Cpu => "a process that only the kernel's events show".into(),
        Reason::Interrupted { by } => interrupt(by),
        Reason::SoftirqThread { name } => format!("softirqs in {name}"),
        Reason::Thread { .. } => "another thread".into(),
        Reason::BusyPool { .. } => "another process".into(),
        Reason::Device { device, operation, interrupt: by } => {
            let words = [operation.map(str::to_owned), device.clone(), by.as_ref().map(interrupt)];
            let words: Vec<String> = words.into_iter().flatten().collect();
            if words.is_empty() { "block device".into() } else { words.join(", ") }
        }
        Reason::BehindIo { what: Io::Requests, .. } => "behind requests of others".into(),
        Reason::BehindIo { what: Io::Commit, .. } => "for a commit of others".into(),
        Reason::Throttled { limit, cgroup } => {
            let limit = match limit {
                Limit::CpuQuota => "its control group had used up its CPU quota",
                Limit::Dirty => "the limit on dirty pages",
                Limit::Io => "its control group's I/O limit",
                Limit::Writeback => "writeback throttling",
            };
            format!("{limit}{}", brackets(cgroup.clone().unwrap_or_default()))
        }
        Reason::Sleep { call } => call.map_or_else(|| "timer".to_owned(), system_call),
        Reason::Stopped { how: Stop::Signal } => "a signal".into(),
        Reason::Stopped { how: Stop::Frozen } => "the freezer".into(),
        Reason::WakeUp { step } => match step {
            WakeUpStep::Interrupt => "interrupts between CPUs".into(),
            WakeUpStep::IdleExit { state: None } => "idle exit".into(),
            WakeUpStep::IdleExit { state: Some(state) } => format!("exit from idle state {state}"),
            WakeUpStep::HandOver => "hand-over of the CPU".into(),
        },
        Reason::CpuGone => "a CPU that did not run".into(),
        Reason::Unknown { why } => unknown(why),
    }
}

/// What a row over many operations is about.
pub(crate) fn group(kind: ReasonKind, subject: &Subject) -> String {
    let name = match subject {
        Subject::Process { name, class } if name.is_empty() => {
            with_class("a nameless process".into(), *class)
        }
        Subject::Process { name, class } => with_class(name.clone(), *class),
        Subject::Reason(reason) => thing(reason),
        Subject::Words(what) => what.clone(),
        Subject::Unknown => String::new(),
        Subject::Others => OTHERS.to_owned(),
    };
    let is_process = matches!(subject, Subject::Process { .. } | Subject::Others);
    match kind {
        ReasonKind::OwnWork => format!("ran long: {name}"),
        ReasonKind::SlowCpu => format!("ran slowly: {name}"),
        ReasonKind::Cpu => format!("behind {name}"),
        ReasonKind::Interrupted => format!("interrupted by {name}"),
        ReasonKind::Thread => format!("waited for {name}"),
        ReasonKind::BusyPool => format!("the server's pool was busy with calls of {name}"),
        ReasonKind::Device => format!("waited for a device ({name})"),
        ReasonKind::BehindIo if is_process => format!("behind the I/O of {name}"),
        ReasonKind::BehindIo => format!("waited {name}"),
        ReasonKind::Throttled => format!("throttled: {name}"),
        ReasonKind::Sleep if is_process => format!("{name} slept"),
        ReasonKind::Sleep => format!("slept ({name})"),
        ReasonKind::Stopped if is_process => format!("stopped until {name} continued it"),
        ReasonKind::Stopped => format!("stopped by {name}"),
        ReasonKind::WakeUp => format!("woken late: {name}"),
        ReasonKind::CpuGone => "on a CPU that did not run".into(),
        ReasonKind::Unknown => "not recorded".into(),
    }
}

/// The name of the process that a subject is, and its class, for programs.
pub(crate) fn process_of(subject: &Subject) -> (Option<String>, Option<String>) {
    match subject {
        Subject::Process { name, class } => (Some(name.clone()), Some(class.name())),
        Subject::Reason(_) | Subject::Words(_) | Subject::Unknown | Subject::Others => (None, None),
    }
}

fn brackets(text: String) -> String {
    if text.is_empty() { text } else { format!(" ({text})") }
}
