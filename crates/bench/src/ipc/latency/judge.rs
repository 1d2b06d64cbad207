//! Which parts of a plan this machine allows, what makes its figures doubtful, and whether
//! priorities were inherited. Reads facts and changes nothing. Must not know how calls are made.

use roundtrip_run::ipc::{Backend, Profile};

use crate::error::{NotHere, Result};
use crate::kernel::root::Root;
use crate::kernel::stat;
use roundtrip_run::cpus::place;
use roundtrip_run::ipc::Mode;
use roundtrip_run::ipc::latency::LatencyPlan;
use roundtrip_run::ipc::latency::{Series, Verdict};
use roundtrip_run::{RealtimePermission, Scheduling};

/// The callers that a run uses.
pub(super) struct Chosen {
    pub(super) callers: Vec<Scheduling>,
    /// Why there is no real-time caller although one was planned.
    pub(super) refused: Option<String>,
    pub(super) warnings: Vec<String>,
}

/// Selects the planned callers that are possible here. Without permission for SCHED_FIFO, only the
/// ordinary callers remain. A caller whose nice value is not permitted gets the lowest permitted
/// one.
pub(super) fn callers(plan: &LatencyPlan, permission: &RealtimePermission, least_nice: i8) -> Chosen {
    let mut chosen = Chosen { callers: plan.callers.clone(), refused: None, warnings: Vec::new() };
    let realtime = |caller: &Scheduling| caller.policy.is_realtime();
    match permission {
        RealtimePermission::Refused { reason } if chosen.callers.iter().any(realtime) => {
            chosen.callers.retain(|caller| !realtime(caller));
            if chosen.callers.is_empty() {
                chosen.callers.push(Scheduling::other(0));
            }
            chosen.warnings.push(format!("no real-time callers, ordinary ones only: {reason}"));
            chosen.refused = Some(reason.clone());
        }
        RealtimePermission::Refused { .. } => {}
        RealtimePermission::Allowed { max_priority } => {
            for caller in chosen.callers.iter_mut().filter(|caller| caller.priority > *max_priority) {
                let asked = caller.to_string();
                caller.priority = *max_priority;
                chosen
                    .warnings
                    .push(format!("caller {asked} runs as {caller}, the highest priority allowed here"));
            }
        }
    }
    for caller in chosen.callers.iter_mut().filter(|caller| !realtime(caller) && caller.nice < least_nice) {
        let asked = caller.to_string();
        caller.nice = least_nice;
        chosen.warnings.push(format!(
            "caller {asked} runs as {caller}, the lowest nice value allowed here: run as root, or not under `nice`"
        ));
    }
    chosen
}

/// The CPUs for the clients and for the servers.
pub(super) fn cpus(plan: &LatencyPlan, usable: &[u32]) -> Result<(Vec<u32>, Vec<u32>)> {
    let placed = place(plan.placement, usable);
    match (plan.client_cpus.clone(), plan.server_cpus.clone(), placed) {
        (Some(client), Some(server), _) => Ok((client, server)),
        (client, server, Some(placed)) => Ok((client.unwrap_or(placed.0), server.unwrap_or(placed.1))),
        (_, _, None) => Err(NotHere::TwoCpus { placement: plan.placement, cpu: None }.into()),
    }
}

/// Properties of this machine that make the plan's figures doubtful.
pub(super) fn machine_warnings(
    plan: &LatencyPlan,
    callers: &[Scheduling],
    usable_cpus: usize,
    root: &Root,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let pairs = plan.pairs as usize;
    if pairs > usable_cpus {
        let advice = usable_cpus.saturating_sub(1).max(1);
        warnings.push(format!(
            "{pairs} pairs on {usable_cpus} CPUs wait for each other, not for binder, so the figures are \
             useless; use at most {advice} (CPUs - 1)"
        ));
    }
    let realtime = callers.iter().any(|caller| caller.policy.is_realtime());
    if plan.halt_trace.as_ref().is_some_and(|halt| halt.only_realtime) && !realtime {
        warnings.push("without a real-time caller, no call stops the trace".to_owned());
    }
    let realtime_hogs: u32 =
        plan.loads.iter().filter(|load| load.scheduling.policy.is_realtime()).map(|load| load.hogs).sum();
    let realtime_callers = if realtime { plan.pairs } else { 0 };
    let realtime = (realtime_hogs + realtime_callers) as usize;
    let runtime_us: Option<i64> = root.number("proc/sys/kernel/sched_rt_runtime_us");
    let period_us: Option<i64> = root.number("proc/sys/kernel/sched_rt_period_us");
    if let (Some(runtime_us), Some(period_us)) = (runtime_us, period_us)
        && runtime_us >= 0
        && runtime_us < period_us
        && realtime > usable_cpus
    {
        let paused_ms = (period_us - runtime_us) as f64 / 1000.0;
        warnings.push(format!(
            "{realtime} real-time threads on {usable_cpus} CPUs: the kernel keeps {paused_ms} ms of every \
             {period_us} us for ordinary threads (sched_rt_runtime_us), so a real-time caller may wait that long"
        ));
    }
    warnings
}

/// Whether the server thread of each call ran with its caller's scheduling, and if not, why.
/// `inherited` is the number of calls that inherited their caller's priority through a PI futex. It
/// includes a few calls before the measured ones.
pub(super) fn verdict(
    plan: &LatencyPlan,
    series: &Series,
    backend: Option<&Backend>,
    refused: Option<&str>,
    limits: &[String],
    inherited: u64,
) -> Verdict {
    let calls = || series.pairs.iter().flat_map(|pair| &pair.callers);
    if !calls().any(|caller| caller.caller.policy.is_realtime() && caller.count() > 0) {
        let reason = match refused {
            Some(reason) => format!("no real-time callers: {reason}"),
            None => "no real-time callers were asked for".to_owned(),
        };
        return Verdict::Skip { reason };
    }
    let failed: u64 = calls().map(|caller| caller.not_inherited).sum();
    if failed == 0 {
        return Verdict::Pass;
    }
    let total: u64 = calls().map(|caller| caller.count()).sum();
    let through_futex =
        "inherited through a priority-inheriting futex, which the server's policy does not show";
    if inherited >= failed && limits.is_empty() {
        return Verdict::Unseen { reason: format!("in {failed} of {total} calls {through_futex}") };
    }
    let why = if plan.mode == Mode::Binderize && !series.inheritance.is_on(series.stack) {
        format!("the {} node does not ask for it (FLAT_BINDER_FLAG_INHERIT_RT)", series.stack)
    } else if matches!(backend, Some(Backend::Emulated { profile: Profile::Mainline })) {
        "the mainline driver ignores INHERIT_RT".to_owned()
    } else if !limits.is_empty() {
        let also = if inherited == 0 { String::new() } else { format!("; in others it was {through_futex}") };
        limits.join("; ") + &also
    } else {
        match backend {
            Some(Backend::Kernel { .. }) => {
                "a mainline kernel's driver ignores INHERIT_RT; Android's does not"
            }
            _ => "cause unknown",
        }
        .to_owned()
    };
    Verdict::Fail {
        reason: format!("in {failed} of {total} calls the server did not run as its caller: {why}"),
    }
}

/// The CPU that a thread ran on last: field 39 of /proc/PID/stat (proc_pid_stat(5)).
pub(super) fn cpu_of(pid: u32, root: &Root) -> Option<u32> {
    let stat = root.read(format!("proc/{pid}/stat"))?;
    stat::split(&stat)?.1.nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use roundtrip_latency::{Deadline, Placement, Policy, Sample};

    use super::*;
    use crate::kernel::root::fixture;
    use roundtrip_run::ipc::Stack;
    use roundtrip_run::ipc::latency::{CallerResult, Inheritance, PairResult};

    fn series(stack: Stack, inheritance: Inheritance, server: Placement) -> Series {
        let mut caller = CallerResult::new(Scheduling::fifo(99), Deadline { ns: 1 }, false, 0);
        let own = Placement { cpu: 0, policy: Policy::Fifo, priority: 99, nice: 0 };
        caller.record(&[Sample { caller: own, server, ..Sample::default() }]);
        let pairs = vec![PairResult { callers: vec![caller], server: None }];
        Series { stack, inheritance, pairs, verdict: Verdict::Pass }
    }

    fn reason(series: &Series, profile: Profile, limits: &[String]) -> String {
        let backend = Backend::Emulated { profile };
        let verdict = verdict(&LatencyPlan::default(), series, Some(&backend), None, limits, 0);
        assert_eq!(verdict.name(), "FAIL");
        verdict.reason().unwrap().to_owned()
    }

    #[test]
    fn without_permission_the_ordinary_callers_call() {
        let refused = RealtimePermission::Refused { reason: "no permission".into() };
        let plan = LatencyPlan::default();
        let chosen = callers(&plan, &refused, -20);
        assert_eq!(
            (chosen.callers, chosen.refused.as_deref()),
            (vec![Scheduling::other(0)], Some("no permission"))
        );
        assert!(chosen.warnings[0].contains("no permission"));
        let plan = LatencyPlan { callers: vec![Scheduling::fifo(1)], ..plan };
        assert_eq!(callers(&plan, &refused, -20).callers, [Scheduling::other(0)]);
        let plan = LatencyPlan { callers: vec![Scheduling::other(10)], ..plan };
        assert_eq!(callers(&plan, &refused, -20).refused, None);
    }

    #[test]
    fn a_lower_limit_lowers_the_callers_with_a_warning() {
        let chosen = callers(&LatencyPlan::default(), &RealtimePermission::Allowed { max_priority: 50 }, 0);
        assert_eq!(chosen.callers, [Scheduling::fifo(50), Scheduling::other(0)]);
        assert!(chosen.warnings[0].contains("caller fifo:99 runs as fifo:50"), "{:?}", chosen.warnings);
    }

    #[test]
    fn a_nice_value_that_is_not_permitted_is_raised_with_a_warning() {
        let plan =
            LatencyPlan { callers: vec![Scheduling::fifo(1), Scheduling::other(0)], ..Default::default() };
        let chosen = callers(&plan, &RealtimePermission::Allowed { max_priority: 99 }, 10);
        assert_eq!(chosen.callers, [Scheduling::fifo(1), Scheduling::other(10)]);
        assert!(chosen.warnings[0].contains("caller other runs as nice:10"), "{:?}", chosen.warnings);
    }

    #[test]
    fn more_pairs_or_real_time_threads_than_cpus_cause_a_warning() {
        let root = fixture(&[
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        ]);
        let plan = LatencyPlan { pairs: 3, ..LatencyPlan::default() };
        let warnings = |cpus| machine_warnings(&plan, &plan.callers, cpus, &root);
        assert_eq!(warnings(4), Vec::<String>::new());
        let warnings = warnings(2);
        assert!(warnings[0].contains("at most 1 (CPUs - 1)"), "{warnings:?}");
        assert!(warnings[1].contains("keeps 50 ms"), "{warnings:?}");
    }

    #[test]
    fn a_verdict_names_the_likely_reason() {
        let own = Placement::default();
        let on = series(Stack::Hwbinder, Inheritance::Stack, own);
        assert!(reason(&on, Profile::Mainline, &[]).ends_with("the mainline driver ignores INHERIT_RT"));
        assert!(reason(&on, Profile::Ack, &["no permission".into()]).ends_with("no permission"));
        let binder = series(Stack::Binder, Inheritance::Stack, own);
        assert!(reason(&binder, Profile::Ack, &[]).contains("the binder node does not ask"));
        let inherited = Placement { policy: Policy::Fifo, priority: 99, ..own };
        let good = series(Stack::Hwbinder, Inheritance::Stack, inherited);
        assert_eq!(verdict(&LatencyPlan::default(), &good, None, None, &[], 0), Verdict::Pass);
    }

    #[test]
    fn inheritance_through_the_futex_is_neither_pass_nor_fail() {
        let own = series(Stack::Hwbinder, Inheritance::Stack, Placement::default());
        let plan = LatencyPlan::default();
        let unseen = verdict(&plan, &own, None, None, &[], 1);
        assert!(matches!(unseen, Verdict::Unseen { .. }), "{unseen:?}");
        assert!(unseen.reason().unwrap().starts_with("in 1 of 1 calls inherited through"), "{unseen:?}");
        let denied = verdict(&plan, &own, None, None, &["no permission".into()], 1);
        assert_eq!(denied.name(), "FAIL");
        let off = series(Stack::Hwbinder, Inheritance::Off, Placement::default());
        assert_eq!(verdict(&plan, &off, None, None, &[], 0).name(), "FAIL");
    }

    #[test]
    fn without_a_real_time_call_there_is_no_verdict() {
        let mut series = series(Stack::Hwbinder, Inheritance::Stack, Placement::default());
        series.pairs[0].callers[0].caller = Scheduling::other(0);
        let skipped = verdict(&LatencyPlan::default(), &series, None, Some("no permission"), &[], 0);
        assert_eq!((skipped.name(), skipped.reason()), ("SKIP", Some("no real-time callers: no permission")));
    }

    #[test]
    fn one_cpu_cannot_be_split_but_explicit_cpus_are_used() {
        let split = LatencyPlan { placement: roundtrip_run::CpuPlacement::Split, ..LatencyPlan::default() };
        assert_eq!(cpus(&split, &[0, 1]).unwrap(), (vec![0], vec![1]));
        assert!(cpus(&split, &[3]).unwrap_err().to_string().contains("needs two CPUs"));
        let pinned = LatencyPlan { client_cpus: Some(vec![3]), ..LatencyPlan::default() };
        assert_eq!(cpus(&pinned, &[0, 3]).unwrap(), (vec![3], vec![0, 3]));
    }

    #[test]
    fn the_cpu_is_found_after_a_name_with_any_characters() {
        let mut stat = "42 (a) b) S".to_owned();
        (4..=38).for_each(|_| stat.push_str(" 0"));
        let root = fixture(&[("proc/42/stat", &format!("{stat} 7 0 0\n"))]);
        assert_eq!(cpu_of(42, &root), Some(7));
    }
}
