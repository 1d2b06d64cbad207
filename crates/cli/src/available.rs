//! Checks that this machine has what the user requested by name, before anything is measured. If
//! not, the error says what is available. Must not know which command is checked.

use roundtrip_bench::sched;
use roundtrip_bench::storage::java as jvm;
use roundtrip_run::cpus::ranges;
use roundtrip_run::storage::Java;
use roundtrip_run::{Load, RealtimePermission, Scheduling};

use crate::args::Usage;

/// Rejects CPUs that this process may not use.
pub(crate) fn cpus(option: &str, wanted: &[u32]) -> Result<(), Usage> {
    let usable = sched::allowed_cpus(0).map_err(|error| Usage(error.to_string()))?;
    match wanted.iter().find(|cpu| !usable.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => Err(Usage(format!(
            "{option}: CPU {cpu} is not available; this process may use {}",
            ranges(&usable)
        ))),
    }
}

/// Like [`cpus`], for the CPUs of clients and of servers.
pub(crate) fn both_cpus(client: Option<&[u32]>, server: Option<&[u32]>) -> Result<(), Usage> {
    client.map_or(Ok(()), |wanted| cpus("--client-cpus", wanted))?;
    server.map_or(Ok(()), |wanted| cpus("--server-cpus", wanted))
}

/// Rejects background load that this machine cannot run.
pub(crate) fn loads(loads: &[Load]) -> Result<(), Usage> {
    loads.iter().try_for_each(|load| {
        scheduling("--load", &load.scheduling)?;
        load.cpus.as_ref().map_or(Ok(()), |wanted| cpus("--load", wanted))
    })
}

/// Rejects a policy that this process may not set. An ordinary policy with nice value 0 is always
/// possible.
pub(crate) fn scheduling(option: &str, wanted: &Scheduling) -> Result<(), Usage> {
    if wanted.policy.is_realtime() {
        return realtime(option, wanted, &sched::realtime_permission());
    }
    let least = if wanted.nice == 0 { 0 } else { sched::least_nice() };
    if wanted.nice < least {
        return Err(Usage(format!(
            "{option}: {wanted} is not allowed; nice:{least} is the lowest here: run as root, or raise `ulimit -e`"
        )));
    }
    Ok(())
}

fn realtime(option: &str, wanted: &Scheduling, permission: &RealtimePermission) -> Result<(), Usage> {
    match permission {
        RealtimePermission::Refused { reason } => {
            Err(Usage(format!("{option}: {wanted} is not allowed ({reason}); use other or nice:N")))
        }
        RealtimePermission::Allowed { max_priority } if wanted.priority > *max_priority => {
            Err(Usage(format!(
                "{option}: {wanted} is not allowed; {max_priority} is the highest priority here: run as root, or raise `ulimit -r`"
            )))
        }
        RealtimePermission::Allowed { .. } => Ok(()),
    }
}

/// Rejects a Java that does not exist.
pub(crate) fn java(java: &Java) -> Result<(), Usage> {
    if jvm::exists(java) { Ok(()) } else { Err(Usage(jvm::missing(java).to_string())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_is_not_there_is_refused_with_those_that_are() {
        let usable = sched::allowed_cpus(0).unwrap();
        cpus("--cpus", &usable).unwrap();
        let refusal = cpus("--cpus", &[usable[0], 8191]).unwrap_err().to_string();
        assert_eq!(
            refusal,
            format!("--cpus: CPU 8191 is not available; this process may use {}", ranges(&usable))
        );
        assert!(both_cpus(None, Some(&[8191])).unwrap_err().to_string().starts_with("--server-cpus: "));
    }

    #[test]
    fn a_policy_that_is_not_allowed_is_refused_with_the_reason_or_the_highest() {
        let refused = |permission: &RealtimePermission| {
            realtime("--callers", &Scheduling::fifo(99), permission).unwrap_err().to_string()
        };
        let reason = RealtimePermission::Refused { reason: "no CAP_SYS_NICE".into() };
        assert!(refused(&reason).ends_with("fifo:99 is not allowed (no CAP_SYS_NICE); use other or nice:N"));
        let some = RealtimePermission::Allowed { max_priority: 50 };
        assert!(refused(&some).contains("50 is the highest priority here"), "{}", refused(&some));
        realtime("--callers", &Scheduling::fifo(50), &some).unwrap();
        scheduling("--callers", &Scheduling::other(0)).unwrap();
    }
}
