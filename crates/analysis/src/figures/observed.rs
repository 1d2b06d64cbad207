//! The figures of observed calls, by the names of client and server and by method. The numbers of
//! processes and nodes differ between runs, so calls that differ only in these numbers, or in the
//! pool, are counted together.

use std::collections::BTreeMap;

use latency::Histogram;
use run::ipc::observe::{Flow, ObserveResult};

use super::{Better, Figure, Group, Unit};

/// The parts of a flow that are the same in every run: client, server, code.
type Key<'a> = (&'a str, &'a str, u32);

/// All flows of one key.
#[derive(Default)]
struct Sum {
    latency: Histogram,
    request: Histogram,
    handling: Histogram,
    reply: Histogram,
    oneway: Histogram,
    missed: u64,
    failed: u64,
}

impl Sum {
    fn add(&mut self, flow: &Flow) {
        self.latency.merge(&flow.latency);
        self.request.merge(&flow.request);
        self.handling.merge(&flow.handling);
        self.reply.merge(&flow.reply);
        self.oneway.merge(&flow.oneway);
        self.missed += flow.missed;
        self.failed += flow.failed;
    }
}

pub(super) fn of_observed(figures: &mut Vec<Figure>, result: &ObserveResult) {
    let mut sums: BTreeMap<Key<'_>, Sum> = BTreeMap::new();
    for flow in &result.flows {
        sums.entry((&flow.client.name, &flow.server.name, flow.code)).or_default().add(flow);
    }
    for ((client, server, code), sum) in sums {
        let of = vec![
            ("test", "observed".to_owned()),
            ("client", client.to_owned()),
            ("server", server.to_owned()),
            ("code", code.to_string()),
        ];
        let mut group = Group { figures, of };
        let calls = sum.latency.count();
        let seconds = result.elapsed_ns as f64 / 1e9;
        if calls > 0 {
            if seconds > 0.0 {
                group.add("rate", calls as f64 / seconds, (Unit::PerSecond, Better::Higher), calls, None);
            }
            group.times("", &sum.latency);
            group.misses("", sum.missed, calls);
            let legs = [("request.", &sum.request), ("handling.", &sum.handling), ("reply.", &sum.reply)];
            legs.into_iter().for_each(|(leg, times)| group.times(leg, times));
        }
        group.times("oneway.", &sum.oneway);
        let all = calls + sum.failed;
        group.add("failed", sum.failed as f64, (Unit::Count, Better::Lower), all, None);
    }
}
