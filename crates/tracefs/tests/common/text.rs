//! Compares each line of the kernel's own text of a buffer with the events that the reader
//! returned. Knows neither recording nor files.

use roundtrip_tracefs::{Body, Event, TaskState, ThreadRef, Trace, Value};

/// Compares a whole `trace` file with the events that were read from the same buffers. Panics at
/// the first difference. Returns how many events were compared with all fields.
pub(crate) fn compare(trace: &Trace, text: &str) -> usize {
    let lines: Vec<Line<'_>> = text.lines().filter_map(Line::parse).collect();
    let mut events = trace.events.iter();
    let mut fields = 0;
    for line in &lines {
        let event = events.next().unwrap_or_else(|| panic!("the events end before `{}`", line.whole));
        // The kernel rounds to microseconds.
        let time_us = (event.time_ns + 500) / 1000;
        assert_eq!(
            (event.cpu, event.tid, time_us),
            (line.cpu, line.tid, line.time_us),
            "{event:?} at `{}`",
            line.whole
        );
        fields += usize::from(agrees(trace, event, line));
    }
    assert_eq!(events.next(), None, "the text has only {} lines", lines.len());
    fields
}

struct Line<'a> {
    whole: &'a str,
    tid: u32,
    cpu: u32,
    time_us: u64,
    event: &'a str,
    says: &'a str,
}

impl<'a> Line<'a> {
    /// `COMM-TID [CPU] FLAGS SECONDS.MICROSECONDS: EVENT: FIELDS`; `None` for the heading.
    fn parse(whole: &'a str) -> Option<Self> {
        if whole.starts_with('#') || whole.starts_with("CPU:") || whole.is_empty() {
            return None;
        }
        // A name may contain anything, so the line is split around the CPU.
        let at = (0..whole.len()).find(|&at| {
            let rest = whole.as_bytes().get(at..at + 6).unwrap_or_default();
            rest.starts_with(b" [") && rest.ends_with(b"]") | rest[2..].iter().all(u8::is_ascii_digit)
        })?;
        let (task, rest) = whole.split_at(at);
        let tid = task.trim_end().rsplit('-').next()?.parse().ok()?;
        let (cpu, rest) = rest.strip_prefix(" [")?.split_once("] ")?;
        let (_flags, rest) = rest.split_once(' ')?;
        let (time, rest) = rest.trim_start().split_once(": ")?;
        let (seconds, microseconds) = time.split_once('.')?;
        let time_us = seconds.parse::<u64>().ok()? * 1_000_000 + microseconds.parse::<u64>().ok()?;
        // `sys_fsync -> 0x0` has no colon.
        let (event, says) = rest.split_once(": ").unwrap_or((rest.trim_end_matches(':'), ""));
        Some(Self { whole, tid, cpu: cpu.parse().ok()?, time_us, event, says })
    }
}

/// Whether the line was compared with all fields; panics if it differs.
fn agrees(trace: &Trace, event: &Event, line: &Line<'_>) -> bool {
    let expected = scheduling(trace, event)
        .or_else(|| interrupts(trace, event))
        .or_else(|| of_the_kernel(trace, event, line))
        .or_else(|| between_processors(trace, event, line));
    let Some((called, says)) = expected else { return agrees_otherwise(trace, event, line) };
    assert_eq!(line.event, called, "{event:?} at `{}`", line.whole);
    match says.strip_prefix('…') {
        Some(part) => assert!(line.says.contains(part), "`{part}` is not in `{}`", line.whole),
        None => assert!(line.says.starts_with(&says), "`{}` does not begin with `{says}`", line.whole),
    }
    true
}

// Each function returns the event's name in the line, and the text that the fields must start with
// or, after `…`, must contain.

/// Events of the scheduler and of the creation and end of threads.
fn scheduling(trace: &Trace, event: &Event) -> Option<(&'static str, String)> {
    let name = |name| trace.names.text(name);
    let thread =
        |thread: &ThreadRef| format!("comm={} pid={} prio={}", name(thread.comm), thread.tid, thread.prio);
    let prefixed = |prefix: &str, thread: &ThreadRef| {
        format!(
            "{prefix}_comm={} {prefix}_pid={} {prefix}_prio={}",
            name(thread.comm),
            thread.tid,
            thread.prio
        )
    };
    Some(match &event.body {
        Body::Switch { prev, prev_state, next } => {
            let state = if *prev_state == TaskState::PREEMPTED { "R+" } else { prev_state.letter() };
            (
                "sched_switch",
                format!("{} prev_state={state} ==> {}", prefixed("prev", prev), prefixed("next", next)),
            )
        }
        Body::Waking { thread: woken, target_cpu, .. } => {
            ("sched_waking", format!("{} target_cpu={target_cpu:03}", thread(woken)))
        }
        Body::Wakeup { thread: woken, target_cpu, new, .. } => {
            let called = if *new { "sched_wakeup_new" } else { "sched_wakeup" };
            (called, format!("{} target_cpu={target_cpu:03}", thread(woken)))
        }
        Body::Migrate { thread: moved, from_cpu, to_cpu } => {
            ("sched_migrate_task", format!("{} orig_cpu={from_cpu} dest_cpu={to_cpu}", thread(moved)))
        }
        Body::PiSetprio { tid, old_prio, new_prio } => {
            ("sched_pi_setprio", format!("…pid={tid} oldprio={old_prio} newprio={new_prio}"))
        }
        Body::StatRuntime { tid, runtime_ns } => {
            ("sched_stat_runtime", format!("…pid={tid} runtime={runtime_ns} [ns]"))
        }
        Body::Fork { child, comm } => {
            ("sched_process_fork", format!("…child_comm={} child_pid={child}", name(*comm)))
        }
        Body::Exit => ("sched_process_exit", format!("…pid={}", event.tid)),
        Body::Rename { comm, .. } => ("task_rename", format!("…newcomm={}", name(*comm))),
        _ => return None,
    })
}

/// Interrupts and softirqs.
fn interrupts(trace: &Trace, event: &Event) -> Option<(&'static str, String)> {
    let name = |name| trace.names.text(name);
    const SOFTIRQS: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let softirq = |vector: &u32| format!("vec={vector} [action={}]", SOFTIRQS[*vector as usize]);
    Some(match &event.body {
        Body::IrqEntry { irq, name: handler } => {
            ("irq_handler_entry", format!("irq={irq} name={}", name(*handler)))
        }
        Body::IrqExit { irq, handled } => {
            let ret = if *handled { "handled" } else { "unhandled" };
            ("irq_handler_exit", format!("irq={irq} ret={ret}"))
        }
        Body::SoftirqRaise { vector } => ("softirq_raise", softirq(vector)),
        Body::SoftirqEntry { vector } => ("softirq_entry", softirq(vector)),
        Body::SoftirqExit { vector } => ("softirq_exit", softirq(vector)),
        Body::IpiEntry { reason } => ("ipi_entry", format!("({})", name(*reason))),
        Body::IpiExit { reason } => ("ipi_exit", format!("({})", name(*reason))),
        _ => return None,
    })
}

/// Events of CPUs and of kernel code.
fn of_the_kernel(trace: &Trace, event: &Event, line: &Line<'_>) -> Option<(&'static str, String)> {
    let name = |name| trace.names.text(name);
    Some(match &event.body {
        Body::Idle { cpu, state } => {
            ("cpu_idle", format!("state={} cpu_id={cpu}", state.unwrap_or(u32::MAX)))
        }
        Body::Frequency { cpu, khz } => ("cpu_frequency", format!("state={khz} cpu_id={cpu}")),
        // The kernel writes `sys_enter: NR 202 (…)` for the common events, and `sys_fsync(fd: 3)`
        // and `sys_fsync -> 0x0` for single calls.
        Body::SysEnter { number, first, .. } if line.event == "sys_enter" => {
            ("sys_enter", format!("NR {number} ({first:x}, "))
        }
        Body::SysExit { number, result } if line.event == "sys_exit" => {
            ("sys_exit", format!("NR {number} = {result}"))
        }
        // A lock's address is printed as a hash.
        Body::ContentionBegin { .. } => ("contention_begin", String::new()),
        Body::ContentionEnd { .. } => ("contention_end", String::new()),
        // The work's address is printed as a hash.
        Body::WorkStart { function, .. } => {
            ("workqueue_execute_start", format!("…function {}", name(*function)))
        }
        Body::WorkEnd { .. } => ("workqueue_execute_end", String::new()),
        Body::BinderTransaction { debug_id, target_node, to_proc, to_thread, reply, code, flags } => (
            "binder_transaction",
            format!(
                "transaction={debug_id} dest_node={target_node} dest_proc={to_proc} dest_thread={to_thread} reply={} \
                 flags={flags:#x} code={code:#x}",
                u8::from(*reply)
            ),
        ),
        Body::BinderReceived { debug_id } => {
            ("binder_transaction_received", format!("transaction={debug_id}"))
        }
        Body::BinderWait { proc_work, transaction_stack, thread_todo } => (
            "binder_wait_for_work",
            format!(
                "proc_work={} transaction_stack={} thread_todo={}",
                u8::from(*proc_work),
                u8::from(*transaction_stack),
                u8::from(*thread_todo)
            ),
        ),
        _ => return None,
    })
}

/// An inter-processor interrupt that was raised, by this kernel's name for it.
fn between_processors<'a>(trace: &Trace, event: &Event, line: &Line<'a>) -> Option<(&'a str, String)> {
    let name = |name| trace.names.text(name);
    Some(match &event.body {
        Body::IpiRaise { target_cpu, reason } if line.event == "ipi_raise" => {
            // `target_mask=00000000,00000002 (…)`
            let mask = line.says.split(['=', ' ']).nth(1).unwrap_or_default().replace(',', "");
            let mask = u128::from_str_radix(&mask, 16).expect("a mask");
            assert_eq!(
                *target_cpu,
                (mask.count_ones() == 1).then(|| mask.trailing_zeros()),
                "{}",
                line.whole
            );
            ("ipi_raise", format!("…({})", name(*reason)))
        }
        Body::IpiRaise { target_cpu, reason } => {
            if let (Some(cpu), "ipi_send_cpu") = (target_cpu, line.event) {
                assert!(line.says.starts_with(&format!("cpu={cpu} ")), "{}", line.whole);
            }
            (line.event, format!("…{}", name(*reason)))
        }
        _ => return None,
    })
}

/// Events whose lines have a different form; panics if the line differs.
fn agrees_otherwise(trace: &Trace, event: &Event, line: &Line<'_>) -> bool {
    let name = |name| trace.names.text(name);
    match &event.body {
        Body::VectorEntry { kind } => {
            assert_eq!(line.event, format!("{}_entry", name(*kind)), "{}", line.whole);
        }
        Body::VectorExit { kind } => {
            assert_eq!(line.event, format!("{}_exit", name(*kind)), "{}", line.whole);
        }
        Body::SysEnter { first, .. } => {
            // `fd: 3`, with `0x` on older kernels.
            let argument = line.whole.split("(fd: ").nth(1).map(|rest| rest.trim_end_matches(')'));
            let argument = argument.map(|hex| u64::from_str_radix(hex.trim_start_matches("0x"), 16));
            assert_eq!(argument, Some(Ok(*first)), "{}", line.whole);
        }
        Body::SysExit { result, .. } => {
            assert!(line.whole.ends_with(&format!(" -> {result:#x}")), "{}", line.whole);
        }
        Body::Print { text } => {
            assert_eq!(line.event, "tracing_mark_write", "{}", line.whole);
            assert_eq!(line.says, name(*text), "{}", line.whole);
        }
        Body::Other { event: other, .. } => {
            let called = name(*other).split('/').nth(1).unwrap_or_default();
            assert_eq!(line.event, called, "{}", line.whole);
            return other_agrees(trace, event, line);
        }
        other => panic!("{other:?} has no text to compare with: `{}`", line.whole),
    }
    true
}

/// Events without a decoded form, by field name.
fn other_agrees(trace: &Trace, event: &Event, line: &Line<'_>) -> bool {
    let number = |field| trace.field(event, field).and_then(|value| value.number());
    let text = |field| trace.field(event, field).and_then(|value| value.text().map(str::to_owned));
    match line.event {
        "block_rq_issue" | "block_rq_complete" => {
            let device = number("dev").expect("a block event has a device");
            // 254,0 WS 4096 () 340145128 + 16 be,0,4 [work-writer]
            let expected =
                format!("{},{} {} ", device >> 20, device & 0xf_ffff, text("rwbs").unwrap_or_default());
            assert!(line.says.starts_with(&expected), "`{expected}` at `{}`", line.whole);
            let place = format!(" {} + {}", number("sector").unwrap(), number("nr_sector").unwrap());
            assert!(line.says.contains(&place), "`{place}` is not in `{}`", line.whole);
            true
        }
        "signal_generate" => {
            let expected = format!(
                "sig={} errno={} code={}",
                number("sig").unwrap(),
                number("errno").unwrap(),
                number("code").unwrap().cast_signed()
            );
            assert!(line.says.starts_with(&expected), "`{expected}` at `{}`", line.whole);
            assert_eq!(trace.field(event, "no_such_field"), None);
            assert!(matches!(trace.field(event, "errno"), Some(Value::Signed(_))));
            true
        }
        "hrtimer_expire_entry" => {
            let expected = format!("now={}", number("now").unwrap());
            assert!(line.says.contains(&expected), "`{expected}` is not in `{}`", line.whole);
            true
        }
        _ => false,
    }
}
