//! The head of every report: the machine, kernel, driver and load that its figures belong to. Pure.

use std::fmt::Write as _;

use run::environment::{Environment, Kernel};
use run::{Partial, RealtimePermission, Run};

use crate::inert;

/// The three lines above a report.
#[must_use]
pub fn header(environment: &Environment) -> String {
    let Environment { kernel, cpus, .. } = environment;
    let mut out = String::new();
    let model = cpus.model.as_deref().unwrap_or("unknown CPU");
    let present = cpus.present.map(|present| format!(" of {present}")).unwrap_or_default();
    let virtual_machine = if cpus.virtualised == Some(true) { ", virtual" } else { "" };
    let _ = writeln!(
        out,
        "{}: {model}, {}{present} CPUs usable{virtual_machine}; Linux {} {}{}",
        environment.host_name,
        cpus.usable.len(),
        kernel.release,
        kernel.machine,
        preemption(kernel),
    );
    let driver = environment.driver.as_deref().map(|driver| format!("{driver}; ")).unwrap_or_default();
    let _ =
        writeln!(out, "{driver}{}; {}; {}", governor(environment), realtime(environment), load(environment));
    let _ = writeln!(
        out,
        "{}, Roundtrip {} ({} build)",
        environment.date, environment.roundtrip_version, environment.build_profile
    );
    out
}

/// The run's labels, and whether it ended early, one line each.
#[must_use]
pub fn of_this_run(run: &Run) -> String {
    let mut out = String::new();
    if !run.labels.is_empty() {
        let labels: Vec<_> = run
            .labels
            .iter()
            .map(|(key, value)| format!("{}={}", inert::line(key), inert::line(value)))
            .collect();
        let _ = writeln!(out, "labels: {}", labels.join(", "));
    }
    if let Some(partial) = &run.partial {
        let _ = writeln!(out, "{}", self::partial(partial));
    }
    out
}

/// A line that says that a signal ended the measurement, and when.
#[must_use]
pub fn partial(Partial { signal, after_ns }: &Partial) -> String {
    let seconds = *after_ns as f64 / 1e9;
    format!("partial: {} ended the measuring after {seconds:.1} s", inert::line(signal))
}

/// What users must know before they trust the figures, one line each.
#[must_use]
pub fn warnings(run: &Run) -> String {
    run.warnings.iter().fold(String::new(), |mut out, warning| {
        let _ = writeln!(out, "warning: {warning}");
        out
    })
}

fn preemption(kernel: &Kernel) -> String {
    kernel.preemption.as_deref().map(|mode| format!(", preemption {mode}")).unwrap_or_default()
}

fn governor(environment: &Environment) -> String {
    match &environment.cpus.governors {
        None => "no frequency governor".to_owned(),
        Some(governors) => {
            let names: Vec<_> = governors.keys().map(String::as_str).collect();
            format!("governor {}", names.join(", "))
        }
    }
}

fn realtime(environment: &Environment) -> String {
    match &environment.realtime {
        RealtimePermission::Allowed { max_priority } => format!("SCHED_FIFO up to {max_priority}"),
        RealtimePermission::Refused { .. } => "no SCHED_FIFO".to_owned(),
    }
}

fn load(environment: &Environment) -> String {
    let average = environment.load_average.map(|[last, ..]| format!("load {last:.2}"));
    let foreign =
        environment.cpu_shares.map(|shares| format!("{:.0}% of CPU used by others", shares.foreign * 100.0));
    let parts: Vec<_> = average.into_iter().chain(foreign).collect();
    if parts.is_empty() { "load unknown".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use run::environment::CpuShares;

    use super::*;

    #[test]
    fn the_header_names_machine_kernel_driver_governor_and_load() {
        let kernel = Kernel { release: "6.1.99".into(), ..Kernel::default() };
        let mut environment = Environment { host_name: "phone".into(), kernel, ..Environment::default() };
        environment.driver = Some("emulated driver (ack profile)".into());
        environment.load_average = Some([0.25, 0.0, 0.0]);
        environment.cpu_shares = Some(CpuShares { own: 0.5, foreign: 0.031, stolen: 0.0 });
        environment.realtime = RealtimePermission::Refused { reason: "no".into() };
        environment.cpus.governors = Some([("schedutil".to_owned(), vec![0])].into());
        let header = header(&environment);
        let lines: Vec<_> = header.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].starts_with("phone: ") && lines[0].contains(&environment.kernel.release),
            "{header}"
        );
        assert_eq!(
            lines[1],
            "emulated driver (ack profile); governor schedutil; no SCHED_FIFO; load 0.25, 3% of CPU used by others"
        );
        assert!(lines[2].contains(&environment.build_profile));
    }
}
