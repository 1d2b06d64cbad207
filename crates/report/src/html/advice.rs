//! What users can do about causes of delays: one step for each cause, most effective first. Must
//! not know the page.

use roundtrip_analysis::Analysed;
use roundtrip_analysis::slow_calls::Explained;
use roundtrip_layers::{Cause, Kind, Thread};
use roundtrip_run::Run;
use roundtrip_run::ipc::latency::{CallerResult, LatencyResult};
use roundtrip_sorting::SmallSort as _;

mod writes;

use super::answer;
use super::subject::Subject;
use crate::explanation::words;
use crate::storage::beside;

/// The most steps to show.
const MOST: usize = 4;

/// What to do about a run, most effective first.
pub(super) fn of(subject: &Subject<'_>) -> Vec<String> {
    let Subject { analysed: Analysed { run, layers, beside, .. }, explained, .. } = *subject;
    let mut steps = Vec::new();
    if let Some(result) = &run.results.latency {
        steps.extend(latency(result, explained));
    } else {
        steps.extend(against_delays(explained));
    }
    steps.extend(writes::measured(layers));
    steps.extend(writes::observed(subject.analysed));
    steps.extend(beside::found(beside).iter().filter_map(writes::condition));
    if !run.results.observed() {
        steps.extend(machine(run));
    }
    let mut seen = Vec::new();
    for step in steps {
        if !seen.contains(&step) {
            seen.push(step);
        }
    }
    seen.truncate(MOST);
    seen
}

fn latency(result: &LatencyResult, explained: &[Explained]) -> Vec<String> {
    let missed: u64 = result
        .series
        .iter()
        .flat_map(|series| &series.pairs)
        .flat_map(|pair| &pair.callers)
        .map(CallerResult::missed)
        .sum();
    if explained.is_empty() {
        let advice = "Measure again with --explain --out DIR, as root: Roundtrip then names what delayed each slow call.";
        return if missed > 0 { vec![advice.to_owned()] } else { Vec::new() };
    }
    against_delays(explained)
}

/// What to do about delayed calls. Causes are ordered by their total delay over all calls.
fn against_delays(explained: &[Explained]) -> Vec<String> {
    let mut steps: Vec<(String, u64)> = Vec::new();
    for one in explained {
        let inverted = answer::inverted(&one.explanation);
        if let Some(cause) = one.explanation.main() {
            for step in about(cause, inverted) {
                match steps.iter_mut().find(|(known, _)| *known == step) {
                    Some((_, ns)) => *ns += cause.excess_ns,
                    None => steps.push((step, cause.excess_ns)),
                }
            }
        }
    }
    // The steps for one cause stay in order.
    steps.small_sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    steps.into_iter().map(|(step, _)| step).collect()
}

fn name(thread: Option<&Thread>) -> String {
    match thread {
        Some(thread) if !thread.comm.is_empty() => thread.comm.clone(),
        Some(thread) => format!("thread {}", thread.tid),
        None => "the other thread".to_owned(),
    }
}

/// Whether a thread's kernel priority is a real-time one.
fn real_time(thread: &Thread) -> bool {
    thread.prio.is_some_and(|prio| prio < 100)
}

/// What to do if a call waited for a thread of lower priority.
fn against_inversion(cause: &Cause) -> &'static str {
    if cause.via.is_empty() {
        "Enable priority inheritance for the service (hwbinder does so by default; a binder node asks for it \
         with setInheritRt), so that the server runs at its caller's priority."
    } else {
        "Use locks with priority inheritance (PTHREAD_PRIO_INHERIT), so that the holder runs at the priority \
         of its waiters."
    }
}

fn against_competitor(cause: &Cause, owner: &str, who: &str, on_cpu: &str) -> [String; 2] {
    let other = match cause.thread.as_ref() {
        Some(thread) if real_time(thread) => {
            format!("Give the {owner} a higher real-time priority than {who}, or lower that of {who}.")
        }
        _ => format!("Run the {owner} with a real-time policy, or raise the nice value of {who}."),
    };
    [format!("Keep {who} off {on_cpu}: confine it to other CPUs with a cpuset or taskset."), other]
}

/// What to do about a cause.
fn about(cause: &Cause, inverted: bool) -> Vec<String> {
    let owner = words::owner(cause.owner);
    let who = name(cause.thread.as_ref());
    let on_cpu = cause.cpu.map_or_else(|| "that CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let mut steps = Vec::new();
    if inverted {
        steps.push(against_inversion(cause).to_owned());
    }
    match cause.kind {
        Kind::Competitor => steps.extend(against_competitor(cause, owner, &who, &on_cpu)),
        Kind::Interrupt => {
            let what = cause.what.as_ref().map_or_else(|| "the interrupt".to_owned(), words::what);
            steps.push(format!(
                "Move {what} off {on_cpu} (/proc/irq/NUMBER/smp_affinity, RPS for the network), or run the {owner} on another CPU."
            ));
        }
        Kind::Work => steps.push(format!(
            "Profile the {owner}: it was running all the time, and nothing delayed it. Check its CPU's \
             frequency as well."
        )),
        Kind::BusyPool => steps.push(format!(
            "Give the server more threads, or shorten the calls of {who}: they kept its pool busy."
        )),
        Kind::SlowCpu => steps.push(format!(
            "Raise the lowest frequency of the {owner}'s CPU (scaling_min_freq), or ask for more of it for that \
             thread (uclamp)."
        )),
        Kind::Sleep => steps.push(format!("Remove the sleep from the {owner}'s handling of the call: a timer \
                                           ended the wait.")),
        Kind::Io => steps.push(format!(
            "Move the I/O out of the call: let another thread of the {owner} wait for the device."
        )),
        Kind::WaitedFor => {
            steps.push(format!("Shorten what {who} does while the {owner} waits for it: hold the lock for \
                                less time, or share no lock."));
            steps.push("If it is a lock, use one with priority inheritance (PTHREAD_PRIO_INHERIT).".to_owned());
        }
        Kind::Stopped => steps.push(format!("Find out who stops the {owner}: a debugger or a shell by SIGSTOP, or the freezer of applications in the background.")),
        Kind::WakeUp => steps.push(
            "Limit deep idle states (/dev/cpu_dma_latency, cpuidle governor), or run client and server on one CPU.".to_owned(),
        ),
        Kind::Throttled => steps.push(format!("Raise or remove the CPU quota of the {owner}'s control group (cpu.max).")),
        Kind::Gap => steps.push(
            "On a virtual machine: give it dedicated CPUs. On hardware: look for firmware interrupts and long \
             sections with interrupts off (rtla hwnoise, the hwlat and irqsoff tracers)."
                .to_owned(),
        ),
        Kind::CannotTell => steps.push(
            "Record the kernel's events (as root, with tracefs), with a larger --buffer if events were lost.".to_owned(),
        ),
        Kind::Ordinary => {}
    }
    steps
}

/// What on the machine makes figures worse or less stable.
fn machine(run: &Run) -> Vec<String> {
    let environment = &run.environment;
    let mut steps = Vec::new();
    if environment.build_profile != "release" {
        steps.push(
            "Measure with a release build: this was a debug build, whose figures are too high.".to_owned(),
        );
    }
    if let Some(governors) = &environment.cpus.governors
        && governors.keys().any(|name| name != "performance")
    {
        let names: Vec<&str> = governors.keys().map(String::as_str).collect();
        steps.push(format!(
            "Try the frequency governor 'performance' (it was {}) to see how much of the time depends on the \
             CPU's speed.",
            names.join(", ")
        ));
    }
    if environment.cpu_shares.is_some_and(|shares| shares.foreign >= 0.05) {
        steps.push("Measure on a quieter machine: other processes used much of the CPU time.".to_owned());
    }
    steps
}

#[cfg(test)]
mod tests {
    use roundtrip_layers::Owner;

    use super::*;

    fn cause(kind: Kind, prio: i32) -> Cause {
        let thread = Thread { tid: 7, pid: None, comm: "rustc".into(), prio: Some(prio) };
        let (via, what) = (Vec::new(), None);
        Cause {
            kind,
            excess_ns: 1,
            owner: Owner::Server,
            thread: Some(thread),
            via,
            what,
            cpu: Some(1),
            function: None,
        }
    }

    #[test]
    fn the_step_names_who_had_the_cpu_and_fits_its_priority() {
        let steps = about(&cause(Kind::Competitor, 49), false).join(" ");
        assert!(
            steps.contains("Keep rustc off CPU 1") && steps.contains("higher real-time priority than rustc"),
            "{steps}"
        );
        let steps = about(&cause(Kind::Competitor, 120), true).join(" ");
        assert!(
            steps.starts_with("Enable priority inheritance") && steps.contains("a real-time policy"),
            "{steps}"
        );
    }

    #[test]
    fn inversion_behind_a_lock_is_cured_by_the_lock() {
        let via = vec![Thread { tid: 8, pid: None, comm: "holder".into(), prio: Some(120) }];
        let steps = about(&Cause { via, ..cause(Kind::Competitor, 120) }, true).join(" ");
        assert!(steps.contains("PTHREAD_PRIO_INHERIT") && !steps.contains("setInheritRt"), "{steps}");
    }

    #[test]
    fn every_cause_except_the_ordinary_one_has_a_step() {
        use Kind::*;
        for kind in
            [Work, Competitor, Interrupt, Sleep, Io, WaitedFor, Stopped, WakeUp, Throttled, Gap, CannotTell]
        {
            assert!(!about(&cause(kind, 120), false).is_empty(), "{kind:?}");
        }
        assert!(about(&cause(Ordinary, 120), false).is_empty());
    }
}
