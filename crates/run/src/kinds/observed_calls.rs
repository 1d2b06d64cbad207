//! `ipc observe`: the groups of other programs' calls, by the names of client and server and by
//! method. The numbers of processes and nodes differ between runs, so calls that differ only in
//! these numbers, or in the pool, are counted together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use roundtrip_latency::Histogram;
use roundtrip_vocabulary::OTHERS;

use super::{Number, RATE, count, share, unseen, unseen_name};
use crate::figures::Group;
use crate::ipc::observe::{Flow, ObserveResult};
use crate::test::{Recording, Test, Tested};

const NUMBERS: &[Number] = &[
    RATE,
    count("missed"),
    share("missed.share"),
    count("failed"),
    count("nested"),
    count("server_threads"),
];

pub(crate) const TEST: Test = Test {
    name: "observed_calls",
    command: "ipc observe",
    title: "Observed calls",
    labels: &["client", "server", "code"],
    times: &["", "request.", "handling.", "reply.", "behind_pool.", "oneway."],
    numbers: NUMBERS,
    layers: &[],
};

impl Tested for ObserveResult {
    fn test(&self) -> &'static Test {
        &TEST
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let mut sums: BTreeMap<_, Vec<&Flow>> = BTreeMap::new();
        for flow in &self.flows {
            let [client, server] = [&flow.client, &flow.server]
                .map(|process| if flow.stands_for > 0 { OTHERS } else { &process.name });
            let key = (client, server, flow.code);
            sums.entry(key).or_default().push(flow);
        }
        let seconds = self.elapsed_ns as f64 / 1e9;
        let groups = sums.into_iter().map(|((client, server, code), flows)| {
            let labels =
                [("client", client.to_owned()), ("server", server.to_owned()), ("code", code.to_string())];
            let mut group = Group::new(labels);
            let merged = |of: fn(&Flow) -> &Histogram| -> Cow<'_, Histogram> {
                Cow::Owned(flows.iter().map(|flow| of(flow)).collect())
            };
            let sum = |of: fn(&Flow) -> u64| flows.iter().map(|flow| of(flow)).sum::<u64>();
            let latency = merged(|flow| &flow.latency);
            let calls = latency.count();
            if calls > 0 {
                if seconds > 0.0 {
                    group.add("rate", calls as f64 / seconds, calls, None);
                }
                group.against(self.plan.deadline, sum(|flow| flow.missed), "", latency);
                group.add("nested", sum(|flow| flow.nested) as f64, calls, None);
            }
            group.times("request.", merged(|flow| &flow.request));
            group.times("handling.", merged(|flow| &flow.handling));
            group.times("reply.", merged(|flow| &flow.reply));
            group.times("behind_pool.", merged(|flow| &flow.behind_pool));
            group.times("oneway.", merged(|flow| &flow.oneway));
            let threads = flows.iter().map(|flow| flow.server_threads).max().unwrap_or(0);
            group.add("server_threads", f64::from(threads), calls, None);
            let failed = sum(|flow| flow.failed);
            group.add("failed", failed as f64, calls + failed, None);
            group
        });
        groups.collect()
    }

    fn plan(&self) -> String {
        format!("{:?} {:?}", self.plan.subject.anybody(), self.plan.deadline)
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = unseen(self.unseen.lost_events, "calls", &self.not_recorded);
        warnings.extend(unseen_name(&self.plan.subject, "calls", self.flows.is_empty()));
        warnings
    }

    fn recording(&self) -> Recording {
        Recording::of(true, self.not_recorded.as_ref())
    }

    fn observed(&self) -> bool {
        true
    }
}
