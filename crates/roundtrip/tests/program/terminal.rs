//! Narrow terminals: every report fits, breaks lines between words, and has the same text as on a
//! wide terminal.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use roundtrip_skips::{Need, skip};

const WIDTH: usize = 80;

/// The output of a command at this width.
fn printed(args: &str, columns: Option<usize>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(args.split_whitespace()).stdin(Stdio::null()).env_remove("COLUMNS");
    if let Some(columns) = columns {
        command.env("COLUMNS", columns.to_string());
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Rejects a line that is too long, unless it is a single word after its indentation.
fn fits(args: &str, text: &str) {
    for line in text.lines() {
        let words = line.split_whitespace().count();
        assert!(line.chars().count() <= WIDTH || words == 1, "{args}: {line}");
    }
}

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name).display().to_string()
}

#[test]
fn stored_runs_fit_a_narrow_terminal_with_the_same_content() {
    for args in [
        format!("show {}", fixture("x86_64-6.1-binder")),
        format!("show {}", fixture("x86_64-6.1-ufs")),
        format!("explain {}", fixture("x86_64-6.1-binder")),
    ] {
        let (wide, narrow) = (printed(&args, None), printed(&args, Some(WIDTH)));
        fits(&args, &narrow);
        assert!(wide.lines().any(|line| line.chars().count() > WIDTH), "{args} fits anyway: no test");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(words(&wide), words(&narrow), "{args}");
        assert_eq!(printed(&args, Some(10_000)), wide, "{args}");
    }
}

#[test]
fn new_results_fit_a_narrow_terminal() {
    for args in [
        "ipc latency --driver emulated --stack both --callers other --iterations 200 --pairs 2 --rate 2000",
        "ipc throughput --driver emulated --sizes 4,64k --iterations 50 --repetitions 2",
        "ipc workers --driver emulated --workers 2 --iterations 100",
        "ipc traits --driver emulated",
        "help ipc latency",
        "help terms",
        "help storage interference",
        "help",
        "ipc --help",
    ] {
        fits(args, &printed(args, Some(WIDTH)));
    }
}

#[test]
fn the_answer_precedes_the_tables() {
    let latency = "ipc latency --driver emulated --stack binder --callers other --iterations 200";
    let text = printed(latency, None);
    let (answer, table) = (text.find("Latency against").unwrap(), text.find("pair  caller").unwrap());
    assert!(answer < table && text.contains("of 200 calls missed"), "{text}");
    let workers = printed("ipc workers --driver emulated --workers 2 --iterations 100", None);
    assert!(workers.find("calls a second").unwrap() < workers.find("caller ").unwrap(), "{workers}");
    let storage = printed(&format!("show {}", fixture("x86_64-6.1-ufs")), None);
    let (answer, table) = (storage.find("Synchronous writes").unwrap(), storage.find("response").unwrap());
    assert!(answer < table, "{storage}");
}

#[test]
fn a_term_is_explained_by_its_name_and_an_unknown_term_is_an_error() {
    assert!(printed("help terms", None).contains("\nStorage:\n"));
    let looper = printed("help terms looper", None);
    assert_eq!(
        looper.split_whitespace().collect::<Vec<_>>().join(" "),
        "looper a thread that serves transactions."
    );
    assert_eq!(printed("help looper", None), looper);
    assert!(printed("help Wake", None).starts_with("  wake"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    let output = command.args(["help", "terms", "weather"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("no such term: 'weather'; 'roundtrip help terms' lists all"), "{stderr}");
}

#[test]
fn histograms_fit_the_terminal_mark_the_deadline_and_count_every_call() {
    let scratch = std::env::temp_dir().join(format!("roundtrip-histograms-{}", std::process::id()));
    let out = scratch.display();
    for (args, calls, marks) in [
        (format!("ipc latency --driver emulated --callers other --iterations 300 --out {out}"), 600, 2),
        (format!("show {out}"), 600, 2),
        ("ipc throughput --driver emulated --sizes 4 --stack binder --iterations 200".to_owned(), 200, 0),
        ("ipc workers --driver emulated --workers 2 --iterations 100 --warn-above 20us".to_owned(), 200, 1),
    ] {
        let without = printed(&args.replace(&format!("--out {out}"), ""), Some(WIDTH));
        let text = printed(&format!("{args} --histogram"), Some(WIDTH));
        fits(&args, &text);
        let rows = |text: &str| {
            text.lines().filter(|line| line.ends_with('%') && line.matches('|').count() == 2).count()
        };
        assert_eq!(rows(&without), 0, "{args}: {without}");
        let counts = text.lines().filter(|line| line.ends_with('%') && line.matches('|').count() == 2);
        let counts = counts.map(|line| line.rsplit("| ").next().unwrap().split_whitespace().next().unwrap());
        assert_eq!(counts.map(|count| count.parse::<u64>().unwrap()).sum::<u64>(), calls, "{args}: {text}");
        assert_eq!(text.matches(" +-- ").count(), marks, "{args}: {text}");
    }
    std::fs::remove_dir_all(scratch).unwrap();
}

#[test]
fn progress_shows_the_remaining_time_and_is_erased_before_the_result() {
    if !Need::Program("script").is_met() {
        return skip(Need::Program("script"), "there is no terminal to write to");
    }
    // script(1) creates a terminal.
    let on_a_terminal = |more: &str| {
        let program = env!("CARGO_BIN_EXE_roundtrip");
        let line = format!(
            "timeout -s INT 4 '{program}' ipc workers --driver emulated --iterations 1000000000{more}"
        );
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
        let output = command.stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = on_a_terminal("");
    let (progress, result) = text.split_at(text.find("Linux").expect("a result"));
    assert!(progress.contains("\rworkers: 0%") && progress.contains(" left\x1b[K"), "{progress:?}");
    let last = progress.rsplit('\r').next().unwrap();
    assert!(last.starts_with("\x1b[K") && !result.contains("workers: 0%"), "{last:?}");
    assert!(!on_a_terminal(" --quiet").contains("\rworkers: "), "quiet");
}

#[test]
fn ab_shows_its_pairs_on_a_terminal_unless_quiet() {
    if !Need::Program("script").is_met() {
        return skip(Need::Program("script"), "there is no terminal to write to");
    }
    let shown = |quiet: &str| {
        let program = env!("CARGO_BIN_EXE_roundtrip");
        let line = format!(
            "'{program}' ab --pairs 2{quiet} -- ipc latency --driver emulated --stack binder --callers other \
             --iterations 50"
        );
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
        String::from_utf8(command.stdin(Stdio::null()).output().unwrap().stdout).unwrap()
    };
    let (usual, quiet) = (shown(""), shown(" --quiet"));
    assert!(usual.contains("pair 1 of 2, ") && usual.contains("(2 runs)"), "{usual:?}");
    assert!(!quiet.contains("pair 1 of 2") && quiet.contains("(2 runs)"), "{quiet:?}");
}

#[test]
fn a_closed_standard_output_is_an_error() {
    for (redirection, status, said) in [
        (">&-", 1, "roundtrip: cannot write to standard output: Bad file descriptor (os error 9)\n"),
        (">/dev/null", 0, ""),
        ("</dev/null <>/dev/null >&0", 0, ""),
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" doctor {redirection}"), env!("CARGO_BIN_EXE_roundtrip")]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{redirection}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), said, "{redirection}");
    }
}
