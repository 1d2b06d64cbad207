//! The code that both throughput programs share. It converts Google Benchmark's flags to a plan,
//! and the result to Google Benchmark's output.

use roundtrip_bench::ipc::throughput::Session;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::ipc::throughput::{Length, ThroughputPlan};
use roundtrip_run::ipc::{Mode, Stack};

use crate::args::Usage;
use crate::google_benchmark::Output;
use crate::google_benchmark::flags::{Flags, MinTime};
use crate::terminal::{Exit, Terminal};
use roundtrip_report::ipc::throughput_google::{OWN_KEYS, context, name, rows};

/// The help text of both.
pub(super) const DESCRIPTION: &str = "A client calls a service, which returns the payload, with payloads of 4 \
                                      bytes to 64 KiB. Time is the round trip of one call, CPU is the client \
                                      process's CPU time for it; both come from batches of calls timed as a \
                                      whole. As in Google Benchmark, a batch lasts until the client has used \
                                      the minimum CPU time, or five times as much wall-clock time.\n\n\
                                      bytes_per_second is the rate of one direction in real time: payload \
                                      bytes divided by the time of the round trip that carried them. 8 bytes \
                                      in 69974 ns are 114 kB/s.\n\n\
                                      The context names the driver that was measured.";

/// Runs one of the programs.
pub(super) fn run(
    flags: &Flags,
    stack: Stack,
    mode: Mode,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<Exit> {
    let plan = plan(flags, stack, mode)?;
    let names: Vec<String> = plan.sizes_bytes.iter().map(|&size| name(stack, mode, size)).collect();
    if names.is_empty() {
        writeln!(terminal.err, "Failed to match any benchmarks against regex: {}", flags.filter.text)?;
        return Ok(Exit::OK);
    }
    if flags.list_tests {
        names.iter().try_for_each(|name| writeln!(terminal.out, "{name}"))?;
        return Ok(Exit::OK);
    }
    if flags.perf_counters {
        writeln!(terminal.err, "Performance counters not supported.")?;
    }
    let mut output = Output::open(flags, &names, terminal)?;
    // Collect this before the processes start, so that the load average does not include them.
    let environment = roundtrip_bench::environment::collect();
    let mut session = Session::open(&plan, &Spawner::default())?;
    let backend = session.backend();
    output.begin(&context(&environment, backend.as_ref(), &terminal.executable, &flags.context), terminal)?;
    while let Some(row) = session.next_row(&mut |_| {})? {
        let rows = rows(&plan, &row);
        for row in rows.iter().filter(|_| flags.verbosity >= 2) {
            let (real_s, cpu_s) = (row.real_time_ns / 1e9, row.cpu_time_ns / 1e9);
            let calls = row.iterations as f64;
            writeln!(terminal.err, "-- LOG(2): Running {} for {}", row.run_name, row.iterations)?;
            writeln!(terminal.err, "-- LOG(2): Ran in {}/{}", cpu_s * calls, real_s * calls)?;
        }
        output.benchmark(&rows, terminal)?;
    }
    for limit in session.finish()?.0 {
        writeln!(terminal.err, "***WARNING*** {limit}")?;
    }
    output.end(terminal)?;
    Ok(Exit::OK)
}

/// Resolves the flags. The plan contains the sizes whose benchmarks the filter accepts; there may
/// be none.
fn plan(flags: &Flags, stack: Stack, mode: Mode) -> Result<ThroughputPlan, Usage> {
    if let Some((key, _)) = flags.context.iter().find(|(key, _)| OWN_KEYS.contains(&key.as_str())) {
        return Err(Usage(format!("--benchmark_context: the key '{key}' is reserved by this program")));
    }
    let default = ThroughputPlan::default();
    let accepted = |size: &usize| flags.filter.accepts(&name(stack, mode, *size));
    Ok(ThroughputPlan {
        stacks: vec![stack],
        mode,
        sizes_bytes: default.sizes_bytes.into_iter().filter(accepted).collect(),
        length: match flags.min_time() {
            MinTime::Seconds(seconds) => Length::CpuNs((seconds * 1e9) as u64),
            MinTime::Iterations(iterations) => Length::Iterations(iterations),
        },
        warm_up_ns: flags.min_warm_up_ns(),
        repetitions: flags.repetitions(),
        interleaved: flags.enable_random_interleaving,
        latency_calls: 0,
        ..ThroughputPlan::default()
    })
}
