//! Records the same calls with several programs at the same time: Roundtrip, Perfetto, trace-cmd
//! and the kernel's text format. Runs under `cargo xtask guest --count --out DIR`, as `observed
//! foreign ./rsb_hub ./roundtrip`, with `--file` for `rsb_hub`, `roundtrip`, `perfetto`, `traced`,
//! `traced_probes`, `trace-cmd` and the libraries that they need. `fixtures/recordings` contains
//! the resulting recordings, which a test explains.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::observed::{CLIENT, SERVER};
use crate::{PATIENCE, Running, link_device};

/// The events that each of them records.
const EVENTS: [&str; 18] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "sched/sched_process_fork",
    "sched/sched_process_exit",
    "task/task_rename",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
    "binder/binder_transaction",
    "binder/binder_transaction_received",
    "binder/binder_wait_for_work",
    "binder/binder_return",
];

/// Perfetto's sockets, in the folder that all programs run in.
const PRODUCER: &str = "producer";
const CONSUMER: &str = "consumer";

const TRACING: &str = "/sys/kernel/tracing";

/// A program of the distribution, whose libraries are in the same directory.
fn packaged(program: &str) -> Command {
    let mut command = Command::new("./ld-linux-x86-64.so.2");
    command.args(["--library-path", ".", program]);
    command.env("PERFETTO_PRODUCER_SOCK_NAME", PRODUCER);
    command.env("PERFETTO_CONSUMER_SOCK_NAME", CONSUMER);
    command
}

/// Waits until a file exists.
fn wait_for_file(path: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !Path::new(path).exists() {
        ensure!(Instant::now() < deadline, "{path} was not created");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Waits until a trace instance records binder transactions.
fn wait_for_recorder(instance: &str) -> Result<()> {
    let path = format!("{TRACING}{instance}/events/binder/binder_transaction/enable");
    let deadline = Instant::now() + PATIENCE;
    while !std::fs::read_to_string(&path).is_ok_and(|text| text.starts_with('1')) {
        ensure!(Instant::now() < deadline, "{path} is not enabled");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Stops a recorder with SIGINT, and waits until it has written its file.
fn stop(mut child: Child, what: &str) -> Result<()> {
    // SAFETY: the child has not been waited for, so its pid is still its own.
    let sent = unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    ensure!(sent == 0, "{what}: {}", std::io::Error::last_os_error());
    let status = child.wait()?;
    ensure!(status.success(), "{what}: {status}");
    Ok(())
}

/// The configuration of Perfetto.
fn config() -> String {
    let events = EVENTS.map(|event| format!("      ftrace_events: \"{event}\"\n")).concat();
    format!(
        "buffers {{ size_kb: 32768 fill_policy: DISCARD }}\n\
         compression_type: COMPRESSION_TYPE_DEFLATE\n\
         data_sources {{ config {{ name: \"linux.ftrace\" ftrace_config {{\n{events}\
         compact_sched {{ enabled: true }} buffer_size_kb: 8192 drain_period_ms: 250 \
         instance_name: \"perfetto\" }} }} }}\n\
         data_sources {{ config {{ name: \"linux.process_stats\" \
         process_stats_config {{ scan_all_processes_on_start: true }} }} }}\n"
    )
}

/// Starts recording into a separate trace instance, whose text is read at the end.
fn record_text() -> Result<String> {
    let instance = format!("{TRACING}/instances/text");
    std::fs::create_dir_all(&instance)?;
    let put = |file: &str, text: &str| {
        std::fs::write(format!("{instance}/{file}"), text).with_context(|| format!("write {instance}/{file}"))
    };
    put("trace_clock", "boot")?;
    put("buffer_size_kb", "8192")?;
    let _ = put("options/record-tgid", "1");
    for event in EVENTS {
        put(&format!("events/{event}/enable"), "1")?;
    }
    Ok(instance)
}

/// Hides the kernel's symbols from trace-cmd. Otherwise they would make up almost its whole file.
fn hide_symbols() -> Result<()> {
    std::fs::write("no-symbols", "")?;
    let none = std::ptr::null();
    // SAFETY: both paths end in NUL, and a bind mount reads neither type nor data.
    let done = unsafe {
        libc::mount(c"no-symbols".as_ptr(), c"/proc/kallsyms".as_ptr(), none, libc::MS_BIND, none.cast())
    };
    ensure!(done == 0, "hide /proc/kallsyms: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Records the calls of one client with all recorders, into /out.
pub(crate) fn all(rsb_hub: &str, roundtrip: &str) -> Result<()> {
    link_device()?;
    hide_symbols()?;
    for name in [CLIENT, SERVER] {
        std::os::unix::fs::symlink(std::env::current_exe()?, name)?;
    }
    let _manager = Running::start(Command::new(rsb_hub).arg("--insecure-allow-all"))?;
    let _server = Running::start(Command::new(format!("./{SERVER}")).args(["observed", "serve"]))?;

    std::fs::create_dir_all(format!("{TRACING}/instances/perfetto"))?;
    std::fs::write("config.pbtx", config())?;
    let _service = Running::start(&mut packaged("./traced"))?;
    wait_for_file(CONSUMER)?;
    let _probes = Running::start(&mut packaged("./traced_probes"))?;
    std::thread::sleep(Duration::from_millis(500));
    let perfetto = packaged("./perfetto")
        .args(["--txt", "-c", "config.pbtx", "-o", "/out/perfetto.perfetto-trace"])
        .spawn()
        .context("start perfetto")?;
    let mut trace_cmd = packaged("./trace-cmd");
    trace_cmd.args(["record", "-C", "boot", "-b", "8192", "-o", "/out/trace.dat"]);
    for event in EVENTS {
        trace_cmd.args(["-e", &event.replace('/', ":")]);
    }
    let trace_cmd = trace_cmd.stdout(Stdio::null()).spawn().context("start trace-cmd")?;
    let instance = record_text()?;
    wait_for_recorder("")?;
    wait_for_recorder("/instances/perfetto")?;

    let status = Command::new(roundtrip)
        .args(["ipc", "observe", "--deadline", "2ms", "--explain-limit", "200", "--out", "/out/run", "--"])
        .args([&format!("./{CLIENT}"), "observed", "call", "own.json", "few"])
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "roundtrip ipc observe {status}");

    std::fs::write(format!("{instance}/tracing_on"), "0")?;
    stop(trace_cmd, "trace-cmd")?;
    stop(perfetto, "perfetto")?;
    // Copied by reading: the kernel generates the text on each read.
    std::fs::write("/out/trace.txt", std::fs::read(format!("{instance}/trace"))?)?;
    println!("recorded with all recorders");
    Ok(())
}
