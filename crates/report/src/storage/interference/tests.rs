//! Tests of the text and the CSV, with a made-up comparison.

use roundtrip_layers::storage::{
    Breakdown, Completion, Context, Doubt, Expected, InterruptUse, Layers, Piece, Write,
};
use roundtrip_run::storage::interference::InterferencePlan;
use roundtrip_run::storage::{Api, Call, Durability, Opened, StoragePath, WriterResult};

use super::*;

fn block(latency_ns: u64, hog: bool) -> Measured {
    let call = |at: u64| Call { start_ns: at * 1_000_000, end_ns: at * 1_000_000 + latency_ns };
    Measured {
        calls: (0..3).map(call).collect(),
        snapshot: None,
        elapsed_ns: 10_000_000,
        all_calls: 4,
        run_delay_ns: Some(if hog { 80_000 } else { 4_000 }),
        lost_cpu: 0,
        frequency_khz: Some(if hog { 1_000_000 } else { 400_000 }),
        requests: Some(4),
        requests_ns: Some(4 * latency_ns / 2),
        neighbour_count: None,
        neighbour_cpu_ns: hog.then_some(9_900_000),
    }
}

/// A comparison in which a call with the condition takes `percent` percent of its time without it.
fn beside(condition: Condition, percent: u64) -> Beside {
    let pair = |round: u64| Pair {
        alone: block(300_000 + round * 1000, false),
        beside: block((300_000 + round * 1000) * percent / 100, condition != Condition::Alone),
        alone_first: round.is_multiple_of(2),
    };
    let mut pairs: Vec<Pair> = (0..6).map(pair).collect();
    if condition == Condition::Timers {
        pairs.iter_mut().for_each(|pair| pair.beside.neighbour_count = Some(900));
    }
    let what = format!("made up, {percent}%");
    Beside { condition, what, writer: 0, writer_beside: 0, size_bytes: 16 << 10, pairs }
}

fn result() -> InterferenceResult {
    InterferenceResult {
        plan: InterferencePlan { rounds: 6, ..InterferencePlan::default() },
        path: StoragePath {
            mount_point: "/data".into(),
            file_system: "f2fs".into(),
            mount_options: "rw".into(),
            ..StoragePath::default()
        },
        clock_read_cost_ns: 21.5,
        writers: vec![WriterResult {
            api: Api::Native,
            durability: Durability::Dsync,
            opened: Opened { pid: 7, tid: 7, runtime: None },
        }],
        writer_cpus: vec![0],
        interrupt_cpu: Some(1),
        comparisons: vec![
            beside(Condition::Alone, 100),
            beside(Condition::HogOther, 80),
            beside(Condition::Timers, 130),
        ],
        recorder: None,
        recording_ended: None,
        ended: Vec::new(),
        not_possible: vec!["performance: there is no frequency governor here".into()],
        notes: vec!["a note".into()],
    }
}

/// What the events of a side might show.
fn side(device_ns: f64, elsewhere: bool) -> Side {
    let mut breakdown = Breakdown::keeping(0);
    let write = Write { start_ns: 0, end_ns: 300_000, tid: 7 };
    let piece = |begin_ns, end_ns, layer| Piece { begin_ns, end_ns, layer };
    let pieces = vec![
        piece(0, 20_000, Layer::Fs),
        piece(20_000, 280_000, Layer::Device),
        piece(280_000, 290_000, Layer::Irq),
        piece(290_000, 300_000, Layer::Wake),
    ];
    let request = roundtrip_layers::storage::Request {
        leaf: true,
        interrupt_cpu: Some(1),
        completed_cpu: if elsewhere { 0 } else { 1 },
        ..Default::default()
    };
    breakdown.add(
        write,
        Layers {
            pieces,
            requests: vec![request],
            interruptions: Default::default(),
            reasons: Vec::new(),
            behind_others_ns: 0,
            missing: None,
            unrecorded_switches: 1,
            unexplained_for_switches_ns: 30,
            others_commits: Vec::new(),
            usual_ns: 0,
        },
    );
    breakdown.unrecorded_switches = 4;
    breakdown.doubts.insert(Doubt::Lacks(Expected::Waking));
    let completion = Completion {
        interrupt: true,
        completed_in: if elsewhere { Context::Ipi } else { Context::Interrupt },
        elsewhere,
        woken_in: Some(Context::Interrupt),
    };
    Side {
        device_ns: vec![device_ns; 6],
        rounds: Vec::new(),
        breakdown,
        interrupts: InterruptUse { count: 3, handled_ns: 5000 },
        completions: [(completion, 1)].into(),
        frequency_khz: None,
    }
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
}

#[test]
fn both_figures_are_side_by_side_with_explanations_and_the_study() {
    let result = result();
    let devices = [(260_000.0, false), (280_000.0, true), (260_000.0, false)];
    let explained = |(beside, (device_ns, elsewhere))| {
        let sides = Some([side(260_000.0, false), side(device_ns, elsewhere)]);
        Explained { beside, sides }
    };
    let recorded: Vec<_> = result.comparisons.iter().zip(devices).map(explained).collect();
    let page = page(&result, &recorded, Look::PLAIN);
    assert_has(
        &page,
        &[
            "writer on CPU 0; device interrupt: CPU 1",
            "native, dsync, 16 KiB",
            "0.800  0.80-0.80",
            "1.077  1.08-1.08",
            "400 > 1000",
            "0 > 100",
            "90000 timers/s",
            "  application faster: yes (largest change -20.0%, hog-other)",
            "  device slower: yes (largest change +7.7%, hog-other)",
            "hog-other: completions alone: irq > writer (100%); beside: irq > IPI on another CPU > irq > writer (100%)",
            "timers: made up, 130%",
            "Not possible: performance: there is no frequency governor here",
            "Note: a note",
        ],
    );
    insta::assert_snapshot!(page);
    let row = page.lines().find(|line| line.starts_with("timers")).unwrap();
    assert!(row.contains("1.300") && row.contains("1.000"), "{row}");
}

#[test]
fn differences_within_chance_neither_confirm_nor_refute_the_study() {
    let mut result = result();
    // The control differs as much as the application with a hog.
    result.comparisons[0] = beside(Condition::Alone, 80);
    let plain: Vec<_> = result.comparisons.iter().map(|beside| Explained { beside, sides: None }).collect();
    assert_has(
        &page(&result, &plain, Look::PLAIN),
        &["  application faster: cannot tell; alone against alone varied as much"],
    );
}

#[test]
fn without_events_the_devices_counters_are_used_and_unknown_figures_are_noted() {
    let mut result = result();
    for pair in result.comparisons.iter_mut().flat_map(|one| &mut one.pairs) {
        pair.alone.frequency_khz = None;
        pair.beside.frequency_khz = None;
    }
    let plain: Vec<_> = result.comparisons.iter().map(|beside| Explained { beside, sides: None }).collect();
    let page = page(&result, &plain, Look::PLAIN);
    assert_has(
        &page,
        &[
            "CPU frequency: not known; there is no frequency governor",
            "not known, events were not recorded",
            "include all processes' requests",
            "  device slower: no (largest change -20.0%, hog-other)",
        ],
    );
}

#[test]
fn where_most_calls_had_nothing_of_the_device_both_medians_stand_without_a_ratio() {
    let mut result = result();
    result.comparisons.truncate(1);
    let sides = || Some([side(140_000.0, false), side(0.0, false)]);
    let explained: Vec<_> =
        result.comparisons.iter().map(|beside| Explained { beside, sides: sides() }).collect();
    let page = page(&result, &explained, Look::PLAIN);
    let row = page.lines().find(|line| line.starts_with("alone ")).unwrap();
    assert!(row.trim_end().ends_with("140         0.00      -"), "{row:?}");
}

#[test]
fn calls_without_the_device_are_counted() {
    let mut result = result();
    result.comparisons.truncate(1);
    let mut beside = side(0.0, false);
    let write = Write { start_ns: 0, end_ns: 10, tid: 7 };
    beside.breakdown.add(write, Layers::default());
    let explained =
        [Explained { beside: &result.comparisons[0], sides: Some([side(140_000.0, false), beside]) }];
    assert_has(
        &page(&result, &explained, Look::PLAIN),
        &["alone, beside: 1 of 2 calls spent no time in the device"],
    );
}

#[test]
fn fewer_than_six_rounds_reproduce_nothing() {
    let mut result = result();
    result.comparisons.iter_mut().for_each(|one| one.pairs.truncate(5));
    let plain: Vec<_> = result.comparisons.iter().map(|beside| Explained { beside, sides: None }).collect();
    assert_has(
        &page(&result, &plain, Look::PLAIN),
        &["application faster: cannot tell; fewer than 6 rounds"],
    );
}

#[test]
fn rounds_have_a_line_for_each_round_and_side() {
    let mut result = result();
    result.comparisons.truncate(2);
    result.comparisons.iter_mut().for_each(|one| one.pairs.truncate(1));
    let plain: Vec<_> = result.comparisons.iter().map(|beside| Explained { beside, sides: None }).collect();
    let csv = crate::storage::rounds::csv(&result, &plain);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(
        lines[1],
        "alone,native,dsync,16384,1,alone,true,3,300000,,150000,1000,400000,,,10000000,,,f2fs,,,,"
    );
    assert_eq!(
        lines[4],
        "hog-other,native,dsync,16384,1,beside,false,3,240000,,120000,20000,1000000,9900000,,10000000,,,f2fs,,,,"
    );
    assert!(lines.iter().all(|line| line.split(',').count() == 23), "{csv}");
}
