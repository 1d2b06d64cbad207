//! Checks of scheduling: quotas, preemption, real-time limits, timers.

use roundtrip_run::RealtimePermission;
use roundtrip_run::environment::Environment;

use super::{Check, Judged, Verdict};

pub(super) static LIMITS: &[Check] = &[
    Check {
        name: "cpu-quota",
        title: "CPU quota",
        why: "When the control group has used up its quota, the kernel pauses all its threads until the next \
              period. A period is usually 100 ms.",
        source: "Documentation/scheduler/sched-bwc.rst",
        judge: quota,
    },
    Check {
        name: "cpuset",
        title: "CPUs that may be used",
        why: "Threads that may not use some CPUs wait for the others even if a CPU is idle.",
        source: "cpuset(7), sched_setaffinity(2)",
        judge: cpuset,
    },
];

pub(super) static PREEMPTION: &[Check] = &[Check {
    name: "preemption",
    title: "preemption",
    why: "A woken thread waits until the kernel code on its CPU yields. Without preemption, this is at the \
          end of a system call or at an explicit scheduling point.",
    source: "Documentation/admin-guide/kernel-parameters.txt (preempt=), kernel/Kconfig.preempt",
    judge: preemption,
}];

pub(super) static REALTIME: &[Check] = &[
    Check {
        name: "rt-throttling",
        title: "real-time throttling",
        why: "When real-time threads have used up their share of a period, the kernel pauses them until it ends.",
        source: "Documentation/scheduler/sched-rt-group.rst",
        judge: throttling,
    },
    Check {
        name: "rt-group",
        title: "real-time share of the control group",
        why: "A control group without a real-time share refuses real-time threads, and one that has used up \
              its share pauses them.",
        source: "Documentation/scheduler/sched-rt-group.rst",
        judge: group,
    },
    Check {
        name: "fair-server",
        title: "fair server",
        why: "When real-time threads keep a CPU busy, ordinary threads get this share of each period: a real-time call \
              waits for them.",
        source: "kernel/sched/deadline.c, kernel/sched/debug.c (since Linux 6.12)",
        judge: fair_server,
    },
    Check {
        name: "realtime",
        title: "real-time policies",
        why: "Without them, callers and servers compete with all other threads.",
        source: "sched(7)",
        judge: permission,
    },
];

pub(super) static TIMERS: &[Check] = &[
    Check {
        name: "timer-slack",
        title: "timer slack",
        why: "The kernel may let a thread sleep this much longer than it asked for, to combine wakeups. \
              Android gives background processes 40 ms.",
        source: "PR_SET_TIMERSLACK(2const), Documentation/filesystems/proc.rst",
        judge: slack,
    },
    Check {
        name: "autogroup",
        title: "session groups",
        why: "Each session is a scheduling group: a thread competes with its session's threads first, and nice values \
              work only within it.",
        source: "sched(7), The autogroup feature",
        judge: autogroup,
    },
];

fn quota(environment: &Environment) -> Judged {
    let Some(quota) = environment.cgroups.cpu_quota_cpus else {
        return Ok(Verdict::good("none"));
    };
    let found = format!("{quota} CPUs");
    let advice = "Run outside the group, or lift its quota (the second command is for cgroup v1).";
    Ok(Verdict::lengthens(found, advice)
        .command("echo max > /sys/fs/cgroup/GROUP/cpu.max")
        .command("echo -1 > /sys/fs/cgroup/cpu/GROUP/cpu.cfs_quota_us"))
}

fn cpuset(environment: &Environment) -> Judged {
    let usable = environment.cpus.usable.len() as u32;
    let online = environment.cpus.online.ok_or("/sys/devices/system/cpu/online: not readable")?;
    if usable == 0 {
        return Err("the CPUs of this process are unknown".to_owned());
    }
    Ok(if usable < online {
        let found = format!("{usable} of {online}");
        Verdict::lengthens(found, "Run with all CPUs, or keep in mind that the figures apply to these CPUs.")
            .command(format!("taskset -c 0-{} COMMAND", online - 1))
    } else {
        Verdict::good(format!("all {online}"))
    })
}

fn preemption(environment: &Environment) -> Judged {
    let kernel = &environment.kernel;
    let mode = kernel
        .preemption
        .as_deref()
        .ok_or("not in the version, and neither debugfs, /proc/cmdline nor the configuration shows it")?;
    Ok(match mode {
        "rt" | "full" => Verdict::good(mode),
        "lazy" => Verdict::good("lazy: at once for real-time threads, at the next tick for others"),
        _ if kernel.preemption_dynamic => {
            let advice =
                "Choose full preemption, at run time or with preempt=full on the kernel's command line.";
            Verdict::lengthens(mode, advice).command("echo full > /sys/kernel/debug/sched/preempt")
        }
        _ => {
            let advice = "Build the kernel with CONFIG_PREEMPT, or with CONFIG_PREEMPT_DYNAMIC.";
            Verdict::lengthens(mode, advice).command("scripts/config -e PREEMPT")
        }
    })
}

/// Whether the kernel's version is at least `since`.
pub(super) fn is_since(environment: &Environment, since: (u32, u32)) -> Option<bool> {
    let mut numbers = environment.kernel.release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    Some((next()?, next()?) >= since)
}

fn throttling(environment: &Environment) -> Judged {
    let kernel = &environment.kernel;
    let (runtime, period) = kernel
        .sched_rt_runtime_us
        .zip(kernel.sched_rt_period_us)
        .ok_or("/proc/sys/kernel/sched_rt_runtime_us: not there, or not readable")?;
    if runtime < 0 || runtime >= period {
        return Ok(Verdict::good("off"));
    }
    let found = format!("{runtime} us of each {period} us");
    // Since Linux 6.12 the fair server replaces throttling, unless real-time group scheduling is
    // built in.
    if is_since(environment, (6, 12)) == Some(true)
        && environment.facts.flag("rt_group_scheduling") == Ok(false)
    {
        return Ok(Verdict::good(format!("{found}, which this kernel leaves to its fair server")));
    }
    let advice = "Turn it off while you measure real-time callers. A real-time thread that never sleeps then keeps its CPU.";
    Ok(Verdict::lengthens(found, advice).command("sysctl kernel.sched_rt_runtime_us=-1"))
}

fn group(environment: &Environment) -> Judged {
    match environment.cgroups.rt_runtime_us {
        None => match environment.facts.flag("rt_group_scheduling") {
            Ok(false) => Ok(Verdict::good("control groups have no separate share")),
            Ok(true) => Err("cpu.rt_runtime_us of the control group: not there".to_owned()),
            Err(reason) => Err(format!("no cpu.rt_runtime_us, and {reason}")),
        },
        Some(0) => Ok(Verdict::lengthens("0 us", "Give the group a share, or move to the root group.")
            .command("echo 500000 > /sys/fs/cgroup/cpu/GROUP/cpu.rt_runtime_us")),
        Some(runtime) => Ok(Verdict::good(format!("{runtime} us of each period"))),
    }
}

fn fair_server(environment: &Environment) -> Judged {
    if is_since(environment, (6, 12)) == Some(false) {
        return Ok(Verdict::good("none: this kernel is older than 6.12"));
    }
    let facts = &environment.facts;
    let (runtime, period) = (facts.whole("fair_server_runtime_ns")?, facts.whole("fair_server_period_ns")?);
    if runtime == 0 {
        return Ok(Verdict::good("off"));
    }
    let found = format!("{} ms of each {} ms", runtime as f64 / 1e6, period as f64 / 1e6);
    let advice = "Turn it off on each CPU while you measure real-time callers.";
    Ok(Verdict::lengthens(found, advice)
        .command("for cpu in /sys/kernel/debug/sched/fair_server/cpu*; do echo 0 > $cpu/runtime; done"))
}

fn permission(environment: &Environment) -> Judged {
    Ok(match &environment.realtime {
        RealtimePermission::Allowed { max_priority } => {
            Verdict::good(format!("SCHED_FIFO up to {max_priority}"))
        }
        RealtimePermission::Refused { reason } => {
            Verdict::lengthens("refused", format!("Roundtrip leaves out real-time callers: {reason}."))
        }
    })
}

/// A thread's default timer slack (kernel/fork.c, init_task).
const DEFAULT_SLACK_NS: i64 = 50_000;

fn slack(environment: &Environment) -> Judged {
    let slack = environment.facts.whole("timer_slack_ns")?;
    let found = format!("{} us", slack as f64 / 1e3);
    Ok(if slack > DEFAULT_SLACK_NS {
        let advice = "Start the program from a foreground shell. A process inherits the timer slack of its \
                      parent.";
        Verdict::lengthens(found, advice)
            .command(format!("echo {DEFAULT_SLACK_NS} > /proc/PID/timerslack_ns"))
    } else {
        Verdict::good(found)
    })
}

fn autogroup(environment: &Environment) -> Judged {
    Ok(match environment.kernel.autogroup {
        None => Verdict::good("not in this kernel"),
        Some(false) => Verdict::good("off"),
        Some(true) => Verdict::lengthens("on", "Turn them off, so that nice values mean what they say.")
            .command("sysctl kernel.sched_autogroup_enabled=0"),
    })
}
