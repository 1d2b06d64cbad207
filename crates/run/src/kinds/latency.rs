//! `ipc latency`: the groups and merging of calls against a deadline, over all pairs of a series.

use std::borrow::Cow;

use super::{Number, count, share};
use crate::error::Result;
use crate::figures::{Better, Group, Unit};
use crate::ipc::Backend;
use crate::ipc::latency::{CallerResult, LatencyResult, Series};
use crate::test::{Recording, Test, Tested, different, same_plan};

const NUMBERS: &[Number] = &[
    count("missed"),
    share("missed.share"),
    count("response.missed"),
    share("response.missed.share"),
    ("rate", Unit::PerSecond, Better::Higher),
    ("same_cpu.share", Unit::Percent, Better::Higher),
    ("inherited.share", Unit::Percent, Better::Higher),
    count("cpu_changes"),
    count("migrations"),
    count("voluntary_switches"),
    count("involuntary_switches"),
    ("run_delay", Unit::Nanoseconds, Better::Lower),
];

pub(crate) const TEST: Test = Test {
    name: "latency",
    command: "ipc latency",
    title: "Latency",
    labels: &["stack", "inheritance", "caller"],
    times: &["", "response.", "request.", "handling.", "reply."],
    numbers: NUMBERS,
    layers: &[],
};

impl Tested for LatencyResult {
    fn test(&self) -> &'static Test {
        &TEST
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let series = self.series.iter().filter_map(|series| Some((series, series.all()?)));
        series.flat_map(|(of, all)| all.callers.into_iter().map(move |caller| group(of, caller))).collect()
    }

    fn plan(&self) -> String {
        // The location of a plan's files is not part of what was measured.
        let mut plan = self.plan.clone();
        if let Some(explain) = &mut plan.explain {
            explain.directory = Default::default();
        }
        if let Some(injection) = &mut plan.injection {
            injection.log = None;
        }
        format!("{plan:?}")
    }

    fn backend(&self) -> Option<&Backend> {
        self.backend.as_ref()
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    fn recording(&self) -> Recording {
        let of = |kept: &crate::ipc::latency::Explained| {
            Recording::of(kept.recorder.is_some(), kept.not_recorded.as_ref())
        };
        self.explained.as_ref().map_or(Recording::Never, of)
    }

    fn merge(&mut self, other: &Self) -> Result<()> {
        same_plan(&self.plan, &other.plan)?;
        // A run without permission for real-time callers has fewer callers.
        if self.realtime_refused.is_some() != other.realtime_refused.is_some() {
            return Err(different("callers"));
        }
        for (series, more) in self.series.iter_mut().zip(&other.series) {
            for (pair, more) in series.pairs.iter_mut().zip(&more.pairs) {
                pair.merge(more);
            }
            let callers = || series.pairs.iter().flat_map(|pair| &pair.callers);
            let failed = callers().map(|caller| caller.not_inherited).sum();
            let total = callers().map(|caller| caller.count()).sum();
            series.verdict.merge(&more.verdict, failed, total);
        }
        self.halted = self.halted.take().or_else(|| other.halted.clone());
        self.inherited_by_pi_futex |= other.inherited_by_pi_futex;
        Ok(())
    }
}

fn group(series: &Series, caller: CallerResult) -> Group<'static> {
    let mut group = Group::new([
        ("stack", series.stack.to_string()),
        ("inheritance", series.inheritance.name().to_owned()),
        ("caller", caller.caller.to_string()),
    ]);
    let calls = caller.count();
    let percent = |part: u64| 100.0 * part as f64 / calls as f64;
    if calls > 0 {
        group.add("same_cpu.share", percent(caller.same_cpu), calls, None);
        group.add("inherited.share", percent(calls - caller.not_inherited), calls, None);
    }
    let counters = caller.counters;
    for (name, count) in [
        ("cpu_changes", Some(caller.cpu_changes)),
        ("migrations", counters.and_then(|counters| counters.migrations)),
        ("voluntary_switches", counters.map(|counters| counters.voluntary_switches)),
        ("involuntary_switches", counters.map(|counters| counters.involuntary_switches)),
        ("run_delay", counters.and_then(|counters| counters.run_delay_ns)),
    ] {
        if let Some(count) = count {
            group.add(name, count as f64, calls, None);
        }
    }
    let deadline = caller.deadline;
    group.against(deadline.deadline, deadline.missed, "", Cow::Owned(caller.latency));
    if let Some(response) = caller.response {
        if let Some(rate_per_s) = response.rate_per_s() {
            group.add("rate", rate_per_s, calls, None);
        }
        group.against(deadline.deadline, response.missed, "response.", Cow::Owned(response.time));
    }
    for (leg, times) in
        [("request.", caller.request), ("handling.", caller.handling), ("reply.", caller.reply)]
    {
        group.times(leg, Cow::Owned(times));
    }
    group
}
