//! Checks of what this process may use: binder devices, kernel events, capabilities.

use roundtrip_run::environment::Environment;

use super::scheduling::is_since;
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
        name: "binder-locking",
        title: "the driver's locks",
        why: "With one lock for all processes, each call waits for the calls of processes that it has nothing to do \
              with.",
        source: "drivers/android/binder.c, source.android.com, Performance testing",
        judge: locking,
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
        why: "Without extended errors, a refused call does not say why; without spam detection, nobody learns who \
              fills a receive area with oneway calls. Calls take no longer.",
        source: "Documentation/admin-guide/binderfs.rst, drivers/android/binderfs.c",
        judge: features,
    },
];

pub(super) static RIGHTS: &[Check] = &[
    Check {
        name: "tracefs",
        title: "kernel's events",
        why: "They explain slow calls and writes. Events that are off cost nothing.",
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

/// What the driver shows of its locks, else what its kernel's version says: upstream, the finer
/// ones came with Linux 4.14, and Android's kernels had them earlier.
fn locking(environment: &Environment) -> Judged {
    let release = &environment.kernel.release;
    let since = is_since(environment, (4, 14)) == Some(true);
    Ok(match environment.facts.text("binder_locking") {
        Ok("fine-grained") => Verdict::good("fine-grained"),
        Ok(_) if since => Verdict::good(format!("fine-grained, as in each kernel since 4.14: {release}")),
        Ok(found) => {
            let advice =
                "Measure on a kernel with fine-grained locks: since 4.14, or Android's later 4.4 and 4.9.";
            Verdict::lengthens(format!("{found} for all processes (event binder_lock, {release})"), advice)
        }
        Err(reason) => {
            environment.facts.text("binder_driver")?;
            if !since {
                return Err(reason);
            }
            Verdict::good(format!("fine-grained, as in each kernel since 4.14: {release}"))
        }
    })
}

fn inheritance(environment: &Environment) -> Judged {
    environment.facts.names("binder_usable")?;
    let release = &environment.kernel.release;
    Ok(if environment.facts.flag("binder_sets_priority") == Ok(true) {
        Verdict::good("the driver has Android's event binder_set_priority")
    } else if release.contains("android") {
        Verdict::good(format!("{release} is an Android kernel"))
    } else {
        let found = format!("{release} is not an Android kernel");
        let advice = "Measure on Android's common kernel, or give the servers a real-time policy.";
        Verdict::lengthens(found, advice).command("roundtrip ipc traits")
    })
}

/// What a current driver's binderfs lists (drivers/android/binderfs.c).
const KNOWN: [&str; 3] = ["extended_error", "freeze_notification", "oneway_spam_detection"];

fn features(environment: &Environment) -> Judged {
    let driver = match environment.facts.text("binder_driver") {
        Ok(language) => format!("a driver in {language}"),
        Err(_) => "a driver".to_owned(),
    };
    let listed =
        environment.facts.names("binder_features").map_err(|reason| format!("{driver}; {reason}"))?;
    let lacking: Vec<_> = KNOWN.into_iter().filter(|name| !listed.iter().any(|one| one == name)).collect();
    let listed = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
    let lacking = if lacking.is_empty() { "none".to_owned() } else { lacking.join(", ") };
    Ok(Verdict::good(format!("{driver} with: {listed}; without: {lacking}")))
}

fn tracefs(environment: &Environment) -> Judged {
    match environment.facts.text("tracefs")? {
        "mounted" => Ok(Verdict::good("can be recorded")),
        forbidden if forbidden.starts_with("forbidden ") => {
            let advice = "Boot with lockdown=integrity or without lockdown: not even root can record.";
            Ok(Verdict::cannot_tell(format!("tracefs is {forbidden}")).advice(advice))
        }
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
