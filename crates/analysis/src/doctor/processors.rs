//! Checks of the CPUs: frequencies, idle states and core types.

use roundtrip_run::environment::Environment;

use super::{Check, Judged, Verdict};

pub(super) static FREQUENCY: &[Check] = &[
    Check {
        name: "governor",
        title: "frequency governor",
        why: "An idle CPU starts at a low frequency, and a call is over before the governor raises it.",
        source: "Documentation/admin-guide/pm/cpufreq.rst",
        judge: governor,
    },
    Check {
        name: "frequency-range",
        title: "frequency range",
        why: "A limit below what the hardware can do slows down every instruction.",
        source: "Documentation/admin-guide/pm/cpufreq.rst (scaling_max_freq)",
        judge: range,
    },
    Check {
        name: "thermal",
        title: "thermal limits",
        why: "A hot device slows its processors down step by step during a measurement.",
        source: "Documentation/driver-api/thermal/sysfs-api.rst",
        judge: thermal,
    },
    Check {
        name: "idle-states",
        title: "idle states",
        why: "A wakeup of an idle CPU waits until the CPU has left its idle state.",
        source: "Documentation/admin-guide/pm/cpuidle.rst",
        judge: idle,
    },
];

pub(super) static PLACEMENT: &[Check] = &[
    Check {
        name: "asymmetric-cpus",
        title: "kinds of CPUs",
        why: "The duration of a call depends on the CPUs that its two sides run on, which change from call to \
              call.",
        source: "Documentation/scheduler/sched-capacity.rst",
        judge: asymmetric,
    },
    Check {
        name: "energy-aware",
        title: "energy-aware scheduling",
        why: "The scheduler prefers the CPU that needs the least energy, which is a slower one.",
        source: "Documentation/scheduler/sched-energy.rst",
        judge: energy,
    },
    Check {
        name: "hotplug",
        title: "switched-off CPUs",
        why: "With fewer CPUs, threads wait for each other, and switching a CPU on or off stops all of them \
              for a while.",
        source: "Documentation/core-api/cpu_hotplug.rst",
        judge: hotplug,
    },
    Check {
        name: "smt",
        title: "simultaneous multi-threading",
        why: "Two threads on one core share its execution units: each runs slower while the other runs.",
        source: "Documentation/ABI/testing/sysfs-devices-system-cpu (smt)",
        judge: smt,
    },
];

fn governor(environment: &Environment) -> Judged {
    let Some(governors) = &environment.cpus.governors else {
        return Err(match environment.facts.whole("cpufreq_policies") {
            Ok(_) => "scaling_governor: not readable".to_owned(),
            Err(reason) => reason,
        });
    };
    let names: Vec<_> =
        governors.iter().map(|(name, cpus)| format!("{name} on {} CPUs", cpus.len())).collect();
    Ok(if environment.cpus.scaling_enabled() == Some(true) {
        Verdict::lengthens(names.join(", "), "Choose the governor 'performance' while you measure.").command(
            "for policy in /sys/devices/system/cpu/cpufreq/policy*; do echo performance > $policy/scaling_governor; done",
        )
    } else {
        Verdict::good(names.join(", "))
    })
}

fn range(environment: &Environment) -> Judged {
    let facts = &environment.facts;
    facts.whole("cpufreq_policies")?;
    let policies: Vec<&str> =
        facts.below("cpufreq.").filter_map(|(name, _)| name.strip_suffix(".hardware_max_khz")).collect();
    let (mut all, mut limited) = (Vec::new(), Vec::new());
    for policy in policies {
        let khz = |what: &str| facts.number(&format!("cpufreq.{policy}.{what}"));
        let (most, least, hardware) = (khz("max_khz")?, khz("min_khz")?, khz("hardware_max_khz")?);
        let mhz = |khz: f64| (khz / 1e3).round();
        let found = format!("{policy} {} to {} MHz", mhz(least), mhz(most));
        if most < hardware {
            let command =
                format!("echo {hardware} > /sys/devices/system/cpu/cpufreq/{policy}/scaling_max_freq");
            limited.push((format!("{found} of {}", mhz(hardware)), command));
        }
        all.push(found);
    }
    if limited.is_empty() {
        return Ok(Verdict::good(all.join(", ")));
    }
    let found: Vec<_> = limited.iter().map(|(found, _)| found.as_str()).collect();
    let found = found.join(", ");
    let advice = "Raise the limit. If it comes back, a thermal or power service sets it.";
    Ok(limited
        .into_iter()
        .fold(Verdict::lengthens(found, advice), |verdict, (_, command)| verdict.command(command)))
}

fn thermal(environment: &Environment) -> Judged {
    let limits = environment.facts.names("thermal_limits")?;
    Ok(if limits.is_empty() {
        Verdict::good("none in force")
    } else {
        Verdict::lengthens(limits.join(", "), "Let the device cool down, or cool it, and measure again.")
    })
}

/// An exit latency, in microseconds, above which it is noticeable in round trips of about ten
/// microseconds.
const LONG_EXIT_US: i64 = 10;

fn idle(environment: &Environment) -> Judged {
    let facts = &environment.facts;
    let latency_us = facts.whole("idle_exit_latency_us")?;
    let found = format!("deepest {}, {latency_us} us to leave it", facts.text("idle_deepest_state")?);
    Ok(if latency_us > LONG_EXIT_US {
        let advice = "Disable deep idle states while you measure, or compare only runs with the same ones.";
        Verdict::lengthens(found, advice).command(
            "for state in /sys/devices/system/cpu/cpu*/cpuidle/state[1-9]; do echo 1 > $state/disable; done",
        )
    } else {
        Verdict::good(found)
    })
}

fn asymmetric(environment: &Environment) -> Judged {
    if environment.cpus.present.is_none() {
        return Err("/sys/devices/system/cpu/present: not readable".to_owned());
    }
    let Some(capacities) = &environment.cpus.capacities else {
        return Ok(Verdict::good("all the same, as far as the kernel shows"));
    };
    let mut kinds: Vec<(u32, usize)> = Vec::new();
    for &capacity in capacities {
        match kinds.iter_mut().find(|(known, _)| *known == capacity) {
            Some((_, count)) => *count += 1,
            None => kinds.push((capacity, 1)),
        }
    }
    let found: Vec<_> =
        kinds.iter().map(|(capacity, count)| format!("{count} of capacity {capacity}")).collect();
    let fastest = capacities.iter().max();
    let fast: Vec<u32> = (0..)
        .zip(capacities)
        .filter(|(_, capacity)| Some(*capacity) == fastest)
        .map(|(cpu, _)| cpu)
        .collect();
    let list = roundtrip_run::cpus::ranges(&fast);
    let advice = "Keep both sides of a call on CPUs of one kind.";
    Ok(Verdict::lengthens(found.join(", "), advice)
        .command(format!("roundtrip ipc latency --client-cpus {list} --server-cpus {list}")))
}

fn energy(environment: &Environment) -> Judged {
    Ok(match environment.facts.flag("energy_aware")? {
        false => Verdict::good("off"),
        true if environment.cpus.capacities.is_none() => Verdict::good("on, but all CPUs are the same"),
        true => Verdict::lengthens("on", "Turn it off to see what it costs, or pin both sides of a call.")
            .command("sysctl kernel.sched_energy_aware=0"),
    })
}

fn hotplug(environment: &Environment) -> Judged {
    let cpus = &environment.cpus;
    let (present, online) =
        cpus.present.zip(cpus.online).ok_or("/sys/devices/system/cpu/present: not readable")?;
    if online < present {
        let found = format!("{} of {present}", present - online);
        return Ok(Verdict::lengthens(
            found,
            "Switch all CPUs on, and stop the service that switches them off.",
        )
        .command("for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do echo 1 > $cpu; done"));
    }
    let control = environment.facts.names("core_control")?;
    Ok(if control.is_empty() {
        Verdict::good(format!("none of {present}"))
    } else {
        Verdict::lengthens("none now, but core control is on", "Turn core control off while you measure.")
            .command("for cpu in /sys/devices/system/cpu/cpu*/core_ctl/enable; do echo 0 > $cpu; done")
    })
}

fn smt(environment: &Environment) -> Judged {
    let smt = environment.cpus.smt.ok_or("/sys/devices/system/cpu/smt/active: not there, or not readable")?;
    Ok(if smt {
        Verdict::lengthens("on", "Turn it off, or leave the second thread of each measured core idle.")
            .command("echo off > /sys/devices/system/cpu/smt/control")
    } else {
        Verdict::good("off")
    })
}
