//! What delayed an operation, a call or a write, in one sentence, and the words for rows over many
//! operations. All of it is read off the sums of reasons. Pure: reasons in, text out.

use roundtrip_layers::reasons::{
    Alike, Class, Io, Limit, Most, OfKind, OfProcess, Place, Process, Reason, ReasonKind, Reasons, Role,
    Stop, Subject, WakeUpStep, Why,
};
use roundtrip_layers::{Explanation, Flag};

use super::words::{comm, interrupt, system_call, unknown};
use crate::text::inert;
use crate::text::quantity::duration;

/// What else a sentence depends on.
#[derive(Clone, Copy, Debug, Default)]
struct About {
    /// The usual duration is known, so that own work counts above it.
    usual: bool,
    /// On a virtual machine, work may be time that the hypervisor took.
    virtualised: bool,
}

/// What delayed a call, in one or two sentences.
pub(crate) fn answer(explanation: &Explanation) -> String {
    let about = About { usual: explanation.usual_ns.is_some(), virtualised: explanation.virtualised };
    let text = sentence(&explanation.reasons, about);
    let ordinary = explanation.is_ordinary() && explanation.reasons.delay_ns() > 0;
    let text = if ordinary { format!("took about as long as usual: {text}") } else { text };
    if explanation.flags.contains(&Flag::NoEvents) { format!("without kernel events: {text}") } else { text }
}

/// What a write waited for, in one sentence. `usual`: whether its usual time is taken off. The
/// names in it are made inert.
pub(crate) fn of_write(reasons: &Reasons, usual: bool) -> String {
    if reasons.sum_ns() == 0 {
        return "nothing is known about it".into();
    }
    inert::name(&sentence(reasons, About { usual, virtualised: false }))
}

/// What delayed the operation.
fn sentence(reasons: &Reasons, about: About) -> String {
    let answer = reasons.answer();
    let (delay_ns, unknown_ns) = (answer.delay_ns, answer.unknown_ns);
    if delay_ns == 0 {
        return "nothing took longer than usual".into();
    }
    let mut said = String::new();
    if answer.cannot_tell {
        said = format!("cannot tell: {} unknown ({})", amount(unknown_ns, delay_ns), why_unknown(reasons));
    }
    for (index, named) in answer.named.iter().enumerate() {
        let first = index == 0 && !answer.cannot_tell;
        let took = match first {
            true => amount(named.of.lost_ns, delay_ns),
            false => duration(named.of.lost_ns as f64),
        };
        said.push_str(match (index, named.then) {
            (0, _) if answer.cannot_tell => "; known: ",
            (0, _) if answer.mostly => "mostly, ",
            (0, _) => "",
            (_, true) => "; then ",
            (_, false) => "; also, ",
        });
        said.push_str(&phrase(named.of, &took, about));
    }
    if answer.mostly {
        let took = duration(unknown_ns as f64);
        said.push_str(&format!("; {took} unknown ({})", why_unknown(reasons)));
    }
    said
}

/// "17.5 of 17.8 ms", or "17.8 ms" if it is all of it.
fn amount(ns: u64, of_ns: u64) -> String {
    let (part, whole) = (duration(ns as f64), duration(of_ns as f64));
    if part == whole {
        return whole;
    }
    part_of(&part, &whole)
}

/// Two durations: "17.5 of 17.8 ms".
fn part_of(part: &str, whole: &str) -> String {
    match (part.split_once(' '), whole.split_once(' ')) {
        (Some((number, unit)), Some((_, of_unit))) if unit == of_unit => format!("{number} of {whole}"),
        _ => format!("{part} of {whole}"),
    }
}

/// Why most of the unknown time is unknown.
fn why_unknown(reasons: &Reasons) -> String {
    let of = reasons.of_kind(ReasonKind::Unknown);
    let reason = of.and_then(|of| of.processes.first()).map(OfProcess::reason);
    reason.map_or_else(String::new, |reason| match reason {
        Reason::Unknown { why } => unknown(why),
        _ => String::new(),
    })
}

/// One reason, with its time.
fn phrase(of: &OfKind, took: &str, about: About) -> String {
    let who = who(of);
    let on_cpu = on_cpu(of);
    let within = of.most(|why| why.function.clone()).map_or_else(String::new, |name| format!(" in {name}"));
    let waits = |what: String| match through(of) {
        Some(chain) => format!("{} waited for {chain}, which {what}", or_it(&who)),
        None if who.is_empty() => what,
        None => format!("{who} {what}"),
    };
    match of.kind {
        ReasonKind::OwnWork => {
            let than = if about.usual { " longer than usual" } else { "" };
            let caveat = match about.virtualised {
                true => {
                    "; on a virtual machine the hypervisor may not have run the CPU for part of this time"
                }
                false => "",
            };
            format!("{} itself ran {took}{than}{on_cpu}{caveat}", or_it(&who))
        }
        ReasonKind::SlowCpu => {
            let because = format!("ran {took} longer because of {}", most_of(of));
            match through(of) {
                Some(chain) => format!("{} waited for {chain}, which {because}", or_it(&who)),
                None => format!("{} itself {because}", or_it(&who)),
            }
        }
        ReasonKind::Cpu => match worker_in_a_layer(of) {
            Some((worker, layer)) => {
                format!("waited {took} in the {layer} layer because {worker} was runnable {}", behind(of))
            }
            None => waits(format!("waited {took} for a CPU{}{on_cpu}", comma(behind(of)))),
        },
        ReasonKind::Interrupted => waits(format!("lost {took} of CPU time to {}{on_cpu}", most_of(of))),
        ReasonKind::Thread => {
            let but = of.most(|why| match &why.reason {
                Reason::Thread { but } => Some(but.clone()),
                _ => None,
            });
            let but = but
                .flatten()
                .map_or_else(String::new, |why| format!(", which itself waited{within}: {}", unknown(&why)));
            format!("{} waited {took} for {}{but}", or_it(&who), most_of(of))
        }
        ReasonKind::BusyPool => {
            format!("the server's pool was busy for {took} with calls of {}", most_of(of))
        }
        ReasonKind::Device => waits(format!("waited {took} for a device{}{within}", brackets(most_of(of)))),
        ReasonKind::BehindIo => waits(format!("waited {took} {}", most_of(of))),
        ReasonKind::Throttled => format!("{} was throttled for {took}: {}", or_it(&who), most_of(of)),
        ReasonKind::Sleep => waits(format!("slept for {took}{}", brackets(sleep(of)))),
        ReasonKind::Stopped => stopped(of, &who, took),
        ReasonKind::WakeUp => format!("waking the threads took {took}{}", comma(most_of(of))),
        ReasonKind::CpuGone => {
            format!("the CPU did not run for {took}{on_cpu}: the hypervisor had it, or interrupts were off")
        }
        ReasonKind::Unknown => format!("{took} unknown ({})", most_of(of)),
    }
}

fn or_it(who: &str) -> &str {
    if who.is_empty() { "it" } else { who }
}

fn comma(text: String) -> String {
    if text.is_empty() { text } else { format!(", {text}") }
}

fn brackets(text: String) -> String {
    if text.is_empty() { text } else { format!(" ({text})") }
}

/// Who did not move, if nearly all of the time was one role's; empty otherwise.
fn who(of: &OfKind) -> String {
    let role = of.most(|why| Some(why.role));
    let its = || of.why().filter(|(why, _)| Some(why.role) == role);
    let nearly_all = its().map(|(_, ns)| ns).sum::<u64>() * 10 >= of.sum_ns * 9;
    let Some((first, _)) = its().next().filter(|_| nearly_all) else { return String::new() };
    match (first.role, &first.delayed) {
        (Role::Client, _) => "the client".into(),
        (Role::Server, _) => "the server".into(),
        (Role::Writer, _) => "the writer".into(),
        (Role::Worker, _) if its().count() < of.why().count() => String::new(),
        (Role::Worker, Some(thread)) if its().all(|(why, _)| why.delayed.as_ref() == Some(thread)) => {
            comm(thread)
        }
        (Role::Worker, _) => "a kernel thread that works for it".into(),
    }
}

/// A kernel thread that worked for the operation and its layer, if nearly all of the time was such.
fn worker_in_a_layer(of: &OfKind) -> Option<(String, &'static str)> {
    let (place, worker) = of.most(|why| Some((why.place, worker(why))))?;
    let same = of.why().filter(|(why, _)| (why.place, self::worker(why)) == (place, worker.clone()));
    let same_ns: u64 = same.map(|(_, ns)| ns).sum();
    match place? {
        Place::Layer(layer) if same_ns * 10 >= of.sum_ns * 9 => Some((worker?, layer)),
        _ => None,
    }
}

fn worker(why: &Why) -> Option<String> {
    why.delayed.as_ref().filter(|_| why.role == Role::Worker).map(comm)
}

/// The threads through which at least half of the time was waited: "holder, which waited for
/// other".
fn through(of: &OfKind) -> Option<String> {
    let chained_ns: u64 = of.why().filter(|(why, _)| !why.chain.is_empty()).map(|(_, ns)| ns).sum();
    let names = |why: &Why| why.chain.iter().map(comm).collect::<Vec<String>>();
    let chain = of.most(|why| Some(names(why)).filter(|names| !names.is_empty()))?;
    (chained_ns * 2 >= of.sum_ns).then(|| chain.join(", which waited for "))
}

/// The CPU, if it was one.
fn on_cpu(of: &OfKind) -> String {
    let first = of.why().next().and_then(|(why, _)| why.cpu);
    let one = first.filter(|_| of.why().all(|(why, _)| why.cpu == first));
    one.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"))
}

/// Behind whom a runnable thread waited.
fn behind(of: &OfKind) -> String {
    match of.largest() {
        Some(Most::One(one)) if one.process.is_none() => "behind whom only the kernel's events show".into(),
        _ => format!("behind {}", most_of(of)),
    }
}

/// The process or thing that names the reason: the one that has at least half, or how many there
/// are and the largest.
pub(crate) fn most_of(of: &OfKind) -> String {
    match of.largest() {
        None => String::new(),
        Some(Most::One(one)) if of.processes.len() == 1 => named(of.kind, one, 1),
        Some(Most::One(one)) => format!("{}, {} of it", named(of.kind, one, 1), duration(one.lost_ns as f64)),
        Some(Most::Of(Alike { first, count, of: all, .. })) if count == all => named(of.kind, first, count),
        Some(Most::Of(Alike { first, count, lost_ns, of: all })) => {
            let many = if first.process.is_some() { "processes" } else { "things" };
            let (who, took) = (named(of.kind, first, count), duration(lost_ns as f64));
            format!("{all} {many}, most of all {who}: {took}")
        }
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
fn with_thread(process: &Process, of: &OfProcess) -> String {
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

/// The system call of most sleeping.
fn sleep(of: &OfKind) -> String {
    of.most(|why| Some(thing(&why.reason))).unwrap_or_default()
}

fn stopped(of: &OfKind, who: &str, took: &str) -> String {
    let frozen = of.most(|why| Some(why.reason == Reason::Stopped { how: Stop::Frozen })) == Some(true);
    let by = of.processes.first().and_then(|one| one.process.as_ref().map(|by| with_thread(by, one)));
    let who = or_it(who);
    let chain =
        through(of).map_or_else(|| who.to_owned(), |chain| format!("{who} waited for {chain}, which"));
    match (frozen, by) {
        (true, Some(by)) => format!("{chain} was frozen for {took}; {by} thawed it"),
        (true, None) => format!("{chain} was frozen for {took}"),
        (false, Some(by)) => format!("{chain} was stopped by a signal for {took}; {by} continued it"),
        (false, None) => format!("{chain} was stopped by a signal for {took}"),
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
    };
    let is_process = matches!(subject, Subject::Process { .. });
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

#[cfg(test)]
mod tests;
