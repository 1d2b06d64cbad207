//! What delayed an operation, a call or a write, in one sentence, and the words for rows over many
//! operations. All of it is read off the sums of reasons. Pure: reasons in, text out.

use roundtrip_layers::reasons::{
    Most, OfKind, OfProcess, Place, Reason, ReasonKind, Reasons, Role, Stop, Why,
};
use roundtrip_layers::{Explanation, Flag};

use super::names::{largest, thing, with_thread};
use super::words::{comm, unknown};
use crate::text::inert;
use crate::text::quantity::duration;

/// What is said of work on a virtual machine.
const HYPERVISOR: &str =
    "; on a virtual machine the hypervisor may not have run the CPU for part of this time";

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
    let most = largest(of);
    match of.kind {
        ReasonKind::OwnWork => {
            let than = if about.usual { " longer than usual" } else { "" };
            let caveat = if about.virtualised { HYPERVISOR } else { "" };
            format!("{} itself ran {took}{than}{on_cpu}{caveat}", or_it(&who))
        }
        ReasonKind::SlowCpu => waits(format!("ran {took} longer{}", most.after(" because of"))),
        ReasonKind::Cpu => match worker_in_a_layer(of) {
            Some((worker, layer)) => {
                format!("waited {took} in the {layer} layer because {worker} was runnable{}", behind(of))
            }
            None => {
                let behind = behind(of);
                let behind = behind.trim_start_matches([',', ' ']);
                let many = matches!(of.largest(), Some(Most::Of(..)));
                waits(match on_cpu.strip_prefix(" on ").filter(|_| many) {
                    Some(cpu) => format!("waited {took} for {cpu}, {behind}"),
                    None => format!("waited {took} for a CPU, {behind}{on_cpu}"),
                })
            }
        },
        ReasonKind::Interrupted => waits(format!("lost {took} of CPU time{}{on_cpu}", most.after(" to"))),
        ReasonKind::Thread => {
            let but = of.most(|why| match &why.reason {
                Reason::Thread { but } => Some(but.clone()),
                _ => None,
            });
            let but = but
                .flatten()
                .map_or_else(String::new, |why| format!(", which itself waited{within}: {}", unknown(&why)));
            format!("{} waited {took}{}{but}", or_it(&who), most.after(" for"))
        }
        ReasonKind::BusyPool => {
            format!("the server's pool was busy for {took}{}", most.after(" with calls of"))
        }
        ReasonKind::Device => waits(format!("waited {took} for a device{}{within}", most.in_brackets())),
        ReasonKind::BehindIo => waits(format!("waited {took}{}", behind_io(of))),
        ReasonKind::Throttled => {
            format!("{} was throttled for {took}{}", or_it(&who), most.in_brackets())
        }
        ReasonKind::Sleep => waits(format!("slept for {took}{}", brackets(sleep(of)))),
        ReasonKind::Stopped => stopped(of, &who, took),
        ReasonKind::WakeUp => format!("waking the threads took {took}{}", most.in_brackets()),
        ReasonKind::CpuGone => {
            format!("the CPU did not run for {took}{on_cpu}: the hypervisor had it, or interrupts were off")
        }
        ReasonKind::Unknown => format!("{took} unknown{}", most.in_brackets()),
    }
}

fn or_it(who: &str) -> &str {
    if who.is_empty() { "it" } else { who }
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

/// Behind whom a runnable thread waited: " behind rustc", ", 8.10 ms of that behind rustc".
fn behind(of: &OfKind) -> String {
    match of.largest() {
        Some(Most::One(one)) if one.process.is_none() => {
            " behind whom only the kernel's events show".to_owned()
        }
        _ => largest(of).after(" behind"),
    }
}

/// Whose I/O came first.
fn behind_io(of: &OfKind) -> String {
    let most = largest(of);
    match of.largest() {
        Some(Most::Of(..)) => most.after(" behind the I/O of"),
        _ if of.processes.len() > 1 => format!(" behind the I/O of others{}", most.after("")),
        _ => most.after(""),
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

#[cfg(test)]
mod tests;
