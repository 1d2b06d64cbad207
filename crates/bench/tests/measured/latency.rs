//! Latency from the outside: who calls, how often, how calls are served, and what happens without
//! permissions. Nothing here depends on how long anything takes.

use std::path::PathBuf;

use roundtrip_bench::Result;
use roundtrip_bench::ipc::latency::{self, Notice};
use roundtrip_bench::sched::realtime_permission;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::CpuPlacement;
use roundtrip_run::ipc::InheritBy;
use roundtrip_run::ipc::Profile;
use roundtrip_run::ipc::latency::{
    Amount, CallerResult, HaltTrace, Inheritance, LatencyPlan, LatencyResult, Verdict,
};
use roundtrip_run::ipc::{DriverChoice, DriverPlan, Mode, Stack};
use roundtrip_run::{RealtimePermission, Scheduling};

fn run(plan: &LatencyPlan) -> Result<LatencyResult> {
    latency::run(plan, &Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker")), &mut |_| {})
}

fn quick() -> LatencyPlan {
    LatencyPlan {
        driver: DriverPlan { choice: DriverChoice::Emulated, profile: Profile::Ack, ..DriverPlan::default() },
        amount: Amount::Iterations(25),
        keep_samples: true,
        ..LatencyPlan::default()
    }
}

/// Whether real-time callers are possible.
fn realtime() -> bool {
    realtime_permission().max_priority() == Some(99)
}

#[test]
fn every_caller_of_every_pair_calls_as_often_as_planned() {
    let plan = LatencyPlan {
        stacks: Stack::ALL.to_vec(),
        inheritance: vec![Inheritance::Off, Inheritance::On],
        pairs: 2,
        callers: vec![Scheduling::other(0), Scheduling::other(10)],
        payload_bytes: 4096,
        ..quick()
    };
    let result = run(&plan).unwrap();
    assert_eq!(result.series.len(), 4);
    for series in &result.series {
        assert_eq!(series.pairs.len(), 2);
        for pair in &series.pairs {
            assert_eq!((pair.count(), pair.callers.len()), (50, 2));
            assert!(pair.server.unwrap().voluntary_switches > 0);
            for (caller, wanted) in pair.callers.iter().zip(&plan.callers) {
                assert_eq!(caller.caller, *wanted, "read back from the kernel");
                for histogram in [&caller.latency, &caller.request, &caller.handling, &caller.reply] {
                    assert_eq!(histogram.count(), 25);
                }
                let legs = [&caller.request, &caller.handling, &caller.reply].map(|leg| leg.sum_ns());
                assert_eq!(legs.iter().sum::<u64>(), caller.latency.sum_ns(), "legs are the whole");
                assert_eq!(caller.samples.len(), 25);
                assert!(caller.samples.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
                assert_eq!(caller.served_as.iter().map(|(_, calls)| calls).sum::<u64>(), 25);
                assert!(caller.counters.is_some());
            }
        }
        assert_eq!(series.all().unwrap().count(), 100);
        assert_eq!(series.verdict.name(), "SKIP", "nobody was real-time");
    }
}

#[test]
fn a_result_survives_its_stored_form_but_for_the_samples() {
    let mut result = run(&quick()).unwrap();
    let stored = serde_json::to_string(&result).unwrap();
    for caller in result.series.iter_mut().flat_map(|one| &mut one.pairs).flat_map(|pair| &mut pair.callers) {
        assert_eq!(caller.samples.len(), 25);
        caller.samples.clear();
    }
    // Not assert_eq, which would print every bucket of every histogram.
    assert!(serde_json::from_str::<LatencyResult>(&stored).unwrap() == result);
}

#[test]
fn priorities_are_inherited_where_they_are_asked_for_and_the_driver_does_it() {
    if let RealtimePermission::Refused { reason } = realtime_permission() {
        let result = run(&quick()).unwrap();
        let Verdict::Skip { reason: said } = &result.series[0].verdict else { panic!("no real-time caller") };
        assert!(said.contains(&reason) && result.warnings.iter().any(|warning| warning.contains(&reason)));
        return roundtrip_skips::skip(
            roundtrip_skips::Need::Root,
            "this user has no real-time callers: their priorities were not looked at",
        );
    }
    let verdicts = |profile, stacks: &[Stack], inheritance: &[Inheritance]| {
        let driver = DriverPlan { choice: DriverChoice::Emulated, profile, ..DriverPlan::default() };
        let (stacks, inheritance) = (stacks.to_vec(), inheritance.to_vec());
        let result = run(&LatencyPlan { driver, stacks, inheritance, ..quick() }).unwrap();
        result.series.into_iter().map(|series| series.verdict).collect::<Vec<_>>()
    };
    let both = verdicts(Profile::Ack, &[Stack::Hwbinder], &[Inheritance::Off, Inheritance::On]);
    assert_eq!(both.iter().map(Verdict::name).collect::<Vec<_>>(), ["FAIL", "PASS"]);
    assert!(both[0].reason().unwrap().contains("in 25 of 50 calls"), "{both:?}");
    let stacks = verdicts(Profile::Ack, &Stack::ALL, &[Inheritance::Stack]);
    assert_eq!(stacks.iter().map(Verdict::name).collect::<Vec<_>>(), ["FAIL", "PASS"]);
    let inherit_by = InheritBy::PiFutex;
    let driver = DriverPlan { choice: DriverChoice::Emulated, inherit_by, ..DriverPlan::default() };
    let unseen = run(&LatencyPlan { driver, stacks: vec![Stack::Hwbinder], ..quick() }).unwrap();
    assert!(matches!(unseen.series[0].verdict, Verdict::Unseen { .. }), "{:?}", unseen.series[0].verdict);
    assert!(unseen.inherited_by_pi_futex);
    assert!(unseen.warnings.iter().all(|warning| !warning.contains("inherit")), "{:?}", unseen.warnings);
    let mainline = verdicts(Profile::Mainline, &[Stack::Hwbinder], &[Inheritance::On]);
    assert!(mainline[0].reason().unwrap().contains("the mainline driver ignores INHERIT_RT"), "{mainline:?}");
}

#[test]
fn new_threads_call_as_androids_programs_have_it() {
    let result = run(&LatencyPlan { fresh_threads: true, ..quick() }).unwrap();
    let pair = &result.series[0].pairs[0];
    assert!(pair.callers.iter().all(|caller| caller.count() == 25 && caller.counters.is_none()));
    if realtime() {
        assert_eq!(pair.callers[0].caller, Scheduling::fifo(99));
    }
}

#[test]
fn with_a_rate_calls_begin_on_a_timetable_and_waiting_counts() {
    let plan = LatencyPlan { rate_per_s: Some(2000.0), callers: vec![Scheduling::other(0)], ..quick() };
    let result = run(&plan).unwrap();
    let caller = &result.series[0].pairs[0].callers[0];
    assert_eq!(caller.response.as_ref().unwrap().time.count(), 25);
    assert!(caller.samples.iter().all(|sample| sample.intended_ns <= sample.start_ns));
    // In a turn of 2 or 3 calls, calls start half a millisecond apart, whatever they took.
    let apart: Vec<_> =
        caller.samples.windows(2).map(|pair| pair[1].intended_ns - pair[0].intended_ns).collect();
    assert!(apart.iter().filter(|&&ns| (499_999..=500_001).contains(&ns)).count() >= 15, "{apart:?}");
}

#[test]
fn a_duration_makes_at_least_one_iteration() {
    let plan = LatencyPlan { amount: Amount::DurationNs(1), ..quick() };
    let result = run(&plan).unwrap();
    assert!(result.series[0].pairs[0].callers.iter().all(|caller| caller.count() >= 1));
}

#[test]
fn in_process_the_caller_serves_itself() {
    let result = run(&LatencyPlan { mode: Mode::Passthrough, ..quick() }).unwrap();
    assert_eq!((result.backend, result.series.len()), (None, 1));
    let series = &result.series[0];
    assert_eq!(series.verdict.name(), if realtime() { "PASS" } else { "SKIP" });
    assert!(series.pairs[0].server.is_none());
}

#[test]
fn pinned_pairs_stay_where_they_are_put() {
    let result = run(&LatencyPlan { placement: CpuPlacement::Same, ..quick() }).unwrap();
    let pair = &result.series[0].pairs[0];
    assert_eq!(pair.same_cpu(), pair.count());
    assert!(pair.callers.iter().all(|caller| caller.cpu_changes == 0));
}

#[test]
fn more_real_time_callers_than_cpus_beside_real_time_hogs_come_to_an_end() {
    let cpus = roundtrip_bench::sched::allowed_cpus(0).unwrap();
    // Two CPUs at most: enough to oversubscribe without using all of a large machine.
    let some = &cpus[..cpus.len().min(2)];
    let pairs = some.len() as u32 + 1;
    let mut plan = LatencyPlan {
        pairs,
        client_cpus: Some(some.to_vec()),
        server_cpus: Some(some.to_vec()),
        loads: vec!["hogs=1,policy=nice:19".parse().unwrap()],
        ..quick()
    };
    if realtime() {
        plan.loads.push(format!("hogs=1,policy=fifo:50,cpus={}", some[0]).parse().unwrap());
    }
    let result = run(&plan).unwrap();
    assert_eq!(result.series[0].all().unwrap().callers[0].count(), 25 * u64::from(pairs));
}

#[test]
fn processes_and_threads_have_androids_names_if_the_plan_gives_one() {
    let process_name = Some("schd-dbg".to_owned());
    let plan = LatencyPlan {
        stacks: Stack::ALL.to_vec(),
        amount: Amount::Iterations(1),
        verbose: true,
        process_name,
        ..quick()
    };
    let mut names = Vec::new();
    let spawner = Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"));
    latency::run(&plan, &spawner, &mut |notice| {
        if let Notice::Thread(report) = notice {
            let comm = format!("/proc/{}/task/{}/comm", report.pid, report.tid);
            // A caller may have ended.
            if let Ok(comm) = std::fs::read_to_string(comm) {
                names.push((report.role.clone(), comm.trim_end().to_owned(), report.pid));
            }
        }
    })
    .unwrap();
    for (role, name) in [("service", "schd-dbg"), ("client", "schd-dbg"), ("other-caller", "schd-dbg")] {
        let of_role: Vec<_> = names.iter().filter(|(of, ..)| of == role).collect();
        assert!(role == "other-caller" || !of_role.is_empty(), "{names:?}");
        assert!(of_role.iter().all(|(_, comm, _)| comm == name), "{names:?}");
    }
    for (role, start) in [("binder", "Binder"), ("hwbinder", "HwBinder")] {
        let mut of_role = names.iter().filter(|(of, ..)| of == role);
        // The kernel cuts names to 15 bytes.
        let fits = |comm: &str, pid: &u32| format!("{start}:{pid}_1").starts_with(comm) && comm.len() > 9;
        assert!(of_role.all(|(_, comm, pid)| fits(comm, pid)), "{names:?}");
    }
}

#[test]
fn a_verbose_run_tells_who_runs_where_in_order() {
    let mut roles = Vec::new();
    let plan = LatencyPlan { amount: Amount::Iterations(1), fresh_threads: true, verbose: true, ..quick() };
    let spawner = Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"));
    let mut notice = |notice: Notice<'_>| {
        if let Notice::Thread(report) = notice {
            roles.push((report.role.clone(), report.inherited));
        }
    };
    latency::run(&plan, &spawner, &mut notice).unwrap();
    let mut expected = vec![("service", false), ("main", false), ("client", false)];
    if realtime() {
        expected.extend([("fifo-caller", false), ("hwbinder", true)]);
    }
    expected.extend([("other-caller", false), ("hwbinder", false)]);
    assert!(roles.iter().map(|(role, inherited)| (role.as_str(), *inherited)).eq(expected), "{roles:?}");
}

/// A directory that stands in for tracefs; removed when dropped.
struct Tracefs(PathBuf);

impl Tracefs {
    fn new(name: &str, tracing_on: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-tracefs-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("tracing_on"), tracing_on).unwrap();
        Self(path)
    }

    fn plan(&self, deadline_ns: u64) -> LatencyPlan {
        let roots = vec![self.0.join("absent"), self.0.clone()];
        let halt_trace = Some(HaltTrace { roots, only_realtime: false });
        LatencyPlan { deadline: roundtrip_latency::Deadline { ns: deadline_ns }, halt_trace, ..quick() }
    }

    fn tracing_on(&self) -> String {
        std::fs::read_to_string(self.0.join("tracing_on")).unwrap().trim().to_owned()
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_first_miss_stops_the_trace_and_the_run() {
    for fresh_threads in [false, true] {
        let tracefs = Tracefs::new("miss", "1\n");
        let amount = Amount::Iterations(1_000_000_000);
        let plan = LatencyPlan { fresh_threads, amount, pairs: 2, keep_samples: false, ..tracefs.plan(0) };
        let result = run(&plan).unwrap();
        let halted = result.halted.as_ref().unwrap();
        assert_eq!((&halted.log, halted.deadline_ns), (&tracefs.0.join("trace"), 0));
        assert!(halted.pair < 2 && halted.latency_ns > 0 && halted.end_ns > halted.latency_ns);
        assert_eq!(tracefs.tracing_on(), "0");
        // The calls so far are the result, this one among them.
        let caller = |one: &&CallerResult| one.caller == halted.caller;
        let callers = &result.series[0].pairs[halted.pair].callers;
        let caller = callers.iter().find(caller).unwrap();
        assert!(caller.deadline.missed >= 1 && caller.count() < 1_000_000_000);
        assert!(result.warnings.iter().any(|warning| warning.contains("the trace was stopped")));
    }
}

#[test]
fn a_trace_that_nothing_misses_runs_on() {
    let tracefs = Tracefs::new("hit", "1\n");
    run(&tracefs.plan(u64::MAX)).unwrap();
    assert_eq!(tracefs.tracing_on(), "1");
}

#[test]
fn without_a_running_trace_nothing_is_measured() {
    let tracefs = Tracefs::new("off", "0\n");
    let error = run(&tracefs.plan(0)).unwrap_err().to_string();
    assert!(error.contains("echo 1 > ") && error.lines().count() == 1, "{error}");
}
