//! `roundtrip ipc throughput`: throughput of both stacks by payload size.

use roundtrip_bench::ipc::throughput;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::CpuPlacement;
use roundtrip_run::ipc::throughput::{Length, ThroughputPlan, ThroughputResult};
use roundtrip_run::ipc::{Mode, Stack};
use roundtrip_run::{Load, Run};

use super::driver;
use super::gates;
use super::measure::{Common, Measures};
use super::output;
use crate::args::values::{push, put, set};
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::available;
use crate::google_benchmark::Output;
use crate::google_benchmark::flags::{Flags, FormatName};
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    stacks: Option<Vec<Stack>>,
    mode: Mode,
    sizes_bytes: Option<Vec<usize>>,
    min_time_ns: Option<u64>,
    iterations: Option<u64>,
    repetitions: Option<u32>,
    placement: Option<CpuPlacement>,
    client_cpus: Option<Vec<u32>>,
    server_cpus: Option<Vec<u32>>,
    loads: Vec<Load>,
    common: Common,
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["throughput"];

    const FORMAT: Opt<Self> = output::format(
        &["table", "json", "csv", "markdown", "google"],
        "The output format: json is the same as run.json in a run directory, markdown has a line for each figure, \
         google is Google Benchmark's JSON.",
    );

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["ipc", "throughput"],
    kind: Kind::Command,
    summary: "measures round trips of binder and hwbinder by payload size",
    description: "A client process calls a server process, which returns the payload, for each size. \
                  Roundtrip times calls in batches, with two clock readings around each batch, and then times \
                  further calls one by one for the percentiles. It checks every reply outside the timed \
                  section.\n\n\
                  The rate counts one direction: payload bytes divided by the time of the round trip that \
                  carried them. 8 bytes in 69974 ns are 114 kB/s.",
    positionals: None,
    groups: &[
        Group {
            heading: "What to measure",
            options: &[
                Opt::one_of(
                    &["--stack"],
                    "STACK",
                    &["binder", "hwbinder", "both"],
                    "The IPC stack: binder, hwbinder or both.",
                    |typed: &mut Typed, text| set(&mut typed.stacks, driver::stacks(text)),
                )
                .default("both"),
                Opt::one_of(
                    &["--mode"],
                    "MODE",
                    &["binderize", "passthrough"],
                    "binderize: calls over the driver. passthrough: calls hwbinder's service in \
                     the client's own process.",
                    |typed: &mut Typed, text| put(&mut typed.mode, text.parse()),
                )
                .default("binderize"),
                Opt::value(
                    &["--sizes"],
                    "SIZES",
                    "Payloads in bytes, separated by commas; 4-64k stands for each doubling.",
                    |typed: &mut Typed, text| set(&mut typed.sizes_bytes, values::sizes_bytes(text)),
                )
                .default("4-64k"),
                Opt::value(
                    &["--min-time"],
                    "TIME",
                    "The minimum duration of a batch, as in 0.5s. The first batch determines how many calls \
                     that takes.",
                    |typed: &mut Typed, text| set(&mut typed.min_time_ns, values::duration_ns(text)),
                )
                .default("0.5s"),
                Opt::value(
                    &["--iterations"],
                    "N",
                    "Exactly N calls in each batch, instead of a minimum duration.",
                    |typed: &mut Typed, text| {
                        set(
                            &mut typed.iterations,
                            values::whole(text, 1..=roundtrip_run::ipc::throughput::MAX_ITERATIONS),
                        )
                    },
                ),
                Opt::value(
                    &["--repetitions"],
                    "N",
                    "Batches for each stack and size. They run in random order, so drift of the machine \
                     affects all of them alike; the report shows medians.",
                    |typed: &mut Typed, text| set(&mut typed.repetitions, values::whole(text, 1..=100_000)),
                )
                .default("1"),
            ],
        },
        Group {
            heading: "Where it runs",
            options: &[
                Opt::one_of(
                    &["--placement"],
                    "PLACEMENT",
                    &["free", "same", "split"],
                    "Which CPUs client and server use. free: the kernel chooses; same: one CPU; \
                     split: two CPUs.",
                    |typed: &mut Typed, text| set(&mut typed.placement, text.parse()),
                )
                .default("free"),
                Opt::value(
                    &["--client-cpus"],
                    "CPUS",
                    "The client's CPUs, as in 0,2-3, instead of what the placement says.",
                    |typed: &mut Typed, text| set(&mut typed.client_cpus, values::cpu_list(text)),
                ),
                Opt::value(
                    &["--server-cpus"],
                    "CPUS",
                    "The server's CPUs, in the same form.",
                    |typed: &mut Typed, text| set(&mut typed.server_cpus, values::cpu_list(text)),
                ),
                Opt::value(
                    &["--load"],
                    "LOAD",
                    "CPU-bound background load: hogs=N[,policy=other|nice:N|fifo:N|rr:N][,cpus=0-1+3]. Repeatable.",
                    |typed: &mut Typed, text| push(&mut typed.loads, text.parse()),
                ),
            ],
        },
        driver::group(),
        gates::group(),
        output::group(),
    ],
    examples: &[
        ("roundtrip ipc throughput", "Measures both stacks from 4 bytes to 64 KiB, in less than a minute."),
        (
            "roundtrip ipc throughput --stack hwbinder --sizes 4,4k --placement same --repetitions 9",
            "Compares two sizes on one CPU, with the spread of nine repetitions.",
        ),
        ("roundtrip ipc throughput --load hogs=2", "Measures beside two CPU-bound processes."),
        (
            "roundtrip ipc throughput --format google > before.json",
            "Stores a result that Google Benchmark's compare.py reads.",
        ),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<ThroughputPlan, Usage> {
    let default = ThroughputPlan::default();
    let stacks = driver::stacks_or_default(typed.stacks.as_ref(), typed.mode);
    let length = match (typed.iterations, typed.min_time_ns) {
        (Some(_), Some(_)) => return Err(Usage("--iterations and --min-time exclude each other".into())),
        (Some(iterations), None) => Length::Iterations(iterations),
        (None, Some(ns)) => Length::ElapsedNs(ns),
        (None, None) => default.length,
    };
    let plan = ThroughputPlan {
        driver: typed.common.driver.clone(),
        stacks,
        mode: typed.mode,
        sizes_bytes: typed.sizes_bytes.clone().unwrap_or(default.sizes_bytes),
        length,
        repetitions: typed.repetitions.unwrap_or(default.repetitions),
        interleaved: true,
        placement: typed.placement.unwrap_or(default.placement),
        client_cpus: typed.client_cpus.clone(),
        server_cpus: typed.server_cpus.clone(),
        loads: typed.loads.clone(),
        latency_calls: default.latency_calls,
        warm_up_ns: default.warm_up_ns,
    };
    plan.check().map_err(|error| Usage(error.to_string()))?;
    Ok(plan)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let plan = plan(&typed)?;
    available::both_cpus(plan.client_cpus.as_deref(), plan.server_cpus.as_deref())?;
    available::loads(&plan.loads)?;
    let common = &typed.common;
    let place = common.output.place()?;
    let run = common.record(terminal, |environment, progress| {
        let result = throughput::run(&plan, &Spawner::default(), progress)?;
        environment.driver = Some(driver::in_full(result.backend.as_ref(), result.wake_up.as_deref()));
        Ok(result.into())
    })?;
    common.end("ipc throughput", &run, place, terminal, |_, terminal| {
        let result = run.results.throughput.as_ref();
        let result = result.filter(|_| common.output.format.as_deref() == Some("google"));
        result.map_or(Ok(false), |result| google(&run, result, terminal).map(|()| true))
    })
}

fn google(run: &Run, result: &ThroughputResult, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
    let mut flags = Flags::default();
    flags.format = FormatName::Json;
    let mut output = Output::open(&flags, &[], terminal)?;
    let backend = result.backend.as_ref();
    let context = roundtrip_report::ipc::throughput_google::context(
        &run.environment,
        backend,
        &terminal.executable,
        &load(&result.plan),
    );
    output.begin(&context, terminal)?;
    for row in &result.rows {
        output.benchmark(&roundtrip_report::ipc::throughput_google::rows(&result.plan, row), terminal)?;
    }
    output.end(terminal)
}

/// The background load, as a fact of the context.
fn load(plan: &ThroughputPlan) -> Vec<(String, String)> {
    let loads: Vec<String> =
        plan.loads.iter().map(|load| format!("{} hogs ({})", load.hogs, load.scheduling)).collect();
    if loads.is_empty() { Vec::new() } else { vec![("load".to_owned(), loads.join(", "))] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_typed_is_the_default_and_the_help_says_the_same() {
        let plan = plan(&Typed::default()).unwrap();
        assert_eq!(plan, ThroughputPlan { interleaved: true, ..ThroughputPlan::default() });
        assert_eq!(values::sizes_bytes("4-64k").unwrap(), plan.sizes_bytes);
        assert_eq!(plan.length, Length::ElapsedNs(values::duration_ns("0.5s").unwrap()));
        assert_eq!((plan.repetitions, plan.placement), (1, CpuPlacement::Free));
    }

    #[test]
    fn passthrough_is_hwbinders_and_a_batch_has_one_length() {
        let passthrough = |stacks| Typed { mode: Mode::Passthrough, stacks, ..Typed::default() };
        assert_eq!(plan(&passthrough(None)).unwrap().stacks, [Stack::Hwbinder]);
        assert!(
            plan(&passthrough(Some(Stack::ALL.into()))).unwrap_err().0.contains("only the hwbinder stack")
        );
        let both = Typed { iterations: Some(1), min_time_ns: Some(1), ..Typed::default() };
        assert!(plan(&both).unwrap_err().0.contains("exclude each other"));
    }
}
