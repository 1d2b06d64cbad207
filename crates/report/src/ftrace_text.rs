//! A recording as text in the format of the kernel's `trace` file. Perfetto and older tools read
//! this format. The option `record-tgid` is on. Of what `irq-info` shows, a recording contains only
//! whether a wakeup came from an interrupt, so only wakeups have that column. Times are rounded to
//! microseconds, as in the kernel. Unknown values are omitted. A pure function of plain data.
//! Sources: the kernel's `trace.c`, `trace_output.c`, and the `TP_printk` of each event.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use roundtrip_sorting::SmallSort as _;
use roundtrip_tracefs::{Body, Event, EventContext, Name, ThreadRef, Trace, Value};

use crate::text::inert;

/// `cpu_idle`'s state when a CPU leaves idle: -1 as `u32`.
const NOT_IDLE: u32 = u32::MAX;

/// Writes the text.
///
/// # Errors
/// The errors of `out`.
pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(
        b"# tracer: nop\n#\n\
          #           TASK-PID       TGID    CPU#     TIMESTAMP  FUNCTION\n\
          #              | |           |       |         |         |\n",
    )?;
    let threads = trace.threads();
    // In reverse order, so that used ones can be popped.
    let mut losses: Vec<_> = trace.losses.iter().filter(|loss| loss.after_ns > 0).collect();
    losses.small_sort_by_key(|loss| std::cmp::Reverse(loss.before_ns));
    let mut line = String::new();
    for event in trace.all() {
        let event = &event;
        while let Some(loss) = losses.pop_if(|loss| loss.before_ns <= event.time_ns) {
            lost(out, loss)?;
        }
        let name = match event.tid {
            0 => "<idle>",
            tid => match threads.name(tid) {
                "" => "<...>",
                name => name,
            },
        };
        let process = match trace.processes.get(&event.tid) {
            Some(pid) => format!("({pid:>7})"),
            None => "(-------)".to_owned(),
        };
        let time_us = (event.time_ns + 500) / 1000;
        let (s, us) = (time_us / 1_000_000, time_us % 1_000_000);
        let (said, flags) = (EventLine { trace, event }, flags(event));
        line.clear();
        let _ = write!(
            line,
            "{name:>16}-{:<7} {process} [{:03}] {flags} {s:>5}.{us:06}: {said}",
            event.tid, event.cpu
        );
        writeln!(out, "{}", inert::line(&line))?;
    }
    losses.iter().rev().try_for_each(|loss| lost(out, loss))
}

/// The column with the context of a wakeup, if the recording contains it. `X` stands for interrupts
/// of which is not known whether they were off.
fn flags(event: &Event) -> &'static str {
    let (Body::Waking { context, .. } | Body::Wakeup { context, .. }) = event.body else { return "" };
    match context {
        EventContext::Unknown => "",
        EventContext::Thread => "X....",
        EventContext::Softirq => "X.s..",
        EventContext::Interrupt => "X.h..",
    }
}

fn lost(out: &mut dyn Write, loss: &roundtrip_tracefs::Loss) -> io::Result<()> {
    match loss.events {
        Some(events) => writeln!(out, "CPU:{} [LOST {events} EVENTS]", loss.cpu),
        None => writeln!(out, "CPU:{} [LOST EVENTS]", loss.cpu),
    }
}

/// What follows the time in a line: the event's name and fields.
struct EventLine<'a> {
    trace: &'a Trace,
    event: &'a Event,
}

impl fmt::Display for EventLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.scheduling(f).or_else(|| self.interrupt(f)).or_else(|| self.other(f));
        // A kind of event that is newer than this file must not be omitted silently.
        said.unwrap_or_else(|| write!(f, "unknown_to_roundtrip: {:?}", self.event.body))
    }
}

impl EventLine<'_> {
    /// Events of the scheduler, and of the start and end of threads.
    fn scheduling(&self, f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
        let text = |name: Name| self.trace.names.text(name);
        let thread = |thread: ThreadRef| {
            let ThreadRef { tid, prio, comm } = thread;
            format!("comm={} pid={tid} prio={prio}", text(comm))
        };
        Some(match self.event.body {
            Body::Switch { prev, prev_state, next } => write!(
                f,
                "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={} ==> next_comm={} next_pid={} \
                 next_prio={}",
                comm(text(prev.comm), prev.tid),
                prev.tid,
                prev.prio,
                prev_state.letter(),
                comm(text(next.comm), next.tid),
                next.tid,
                next.prio
            ),
            Body::Waking { thread: woken, target_cpu, .. } => {
                write!(f, "sched_waking: {} target_cpu={target_cpu:03}", thread(woken))
            }
            Body::Wakeup { thread: woken, target_cpu, new, .. } => {
                let event = if new { "sched_wakeup_new" } else { "sched_wakeup" };
                write!(f, "{event}: {} target_cpu={target_cpu:03}", thread(woken))
            }
            Body::Migrate { thread: moved, from_cpu, to_cpu } => {
                write!(f, "sched_migrate_task: {} orig_cpu={from_cpu} dest_cpu={to_cpu}", thread(moved))
            }
            Body::PiSetprio { tid, old_prio, new_prio } => {
                write!(f, "sched_pi_setprio: pid={tid} oldprio={old_prio} newprio={new_prio}")
            }
            Body::StatRuntime { tid, runtime_ns } => {
                write!(f, "sched_stat_runtime: pid={tid} runtime={runtime_ns} [ns]")
            }
            Body::BlockedReason { tid, io_wait, caller } => {
                let io_wait = u32::from(io_wait);
                write!(f, "sched_blocked_reason: pid={tid} iowait={io_wait} caller={}", text(caller))
            }
            Body::Fork { child, comm } => write!(
                f,
                "sched_process_fork: pid={} child_comm={} child_pid={child}",
                self.event.tid,
                text(comm)
            ),
            Body::Exit => write!(f, "sched_process_exit: pid={}", self.event.tid),
            Body::Rename { tid, comm } => write!(f, "task_rename: pid={tid} newcomm={}", text(comm)),
            _ => return None,
        })
    }

    /// Interrupts and softirqs.
    fn interrupt(&self, f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
        let text = |name: Name| self.trace.names.text(name);
        Some(match self.event.body {
            Body::IrqEntry { irq, name } => write!(f, "irq_handler_entry: irq={irq} name={}", text(name)),
            Body::IrqExit { irq, handled } => {
                write!(f, "irq_handler_exit: irq={irq} ret={}", if handled { "handled" } else { "unhandled" })
            }
            Body::SoftirqRaise { vector } => softirq(f, "raise", vector),
            Body::SoftirqEntry { vector } => softirq(f, "entry", vector),
            Body::SoftirqExit { vector } => softirq(f, "exit", vector),
            Body::VectorEntry { kind } => write!(f, "{}_entry:", text(kind)),
            Body::VectorExit { kind } => write!(f, "{}_exit:", text(kind)),
            Body::IpiRaise { target_cpu: Some(cpu), reason } => {
                write!(f, "ipi_raise: target_cpu={cpu} ({})", text(reason))
            }
            Body::IpiRaise { target_cpu: None, reason } => write!(f, "ipi_raise: ({})", text(reason)),
            Body::IpiEntry { reason } => write!(f, "ipi_entry: ({})", text(reason)),
            Body::IpiExit { reason } => write!(f, "ipi_exit: ({})", text(reason)),
            _ => return None,
        })
    }

    /// All other decoded events.
    fn other(&self, f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
        let text = |name: Name| self.trace.names.text(name);
        Some(match self.event.body {
            Body::Idle { cpu, state } => {
                write!(f, "cpu_idle: state={} cpu_id={cpu}", state.unwrap_or(NOT_IDLE))
            }
            Body::Frequency { cpu, khz } => write!(f, "cpu_frequency: state={khz} cpu_id={cpu}"),
            Body::SysEnter { number, first, .. } => write!(f, "sys_enter: NR {number} ({first:x})"),
            Body::SysExit { number, result } => write!(f, "sys_exit: NR {number} = {result}"),
            Body::ContentionBegin { lock, flags } => {
                write!(f, "contention_begin: {lock:#x} (flags={flags:#x})")
            }
            Body::ContentionEnd { lock } => write!(f, "contention_end: {lock:#x}"),
            Body::WorkStart { work, function } => {
                write!(f, "workqueue_execute_start: work struct {work:#x}: function {}", text(function))
            }
            Body::WorkEnd { work } => write!(f, "workqueue_execute_end: work struct {work:#x}"),
            Body::BinderTransaction { debug_id, target_node, to_proc, to_thread, reply, code, flags } => {
                write!(
                    f,
                    "binder_transaction: transaction={debug_id} dest_node={target_node} dest_proc={to_proc} dest_thread={to_thread} \
                 reply={} flags={flags:#x} code={code:#x}",
                    u32::from(reply)
                )
            }
            Body::BinderReceived { debug_id } => {
                write!(f, "binder_transaction_received: transaction={debug_id}")
            }
            Body::BinderWait { proc_work, transaction_stack, thread_todo } => write!(
                f,
                "binder_wait_for_work: proc_work={} transaction_stack={} thread_todo={}",
                u8::from(proc_work),
                u8::from(transaction_stack),
                u8::from(thread_todo)
            ),
            Body::BinderReturn { command } => write!(f, "binder_return: cmd={command:#x}"),
            Body::BinderSetPriority { tid, old_prio, new_prio } => {
                write!(f, "binder_set_priority: thread={tid} old={old_prio} => new={new_prio}")
            }
            Body::Print { text: written } => write!(f, "tracing_mark_write: {}", text(written)),
            Body::Other { event, .. } => self.fields(f, text(event)),
            _ => return None,
        })
    }

    /// An event without a decoded form: all fields in its format, by name.
    fn fields(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        write!(f, "{}:", name.split_once('/').map_or(name, |(_, name)| name))?;
        let Some((format, _)) = self.trace.record(self.event) else { return Ok(()) };
        for field in format.fields.iter().filter(|field| !field.name.starts_with("common_")) {
            match self.trace.field(self.event, &field.name) {
                Some(Value::Signed(value)) => write!(f, " {}={value}", field.name)?,
                Some(Value::Unsigned(value)) if i64::try_from(value).is_ok() => {
                    write!(f, " {}={value}", field.name)?;
                }
                // A kernel address.
                Some(Value::Unsigned(value)) => write!(f, " {}={value:#x}", field.name)?,
                Some(Value::Text(value)) => write!(f, " {}={value}", field.name)?,
                Some(Value::Bytes(bytes)) => {
                    write!(f, " {}=", field.name)?;
                    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// The kernel names idle threads "swapper/N".
fn comm(name: &str, tid: u32) -> &str {
    if tid == 0 && name.is_empty() { "swapper" } else { name }
}

fn softirq(f: &mut fmt::Formatter<'_>, what: &str, vector: u32) -> fmt::Result {
    const ACTIONS: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let action = ACTIONS.get(vector as usize).copied().unwrap_or("?");
    write!(f, "softirq_{what}: vec={vector} [action={action}]")
}

/// The recordings of several kernels, which also test the parser.
#[cfg(test)]
#[path = "../../tracefs/tests/common/fixture.rs"]
#[allow(dead_code)] // Other users of this file need the rest of it.
pub mod fixtures;

#[cfg(test)]
mod tests {
    use super::fixtures::Fixture;
    use super::*;

    /// A line without its flags for interrupts and preemption: thread, CPU, time, and the event's
    /// text.
    fn parts(line: &str) -> Option<(&str, &str, &str, &str)> {
        let (thread, rest) = line.split_once(" [")?;
        let thread = thread.split_once(" (").map_or(thread, |(thread, _)| thread).trim();
        let (cpu, rest) = rest.split_once("] ")?;
        let (before, said) = rest.split_once(": ")?;
        Some((thread, cpu, before.rsplit(' ').next()?, said))
    }

    /// Events whose recording contains everything that the kernel prints.
    const WHOLE: [&str; 13] = [
        "sched_switch",
        "sched_waking",
        "sched_wakeup",
        "sched_wakeup_new",
        "sched_migrate_task",
        "irq_handler_entry",
        "irq_handler_exit",
        "softirq_raise",
        "softirq_entry",
        "softirq_exit",
        "cpu_idle",
        "tracing_mark_write",
        "ipi_entry",
    ];

    #[test]
    fn the_text_equals_that_of_the_kernel() {
        let mut with_flags = 0;
        for fixture in Fixture::all() {
            let trace = fixture.trace();
            let mut bytes = Vec::new();
            write(&trace, &mut bytes).unwrap();
            let ours = String::from_utf8(bytes).unwrap();
            let ours: Vec<_> = ours.lines().filter(|line| !line.starts_with('#')).collect();
            let kernels: Vec<_> = fixture.text.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(ours.len(), kernels.len(), "{}", fixture.name);
            let mut compared = 0;
            for (ours, kernels) in ours.iter().zip(&kernels) {
                let (Some(our), Some(kernel)) = (parts(ours), parts(kernels)) else {
                    panic!("no line of an event: '{ours}' or '{kernels}'")
                };
                assert_eq!((our.1, our.2), (kernel.1, kernel.2), "'{ours}' is not '{kernels}'");
                let event = kernel.3.split_once(':').map_or(kernel.3, |(event, _)| event);
                // The kernel's flags are not all known, but those that are written are the same.
                let flags = |line: &str| {
                    let column = line.split_once("] ")?.1.split(' ').next()?;
                    // A real-time kernel has one column more before that of the context.
                    let context = column.get(2..4)?.chars().find(|flag| "hHs".contains(*flag));
                    (4..=7).contains(&column.len()).then(|| context.unwrap_or('.').to_ascii_lowercase())
                };
                match (flags(ours), flags(kernels)) {
                    (Some(ours), Some(kernels)) => {
                        assert_eq!(ours, kernels, "{event}");
                        with_flags += 1;
                    }
                    (Some(_), None) => panic!("the kernel has no flags: '{kernels}'"),
                    (None, _) => {}
                }
                if WHOLE.contains(&event) {
                    assert_eq!(our.3, kernel.3, "{}", fixture.name);
                    compared += 1;
                }
            }
            assert!(compared > 100, "{}: only {compared} lines could be compared", fixture.name);
        }
        assert!(with_flags > 100, "only {with_flags} lines have flags");
    }
}
