//! Measures, with real runs, how often a comparison reports a difference that does not exist, and
//! how often it finds one that does. `cargo xtask alarms` runs this. It takes minutes, and needs a
//! mostly idle machine.
#![allow(clippy::print_stdout)] // Prints the figures.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use roundtrip_skips::{Need, Quiet, skip};
use serde_json::Value;

/// The number of comparisons of each kind, unless `ALARMS` is set.
const COMPARISONS: usize = 200;

/// The default of `ab`.
const PAIRS: usize = 10;

/// A call that computes this long on the server, and one that computes 5% longer. Because of the
/// rest of the call, its total is longer by slightly less.
const EQUAL: &str = "100us";
const SLOWER: &str = "105us";

fn latency(work: &str) -> String {
    format!("ipc latency --driver emulated --stack binder --callers other --iterations 200 --work {work}")
}

/// Figures that a CI would check.
const FIGURES: &str = "p50,p99";

fn roundtrip(args: &str) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    let output = command.args(args.split_whitespace()).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Disturbances of a run are warnings.
    assert!(output.status.success() && !output.stdout.is_empty(), "{args}: {said}");
    output.stdout
}

/// The verdicts of one comparison, and the ratio of the medians.
fn verdicts(json: &[u8]) -> (Vec<String>, f64) {
    let value: Value = serde_json::from_slice(json).unwrap();
    let figures = value["figures"].as_array().unwrap();
    let ratio = figures[0]["ratio"].as_f64().unwrap();
    (figures.iter().map(|figure| figure["verdict"].as_str().unwrap().to_owned()).collect(), ratio)
}

/// The results of comparisons of one kind.
#[derive(Default)]
struct Tally {
    comparisons: usize,
    worse: usize,
    better: usize,
    ratios: Vec<f64>,
}

impl Tally {
    fn count(&mut self, json: &[u8]) {
        let (verdicts, ratio) = verdicts(json);
        let has = |wanted: &str| usize::from(verdicts.iter().any(|verdict| verdict == wanted));
        self.comparisons += 1;
        self.worse += has("worse");
        self.better += has("better");
        self.ratios.push(ratio);
    }

    fn line(&mut self, what: &str) -> String {
        self.ratios.sort_by(f64::total_cmp);
        let at = |share: f64| self.ratios[((self.ratios.len() - 1) as f64 * share) as usize];
        let percent = |count: usize| 100.0 * count as f64 / self.comparisons as f64;
        format!(
            "{what:<44} {:>5.1}% {:>6.1}%   {:.3} ({:.3}-{:.3})",
            percent(self.worse),
            percent(self.better),
            at(0.5),
            at(0.05),
            at(0.95)
        )
    }
}

/// A temporary folder.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn in_turn(work: &str) -> Vec<u8> {
    let (a, b) = (latency(EQUAL), latency(work));
    roundtrip(&format!("ab --pairs {PAIRS} --figures {FIGURES} --format json -- {a} -- {b}"))
}

fn one_after_the_other(folder: &Path, noise: &str) -> [Vec<u8>; 2] {
    let _ = std::fs::remove_dir_all(folder);
    for side in ["a", "b"] {
        for run in 0..PAIRS {
            roundtrip(&format!("{} --out {}/{side}/{run}", latency(EQUAL), folder.display()));
        }
    }
    let sides = format!("{0}/a {0}/b", folder.display());
    [noise, "0%"]
        .map(|noise| roundtrip(&format!("compare --figures {FIGURES} --noise {noise} --format json {sides}")))
}

#[test]
#[ignore = "takes minutes, and a machine that does little else: cargo xtask alarms"]
fn equal_commands_seldom_differ_and_slower_ones_often_do() {
    let comparisons = std::env::var("ALARMS").map_or(COMPARISONS, |count| count.parse().expect("a number"));
    let scratch = std::env::temp_dir().join(format!("roundtrip-alarms-{}", std::process::id()));
    let folder = Folder(scratch);
    let [mut equal, mut slower, mut apart, mut trusting] = [(); 4].map(|()| Tally::default());
    let quiet = Quiet::watch();
    for _ in 0..comparisons {
        equal.count(&in_turn(EQUAL));
        slower.count(&in_turn(SLOWER));
        let [allowing, not_allowing] = one_after_the_other(&folder.0, "30%");
        apart.count(&allowing);
        trusting.count(&not_allowing);
    }
    println!("{comparisons} comparisons of {PAIRS} runs a side, of {FIGURES} each");
    println!("{:<44} {:>6} {:>7}   ratio of p50 (5%-95%)", "", "worse", "better");
    println!("{}", equal.line("ab, equal"));
    println!("{}", slower.line("ab, B works 5% longer"));
    println!("{}", apart.line("compare, equal, one after the other"));
    println!("{}", trusting.line("the same with --noise 0%"));
    if let Some(why) = quiet.disturbance() {
        return skip(Need::Quiet, why);
    }
    // Three standard deviations of a binomial count above 5%.
    let most = |of: &Tally| {
        let n = of.comparisons as f64;
        (0.05 * n + 3.0 * (0.05 * 0.95 * n).sqrt()).ceil() as usize
    };
    for (what, tally) in [("in turn", &equal), ("one after the other", &apart)] {
        let alarms = tally.worse + tally.better;
        assert!(alarms <= most(tally), "{what}: {alarms} false alarms of {comparisons}");
    }
    assert!(slower.worse * 2 > slower.comparisons, "a slowdown of 5% is found in most comparisons");
}
