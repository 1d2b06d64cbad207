//! Records the same buffers as pages and as the kernel's own text, to compare the two. Used by the
//! tests on the running kernel and by the example that makes fixtures. Knows nothing of the reader.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Events that the reader decodes, and a few that it does not.
pub(crate) const EVENTS: &[&str] = &[
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "sched/sched_pi_setprio",
    "sched/sched_stat_runtime",
    "sched/sched_blocked_reason",
    "sched/sched_process_fork",
    "sched/sched_process_exit",
    "task/task_rename",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_raise",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
    "irq_vectors/reschedule_entry",
    "irq_vectors/reschedule_exit",
    "irq_vectors/call_function_single_entry",
    "irq_vectors/call_function_single_exit",
    "ipi/ipi_raise",
    "ipi/ipi_entry",
    "ipi/ipi_exit",
    "ipi/ipi_send_cpu",
    "ipi/ipi_send_cpumask",
    "power/cpu_idle",
    "power/cpu_frequency",
    "raw_syscalls/sys_enter",
    "raw_syscalls/sys_exit",
    "syscalls/sys_enter_fsync",
    "syscalls/sys_exit_fsync",
    "lock/contention_begin",
    "lock/contention_end",
    "workqueue/workqueue_execute_start",
    "workqueue/workqueue_execute_end",
    "binder/binder_transaction",
    "binder/binder_transaction_received",
    "binder/binder_set_priority",
    "rust_binder/binder_transaction",
    "rust_binder/binder_transaction_received",
    "block/block_rq_issue",
    "block/block_rq_complete",
    "signal/signal_generate",
    "timer/hrtimer_expire_entry",
];

/// A private tracing instance; removed when dropped.
pub(crate) struct Instance {
    root: PathBuf,
    path: PathBuf,
    pub(crate) events: Vec<String>,
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("tracing_on"), "0");
        let _ = fs::remove_dir(&self.path);
    }
}

impl Instance {
    /// Creates an instance in the tracefs at `root`, and enables those of `events` that the kernel
    /// has.
    pub(crate) fn new(root: &Path, kilobytes: u32, events: &[&str]) -> io::Result<Self> {
        let path = root.join("instances").join(
            format!("capture-{}-{:?}", std::process::id(), std::thread::current().id())
                .replace(['(', ')'], ""),
        );
        fs::create_dir(&path)?;
        let mut instance = Self { root: root.to_owned(), path, events: Vec::new() };
        instance.set("tracing_on", "0")?;
        instance.set("trace_clock", "boot")?;
        instance.set("buffer_size_kb", &kilobytes.to_string())?;
        for event in events {
            let folder = instance.path.join("events").join(event);
            if !folder.exists() {
                continue;
            }
            if event.starts_with("raw_syscalls/") {
                // Without the filter, these events outnumber the others. On some kernels, the
                // filter also makes the pages contain discarded events.
                fs::write(folder.join("filter"), "comm ~ \"work*\"")?;
            }
            fs::write(folder.join("enable"), "1")?;
            instance.events.push((*event).to_owned());
        }
        Ok(instance)
    }

    pub(crate) fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.path.join(file), value)
    }

    pub(crate) fn read(&self, file: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.path.join(file))?).into_owned())
    }

    pub(crate) fn mark(&self, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path.join("trace_marker"))?.write_all(text.as_bytes())
    }

    pub(crate) fn cpus(&self) -> io::Result<Vec<u32>> {
        let mut cpus = Vec::new();
        for entry in fs::read_dir(self.path.join("per_cpu"))? {
            cpus.extend(
                entry?
                    .file_name()
                    .to_string_lossy()
                    .strip_prefix("cpu")
                    .and_then(|cpu| cpu.parse::<u32>().ok()),
            );
        }
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Opens a CPU's raw pages for non-blocking reads.
    pub(crate) fn pipe(&self, cpu: u32) -> io::Result<File> {
        const O_NONBLOCK: i32 = 0o4000;
        OpenOptions::new()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(self.path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")))
    }

    /// A counter in `per_cpu/cpuN/stats`.
    pub(crate) fn stat(&self, cpu: u32, name: &str) -> io::Result<u64> {
        let stats = self.read(&format!("per_cpu/cpu{cpu}/stats"))?;
        let value = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        Ok(value.and_then(|value| value.trim().parse().ok()).unwrap_or(0))
    }

    /// The format and header files, as (path relative to tracefs, text).
    pub(crate) fn formats(&self) -> io::Result<Vec<(String, String)>> {
        let mut files = vec![
            "events/header_page".to_owned(),
            "events/header_event".to_owned(),
            "printk_formats".to_owned(),
        ];
        files.extend(self.events.iter().map(|event| format!("events/{event}/format")));
        files.push("events/ftrace/print/format".to_owned());
        // An instance has no printk_formats and no ftrace events.
        let read =
            |file: &str| read_at_once(&self.path.join(file)).or_else(|_| read_at_once(&self.root.join(file)));
        files.into_iter().map(|file| read(&file).map(|text| (file, text))).collect()
    }
}

/// Reads a tracing file. `header_event` returns nothing to a second read, and the standard library
/// starts with a read of 32 bytes.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut buffer, mut text) = (vec![0; 1 << 16], Vec::new());
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            length => text.extend_from_slice(&buffer[..length]),
        }
    }
}

/// Reads the available pages, up to `pages`.
pub(crate) fn drain(pipe: &mut File, page: usize, pages: usize, into: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = vec![0; page];
    for _ in 0..pages {
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => into.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Causes events: threads that wake each other, sleep, and write to a file, or a command.
pub(crate) fn work(instance: &Instance, command: &[String], duration: Duration) -> io::Result<()> {
    if let [program, arguments @ ..] = command {
        Command::new(program).args(arguments).status()?;
        return instance.mark("the command has ended\n");
    }
    let until = Instant::now() + duration;
    let (ping, pong) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let echo = named("work-echo")
        .spawn(move || while ping.1.recv().is_ok_and(|n: u32| pong.0.send(n).is_ok()) {})?;
    let writer = named("work-writer").spawn(move || {
        let path = std::env::temp_dir().join(format!("capture-{}", std::process::id()));
        while Instant::now() < until {
            let _ = File::create(&path)
                .and_then(|mut file| file.write_all(&[7; 8192]).and_then(|()| file.sync_all()));
            std::thread::sleep(Duration::from_millis(3));
        }
        let _ = fs::remove_file(path);
    })?;
    let mut turn = 0;
    while Instant::now() < until {
        for _ in 0..3 {
            let _ = ping.0.send(turn);
            let _ = pong.1.recv();
        }
        instance.mark(&format!("turn {turn}\n"))?;
        turn += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(ping.0);
    echo.join().expect("the echo has no reason to panic");
    writer.join().expect("the writer has no reason to panic");
    Ok(())
}
