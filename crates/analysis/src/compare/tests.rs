use super::*;
use crate::figures::Unit;

fn figure(name: &str, value: f64, better: Better) -> Figure {
    let bounds = Some(Bounds { low: value * 0.99, high: value * 1.01 });
    let of = vec![("test", "latency".to_owned())];
    Figure {
        name: name.into(),
        of,
        value: Some(value),
        unit: Unit::Nanoseconds,
        better,
        samples: 1000,
        bounds,
        in_clumps: bounds,
    }
}

/// A run with the same date as all others, unless one is given.
fn made(date: Option<&str>, figures: Vec<Figure>) -> Measured {
    let date = Some(date.unwrap_or("2026-11-23T10:00:00Z").to_owned());
    Measured { path: "run".into(), date, figures, run: None }
}

/// One run for each value.
fn side(name: &str, values: &[f64], better: Better) -> Side {
    let run = |&value: &f64| made(None, vec![figure(name, value, better)]);
    Side { runs: values.iter().map(run).collect() }
}

fn only(base: &[f64], new: &[f64], better: Better, options: &Options) -> Compared {
    let mut all = compare(&side("p99", base, better), &side("p99", new, better), options);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

const BASE: [f64; 6] = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2];

#[test]
fn six_runs_on_each_side_show_what_is_worse_better_or_the_same() {
    let options = Options::default();
    let slower = only(&BASE, &BASE.map(|value| value * 1.2), Better::Lower, &options);
    assert_eq!((slower.verdict, slower.basis, slower.runs), (Verdict::Worse, Basis::Runs, [6, 6]));
    assert!((slower.worse_percent().unwrap() - 20.0).abs() < 1.0, "{slower:?}");
    let faster = only(&BASE, &BASE.map(|value| value / 1.2), Better::Lower, &options);
    assert_eq!(faster.verdict, Verdict::Better);
    let lower_rate = only(&BASE, &BASE.map(|value| value / 1.2), Better::Higher, &options);
    assert_eq!(lower_rate.verdict, Verdict::Worse);
    assert!(lower_rate.worse_percent().unwrap() > 19.0);
    assert_eq!(only(&BASE, &BASE.map(|value| value * 1.001), Better::Lower, &options).verdict, Verdict::Same);
}

#[test]
fn noisy_runs_give_no_verdict_but_the_number_of_runs_needed() {
    let wide = [80.0, 120.0, 95.0, 105.0, 130.0, 75.0];
    let more = wide.map(|value| value * 1.05);
    let compared = only(&wide, &more, Better::Lower, &Options::default());
    assert_eq!(compared.verdict, Verdict::CannotTell);
    assert!(compared.runs_needed.unwrap() > 20, "{compared:?}");
}

#[test]
fn single_runs_show_only_differences_larger_than_the_noise() {
    let options = Options::default();
    let of = |new| only(&[100.0], &[new], Better::Lower, &options);
    let by_a_fifth = of(121.0);
    assert_eq!(
        (by_a_fifth.verdict, by_a_fifth.basis, by_a_fifth.p),
        (Verdict::CannotTell, Basis::FewRuns, None)
    );
    assert_eq!((of(200.0).verdict, of(50.0).verdict), (Verdict::Worse, Verdict::Better));
    let trusting = Options { noise: 0.0, ..Options::default() };
    assert_eq!(only(&[100.0], &[121.0], Better::Lower, &trusting).verdict, Verdict::Worse);
}

#[test]
fn pairs_cancel_what_both_runs_of_a_pair_share() {
    let drift = [100.0, 150.0, 80.0, 120.0, 200.0, 90.0, 110.0];
    let slower = drift.map(|value| value * 1.05);
    assert_eq!(only(&drift, &slower, Better::Lower, &Options::default()).verdict, Verdict::CannotTell);
    let paired = Options { paired: true, ..Options::default() };
    let compared = only(&drift, &slower, Better::Lower, &paired);
    assert_eq!((compared.verdict, compared.basis), (Verdict::Worse, Basis::Pairs));
}

#[test]
fn a_count_may_be_0() {
    let count = |values: &[f64]| -> Side {
        let mut side = side("missed", values, Better::Lower);
        for run in &mut side.runs {
            run.figures[0].unit = Unit::Count;
        }
        side
    };
    let none = count(&[0.0; 6]);
    let some = count(&[9.0, 8.0, 10.0, 9.0, 11.0, 9.0]);
    let all = compare(&none, &some, &Options::default());
    assert_eq!((all[0].verdict, all[0].base, all[0].new), (Verdict::Worse, 0.0, 9.0));
    assert_eq!(compare(&none, &none, &Options::default())[0].verdict, Verdict::Same);
}

/// One run of each side, of which so many calls missed their deadline.
fn missed(base: (u64, u64), new: (u64, u64)) -> Compared {
    let side = |(missed, calls): (u64, u64)| {
        let mut side = side("missed", &[missed as f64], Better::Lower);
        let figure = &mut side.runs[0].figures[0];
        (figure.unit, figure.samples) = (Unit::Count, calls);
        (figure.bounds, figure.in_clumps) = (None, None);
        side
    };
    compare(&side(base), &side(new), &Options::default()).remove(0)
}

#[test]
fn one_run_a_side_shows_that_many_more_calls_missed_their_deadline() {
    let (few, many) = ((2, 851_153), (821, 222_846));
    let worse = missed(few, many);
    assert_eq!((worse.verdict, worse.basis), (Verdict::Worse, Basis::FewRuns), "{worse:?}");
    assert_eq!(worse.calls, Some([851_153.0, 222_846.0]));
    assert_eq!(missed(many, few).verdict, Verdict::Better);
    // As many per call, none at all, and more than that on one side by one disturbance.
    for (base, new) in [((4000, 1_000_000), (1000, 250_000)), ((0, 100), (0, 1000)), ((0, 1000), (40, 1000))]
    {
        assert_eq!(missed(base, new).verdict, Verdict::CannotTell, "{base:?} {new:?}");
    }
}

#[test]
fn runs_without_misses_are_the_same_whatever_their_number_of_calls() {
    let side = |calls: u64| {
        let mut side = side("missed", &[0.0; 6], Better::Lower);
        for run in &mut side.runs {
            (run.figures[0].unit, run.figures[0].samples) = (Unit::Count, calls);
        }
        side
    };
    let compared = compare(&side(1000), &side(4000), &Options::default()).remove(0);
    assert_eq!((compared.verdict, compared.ratio), (Verdict::Same, Some(1.0)));
}

#[test]
fn a_percentile_of_few_slow_calls_may_come_from_one_disturbance() {
    let side = |slow: u64, calls: u64| {
        let mut group = roundtrip_run::figures::Group::new([]);
        let times = (0..calls).map(|call| if call < slow { 5_000_000 + call } else { 100_000 + call % 9 });
        group.times("", std::borrow::Cow::Owned(times.collect()));
        let latency = roundtrip_run::TESTS.iter().find(|test| test.name == "latency").unwrap();
        Side { runs: vec![made(None, latency.figures(&group))] }
    };
    let options = Options { names: vec!["p99.9".into()], ..Options::default() };
    let judged = |base: &Side, new: &Side| compare(base, new, &options).remove(0).verdict;
    assert_eq!(judged(&side(2, 851_153), &side(821, 222_846)), Verdict::Worse);
    assert_eq!(judged(&side(821, 222_846), &side(2, 851_153)), Verdict::Better);
    assert_eq!(judged(&side(2, 851_153), &side(30, 20_000)), Verdict::CannotTell);
    assert_eq!(judged(&side(821, 222_846), &side(821, 222_846)), Verdict::CannotTell);
}

#[test]
fn only_the_requested_figures_are_compared() {
    let figures = || vec![figure("p50", 1.0, Better::Lower), figure("p95", 1.0, Better::Lower)];
    let side = || Side { runs: vec![made(None, figures())] };
    let names = |options: &Options| -> Vec<String> {
        compare(&side(), &side(), options).into_iter().map(|compared| compared.name).collect()
    };
    assert_eq!(names(&Options::default()), ["p50"]);
    assert_eq!(names(&Options { names: vec!["p95".into()], ..Options::default() }), ["p95"]);
}

/// Counts chance findings, with as many independent figures as a run of both stacks has.
#[test]
fn of_200_comparisons_of_the_same_thing_at_most_5_percent_find_something() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut side = |figures: usize| -> Side {
        let mut run = || {
            let mut value = || 100.0 * (0.1 * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0)).exp();
            let figures = (0..figures).map(|n| {
                let mut figure = figure("p50", value(), Better::Lower);
                figure.of.push(("caller", n.to_string()));
                figure
            });
            made(None, figures.collect())
        };
        Side { runs: (0..10).map(|_| run()).collect() }
    };
    for figures in [1, 12] {
        let mut alarms = 0;
        for _ in 0..200 {
            let found = compare(&side(figures), &side(figures), &Options::default());
            let beyond = |compared: &Compared| matches!(compared.verdict, Verdict::Better | Verdict::Worse);
            alarms += u32::from(found.iter().any(beyond));
        }
        // 5% of 200 are 10, with a standard deviation of 3.1.
        assert!(alarms <= 17, "{figures} figures: {alarms} of 200");
    }
}

#[test]
fn google_benchmarks_files_are_read_by_their_repetitions() {
    let path = std::env::temp_dir().join(format!("roundtrip-google-{}.json", std::process::id()));
    let row = |kind: &str, us: f64| {
        format!(
            r#"{{"name":"BM_sendVec_binder/4","run_type":"{kind}","real_time":{us},"cpu_time":1,"time_unit":"us","bytes_per_second":5e8}}"#
        )
    };
    let rows = [row("iteration", 2.0), row("iteration", 4.0), row("iteration", 3.0), row("aggregate", 99.0)];
    std::fs::write(&path, format!(r#"{{"context":{{}},"benchmarks":[{}]}}"#, rows.join(","))).unwrap();
    let side = Side::read(std::slice::from_ref(&path)).unwrap();
    std::fs::remove_file(&path).unwrap();
    let figures = &side.runs[0].figures;
    let time = figures.iter().find(|figure| figure.name == "time").unwrap();
    assert_eq!((time.value, time.samples), (Some(3000.0), 3));
    assert_eq!(time.label("benchmark"), Some("BM_sendVec_binder/4"));
}

#[test]
fn differences_in_machine_and_driver_are_listed() {
    let directory =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/x86_64-6.1-binder");
    let read = || Side::read(std::slice::from_ref(&directory)).unwrap();
    assert_eq!(differences(&read(), &read()), []);
    let mut other = read();
    let run = other.runs[0].run.as_mut().unwrap();
    run.environment.kernel.release = "9.9".into();
    run.environment.cpus.model = Some("another".into());
    run.partial = Some(roundtrip_run::Partial { signal: Some("SIGINT".into()), failure: None, after_ns: 1 });
    let latency = run.results.latency.as_mut().unwrap();
    latency.plan.payload_bytes = 4096;
    latency.backend =
        Some(roundtrip_run::ipc::Backend::Emulated { profile: roundtrip_run::ipc::Profile::Ack });
    let found = differences(&read(), &other);
    let what: Vec<_> =
        found.iter().map(|difference| (difference.what.as_str(), difference.refused)).collect();
    assert_eq!(
        what,
        [
            ("driver", true),
            ("CPU model", true),
            ("plan of ipc latency", true),
            ("measuring", false),
            ("kernel", false)
        ]
    );
}

#[test]
fn a_label_that_differs_between_the_sides_is_the_subject_of_the_comparison() {
    let with_stack = |stack: &[&str], value: f64| {
        let of = |stack: &str| vec![("test", "latency".to_owned()), ("stack", stack.to_owned())];
        let figures =
            stack.iter().map(|stack| Figure { of: of(stack), ..figure("p99", value, Better::Lower) });
        Side { runs: vec![made(None, figures.collect())] }
    };
    let trusting = Options { noise: 0.0, ..Options::default() };
    let compared = compare(&with_stack(&["binder"], 100.0), &with_stack(&["hwbinder"], 200.0), &trusting);
    assert_eq!(compared[0].of[1], ("stack", "binder to hwbinder".to_owned()));
    assert_eq!((compared[0].base, compared[0].new), (100.0, 200.0));
    // If the base has both stacks, only the common stack is compared.
    let both = with_stack(&["binder", "hwbinder"], 100.0);
    let compared = compare(&both, &with_stack(&["hwbinder"], 200.0), &trusting);
    assert_eq!((compared.len(), compared[0].of[1].1.as_str()), (1, "hwbinder"));
}

#[test]
fn runs_that_were_made_at_different_times_may_differ_by_more() {
    let at = |minute: usize, values: &[f64]| {
        let date = |second: usize| format!("2026-11-23T10:{minute:02}:{second:02}Z");
        let run = |(second, &value): (usize, &f64)| {
            made(Some(&date(second)), vec![figure("p99", value, Better::Lower)])
        };
        Side { runs: values.iter().enumerate().map(run).collect() }
    };
    let judged = |new: &Side| {
        let compared = compare(&at(1, &BASE), new, &Options::default()).remove(0);
        (compared.verdict, compared.basis)
    };
    let (a_fifth, half) = (BASE.map(|value| value * 1.2), BASE.map(|value| value * 1.5));
    assert_eq!(judged(&at(2, &a_fifth)), (Verdict::CannotTell, Basis::RunsApart));
    assert_eq!(judged(&at(0, &a_fifth)), (Verdict::CannotTell, Basis::RunsApart));
    assert_eq!(judged(&at(1, &a_fifth)), (Verdict::Worse, Basis::Runs));
    assert_eq!(judged(&at(2, &half)), (Verdict::Worse, Basis::RunsApart));
    let mut undated = at(1, &a_fifth);
    undated.runs[3].date = None;
    assert_eq!(judged(&undated), (Verdict::CannotTell, Basis::RunsApart));
}

#[test]
fn the_first_pairs_say_what_all_of_them_will_find() {
    let spread = [100.0, 101.0, 99.0, 100.0];
    let pairs = |name: &str, values: &[f64]| {
        let of = |values: &[f64]| side(name, values, Better::Lower);
        [of(&[100.0; 4]), of(values)]
    };
    let options = Options::default();
    let [base, new] = pairs("p50", &spread);
    let found = outlook(&base, &new, 10, &options).unwrap();
    // A standard deviation of 0.82% and 10 pairs: (1.96 + 1.28) * 0.82% / sqrt(10).
    assert!((found.finds.unwrap() - 0.0084).abs() < 0.0002, "{found:?}");
    assert_eq!((found.name.as_str(), found.of.clone(), found.figures), ("p50", None, 1));
    // Five pairs on one side of 0 have a probability of 2/32, six have 2/64.
    assert_eq!(outlook(&base, &new, 5, &options).unwrap().finds, None);
    assert_eq!(found.needed, 6);
    let [base, new] = pairs("p50", &[80.0, 120.0, 95.0, 110.0]);
    let noisy = outlook(&base, &new, 10, &options).unwrap();
    assert!(noisy.finds.unwrap() > 0.15 && noisy.needed > 100, "{noisy:?}");
    assert_eq!(outlook(&side("p50", &spread[..2], Better::Lower), &base, 10, &options), None);
    assert_eq!(outlook(&base, &new, 10, &Options { names: vec!["mean".into()], ..options }), None);
}
