//! Throughput as processes: `roundtrip ipc throughput`, and the two programs whose names the binary
//! accepts, with all flags and real measurements.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::csv;

/// The binary under a name, without Google Benchmark's flags from the test's environment.
fn program(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.arg0(name).stdin(Stdio::null()).env_clear();
    command
}

fn output(name: &str, args: &[&str]) -> Output {
    program(name).args(args).output().unwrap()
}

/// Standard output of a successful command line.
fn stdout(name: &str, args: &[&str]) -> String {
    let output = output(name, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(name: &str, args: &[&str]) -> Value {
    serde_json::from_str(&stdout(name, args)).unwrap()
}

/// A temporary folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-throughput-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const QUICK: [&str; 6] = ["ipc", "throughput", "--sizes", "4,2k", "--iterations", "20"];

fn roundtrip(more: &[&str]) -> String {
    stdout("roundtrip", &[&QUICK[..], more].concat())
}

#[test]
fn the_table_names_the_driver_and_has_a_line_for_each_size() {
    let text = roundtrip(&["--profile", "mainline", "--placement", "same"]);
    assert!(text.contains("emulated driver (mainline profile); "), "{text}");
    for stack in ["binder", "hwbinder"] {
        assert!(text.contains(&format!("\n{stack}, binderize, client on CPU ")), "{text}");
    }
    let sizes: Vec<_> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(sizes.iter().filter(|size| ["4", "2k"].contains(size)).count(), 4, "{text}");
}

#[test]
fn csv_has_the_figures_of_each_stack_and_size() {
    let text = roundtrip(&["--format", "csv", "--repetitions", "3", "--client-cpus", "0"]);
    let times = csv::of(&text, "time", &["emulated", "stack", "size_bytes", "samples"]);
    let keys: Vec<_> = times.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["true binder 4 3", "true binder 2048 3", "true hwbinder 4 3", "true hwbinder 2048 3"]);
    assert!(times.iter().all(|(_, ns)| *ns > 0.0), "{times:?}");
}

#[test]
fn json_is_one_value_and_equals_run_json() {
    let folder = Folder::new("run");
    let printed: Value =
        serde_json::from_str(&roundtrip(&["--format", "json", "--out", &folder.path("run")])).unwrap();
    let stored = std::fs::read(folder.0.join("run/run.json")).unwrap();
    assert!(printed == serde_json::from_slice::<Value>(&stored).unwrap());
    assert_eq!(printed["schema"], "roundtrip.run");
    let driver = printed["environment"]["driver"].as_str().unwrap();
    let way = driver.strip_prefix("emulated driver (ack profile); threads are woken ");
    assert!(
        way.is_some_and(|way| way.starts_with("on the caller's CPU") || way.starts_with("by a futex")),
        "{driver}"
    );
    let rows = printed["results"]["throughput"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[1]["batches"][0]["one_way_bytes"], 20 * 2048);
    assert_eq!(rows[1]["latency"]["count"], 20);
}

#[test]
fn the_google_format_has_both_stacks_under_androids_names() {
    let value: Value =
        serde_json::from_str(&roundtrip(&["--format", "google", "--repetitions", "2"])).unwrap();
    let names: Vec<_> = value["benchmarks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["run_type"] == "iteration" && row["repetition_index"] == 0)
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let expected =
        ["BM_sendVec_binder/4", "BM_sendVec_binder/2k", "BM_sendVec_binderize/4", "BM_sendVec_binderize/2k"];
    assert_eq!(names, expected);
    assert_eq!(value["context"]["driver"], "emulated driver (ack profile)");
}

#[test]
fn passthrough_says_that_there_was_no_driver() {
    let text = roundtrip(&["--mode", "passthrough"]);
    assert!(
        text.contains("no driver (in-process calls)") && text.contains("hwbinder, passthrough, on CPU"),
        "{text}"
    );
}

#[test]
fn the_old_names_print_google_benchmarks_table() {
    for (program, args, family) in [
        ("libbinder_benchmark", &[][..], "BM_sendVec_binder"),
        ("libhwbinder_benchmark", &["-m", "BINDERIZE"], "BM_sendVec_binderize"),
        ("/data/libhwbinder_benchmark64", &["-m", "PASSTHROUGH"], "BM_sendVec_passthrough"),
    ] {
        let text = stdout(program, &[args, &["--benchmark_min_time=3x"]].concat());
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["Benchmark", "Time", "CPU", "Iterations", "UserCounters..."], "{text}");
        assert!(lines[0][0].bytes().chain(lines[2][0].bytes()).all(|byte| byte == b'-'), "{text}");
        let sizes =
            ["4", "8", "16", "32", "64", "128", "256", "512", "1024", "2k", "4k", "8k", "16k", "32k", "64k"];
        assert_eq!(lines.len(), 3 + sizes.len());
        for (line, size) in lines[3..].iter().zip(sizes) {
            assert_eq!(line[0], format!("{family}/{size}"));
            assert!(line[1].parse::<u64>().is_ok() && line[3].parse::<u64>().is_ok(), "{text}");
            assert_eq!((line[2], line[4], line[5]), ("ns", "ns", "3"), "{text}");
            assert!(line[6].starts_with("bytes_per_second=") && line[6].ends_with("/s"), "{text}");
        }
    }
}

#[test]
fn the_old_names_json_has_every_field_and_a_true_rate() {
    let value = json(
        "./libhwbinder_benchmark",
        &[
            "--benchmark_format=json",
            "--benchmark_filter=/(8|64k)$",
            "--benchmark_min_time=50x",
            "--benchmark_context=build=eng",
        ],
    );
    let context = &value["context"];
    assert_eq!(context["driver"], "emulated driver (ack profile)");
    assert_eq!(
        (&context["executable"], &context["build"]),
        (&"./libhwbinder_benchmark".into(), &"eng".into())
    );
    for key in ["date", "host_name", "num_cpus", "mhz_per_cpu", "caches", "load_avg", "library_build_type"] {
        assert!(!context[key].is_null(), "{key}: {context}");
    }
    let rows = value["benchmarks"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (index, (row, bytes)) in rows.iter().zip([8.0, 65536.0]).enumerate() {
        assert_eq!((&row["iterations"], &row["threads"]), (&50.into(), &1.into()));
        assert_eq!((&row["time_unit"], &row["run_type"]), (&"ns".into(), &"iteration".into()));
        assert_eq!((&row["per_family_instance_index"], &row["family_index"]), (&index.into(), &0.into()));
        let rate = row["bytes_per_second"].as_f64().unwrap();
        let true_rate = bytes / row["real_time"].as_f64().unwrap() * 1e9;
        assert!((rate / true_rate - 1.0).abs() < 1e-6, "{rate} is not {true_rate}");
        assert!(row["cpu_time"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn warm_up_columns_and_log_lines_match_google_benchmark() {
    let args = ["--benchmark_filter=/4$", "--benchmark_min_time=3x"];
    let start = std::time::Instant::now();
    let more = ["--benchmark_min_warmup_time=0.2", "--benchmark_counters_tabular", "--v=2"];
    let output = output("libhwbinder_benchmark", &[&args[..], &more].concat());
    assert!(start.elapsed().as_secs_f64() >= 0.2);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["Benchmark", "Time", "CPU", "Iterations", "bytes_per_second"], "{text}");
    assert_eq!((lines[3].len(), lines[3][5]), (7, "3"), "{text}");
    assert!(lines[3][6].ends_with("/s") && !lines[3][6].contains('='), "{text}");
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("-- LOG(2): Running BM_sendVec_binderize/4 for 3\n-- LOG(2): Ran in "), "{log}");
    let quiet = program("libhwbinder_benchmark").args(args).arg("--v=1").output().unwrap();
    assert!(quiet.status.success() && !String::from_utf8(quiet.stderr).unwrap().contains("LOG("));
}

#[test]
fn a_run_lasts_the_minimum_cpu_time_or_five_times_as_long_in_real_time() {
    let value = json(
        "libbinder_benchmark",
        &["--benchmark_format=json", "--benchmark_filter=/4$", "--benchmark_min_time=0.004s"],
    );
    let row = &value["benchmarks"][0];
    let iterations = row["iterations"].as_f64().unwrap();
    let spent_s = |key: &str| row[key].as_f64().unwrap() * iterations / 1e9;
    assert!(spent_s("cpu_time") >= 0.00399 || spent_s("real_time") >= 0.01999, "{row}");
}

#[test]
fn repetitions_interleave_and_add_their_statistics() {
    let value = json(
        "libbinder_benchmark",
        &[
            "--benchmark_format=json",
            "--benchmark_filter=/(4|8)$",
            "--benchmark_min_time=5x",
            "--benchmark_repetitions=3",
            "--benchmark_enable_random_interleaving",
        ],
    );
    let rows = value["benchmarks"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * (3 + 4));
    for name in ["BM_sendVec_binder/4", "BM_sendVec_binder/8"] {
        let of: Vec<_> = rows.iter().filter(|row| row["run_name"] == name).collect();
        let indexes: Vec<_> = of.iter().filter_map(|row| row["repetition_index"].as_u64()).collect();
        let statistics: Vec<_> = of.iter().filter_map(|row| row["aggregate_name"].as_str()).collect();
        assert_eq!((indexes, statistics), (vec![0, 1, 2], vec!["mean", "median", "stddev", "cv"]));
    }
    let text = stdout(
        "libbinder_benchmark",
        &[
            "--benchmark_filter=/4$",
            "--benchmark_min_time=5x",
            "--benchmark_repetitions=3",
            "--benchmark_report_aggregates_only=true",
        ],
    );
    assert_eq!(text.lines().filter(|line| line.starts_with("BM_")).count(), 4, "{text}");
}

#[test]
fn list_tests_prints_the_benchmarks_and_runs_none() {
    let listed = stdout("libhwbinder_benchmark", &["--benchmark_list_tests", "--benchmark_filter=-k$"]);
    assert_eq!(listed.lines().count(), 9);
    assert_eq!(listed.lines().last(), Some("BM_sendVec_binderize/1024"));
    let listed = program("libbinder_benchmark")
        .arg("--benchmark_list_tests=true")
        .env("BENCHMARK_FILTER", "16k")
        .output()
        .unwrap();
    assert_eq!(listed.stdout, b"BM_sendVec_binder/16k\n");
    let nothing = output("libbinder_benchmark", &["--benchmark_filter=pigeon"]);
    assert!(nothing.status.success() && nothing.stdout.is_empty());
    assert_eq!(nothing.stderr, b"Failed to match any benchmarks against regex: pigeon\n");
}

#[test]
fn a_dry_run_makes_one_call_of_each_size() {
    let value = json(
        "libbinder_benchmark",
        &["--benchmark_dry_run", "--benchmark_format=json", "--benchmark_repetitions=5"],
    );
    let rows = value["benchmarks"].as_array().unwrap();
    assert_eq!(rows.len(), 15);
    assert!(rows.iter().all(|row| row["iterations"] == 1 && row["repetitions"] == 1));
}

#[test]
fn invalid_usage_prints_one_line_and_exits_with_2() {
    for (program, args, hint) in [
        ("libbinder_benchmark", &["--benchmark_foo"][..], "unknown flag --benchmark_foo"),
        ("libbinder_benchmark", &["-m", "BINDERIZE"], "unknown flag -m"),
        ("libbinder_benchmark", &["--benchmark_min_time"], "--benchmark_min_time needs a value"),
        (
            "libbinder_benchmark",
            &["--benchmark_context=driver=kernel"],
            "the key 'driver' is reserved by this program",
        ),
        ("libhwbinder_benchmark", &["-m"], "-m needs a value"),
        ("libhwbinder_benchmark", &["-m", "PIGEON"], "expected BINDERIZE, PASSTHROUGH"),
        ("libhwbinder_benchmark", &["4"], "unexpected argument '4'"),
        ("roundtrip", &["ipc", "throughput", "--sizes", "2M"], "1 to 1024000"),
        ("roundtrip", &["ipc", "throughput", "--iterations", "9", "--min-time", "1s"], "exclude each other"),
        (
            "roundtrip",
            &["ipc", "throughput", "--mode", "passthrough", "--stack", "binder"],
            "only the hwbinder",
        ),
    ] {
        let output = output(program, args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with(&format!("{program}: ")) && stderr.contains(hint), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn an_unwritable_result_file_is_an_error_before_the_measurement() {
    let output = output("libbinder_benchmark", &["--benchmark_out=/nonexistent/a.json"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(stderr.contains("/nonexistent/a.json") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn google_benchmarks_compare_py_reads_the_results_of_the_old_names() {
    let script = Path::new("/usr/share/benchmark/compare.py");
    assert!(
        script.exists(),
        "{} is missing: `cargo xtask test` installs it (Debian: apt-get install libbenchmark-tools \
         python3-scipy python3-pandas)",
        script.display()
    );
    let folder = Folder::new("compare");
    let files = ["before.json", "after.json"].map(|name| folder.path(name));
    for file in &files {
        stdout(
            "libhwbinder_benchmark",
            &[
                &format!("--benchmark_out={file}"),
                "--benchmark_filter=/(4|64k)$",
                "--benchmark_min_time=5x",
                "--benchmark_repetitions=10",
            ],
        );
    }
    // Debian's packages need Debian's interpreter, not any other python3.
    let compared = Command::new("/usr/bin/python3")
        .arg(script)
        .args(["--no-color", "benchmarks"])
        .args(&files)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&compared.stdout);
    assert!(compared.status.success(), "{text}{}", String::from_utf8_lossy(&compared.stderr));
    for name in ["BM_sendVec_binderize/4", "BM_sendVec_binderize/64k_pvalue", "OVERALL_GEOMEAN"] {
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}: {text}");
    }
}

/// The one line of a command that must fail.
fn refusal(args: &[&str]) -> String {
    let Output { status, stdout, stderr } = output("roundtrip", args);
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(stdout.is_empty());
    said.trim_end().to_owned()
}

#[test]
fn a_missing_device_is_named_with_a_way_to_get_it() {
    assert_eq!(
        refusal(&["ipc", "throughput", "--device", "/dev/no-such-device"]),
        "roundtrip: cannot open /dev/no-such-device: No such file or directory (os error 2); load the driver \
         (modprobe binder_linux devices=binder) or name a device that exists"
    );
}

#[test]
fn a_file_that_is_not_a_binder_device_is_named() {
    assert_eq!(
        refusal(&["ipc", "throughput", "--device", "/dev/null"]),
        "roundtrip: cannot query the binder version of /dev/null: Inappropriate ioctl for device (os error 25); \
         is it a binder device?"
    );
}
