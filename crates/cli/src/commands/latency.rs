//! `roundtrip ipc latency`: round trips against a deadline, with scheduler statistics.

use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use roundtrip_analysis::slow_calls;
use roundtrip_bench::ipc::latency::{self, Notice};
use roundtrip_bench::worker::Spawner;
use roundtrip_files::Existing;
use roundtrip_latency::Deadline;
use roundtrip_report::text::csv::with_labels;
use roundtrip_run::ipc::latency::{
    Amount, ExplainPlan, HaltTrace, Halted, LatencyPlan, LatencyResult, ThreadReport, Trigger,
};
use roundtrip_run::ipc::{Mode, Stack};
use roundtrip_run::{INJECTED, RECORDING, Results, Run, SAMPLES};
use roundtrip_tracefs::Recording;

use super::latency_options::Typed;
use super::output::{Directory, RunOutput};
use super::{driver, gates, latency_options};
use crate::args::{Entry, Group, Kind, Usage};
use crate::available;
use crate::terminal::{Exit, Terminal};

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["ipc", "latency"],
    kind: Kind::Command,
    summary: "measures round trips against a deadline and explains slow ones",
    description: "Each client process calls a server process of its own. Threads with different scheduling \
                  policies call in turn. Every call is timed by itself. The server adds time stamps, which \
                  split the call into request, handling and reply, and reports how its thread was scheduled; \
                  handling contains one system call for that.\n\n\
                  With --rate, each caller starts its calls on schedule, whether or not earlier ones are \
                  late. The response time counts from the scheduled start, so it includes the wait behind \
                  earlier slow calls.\n\n\
                  Without permission for real-time policies only the ordinary callers call, and there is no \
                  verdict on inheritance.",
    positionals: None,
    groups: &[
        Group { heading: "What to measure", options: latency_options::WHAT },
        Group { heading: "How long", options: latency_options::HOW_LONG },
        Group { heading: "Callers", options: latency_options::CALLERS },
        Group { heading: "Where it runs", options: latency_options::WHERE },
        driver::group(),
        Group { heading: "Explanation", options: latency_options::EXPLANATION },
        gates::group(),
        Group { heading: "Output", options: latency_options::OUTPUT },
    ],
    examples: &[
        ("roundtrip ipc latency", "Measures a real-time and an ordinary caller over both stacks."),
        (
            "roundtrip ipc latency --load hogs=4 --work 1ms --inheritance both --callers fifo:99 --duration 9s",
            "Shows priority inversion behind ordinary hogs, and how inheritance cures it.",
        ),
        (
            "roundtrip ipc latency --rate 1000/s --duration 10s --deadline 1ms",
            "Calls once a millisecond and includes the wait behind slow calls.",
        ),
    ],
    run,
};

pub(super) fn plan(typed: &Typed) -> Result<LatencyPlan, Usage> {
    let default = LatencyPlan::default();
    let amount = match (typed.iterations, typed.duration_ns) {
        (Some(_), Some(_)) => return Err(Usage("--iterations and --duration exclude each other".into())),
        (Some(iterations), None) => Amount::Iterations(iterations),
        (None, Some(ns)) => Amount::DurationNs(ns),
        (None, None) => default.amount,
    };
    let stacks = driver::stacks_or_default(typed.stacks.as_ref(), typed.mode);
    let plan = LatencyPlan {
        driver: typed.common.driver.clone(),
        stacks,
        mode: typed.mode,
        inheritance: typed.inheritance.clone().unwrap_or(default.inheritance),
        pairs: typed.pairs.unwrap_or(default.pairs),
        amount,
        deadline: typed.deadline_ns.map_or(default.deadline, |ns| Deadline { ns }),
        callers: typed.callers.clone().unwrap_or(default.callers),
        payload_bytes: typed.payload_bytes.unwrap_or(default.payload_bytes),
        work_ns: typed.work_ns.unwrap_or(default.work_ns),
        server_threads: typed.server_threads.unwrap_or(default.server_threads),
        rate_per_s: typed.rate_per_s,
        placement: typed.placement.unwrap_or(default.placement),
        client_cpus: typed.client_cpus.clone(),
        server_cpus: typed.server_cpus.clone(),
        loads: typed.loads.clone(),
        fresh_threads: typed.fresh_threads,
        keep_samples: typed.raw_samples,
        verbose: typed.verbose,
        halt_trace: typed.trace.then(HaltTrace::default),
        process_name: None,
        injection: typed.injection.clone(),
        explain: explain(typed)?,
    };
    plan.check().map_err(|error| Usage(error.to_string()))?;
    if plan.mode == Mode::Passthrough && plan.stacks != [Stack::Hwbinder] {
        return Err(Usage("--mode passthrough: only the hwbinder stack supports it".into()));
    }
    if typed.common.output.format.as_deref() == Some("android") && plan.series().len() > 1 {
        return Err(Usage(
            "--format android shows one stack and one --inheritance setting: choose them".into(),
        ));
    }
    if typed.raw_samples
        && typed.common.output.out.is_none()
        && typed.common.output.format.as_deref() != Some("csv")
    {
        return Err(Usage(
            "--raw-samples needs --out DIR, or --format csv, which then prints the samples".into(),
        ));
    }
    Ok(plan)
}

/// Resolves the options for slow calls. The recording's folder is set later.
fn explain(typed: &Typed) -> Result<Option<ExplainPlan>, Usage> {
    let trigger = match (typed.explain, typed.explain_slowest) {
        (true, Some(_)) => {
            return Err(Usage("--explain (calls that miss) and --explain-slowest exclude each other".into()));
        }
        (true, None) => Trigger::Deadline,
        (false, Some(count)) => Trigger::Slowest(count),
        (false, None) if typed.explain_limit.is_some() || typed.explain_system_calls => {
            return Err(Usage(
                "--explain-limit and --explain-system-calls need --explain or --explain-slowest".into(),
            ));
        }
        (false, None) => return Ok(None),
    };
    if typed.explain_limit.is_some() && trigger != Trigger::Deadline {
        return Err(Usage(
            "--explain-limit applies only to --explain; --explain-slowest N keeps N calls".into(),
        ));
    }
    Ok(Some(ExplainPlan {
        trigger,
        limit: typed.explain_limit.unwrap_or(ExplainPlan::DEFAULT_LIMIT),
        system_calls: typed.explain_system_calls,
        ..ExplainPlan::new("")
    }))
}

/// Carries out a plan. Progress goes to standard error. `block` writes the thread reports of a
/// verbose plan; its second argument is standard output.
pub(crate) fn measure(
    plan: &LatencyPlan,
    block: &mut dyn FnMut(&ThreadReport, &mut dyn Write) -> std::io::Result<()>,
    output: &RunOutput,
    terminal: &mut Terminal<'_>,
) -> Result<Run, roundtrip_bench::Error> {
    let mut line = output.progress(terminal.err);
    output.record(|environment| {
        let mut result = latency::run(plan, &Spawner::default(), &mut |notice| match notice {
            // A verbose plan shows no progress line, which would break up the blocks.
            Notice::Progress(progress) if !plan.verbose => line.show(progress),
            Notice::Progress(_) => {}
            // Ignore errors: if the stream is closed, the message is lost.
            Notice::Thread(report) => {
                let _ = block(report, terminal.out);
            }
        })?;
        environment.driver = Some(driver_of(&result));
        sum_up_others(&mut result, environment.cpus.virtualised == Some(true));
        Ok(Results::from(result))
    })
}

/// What the originals print when a missed deadline stops the trace.
pub(crate) fn halt_message(call: &Halted) -> String {
    format!("deadline triggered: halt & stop trace\nlog:{}\n", call.log.display())
}

/// Adds up what delayed the slow calls beyond the limit, and removes their recordings. If these
/// cannot be read, the calls are only counted.
fn sum_up_others(result: &mut LatencyResult, virtualised: bool) {
    let Some(folder) = result.plan.explain.as_ref().map(|plan| plan.directory.clone()) else { return };
    let words = roundtrip_report::explanation::thing;
    let summed = slow_calls::sum_up_others(result, virtualised, &folder, &words);
    let removed = summed.and_then(|unused| {
        // Without a slow call, there is no recording.
        if !unused.is_empty() {
            let recording = Recording::open(&folder)?;
            unused.into_iter().try_for_each(|number| recording.remove(number))?;
        }
        Ok(())
    });
    if let Err(error) = removed {
        result.warnings.push(format!("what delayed the slow calls beyond the limit is not known: {error}"));
    }
}

/// The driver for the head of a report.
pub(super) fn driver_of(result: &LatencyResult) -> String {
    let mut driver = driver::in_full(result.backend.as_ref(), result.wake_up.as_deref());
    if result.inherited_by_pi_futex {
        driver += "; servers inherited real-time priorities through a PI futex";
    }
    driver
}

/// Rejects requests that this machine cannot satisfy. The default callers are not checked, because
/// they adapt to what is possible.
pub(super) fn check_machine(typed: &Typed, plan: &LatencyPlan) -> Result<(), Usage> {
    typed.common.gates.check_callers(&plan.callers)?;
    available::both_cpus(plan.client_cpus.as_deref(), plan.server_cpus.as_deref())?;
    let mut callers = typed.callers.iter().flatten();
    callers.try_for_each(|caller| available::scheduling("--callers", caller))?;
    available::loads(&plan.loads)?;
    let Some(injection) = &plan.injection else { return Ok(()) };
    if injection.starts_hogs() {
        available::scheduling("--inject", &injection.scheduling)?;
    }
    injection.cpus.as_ref().map_or(Ok(()), |cpus| available::cpus("--inject", cpus))
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut plan = plan(&typed)?;
    check_machine(&typed, &plan)?;
    let output = &typed.common.output;
    // Without a run directory, recordings are removed when the command ends.
    let directory = match &mut plan.explain {
        Some(explain) => {
            let directory = output.directory()?;
            explain.directory = directory.path().join(RECORDING);
            Some(directory)
        }
        None => output.place()?,
    };
    if let (Some(injection), Some(Directory::Asked(place))) = (&mut plan.injection, &directory) {
        injection.log = Some(place.path().join(INJECTED));
    }
    let block = &mut |report: &ThreadReport, _: &mut dyn Write| {
        std::io::stderr().write_all(roundtrip_report::ipc::latency_android::thread_block(report).as_bytes())
    };
    let run = measure(&plan, block, output, terminal)?;
    let Some(result) = &run.results.latency else { return Ok(Exit::FAILED) };
    if let Some(call) = &result.halted {
        writeln!(terminal.err, "{}{call}", halt_message(call))?;
    }
    // If there is no space for the samples, everything else is still stored and shown.
    let unwritten = match &directory {
        Some(Directory::Asked(place)) if typed.raw_samples => write_samples(result, place.path()).err(),
        _ => None,
    };
    let exit = typed.common.end("ipc latency", &run, directory, terminal, |_, terminal| {
        let text = match output.format.as_deref() {
            Some("csv") if typed.raw_samples => {
                with_labels(roundtrip_report::ipc::latency_csv::samples(result), &run.labels)
            }
            Some("android") => {
                let series = result.series.iter();
                let json = |series| {
                    roundtrip_report::ipc::latency_android::json(result, series, &run.warnings, false)
                };
                series.map(json).collect()
            }
            _ => return Ok(false),
        };
        terminal.out.write_all(text.as_bytes())?;
        Ok(true)
    })?;
    let exit = if result.halted.is_some() { Exit::FAILED } else { exit };
    unwritten.map_or(Ok(exit), Err)
}

/// Writes all samples beside the run, completely or not at all.
fn write_samples(result: &LatencyResult, directory: &Path) -> anyhow::Result<()> {
    let path = directory.join(SAMPLES);
    let samples = roundtrip_report::ipc::latency_csv::samples(result);
    roundtrip_files::write(&path, samples.as_bytes(), Existing::Keep)
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::measure::Common;
    use roundtrip_run::Scheduling;

    #[test]
    fn what_is_not_typed_is_the_default_and_the_help_says_the_same() {
        let plan = plan(&Typed::default()).unwrap();
        assert_eq!(plan, LatencyPlan { stacks: Stack::ALL.into(), ..LatencyPlan::default() });
        assert_eq!(plan.amount, Amount::Iterations(10_000));
        assert_eq!((plan.pairs, plan.payload_bytes, plan.deadline.ns), (1, 16, 2_500_000));
        assert_eq!(plan.callers, [Scheduling::fifo(99), Scheduling::other(0)]);
    }

    #[test]
    fn what_excludes_each_other_is_a_usage_error() {
        let refusal = |typed: Typed| plan(&typed).unwrap_err().to_string();
        let both = Typed { iterations: Some(1), duration_ns: Some(1), ..Typed::default() };
        assert!(refusal(both).contains("exclude each other"));
        let output = RunOutput { format: Some("android".into()), ..RunOutput::default() };
        let android = Typed { common: Common { output, ..Common::default() }, ..Typed::default() };
        assert!(refusal(android).contains("one stack"));
        let samples = Typed { raw_samples: true, ..Typed::default() };
        assert!(refusal(samples).contains("--out DIR"));
        let rate = Typed { rate_per_s: Some(1.0), fresh_threads: true, ..Typed::default() };
        assert!(refusal(rate).contains("keep their threads"));
        let stacks = Some(Stack::ALL.to_vec());
        let passthrough = Typed { mode: Mode::Passthrough, stacks, ..Typed::default() };
        assert!(refusal(passthrough).contains("only the hwbinder stack"));
    }
}
