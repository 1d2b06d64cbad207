//! Tests of the three complete formats, and of our output with Google Benchmark's own reader.

use std::path::Path;
use std::process::Command;

use super::flags::Flags;
use super::*;
use crate::args::{Entry, Kind};
use crate::terminal::{Exit, Terminal};
use roundtrip_report::google_benchmark::*;
use roundtrip_report::text::look::Look;
use std::collections::BTreeMap;

#[derive(Default)]
struct Typed(Flags);

impl AsMut<Flags> for Typed {
    fn as_mut(&mut self) -> &mut Flags {
        &mut self.0
    }
}

/// A program that "measures" three benchmarks, one of which fails.
static PROGRAM: Entry<Typed> = Entry {
    path: &["libbinder_benchmark"],
    kind: Kind::OldName,
    summary: "stands in for a benchmark",
    description: "",
    positionals: None,
    groups: &[flags::group()],
    examples: &[],
    run: |typed, terminal| {
        let flags = typed.0;
        let names: Vec<String> = ["BM_sendVec_binder/4", "BM_sendVec_binder/64k", "BM_dies"]
            .into_iter()
            .filter(|name| flags.filter.accepts(name))
            .map(str::to_owned)
            .collect();
        let mut output = Output::open(&flags, &names, terminal)?;
        output.begin(&context(&flags), terminal)?;
        for (index, name) in names.iter().enumerate() {
            let rows: Vec<Row> =
                (0..flags.repetitions()).map(|repetition| row(name, index, repetition, &flags)).collect();
            output.benchmark(&rows, terminal)?;
        }
        output.end(terminal)?;
        Ok(Exit::OK)
    },
};

fn context(flags: &Flags) -> Context {
    let cache = |kind: &str, level, kib: u64, num_sharing| Cache {
        kind: kind.to_owned(),
        level,
        size_bytes: kib * 1024,
        num_sharing,
    };
    Context {
        date: "2026-11-21T21:03:10+00:00".into(),
        host_name: "device".into(),
        executable: "./libbinder_benchmark".into(),
        num_cpus: 2,
        mhz_per_cpu: 2596.12,
        cpu_scaling_enabled: Some(false),
        aslr_enabled: Some(true),
        caches: vec![cache("Data", 1, 48, 1), cache("Unified", 3, 32768, 2)],
        load_avg: vec![0.07, 0.33, 0.18],
        library_version: "v1".into(),
        debug_build: false,
        custom: flags.context.clone(),
    }
}

fn row(name: &str, index: usize, repetition: u32, flags: &Flags) -> Row {
    let scale = if name.ends_with("64k") { 3.0 } else { 1.0 } * (1.0 + f64::from(repetition) / 10.0);
    let counters = [
        (BYTES_PER_SECOND.to_owned(), Counter::bytes_per_second(114_328.2 / scale)),
        ("copies".to_owned(), Counter { value: 2.0, is_rate: false, is_binary: false }),
    ];
    Row {
        family_index: usize::from(name == "BM_dies"),
        per_family_instance_index: index % 2,
        run_name: name.to_owned(),
        kind: RowKind::Iteration { repetition_index: repetition },
        repetitions: flags.repetitions(),
        threads: 1,
        iterations: 21054,
        real_time_ns: 70_302.25 * scale,
        cpu_time_ns: 32_820.5 * scale,
        counters: if name == "BM_dies" { BTreeMap::new() } else { counters.into() },
        label: if name == "BM_dies" { String::new() } else { "one \"way\"".into() },
        error: (name == "BM_dies").then(|| "the \"server\" died".to_owned()),
    }
}

fn output(args: &[&str]) -> (String, String) {
    use crate::args::Command as _;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal {
        out: &mut out,
        err: &mut err,
        look: Look::PLAIN,
        executable: "./libbinder_benchmark".into(),
    };
    let args = args.iter().map(Into::into).collect();
    assert_eq!(PROGRAM.run(args, &mut terminal).expect("the program runs"), Exit::OK);
    (String::from_utf8(out).expect("UTF-8"), String::from_utf8(err).expect("UTF-8"))
}

#[test]
fn the_console_format_is_google_benchmarks() {
    let (out, err) = output(&["--benchmark_context=driver=emulated"]);
    insta::assert_snapshot!(format!("{err}=====\n{out}"));
}

#[test]
fn repetitions_add_their_statistics_to_the_console_format() {
    insta::assert_snapshot!(output(&["--benchmark_repetitions=3", "--benchmark_filter=/4|dies"]).0);
}

#[test]
fn colours_are_google_benchmarks_codes() {
    insta::assert_snapshot!(
        output(&["--benchmark_color=true", "--benchmark_filter=/4|dies"]).0.replace('\x1b', "<ESC>")
    );
}

#[test]
fn the_csv_format_is_google_benchmarks() {
    insta::assert_snapshot!(output(&["--benchmark_format=csv", "--benchmark_repetitions=2"]).0);
}

#[test]
fn the_json_format_has_google_benchmarks_fields() {
    let (out, err) = output(&[
        "--benchmark_format=json",
        "--benchmark_repetitions=2",
        "--benchmark_filter=-/4",
        "--benchmark_time_unit=us",
        "--benchmark_context=driver=emulated,direction=one-way",
    ]);
    insta::assert_snapshot!(out);
    assert_eq!(err, "");
}

#[test]
fn statistics_alone_are_reported_when_asked_for() {
    let lines = |args: &[&str]| output(args).0.lines().filter(|line| line.starts_with("BM_")).count();
    assert_eq!(lines(&["--benchmark_repetitions=3", "--benchmark_filter=binder/"]), 14);
    for flag in ["--benchmark_report_aggregates_only", "--benchmark_display_aggregates_only=true"] {
        assert_eq!(lines(&["--benchmark_repetitions=3", "--benchmark_filter=binder/", flag]), 8, "{flag}");
    }
    assert_eq!(lines(&["--benchmark_report_aggregates_only", "--benchmark_filter=binder/"]), 2);
}

#[test]
fn a_file_appears_when_it_is_complete_and_not_before() {
    let folder = Folder::new("out-file");
    let path = folder.path("result.json");
    let flag = format!("--benchmark_out={path}");
    let (out, _) = output(&[&flag, "--benchmark_display_aggregates_only", "--benchmark_repetitions=2"]);
    assert!(out.starts_with("---"), "{out}");
    let value: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).expect("the file is there")).expect("and is JSON");
    assert_eq!(value["benchmarks"].as_array().map(Vec::len), Some(14));
    assert_eq!(folder.entries(), ["result.json"]);

    let mut flags = Flags::default();
    flags.out = Some(folder.path("half.json").into());
    let unfinished = Output::open(
        &flags,
        &[],
        &Terminal {
            out: &mut Vec::new(),
            err: &mut Vec::new(),
            look: Look::PLAIN,
            executable: String::new(),
        },
    )
    .expect("the file can be created");
    assert_eq!(folder.entries().len(), 2);
    drop(unfinished);
    assert_eq!(folder.entries(), ["result.json"]);
}

#[test]
fn google_benchmarks_compare_py_reads_our_json() {
    let script = Path::new("/usr/share/benchmark/compare.py");
    assert!(
        script.exists(),
        "{} is missing: `cargo xtask test` installs it (Debian: apt-get install libbenchmark-tools \
         python3-scipy python3-pandas)",
        script.display()
    );
    let folder = Folder::new("compare-py");
    let (before, after) = (folder.path("before.json"), folder.path("after.json"));
    for path in [&before, &after] {
        let (flag, filter) = (format!("--benchmark_out={path}"), "--benchmark_filter=binder/");
        output(&[&flag, filter, "--benchmark_repetitions=10"]);
    }
    // Debian's Python packages work only with Debian's interpreter.
    let compared = Command::new("/usr/bin/python3")
        .arg(script)
        .args(["--no-color", "benchmarks", &before, &after])
        .output()
        .expect("python3 runs");
    let out = String::from_utf8_lossy(&compared.stdout);
    assert!(compared.status.success(), "{out}{}", String::from_utf8_lossy(&compared.stderr));
    for name in
        ["BM_sendVec_binder/4", "BM_sendVec_binder/64k", "BM_sendVec_binder/4_pvalue", "OVERALL_GEOMEAN"]
    {
        assert!(
            out.lines().any(|line| line.split_whitespace().next() == Some(name)),
            "{name} is not in {out}"
        );
    }
}

/// A temporary folder for one test.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn entries(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the folder is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
