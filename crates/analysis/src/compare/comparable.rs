//! Differences between runs that make a comparison misleading. Must not know the runs' figures.

use run::Run;
use run::ipc::Backend;
use run::observe::Subject;

use super::Side;
use crate::figures;

/// A difference between runs that affects all figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs: "driver", "CPU model".
    pub what: &'static str,
    /// The value in the first run of the base.
    pub base: String,
    /// The value in the other run.
    pub other: String,
    /// Whether the difference prevents the comparison unless the user allows it. If not, the
    /// difference may be the subject of the comparison.
    pub refused: bool,
}

/// All differences of any run, on either side, from the first run of the base, without duplicates.
#[must_use]
pub fn differences(base: &Side, new: &Side) -> Vec<Difference> {
    let all = || base.runs.iter().chain(&new.runs);
    let Some(first) = base.runs.first() else { return Vec::new() };
    let mut found: Vec<Difference> = Vec::new();
    for other in all() {
        let differences = match (&first.run, &other.run) {
            (Some(first), Some(other)) => between(first, other),
            (None, None) => Vec::new(),
            (one, two) => {
                let maker = |run: &Option<Run>| if run.is_some() { "Roundtrip" } else { "Google Benchmark" };
                vec![difference("program", maker(one), maker(two), true)]
            }
        };
        for difference in differences {
            if !found.contains(&difference) {
                found.push(difference);
            }
        }
    }
    found
}

fn difference(what: &'static str, base: impl ToString, other: impl ToString, refused: bool) -> Difference {
    Difference { what, base: base.to_string(), other: other.to_string(), refused }
}

fn between(base: &Run, other: &Run) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |what, one: Option<String>, two: Option<String>, refused| {
        if one != two {
            let word = |text: Option<String>| text.unwrap_or_else(|| "not known".to_owned());
            found.push(difference(what, word(one), word(two), refused));
        }
    };
    let kind = |run: &Run| figures::backend(&run.results).map(|backend| backend_kind(backend).to_owned());
    differ("driver", kind(base), kind(other), true);
    let of = |run: &Run| run.environment.clone();
    let (one, two) = (of(base), of(other));
    differ("CPU model", one.cpus.model, two.cpus.model, true);
    differ("architecture", Some(one.kernel.machine), Some(two.kernel.machine), true);
    let governors = |run: &Run| {
        let names = run.environment.cpus.governors.as_ref()?;
        Some(names.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    differ("frequency governor", governors(base), governors(other), true);
    let usable = |run: &Run| Some(format!("{} usable", run.environment.cpus.usable.len()));
    differ("CPUs", usable(base), usable(other), true);
    differ("build", Some(one.build_profile), Some(two.build_profile), true);
    for test in plans_that_differ(base, other) {
        differ(test, Some("its options".to_owned()), Some("others".to_owned()), true);
    }
    let complete =
        |run: &Run| Some(if run.partial.is_some() { "ended by a signal" } else { "complete" }.to_owned());
    differ("measuring", complete(base), complete(other), false);
    differ("kernel", Some(one.kernel.release), Some(two.kernel.release), false);
    differ("preemption", one.kernel.preemption, two.kernel.preemption, false);
    differ("Roundtrip", Some(one.roundtrip_version), Some(two.roundtrip_version), false);
    differ("host", Some(one.host_name), Some(two.host_name), false);
    found
}

fn backend_kind(backend: &Backend) -> &'static str {
    match backend {
        Backend::Emulated { .. } => "emulated",
        Backend::Kernel { .. } => "the kernel's",
    }
}

/// The tests whose plans differ, or that only one run has.
fn plans_that_differ(base: &Run, other: &Run) -> Vec<&'static str> {
    let (one, two) = (&base.results, &other.results);
    let mut tests = Vec::new();
    let mut add = |test, differ: bool| {
        if differ {
            tests.push(test);
        }
    };
    macro_rules! plan {
        ($part:ident, $name:literal) => {
            add(
                $name,
                one.$part.as_ref().map(|result| &result.plan)
                    != two.$part.as_ref().map(|result| &result.plan),
            )
        };
    }
    plan!(baseline, "plan of ipc baseline");
    plan!(throughput, "plan of ipc throughput");
    plan!(workers, "plan of ipc workers");
    plan!(storage, "plan of storage layers");
    plan!(interference, "plan of storage interference");
    // The location of a plan's files is not part of what was measured.
    let latency = |run: &Run| {
        run.results.latency.as_ref().map(|result| {
            let mut plan = result.plan.clone();
            if let Some(explain) = &mut plan.explain {
                explain.directory = Default::default();
            }
            if let Some(injection) = &mut plan.injection {
                injection.log = None;
            }
            plan
        })
    };
    let observed = |run: &Run| {
        let plan = run.results.observed_calls.as_ref().map(|result| &result.plan)?;
        Some((anybody(&plan.subject), plan.deadline))
    };
    let observed_writes = |run: &Run| {
        let plan = run.results.observed_writes.as_ref().map(|result| &result.plan)?;
        Some((anybody(&plan.subject), plan.file.clone(), plan.deadline))
    };
    add("plan of ipc observe", observed(base) != observed(other));
    add("plan of storage observe", observed_writes(base) != observed_writes(other));
    add("plan of ipc latency", latency(base) != latency(other));
    tests
}
/// The observed subject, without a process id, which differs in each run.
fn anybody(subject: &Subject) -> Subject {
    match subject {
        Subject::Process(_) => Subject::Process(0),
        other => other.clone(),
    }
}
