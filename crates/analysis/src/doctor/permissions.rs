//! Checks of what this process may use: binder devices, kernel events, capabilities.

use run::environment::Environment;

use super::{Check, Judged, Verdict};

pub(super) static BINDER: &[Check] = &[
    Check {
        name: "binder-device",
        title: "binder device",
        why: "Without a usable device, Roundtrip measures the emulated driver: the figures show the scheduler \
              and the CPUs, but not the kernel's driver.",
        source: "Documentation/admin-guide/binderfs.rst",
        judge: device,
    },
    Check {
        name: "binder-inheritance",
        title: "real-time inheritance",
        why: "Only Android's kernels let a server run at its caller's real-time priority. On others a real-time caller waits \
              for an ordinary server.",
        source: "drivers/android/binder.c (binder_transaction_priority in Android's common kernel)",
        judge: inheritance,
    },
    Check {
        name: "binder-features",
        title: "binder features",
        why: "Without extended errors, a refused call does not say why. Calls take no longer.",
        source: "Documentation/admin-guide/binderfs.rst, drivers/android/binderfs.c",
        judge: features,
    },
];

pub(super) static RIGHTS: &[Check] = &[
    Check {
        name: "tracefs",
        title: "kernel's events",
        why: "They explain slow calls and writes. While they are off, they cost nothing.",
        source: "Documentation/trace/ftrace.rst",
        judge: tracefs,
    },
    Check {
        name: "permissions",
        title: "permissions",
        why: "Without them Roundtrip leaves out real-time callers, some background loads and the kernel's \
              events.",
        source: "capabilities(7)",
        judge: capabilities,
    },
];

fn device(environment: &Environment) -> Judged {
    let usable = environment.facts.names("binder_usable")?;
    if usable.is_empty() {
        let found = environment.binder_devices.join(", ");
        return Err(format!("{found}: not accessible to this user, run as root"));
    }
    Ok(Verdict::good(usable.join(", ")))
}

fn inheritance(environment: &Environment) -> Judged {
    environment.facts.names("binder_usable")?;
    let release = &environment.kernel.release;
    Ok(if release.contains("android") {
        Verdict::good(format!("{release} is an Android kernel"))
    } else {
        let found = format!("{release} is not an Android kernel");
        let advice = "Measure on Android's common kernel, or give the servers a real-time policy.";
        Verdict::lengthens(found, advice).command("roundtrip ipc traits")
    })
}

fn features(environment: &Environment) -> Judged {
    let listed = environment.facts.names("binder_features")?;
    let none = "none is listed";
    Ok(Verdict::good(if listed.is_empty() { none.to_owned() } else { listed.join(", ") }))
}

fn tracefs(environment: &Environment) -> Judged {
    match environment.facts.text("tracefs")? {
        "mounted" => Ok(Verdict::good("can be recorded")),
        "not in this kernel" => Err("this kernel has no tracefs (CONFIG_TRACING)".to_owned()),
        _ if environment.facts.names("capabilities")?.iter().any(|name| name == "CAP_SYS_ADMIN") => {
            Ok(Verdict::good("can be recorded: tracefs is mounted for each recording"))
        }
        other => Ok(Verdict::cannot_tell(format!("tracefs is {other}")).advice("Run as root.")),
    }
}

fn capabilities(environment: &Environment) -> Judged {
    let held = environment.facts.names("capabilities")?;
    let lacking: Vec<&str> = ["CAP_SYS_NICE", "CAP_SYS_ADMIN"]
        .into_iter()
        .filter(|name| !held.iter().any(|held| held == name))
        .collect();
    Ok(if lacking.is_empty() {
        Verdict::good(held.join(", "))
    } else {
        let found = format!("without {}", lacking.join(" and "));
        Verdict::cannot_tell(found).advice("Run as root to measure and explain all.")
    })
}
