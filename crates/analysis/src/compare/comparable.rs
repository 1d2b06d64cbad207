//! Differences between runs that make a comparison misleading. Must not know the runs' figures.

use roundtrip_run::ipc::Backend;
use roundtrip_run::{Run, TESTS, Test, Tested};

use super::Side;

/// A difference between runs that affects all figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs: "driver", "CPU model".
    pub what: String,
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

fn difference(what: &str, base: impl ToString, other: impl ToString, refused: bool) -> Difference {
    Difference { what: what.to_owned(), base: base.to_string(), other: other.to_string(), refused }
}

fn between(base: &Run, other: &Run) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |what: &str, one: Option<String>, two: Option<String>, refused| {
        if one != two {
            let word = |text: Option<String>| text.unwrap_or_else(|| "not known".to_owned());
            found.push(difference(what, word(one), word(two), refused));
        }
    };
    let kind = |run: &Run| run.results.backend().map(|backend| backend_kind(backend).to_owned());
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
    for command in plans_that_differ(base, other) {
        differ(
            &format!("plan of {command}"),
            Some("its options".to_owned()),
            Some("others".to_owned()),
            true,
        );
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

/// The commands of the tests whose plans differ, or that only one run has.
fn plans_that_differ<'a>(base: &'a Run, other: &'a Run) -> impl Iterator<Item = &'static str> + 'a {
    let plan = |run: &Run, test: &Test| {
        let mut parts = run.results.parts();
        parts.find(|part| part.test().name == test.name).map(Tested::plan)
    };
    let differ = move |test: &&Test| plan(base, test) != plan(other, test);
    TESTS.iter().filter(differ).map(|test| test.command)
}
