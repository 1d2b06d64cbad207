//! Tests which gates are accepted or rejected, and which results violate them.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use roundtrip_run::NAMES as TESTS;
use roundtrip_run::ipc::Backend;
use roundtrip_run::ipc::latency::Response;

use crate::figures::{self, Better, Unit};

fn fixture(name: &str) -> Run {
    Run::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name)).unwrap()
}

fn figure(name: &str, caller: &str, value: f64) -> Figure {
    Figure {
        name: name.to_owned(),
        of: vec![("test", "latency".to_owned()), ("caller", caller.to_owned())],
        value: Some(value),
        unit: Unit::Nanoseconds,
        better: Better::Lower,
        samples: 100,
        bounds: None,
        in_clumps: None,
    }
}

fn gate(text: &str) -> Gate {
    Gate::parse(text, TESTS).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The limit of a gate on a figure, in the figure's unit.
fn limit(text: &str) -> f64 {
    match gate(text).what {
        What::Figure { limit, .. } => limit,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn limits_are_read_in_the_unit_of_their_figure() {
    for (text, value) in [
        ("p99>200us", 200e3),
        ("p99.9 > 1.5ms", 1.5e6),
        ("max>2s", 2e9),
        ("mean<7ns", 7.0),
        ("missed>0", 0.0),
        ("miss>3", 3.0),
        ("response.miss.share>0.1%", 0.1),
        ("futex.ratio>1.5", 1.5),
        ("rate<1000/s", 1000.0),
        ("rate<1.5k/s", 1500.0),
        ("rate<100MB/s", 1e8),
        ("fs.mean>1ms", 1e6),
        ("p99[caller=fifo:99,stack=binder]>1us", 1000.0),
    ] {
        assert_eq!(limit(text), value, "{text}");
    }
    assert_eq!(gate("warnings").what, What::Warnings);
    assert_eq!(gate("inheritance").what, What::Inheritance);
}

#[test]
fn an_invalid_gate_is_refused_with_the_valid_choices() {
    for (text, message) in [
        ("p98>1us", "there is no figure 'p98'; expected inheritance, rate, warnings, or NAME>LIMIT"),
        (
            "p99",
            "expected inheritance, rate, warnings, or NAME>LIMIT or NAME<LIMIT with a NAME of mean, p50, ",
        ),
        ("", "expected inheritance"),
        ("p99>200", "expected after p99 a time with its unit, as in 200us"),
        ("p99>=200us", "expected after p99 a time with its unit"),
        ("p99>+5%", "expected after p99 a time with its unit"),
        ("p99>-1us", "expected after p99 a time with its unit"),
        ("missed>0.5", "expected after missed a whole number"),
        ("missed.share>1", "expected after missed.share a share in percent"),
        ("rate<5", "expected after rate a rate, as in 1000/s (or 1k/s, 1M/s), or a rate, as in 100MB/s"),
        ("p99[caller>1us", "expected labels as in "),
        ("p99[caller]>1us", "expected labels as in "),
        (
            "missed[size_bytes=4]>0",
            "missed has no label 'size_bytes'; it has test, call, caller, client, code, file, inheritance, process, server, stack",
        ),
    ] {
        let error = Gate::parse(text, TESTS).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    // A gate may use only figures of the command's own tests.
    let error = Gate::parse("missed>0", &["throughput"]).unwrap_err();
    assert!(
        error.ends_with("with a NAME of mean, p50, p90, p95, p99, p99.9, p99.99, max, time, cpu, rate"),
        "{error}"
    );
    assert!(Gate::parse("inheritance", &["throughput"]).is_err());
    assert_eq!(Gate::parse("p99>1us", &[]).unwrap_err(), "there is no figure 'p99'; expected warnings");
}

#[test]
fn figures_beyond_the_limit_violate_a_gate_and_the_worst_is_named() {
    let run = fixture("x86_64-6.1-binder");
    let figures =
        [figure("p99", "fifo:99", 150e3), figure("p99", "other", 300e3), figure("p50", "other", 1e9)];
    assert_eq!(gate("p99>300us").judge(&run, &figures), None, "the limit itself is within");
    let Some(Violation::Beyond { worst, beyond, of }) = gate("p99>100us").judge(&run, &figures) else {
        panic!("both are beyond")
    };
    assert_eq!((worst.label("caller"), beyond, of), (Some("other"), 2, 2));
    let Some(Violation::Beyond { worst, beyond, of }) = gate("p99<200us").judge(&run, &figures) else {
        panic!("one is below")
    };
    assert_eq!((worst.label("caller"), beyond, of), (Some("fifo:99"), 1, 2));
    assert_eq!(gate("p99[caller=fifo:99]>200us").judge(&run, &figures), None);
    assert!(gate("p99[caller=other]>200us").judge(&run, &figures).is_some());
    let none = [figure("p99", "other", f64::NAN)];
    assert!(gate("p99>100s").judge(&run, &none).is_some(), "NaN exceeds every limit");
}

#[test]
fn a_gate_on_a_missing_figure_is_violated() {
    let run = fixture("x86_64-6.1-binder");
    let figures = figures::of(&run.results, &[], &[]);
    for text in
        ["response.p99>1s", "p99[caller=nice:5]>1s", "rate<1/s", "fs.mean>10s", "p50[test=workers]>1s"]
    {
        assert_eq!(gate(text).judge(&run, &figures), Some(Violation::NoFigure), "{text}");
    }
    assert_eq!(gate("p99.9>1ns").judge(&run, &figures), Some(Violation::TooFew(300)));
    let storage = fixture("x86_64-6.1-ufs");
    let Some(Violation::Inheritance { reason, .. }) = gate("inheritance").judge(&storage, &[]) else {
        panic!("expected an unknown inheritance")
    };
    assert_eq!(reason, "not known: the run has no latency test");
}

#[test]
fn a_stored_run_is_judged_by_its_misses_verdict_and_warnings() {
    let mut run = fixture("x86_64-6.1-binder");
    let figures = figures::of(&run.results, &[], &[]);
    assert!(matches!(
        gate("miss[caller=fifo:99]>7").judge(&run, &figures),
        Some(Violation::Beyond { worst, .. }) if worst.value == Some(8.0)
    ));
    assert_eq!(gate("miss[caller=fifo:99]>8").judge(&run, &figures), None);

    run.warnings.clear();
    assert_eq!(gate("warnings").judge(&run, &figures), None);
    run.warnings.push("the machine was busy".into());
    assert_eq!(gate("warnings").judge(&run, &figures), Some(Violation::Warnings(1)));

    let judge = |run: &Run| match gate("inheritance").judge(run, &[]) {
        None => "inherited".to_owned(),
        Some(Violation::Inheritance { reason, .. }) => reason,
        Some(other) => panic!("{other:?}"),
    };
    let series = |run: &mut Run, inheritance, verdict| {
        let series = &mut run.results.latency.as_mut().unwrap().series;
        series.truncate(1);
        series[0].stack = roundtrip_run::ipc::Stack::Binder;
        (series[0].inheritance, series[0].verdict) = (inheritance, verdict);
    };
    use roundtrip_run::ipc::latency::Inheritance::{Off, On};
    series(&mut run, On, Verdict::Pass);
    assert_eq!(judge(&run), "inherited");
    series(&mut run, On, Verdict::Unseen { reason: "by futex".into() });
    assert_eq!(judge(&run), "inherited");
    series(&mut run, On, Verdict::Fail { reason: "in 3 of 8 calls".into() });
    assert_eq!(judge(&run), "in 3 of 8 calls");
    series(&mut run, On, Verdict::Skip { reason: "no permission".into() });
    assert_eq!(judge(&run), "not known: no permission");
    series(&mut run, Off, Verdict::Fail { reason: "the node does not ask".into() });
    assert!(judge(&run).starts_with("not known: no node asks for it"), "{}", judge(&run));
}

#[test]
fn the_rate_gate_fails_unless_each_caller_reached_the_rate() {
    let mut run = fixture("x86_64-6.1-binder");
    let judge = |run: &Run| match gate("rate").judge(run, &[]) {
        None => String::new(),
        Some(Violation::Rate(reason)) => reason,
        Some(other) => panic!("{other:?}"),
    };
    assert_eq!(judge(&run), "the calls had no rate; use --rate");
    let latency = run.results.latency.as_mut().unwrap();
    latency.plan.rate_per_s = Some(100.0);
    latency.series.truncate(1);
    for caller in latency.series.iter_mut().flat_map(|one| &mut one.pairs).flat_map(|one| &mut one.callers) {
        let time = (0..100).collect();
        caller.response = Some(Response { time, elapsed_ns: 1_000_000_000, ..Response::default() });
    }
    assert_eq!(judge(&run), "");
    let of = |run: &mut Run, elapsed_ns| {
        let latency = run.results.latency.as_mut().unwrap();
        latency.series[0].pairs[0].callers[1].response.as_mut().unwrap().elapsed_ns = elapsed_ns;
    };
    of(&mut run, 4_000_000_000);
    assert!(judge(&run).ends_with(": 25.0 of 100 calls a second"), "{}", judge(&run));
    of(&mut run, 0);
    assert!(judge(&run).ends_with("the run does not say which rate was reached"), "{}", judge(&run));
}

#[test]
fn requirements_are_met_only_by_what_the_run_used() {
    let mut run = fixture("x86_64-6.1-binder");
    for requirement in Requirement::ALL {
        assert_eq!(requirement.judge(&run), None, "{}", requirement.name());
    }
    let missing = |requirement: Requirement, run: &Run| match requirement.judge(run) {
        Some(Violation::Missing(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let latency = run.results.latency.as_mut().unwrap();
    latency.realtime_refused = Some("no CAP_SYS_NICE".into());
    latency.backend = Some(Backend::Emulated { profile: roundtrip_run::ipc::Profile::Ack });
    latency.explained.as_mut().unwrap().not_recorded = Some("the disk is full".into());
    assert_eq!(missing(Requirement::Realtime, &run), "no CAP_SYS_NICE");
    assert_eq!(missing(Requirement::KernelDriver, &run), "the run used the emulated driver (ack profile)");
    assert_eq!(missing(Requirement::Events, &run), "the disk is full");

    let latency = run.results.latency.as_mut().unwrap();
    latency.realtime_refused = None;
    latency.explained = None;
    for caller in latency.series.iter_mut().flat_map(|one| &mut one.pairs).flat_map(|one| &mut one.callers) {
        caller.caller = roundtrip_run::Scheduling::other(0);
    }
    assert_eq!(missing(Requirement::Realtime, &run), "no real-time caller made calls");
    assert!(missing(Requirement::Events, &run).starts_with("no test of the run records events"));

    let mut storage = fixture("x86_64-6.1-ufs");
    assert_eq!(Requirement::Events.judge(&storage), None);
    assert_eq!(missing(Requirement::KernelDriver, &storage), "the run used no binder driver");
    assert_eq!(missing(Requirement::Realtime, &storage), "the run has no latency test");
    storage.results.storage.as_mut().unwrap().recorder = None;
    assert_eq!(missing(Requirement::Events, &storage), "nothing was recorded");
}

#[test]
fn every_figure_of_a_run_has_its_name_unit_and_labels_in_the_list() {
    let mut tests = BTreeSet::new();
    for name in ["x86_64-6.1-binder", "x86_64-6.1-ufs"] {
        let run = fixture(name);
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name);
        let storage = run.results.storage.as_ref();
        let layers =
            storage.map(|result| crate::storage::divide(result, &directory, 1).results).unwrap_or_default();
        for figure in figures::of(&run.results, &layers, &[]) {
            let test = figure.label("test").unwrap();
            tests.insert(test.to_owned());
            let described = metrics::of(&[test]).next().unwrap();
            assert_eq!(metrics::unit(described, &figure.name), Some(figure.unit), "{}", figure.name);
            let labels: BTreeSet<&str> = figure.of.iter().map(|(key, _)| *key).collect();
            let known: BTreeSet<&str> = described.labels.iter().copied().chain(["test"]).collect();
            assert_eq!(labels, known, "{}", figure.name);
        }
    }
    assert_eq!(tests, BTreeSet::from(["latency".to_owned(), "storage".to_owned()]));
}

#[test]
fn the_page_on_gates_has_every_name_and_label() {
    let page = include_str!("../../../../docs/gates.md");
    for test in metrics::of(TESTS) {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", test.name)));
        let row = row.unwrap_or_else(|| panic!("{}", test.name));
        let layers = roundtrip_layers::storage::Layer::ALL.map(|layer| format!("{}.mean", layer.name()));
        let layers = layers.iter().map(String::as_str).filter(|_| test.name == "storage");
        let prefixes = test.times.iter().copied().filter(|prefix| !prefix.is_empty());
        let others = test.numbers.iter().map(|(name, ..)| *name);
        let times = test.times.contains(&"").then_some("times");
        assert_eq!(times.is_some(), row.contains("| times"), "{row}");
        for name in layers.chain(prefixes).chain(others).chain(test.labels.iter().copied()) {
            assert!(row.contains(&format!("`{name}`")), "{name} in {row}");
        }
    }
    assert!(roundtrip_run::TIMES.iter().all(|name| page.contains(&format!("`{name}`"))));
    assert!(Requirement::ALL.iter().all(|one| page.contains(&format!("\n| `{}` |", one.name()))));
}
