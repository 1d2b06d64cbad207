//! The output and the files of `roundtrip ipc latency`.

use std::path::PathBuf;

use roundtrip_bench::sched::realtime_permission;
use serde_json::Value;

use super::{called, check_block, json, judged, latency, stderr, succeed};

use crate::support::csv;

#[test]
fn each_injected_disturbance_hits_a_timed_call() {
    let folder = std::env::temp_dir().join(format!("roundtrip-disturbed-{}", std::process::id()));
    // A disturbance is due before each of the three turns, which start with untimed calls.
    let args = "--driver emulated --callers other --duration 600ms --deadline 3ms --inject sleep,every=10ms,for=5ms --format json";
    let output = succeed(latency(args).arg("--out").arg(&folder));
    let noted = std::fs::read_to_string(folder.join("injected.csv")).unwrap().lines().count() - 1;
    std::fs::remove_dir_all(&folder).unwrap();
    let json = json(&output);
    let series = json["results"]["latency"]["series"].as_array().unwrap();
    let missed = series.iter().map(|one| &one["pairs"][0]["callers"][0]["deadline"]["missed"]);
    let missed: u64 = missed.map(|count| count.as_u64().unwrap()).sum();
    assert!(
        noted >= 10 && missed as usize >= noted,
        "{missed} calls missed the deadline, {noted} disturbances"
    );
}

#[test]
fn more_pairs_than_cpus_give_a_stored_warning() {
    // The program inherits the affinity of this test's thread.
    let cpus = roundtrip_bench::sched::allowed_cpus(0).unwrap();
    roundtrip_bench::sched::set_allowed_cpus(0, &cpus[..1]).unwrap();
    let output = judged(called("libhwbinder_latency").args("-w 2 -i 10".split(' ')));
    roundtrip_bench::sched::set_allowed_cpus(0, &cpus).unwrap();
    let value = json(&output);
    for name in ["P0", "P1"] {
        check_block(&value[name], 10, realtime_permission().max_priority().is_some());
    }
    let sum = |name: &str| value["P0"][name].as_u64().unwrap() + value["P1"][name].as_u64().unwrap();
    assert_eq!(value["ALL"]["I"], sum("I"));
    assert_eq!((&value["ALL"]["S"], &value["ALL"]["S"]), (&sum("S").into(), &value["ALL"]["I"]));
    let warned = |text: &str| text.contains("2 pairs on 1 CPUs");
    assert!(warned(&stderr(&output)) && warned(&value["cfg"]["warnings"].to_string()));
}

#[test]
fn passthrough_measures_calls_within_the_process() {
    for args in ["-m PASSTHROUGH -i 10", "-passthrough -i 10"] {
        let value = json(&judged(called("libhwbinder_latency").args(args.split(' '))));
        assert_eq!(value["cfg"]["passthrough"], 1);
        assert_eq!(value["P0"]["I"], if realtime_permission().max_priority().is_some() { 20 } else { 10 });
    }
}

#[test]
fn the_run_directory_has_the_printed_result_and_every_sample() {
    let directory: PathBuf = std::env::temp_dir().join(format!("roundtrip-latency-{}", std::process::id()));
    let output = succeed(
        latency(
            "--iterations 30 --callers other,nice:5 --inheritance both --raw-samples --format json --out",
        )
        .arg(&directory),
    );
    let stored = std::fs::read(directory.join("run.json")).unwrap();
    let samples = std::fs::read_to_string(directory.join("latency-samples.csv")).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let printed = json(&output);
    assert!(printed == serde_json::from_slice::<Value>(&stored).unwrap());
    assert!(printed["environment"]["driver"].as_str().unwrap().contains("driver"));
    let series = printed["results"]["latency"]["series"].as_array().unwrap();
    assert_eq!(series.len(), 4);
    assert_eq!(series[0]["pairs"][0]["callers"][1]["latency"]["count"], 30);
    assert_eq!(samples.lines().count(), 1 + 4 * 2 * 30);
}

#[test]
fn runs_are_shown_with_their_origin_and_binder_without_inheritance_passes() {
    let folder = std::env::temp_dir().join(format!("roundtrip-shown-{}", std::process::id()));
    let runs = ["monday", "tuesday"].map(|name| folder.join(name));
    for run in &runs {
        let args = "--driver emulated --stack binder --iterations 20 --payload 500k --out";
        let table = succeed(latency(args).arg(run)).stdout;
        if realtime_permission().max_priority().is_some() {
            let table = String::from_utf8(table).unwrap();
            let line = "Real-time inheritance: off, as always in binder";
            assert!(table.contains(line) && !table.contains("FAIL"), "{table}");
        }
    }
    let show = |args: &[&str]| {
        let output = succeed(called("roundtrip").arg("show").args(args).args(&runs));
        String::from_utf8(output.stdout).unwrap()
    };
    let (apart, merged) = (show(&[]), show(&["--merge"]));
    std::fs::remove_dir_all(&folder).unwrap();
    let [monday, tuesday] = runs.map(|run| run.display().to_string());
    assert!(apart.starts_with(&format!("Run: {monday}\n")), "{apart}");
    assert!(apart.contains(&format!("\n\nRun: {tuesday}\n")), "{apart}");
    assert!(merged.starts_with(&format!("2 runs combined: {monday}, {tuesday}; ")), "{merged}");
}

#[test]
fn tables_and_csv_show_every_series() {
    let output = succeed(&mut latency("--iterations 20 --callers other --inheritance both --rate 2k/s"));
    let table = String::from_utf8(output.stdout).unwrap();
    for text in ["binder, inheritance off", "hwbinder, inheritance on", "other response", "what real-time"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let output = succeed(&mut latency("--duration 20ms --callers other --fresh-threads --format csv"));
    let csv = String::from_utf8(output.stdout).unwrap();
    let missed = csv::of(&csv, "missed", &["stack", "caller"]);
    let keys: Vec<_> = missed.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["binder other", "hwbinder other"]);
}
