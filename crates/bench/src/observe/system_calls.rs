//! Counts other programs' system calls as they happen. Must not know what a system call does.

use std::collections::BTreeMap;

use roundtrip_latency::Histogram;
use roundtrip_observed::MAX_IN_FLIGHT;
use roundtrip_observed::system_calls::{Matcher, Returned, name};
use roundtrip_run::observe::Subject;
use roundtrip_run::storage::system_calls::{
    SystemCallRow, SystemCallsPlan, SystemCallsResult, UnseenSystemCalls,
};
use roundtrip_sorting::SmallSort as _;
use roundtrip_tracefs::Trace;

use super::following;
use super::watch::{self, Watch, Watched};
use crate::error::Result;
use crate::progress::Progress;
use crate::recorder::selection;
use crate::worker::Interrupts;

/// The machine whose numbers the system calls have.
const MACHINE: &str = std::env::consts::ARCH;

/// The maximum number of rows, besides one for all other system calls. A kernel has about 400, but
/// programs may call any number.
const MAX_ROWS: usize = 1000;

/// Observes until the plan's time is up, its command has ended, or a signal arrives.
///
/// # Errors
/// [`Error::Trace`](crate::Error::Trace) where this process may not record, or the kernel lacks an
/// event; [`Error::System`](crate::Error::System) when the command cannot be started.
pub fn run(plan: &SystemCallsPlan, report: &mut dyn FnMut(Progress<'_>)) -> Result<SystemCallsResult> {
    let interrupts = Interrupts::watch()?;
    let (mut watch, _) = Watch::open(&plan.directory, plan.kilobytes, |tracefs| {
        let own = (!following::is_possible(tracefs, &plan.subject)).then(std::process::id);
        selection::system_calls(own, |event| tracefs.has_event(event))
    })?;
    let mut observer = Observer {
        subject: &plan.subject,
        runs: !matches!(plan.subject, Subject::Command(_)),
        matcher: Matcher::new(MAX_IN_FLIGHT),
        rows: BTreeMap::new(),
    };
    let what = "observing system calls";
    let watched = Watched { subject: &plan.subject, duration_ns: plan.duration_ns, what };
    let elapsed_ns = watch.run(interrupts, &watched, &mut observer, report)?;
    let Observer { matcher, rows, .. } = observer;
    let unmatched = matcher.unmatched();
    let mut rows: Vec<SystemCallRow> = rows.into_values().collect();
    rows.small_sort_by_key(|row| std::cmp::Reverse(row.latency.sum_ns()));
    Ok(SystemCallsResult {
        plan: plan.clone(),
        elapsed_ns,
        rows,
        unseen: UnseenSystemCalls {
            lost_events: watch.lost_events,
            begun_before: unmatched.begun_before,
            not_ended: unmatched.not_ended,
            forgotten: unmatched.forgotten,
        },
        recorder: watch.recorder.info(),
        not_recorded: watch.changed.clone(),
    })
}

struct Observer<'a> {
    subject: &'a Subject,
    /// Whether the program to observe runs: the calls that start it are this program's.
    runs: bool,
    matcher: Matcher,
    /// By number; `None` for those without a row of their own.
    rows: BTreeMap<Option<i64>, SystemCallRow>,
}

impl watch::Observer for Observer<'_> {
    fn round(&mut self, watch: &mut Watch, trace: &Trace) -> Result<()> {
        self.matcher.lost(&trace.losses);
        for event in &trace.events {
            if let Some(call) = self.matcher.add(event)
                && watch.process_is_observed(self.subject, call.tid)
            {
                self.count(call);
            }
        }
        Ok(())
    }
}

impl Observer<'_> {
    fn count(&mut self, call: Returned) {
        let Returned { number, latency_ns, .. } = call;
        let name = name(MACHINE, number);
        self.runs |= name.is_some_and(|name| name.starts_with("execve")) && !call.failed();
        if !self.runs {
            return;
        }
        let has_row = self.rows.len() < MAX_ROWS || self.rows.contains_key(&Some(number));
        let row = self.rows.entry(has_row.then_some(number)).or_insert_with(|| SystemCallRow {
            call: match name {
                _ if !has_row => "other system calls".to_owned(),
                Some(name) => name.to_owned(),
                None => format!("system call {number}"),
            },
            latency: Histogram::growing(),
            failed: 0,
        });
        row.latency.record(latency_ns);
        row.failed += u64::from(call.failed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_any_number_are_counted_and_those_without_a_row_are_in_one() {
        let mut observer = Observer {
            subject: &Subject::Everyone,
            runs: true,
            matcher: Matcher::new(1),
            rows: BTreeMap::new(),
        };
        for number in (0..1_500).chain([3, 1_400]) {
            observer.count(Returned { tid: 1, number, latency_ns: 10, result: 0 });
        }
        let counts: Vec<u64> = observer.rows.values().map(|row| row.latency.count()).collect();
        assert_eq!((counts.len(), counts[0], counts[4]), (MAX_ROWS + 1, 501, 2));
        assert_eq!(counts.iter().sum::<u64>(), 1_502);
        assert_eq!(observer.rows[&None].call, "other system calls");
    }
}
