//! The table of options of `roundtrip ipc latency`. The file `latency.rs` resolves what they mean.

use roundtrip_run::injection::Injection;
use roundtrip_run::ipc::latency::{Inheritance, MAX_PAIRS, MAX_PAYLOAD_BYTES, MAX_SERVER_THREADS};
use roundtrip_run::ipc::{Mode, Stack};
use roundtrip_run::{CpuPlacement, Load, Scheduling};

use super::measure::{Common, Measures};
use super::output;
use super::{driver, gates};
use crate::args::values::{push, put, set};
use crate::args::{Opt, values};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    pub(super) stacks: Option<Vec<Stack>>,
    pub(super) mode: Mode,
    pub(super) pairs: Option<u32>,
    pub(super) iterations: Option<u64>,
    pub(super) duration_ns: Option<u64>,
    /// Used only by `roundtrip watch`.
    pub(super) interval_ns: Option<u64>,
    pub(super) deadline_ns: Option<u64>,
    pub(super) callers: Option<Vec<Scheduling>>,
    pub(super) payload_bytes: Option<usize>,
    pub(super) work_ns: Option<u64>,
    pub(super) server_threads: Option<u32>,
    pub(super) rate_per_s: Option<f64>,
    pub(super) inheritance: Option<Vec<Inheritance>>,
    pub(super) fresh_threads: bool,
    pub(super) placement: Option<CpuPlacement>,
    pub(super) client_cpus: Option<Vec<u32>>,
    pub(super) server_cpus: Option<Vec<u32>>,
    pub(super) loads: Vec<Load>,
    pub(super) trace: bool,
    pub(super) injection: Option<Injection>,
    pub(super) explain: bool,
    pub(super) explain_slowest: Option<u32>,
    pub(super) explain_limit: Option<u32>,
    pub(super) explain_system_calls: bool,
    pub(super) verbose: bool,
    pub(super) raw_samples: bool,
    pub(super) common: Common,
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["latency"];
    const REQUIRES: &'static [&'static str] = &["realtime", "events"];
    const GATES: &'static str = gates::LATENCY;

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

pub(super) const WHAT: &[Opt<Typed>] = &[
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
        "binderize: calls over the driver. passthrough: calls hwbinder's service in the client's \
         own process.",
        |typed: &mut Typed, text| put(&mut typed.mode, text.parse()),
    )
    .default("binderize"),
    Opt::value(
        &["--pairs"],
        "N",
        "Client processes, each with its own server process. More than CPUs - 1 pairs disturb each \
         other.",
        |typed: &mut Typed, text| set(&mut typed.pairs, values::whole(text, 1..=MAX_PAIRS)),
    )
    .default("1"),
    Opt::value(
        &["--deadline"],
        "TIME",
        "A call that takes longer counts as a miss.",
        |typed: &mut Typed, text| set(&mut typed.deadline_ns, values::duration_ns(text)),
    )
    .default("2.5ms"),
    Opt::value(
        &["--payload"],
        "SIZE",
        "Bytes sent with each call, as in 256 or 4k. At most 500k; less where several calls arrive \
         at once.",
        |typed: &mut Typed, text| {
            let bytes = values::size_bytes(text)?;
            if bytes > MAX_PAYLOAD_BYTES {
                return Err("expected at most 500k".to_owned());
            }
            typed.payload_bytes = Some(bytes);
            Ok(())
        },
    )
    .default("16"),
    Opt::value(
        &["--work"],
        "TIME",
        "CPU time that the server spends on each call, as in 1ms. It counts as handling.",
        |typed: &mut Typed, text| set(&mut typed.work_ns, values::duration_ns(text)),
    )
    .default("none"),
    Opt::value(
        &["--server-threads"],
        "N",
        "Threads that serve calls in each server. With one thread, a call waits until the previous one is \
         finished.",
        |typed: &mut Typed, text| set(&mut typed.server_threads, values::whole(text, 1..=MAX_SERVER_THREADS)),
    )
    .default("1"),
];

pub(super) const HOW_LONG: &[Opt<Typed>] = &[
    Opt::value(
        &["--iterations"],
        "N",
        "Iterations of each pair. In each iteration every caller calls once.",
        |typed: &mut Typed, text| set(&mut typed.iterations, values::whole(text, 1..=u64::MAX)),
    )
    .default("10000"),
    Opt::value(
        &["--duration"],
        "TIME",
        "Run for this long, as in 30s, instead of a number of iterations.",
        |typed: &mut Typed, text| set(&mut typed.duration_ns, values::duration_ns(text)),
    ),
];

pub(super) const CALLERS: &[Opt<Typed>] = &[
    Opt::value(
        &["--callers"],
        "LIST",
        "The scheduling policy of each calling thread, in calling order: fifo:1..99, rr:1..99, \
         nice:-20..19, other.",
        |typed: &mut Typed, text| set(&mut typed.callers, values::list(text)),
    )
    .default("fifo:99,other"),
    Opt::value(
        &["--rate"],
        "RATE",
        "Calls per second of each caller, as in 1000/s, started on schedule even if earlier ones are late; a \
         caller that is late catches up. Without it, each call starts when the last one has returned.",
        |typed: &mut Typed, text| set(&mut typed.rate_per_s, values::rate_per_s(text)),
    ),
    Opt::one_of(
        &["--inheritance"],
        "SETTING",
        &["stack", "on", "off", "both"],
        "Whether servers ask for real-time inheritance. stack: as Android does (hwbinder asks, \
         binder does not). both: off and on side by side.",
        |typed: &mut Typed, text| {
            let both = || Ok(vec![Inheritance::Off, Inheritance::On]);
            set(&mut typed.inheritance, if text == "both" { both() } else { values::list(text) })
        },
    )
    .default("stack"),
    Opt::flag(
        &["--fresh-threads"],
        "Start a new thread for each call of a real-time caller, as Android's programs do. The measured time \
         then includes the thread's set-up in the driver.",
        |typed: &mut Typed| typed.fresh_threads = true,
    ),
];

pub(super) const WHERE: &[Opt<Typed>] = &[
    Opt::one_of(
        &["--placement"],
        "PLACEMENT",
        &["free", "same", "split"],
        "Which CPUs clients and servers use. free: the kernel chooses; same: one CPU; split: two \
         CPUs.",
        |typed: &mut Typed, text| set(&mut typed.placement, text.parse()),
    )
    .default("free"),
    Opt::value(
        &["--client-cpus"],
        "CPUS",
        "The clients' CPUs, as in 0,2-3, instead of what the placement says.",
        |typed: &mut Typed, text| set(&mut typed.client_cpus, values::cpu_list(text)),
    ),
    Opt::value(
        &["--server-cpus"],
        "CPUS",
        "The servers' CPUs, in the same form.",
        |typed: &mut Typed, text| set(&mut typed.server_cpus, values::cpu_list(text)),
    ),
    Opt::value(
        &["--load"],
        "LOAD",
        "CPU-bound background load: hogs=N[,policy=other|nice:N|fifo:N|rr:N][,cpus=0-1+3]. Repeatable.",
        |typed: &mut Typed, text| push(&mut typed.loads, text.parse()),
    ),
];

pub(super) const EXPLANATION: &[Opt<Typed>] = &[
    Opt::value(
        &["--inject"],
        "CAUSE",
        "Makes some calls slow on purpose, to see what a cause looks like: work, sleep, fsync, lock, lock-preempted, hog, \
         stop or flood, and [,every=100ms][,for=5ms][,policy=fifo:50][,cpus=0-1+3] for hogs. With \
         --out, injected.csv records when.",
        |typed: &mut Typed, text| set(&mut typed.injection, text.parse()),
    ),
    Opt::flag(
        &["--explain"],
        "Records scheduler events and explains what delayed each call that misses its deadline. Without root \
         it explains only what counters show.",
        |typed: &mut Typed| typed.explain = true,
    ),
    Opt::value(
        &["--explain-slowest"],
        "N",
        "The same for the slowest N calls of the run, whatever the deadline.",
        |typed: &mut Typed, text| set(&mut typed.explain_slowest, values::whole(text, 1..=1000)),
    ),
    Opt::value(
        &["--explain-limit"],
        "N",
        "Keep the slowest N calls that miss in detail; of the others, only the causes.",
        |typed: &mut Typed, text| set(&mut typed.explain_limit, values::whole(text, 1..=1000)),
    )
    .default("20"),
    Opt::flag(
        &["--explain-system-calls"],
        "Also records system calls of clients and servers, to name those that they wait in. This lengthens \
         every call, a short one by half.",
        |typed: &mut Typed| typed.explain_system_calls = true,
    ),
];

pub(super) const OUTPUT: &[Opt<Typed>] = &[
    Opt::flag(
        &["--trace"],
        "Stops the running kernel trace, and the run, at the first call that misses its deadline.",
        |typed: &mut Typed| typed.trace = true,
    ),
    Opt::flag(
        &["--verbose", "-v"],
        "Prints to standard error, for each call, which thread runs on which CPU.",
        |typed: &mut Typed| typed.verbose = true,
    ),
    Opt::flag(
        &["--raw-samples"],
        "Also writes every sample: to latency-samples.csv in the run directory or, with --format \
         csv, instead of the figures.",
        |typed: &mut Typed| typed.raw_samples = true,
    ),
    output::format(
        &["table", "json", "csv", "markdown", "android"],
        "The output format: json is the same as run.json in a run directory, markdown has a line for each \
         figure, android is the JSON of Android's programs.",
    ),
    output::histogram(),
    output::out("Also writes the run into this directory."),
    output::force(),
    output::label(),
    output::quiet(),
];
