//! Checks of the rest of the machine: host, load, framework, memory, clock and disk.

use roundtrip_run::environment::Environment;

use super::{Check, Judged, Verdict};

pub(super) static DISTURBANCE: &[Check] = &[
    Check {
        name: "steal",
        title: "time stolen by a hypervisor",
        why: "The host runs something else on this machine's CPU. A call then stands still, and nothing \
              inside this machine shows when.",
        source: "proc_stat(5), Documentation/virt/kvm/x86/msr.rst",
        judge: steal,
    },
    Check {
        name: "left-behind",
        title: "leftovers of killed runs",
        why: "A trace instance that still records lengthens the system calls of every program by 10% to 60%. A changed \
              setting or a limit changes what is measured.",
        source: "Documentation/trace/ftrace.rst (instances)",
        judge: left_behind,
    },
    Check {
        name: "load",
        title: "other load",
        why: "Threads of other processes run on the CPUs that a call needs.",
        source: "proc_loadavg(5)",
        judge: load,
    },
    Check {
        name: "framework",
        title: "Android's framework",
        why: "Its services wake up at any time, on any CPU, and use the same driver.",
        source: "source.android.com, Performance testing",
        judge: framework,
    },
    Check {
        name: "framework-threads",
        title: "threads of Android's framework",
        why: "A real-time thread runs before every ordinary one, and before every real-time one of a lower priority. A \
              process serves at most as many calls at a time as it has binder threads.",
        source: "source.android.com, Performance testing, proc_pid_stat(5)",
        judge: framework_threads,
    },
    Check {
        name: "clock-source",
        title: "clock source",
        why: "Reading a clock that is a separate device takes a microsecond or more, in programs and in the \
              kernel.",
        source: "Documentation/virt/kvm/x86/timekeeping.rst",
        judge: clock,
    },
];

pub(super) static MEMORY: &[Check] = &[
    Check {
        name: "memory",
        title: "memory",
        why: "When little memory is left, an allocation during a call waits for reclaim.",
        source: "Documentation/admin-guide/sysctl/vm.rst (min_free_kbytes)",
        judge: memory,
    },
    Check {
        name: "transparent-hugepages",
        title: "transparent huge pages",
        why: "A page fault may stall while the kernel clears a page of 2 MiB or makes room for one.",
        source: "Documentation/admin-guide/mm/transhuge.rst",
        judge: hugepages,
    },
];

pub(super) static DISK: &[Check] = &[
    Check {
        name: "disk-scheduler",
        title: "the disk's scheduler",
        why: "A synchronous write waits in it for other requests, for fairness or ordering.",
        source: "Documentation/block/switching-sched.rst",
        judge: disk_scheduler,
    },
    Check {
        name: "disk-interrupts",
        title: "CPUs of the disk's interrupts",
        why: "Interrupts that all go to one CPU delay the threads on it, and whatever runs there delays the \
              interrupts.",
        source: "Documentation/core-api/irq/irq-affinity.rst",
        judge: disk_interrupts,
    },
];

/// The share of steal time from which about one round trip in a hundred is affected.
const STOLEN_SHARE: f64 = 0.01;

fn steal(environment: &Environment) -> Judged {
    let of_run = environment.cpu_shares.map(|shares| (shares.stolen, "during the run"));
    let (share, when) = match of_run {
        Some(share) => share,
        None => (environment.facts.number("stolen_since_boot")?, "since boot"),
    };
    let found = format!("{:.1}% of all CPU time {when}", share * 100.0);
    if share >= STOLEN_SHARE {
        let advice =
            "Measure on a host with fewer guests, or on hardware. Compare only figures of alternating runs.";
        return Ok(Verdict::lengthens(found, advice).command("roundtrip survey"));
    }
    // A guest also reads 0 if its host does not report steal time.
    if share == 0.0 && environment.cpus.virtualised != Some(false) {
        return Err(match environment.cpus.virtualised {
            Some(true) => "this machine is virtual, and its hypervisor does not report it".to_owned(),
            _ => "none is reported, and this machine does not show whether it is virtual".to_owned(),
        });
    }
    Ok(Verdict::good(found))
}

fn left_behind(environment: &Environment) -> Judged {
    let left = environment.facts.names("left_behind")?;
    Ok(if left.is_empty() {
        Verdict::good("none")
    } else {
        Verdict::lengthens(left.join(", "), "Remove and restore what killed runs left behind.")
            .command("roundtrip doctor --cleanup")
    })
}

fn load(environment: &Environment) -> Judged {
    let [last, ..] = environment.load_average.ok_or("/proc/loadavg: not readable")?;
    let found = format!("{last} runnable threads on average");
    Ok(if last >= 0.5 * environment.cpus.usable.len().max(1) as f64 {
        Verdict::lengthens(found, "Wait until the machine is quiet, or stop other programs.")
            .command("top -H")
    } else {
        Verdict::good(found)
    })
}

fn framework(environment: &Environment) -> Judged {
    Ok(if environment.facts.flag("android_framework")? {
        let advice = "Stop the framework while you measure the driver and the scheduler alone.";
        Verdict::lengthens("runs", advice).command("adb shell stop")
    } else {
        Verdict::good("stopped")
    })
}

fn framework_threads(environment: &Environment) -> Judged {
    let processes = environment.facts.names("android_framework_threads")?;
    if processes.is_empty() {
        return Ok(Verdict::good("none of its processes runs"));
    }
    let found = processes.join("; ");
    Ok(if processes.iter().all(|process| process.ends_with("real-time: none")) {
        Verdict::good(found)
    } else {
        let advice = "Stop the framework, or keep measured threads off the CPUs that these use.";
        Verdict::lengthens(found, advice).command("adb shell stop")
    })
}

fn clock(environment: &Environment) -> Judged {
    let source = environment.facts.text("clocksource")?;
    let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"].contains(&source);
    let found = format!("{source}, {:.0} ns for a reading", environment.clock_read_cost_ns);
    Ok(if slow {
        let advice = "Look in the kernel's log for the reason why it does not trust the CPU's own clock.";
        Verdict::lengthens(found, advice).command("dmesg | grep -i -e tsc -e clocksource")
    } else {
        Verdict::good(found)
    })
}

fn memory(environment: &Environment) -> Judged {
    let facts = &environment.facts;
    let (all, left) = (facts.number("memory_bytes")?, facts.number("memory_available_bytes")?);
    let mib = |bytes: f64| (bytes / f64::from(1 << 20)).round();
    let found = format!("{} of {} MiB available", mib(left), mib(all));
    Ok(if left < all * 0.1 {
        Verdict::lengthens(found, "End the programs that use the memory.")
            .command("ps -eo rss,comm --sort=-rss | head")
    } else {
        Verdict::good(found)
    })
}

fn hugepages(environment: &Environment) -> Judged {
    let (enabled, defrag) = (
        environment.facts.text("transparent_hugepages")?,
        environment.facts.text("transparent_hugepages_defrag")?,
    );
    let found = format!("{enabled}, defrag {defrag}");
    Ok(if enabled == "always" && ["always", "madvise"].contains(&defrag) {
        let advice = "Give them only to programs that ask for them.";
        Verdict::lengthens(found, advice)
            .command("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
    } else {
        Verdict::good(found)
    })
}

fn disk_scheduler(environment: &Environment) -> Judged {
    let facts = &environment.facts;
    let (mut found, mut slow) = (Vec::new(), Vec::new());
    for disk in facts.names("disk")? {
        let scheduler = facts.text(&format!("disk.{disk}.scheduler"))?;
        found.push(format!("{disk}: {scheduler}"));
        if scheduler != "none" {
            slow.push(disk);
        }
    }
    if slow.is_empty() {
        return Ok(Verdict::good(found.join(", ")));
    }
    let advice = "Compare with 'none'. It is the fastest for one writer on flash, but lets a greedy writer \
                  delay the others.";
    let verdict = Verdict::lengthens(found.join(", "), advice);
    Ok(slow.iter().fold(verdict, |verdict, disk| {
        verdict.command(format!("echo none > /sys/block/{disk}/queue/scheduler"))
    }))
}

fn disk_interrupts(environment: &Environment) -> Judged {
    let facts = &environment.facts;
    let (mut found, mut numbers) = (Vec::new(), Vec::new());
    let mut alone = false;
    for disk in facts.names("disk")? {
        // Runs of older versions lack the numbers.
        let of_disk = facts.names(&format!("disk.{disk}.interrupts"));
        numbers.extend(of_disk.into_iter().flatten());
        let cpus = facts.names(&format!("disk.{disk}.interrupt_cpus"))?;
        found.push(format!("{disk}: CPU {}", cpus.join(", ")));
        alone |= matches!(cpus, [one] if one.parse::<u32>().is_ok());
    }
    let found = found.join("; ");
    Ok(if alone && environment.cpus.online.unwrap_or(1) > 1 {
        let advice = "Keep measured threads off that CPU, or spread the interrupts if the controller can.";
        let online = facts.text("cpus_online").unwrap_or("CPUS");
        let verdict = Verdict::lengthens(found, advice);
        if numbers.is_empty() {
            return Ok(verdict.command(format!("echo {online} > /proc/irq/NUMBER/smp_affinity_list")));
        }
        let lines =
            numbers.iter().take(4).map(|irq| format!("echo {online} > /proc/irq/{irq}/smp_affinity_list"));
        lines.fold(verdict, Verdict::command)
    } else {
        Verdict::good(found)
    })
}
