//! `ipc traits`: the groups of binder and hwbinder, with what can be counted of each.

use std::borrow::Cow;

use super::{Number, count};
use crate::figures::{Better, Group, Unit};
use crate::ipc::traits::{Aspect, Finding, TraitsResult};
use crate::ipc::{Backend, Stack};
use crate::test::{Test, Tested};

/// The aspects that are numbers.
const NUMBERS: &[Number] = &[
    count("request_copies"),
    count("reply_copies"),
    held("realtime_inheritance"),
    held("least_policy"),
    held("nice_raised"),
    held("nice_lowered"),
    held("background_policy"),
];

const fn held(name: &'static str) -> Number {
    (name, Unit::Percent, Better::Higher)
}

pub(crate) const TEST: Test = Test {
    name: "traits",
    command: "ipc traits",
    title: "Binder against hwbinder",
    labels: &["stack"],
    times: &[""],
    numbers: NUMBERS,
    layers: &[],
};

impl Tested for TraitsResult {
    fn test(&self) -> &'static Test {
        &TEST
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let groups = Stack::ALL.map(|stack| {
            let mut group = Group::new([("stack", stack.to_string())]);
            for row in &self.rows {
                match row.of(stack) {
                    Finding::Copies { stack, driver, .. } => {
                        group.add(name(row.aspect), stack + driver, 1, None);
                    }
                    Finding::Served { calls, held, .. } => {
                        let share = 100.0 * f64::from(*held) / f64::from(*calls).max(1.0);
                        group.add(name(row.aspect), share, (*calls).into(), None);
                    }
                    Finding::InheritedUnseen { calls, .. } => {
                        group.add(name(row.aspect), 100.0, (*calls).into(), None);
                    }
                    Finding::RoundTrip { latency } => group.times("", Cow::Borrowed(latency)),
                    Finding::Words { .. } | Finding::Arguments { .. } | Finding::NotTried { .. } => {}
                }
            }
            group
        });
        groups.into()
    }

    fn plan(&self) -> String {
        format!("{:?}", self.plan)
    }

    fn backend(&self) -> Option<&Backend> {
        Some(&self.backend)
    }
}

/// The figure of an aspect.
fn name(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::RequestCopies => "request_copies",
        Aspect::ReplyCopies => "reply_copies",
        Aspect::RealtimeInheritance => "realtime_inheritance",
        Aspect::LeastPolicy => "least_policy",
        Aspect::NiceRaised => "nice_raised",
        Aspect::NiceLowered => "nice_lowered",
        Aspect::BackgroundPolicy => "background_policy",
        Aspect::Purpose | Aspect::Property | Aspect::ArgumentPassing | Aspect::RoundTrip => "",
    }
}
