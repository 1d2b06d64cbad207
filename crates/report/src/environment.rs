//! The head of every report: the machine, kernel, driver and load that its figures belong to. Pure.

use std::fmt::Write as _;

use roundtrip_run::environment::{Change, Environment, Kernel};
use roundtrip_run::{Partial, RealtimePermission, Run};

use crate::text::inert;
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

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

/// A line that says what ended the measurement early, and when.
#[must_use]
pub fn partial(Partial { signal, failure, after_ns }: &Partial) -> String {
    let seconds = *after_ns as f64 / 1e9;
    match (signal, failure) {
        (None, Some(failure)) => {
            format!("partial: the measuring failed after {seconds:.1} s: {}", inert::line(failure))
        }
        (signal, _) => {
            let signal = signal.as_deref().unwrap_or("a signal");
            format!("partial: {} ended the measuring after {seconds:.1} s", inert::line(signal))
        }
    }
}

/// What users must know before they trust the figures, one line each.
#[must_use]
pub fn warnings(run: &Run) -> String {
    run.warnings.iter().fold(String::new(), |mut out, warning| {
        let _ = writeln!(out, "warning: {warning}");
        out
    })
}

/// What changed on the machine during a run, by time; `None` if nothing did.
pub(crate) fn changes(environment: &Environment) -> Option<Table> {
    let mut table = Table::new(["condition", "before", "during", "from", "until"].map(Column::text));
    for Change { what, before, during, from_ns, until_ns } in &environment.changes {
        let [what, before, during] = [what, before, during].map(|text| inert::line(text).into_owned());
        let until = until_ns.map_or("the end".to_owned(), |ns| duration(ns as f64));
        table.row([what, before, during, duration(*from_ns as f64), until]);
    }
    (!environment.changes.is_empty()).then_some(table)
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
    use roundtrip_run::environment::CpuShares;

    use super::*;

    #[test]
    fn changes_are_a_table_with_their_times() {
        assert!(changes(&Environment::default()).is_none());
        let change = |until_ns| Change {
            what: "online CPUs".into(),
            before: "0-1".into(),
            during: "0".into(),
            from_ns: 1_500_000_000,
            until_ns,
        };
        let changes = vec![change(Some(3_000_000_000)), change(None)];
        let table = super::changes(&Environment { changes, ..Environment::default() }).unwrap();
        let expected = [
            ["online CPUs", "0-1", "0", "1.50 s", "3.00 s"],
            ["online CPUs", "0-1", "0", "1.50 s", "the end"],
        ];
        assert_eq!(table.rows(), expected);
    }

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
