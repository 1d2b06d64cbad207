//! The state of a trace as text. Pure.

use std::fmt::Write as _;

use roundtrip_tracefs::Status;

use crate::text::look::Look;
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

/// A few lines about the trace, and one line for each CPU.
#[must_use]
pub fn text(status: &Status) -> String {
    let state = if status.on { "is running" } else { "is stopped; its events are kept" };
    let mut out = format!(
        "The trace in {} {state}; started {} ago.\n{} events, {} kB for each CPU, clock {}.\n",
        status.root.display(),
        duration(status.age_ns as f64),
        status.events.len(),
        status.kilobytes,
        status.clock,
    );
    if !status.missing.is_empty() {
        let _ = writeln!(out, "This kernel has no events of: {}.", status.missing.join(", "));
    }
    let mut table = Table::new([
        Column::number("CPU", ""),
        Column::number("events", ""),
        Column::number("overwritten", ""),
        Column::number("lost", ""),
    ]);
    for (cpu, stats) in &status.cpus {
        let numbers = [u64::from(*cpu), stats.entries, stats.overrun, stats.dropped + stats.commit_overrun];
        table.row(numbers.map(|number| number.to_string()));
    }
    out.push_str(&table.render(Look::PLAIN));
    out
}

#[cfg(test)]
mod tests {
    use roundtrip_tracefs::CpuStats;

    use super::*;

    #[test]
    fn the_status_of_a_stopped_trace_lists_its_contents() {
        let stats = CpuStats { entries: 12, overrun: 3, commit_overrun: 1, dropped: 1 };
        let status = Status {
            root: "/sys/kernel/tracing".into(),
            on: false,
            age_ns: 2_500_000_000,
            kilobytes: 8000,
            clock: "boot".into(),
            events: vec!["sched/sched_switch".into(), "irq".into()],
            missing: vec!["binder_driver".into()],
            cpus: vec![(0, stats), (1, CpuStats::default())],
        };
        let expected = "\
The trace in /sys/kernel/tracing is stopped; its events are kept; started 2.50 s ago.
2 events, 8000 kB for each CPU, clock boot.
This kernel has no events of: binder_driver.
CPU  events  overwritten  lost
  0      12            3     2
  1       0            0     0
";
        assert_eq!(text(&status), expected);
    }
}
