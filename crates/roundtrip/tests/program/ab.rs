//! Two configurations in turn: a real difference is found, none is reported without one, and
//! nothing is left behind.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::process::text;
use serde_json::Value;

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("roundtrip-ab-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("tmp")).unwrap();
        Self(folder)
    }

    fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        // Single quotes keep words together, as in a shell.
        for (at, piece) in args.split('\'').enumerate() {
            if at % 2 == 1 {
                command.arg(piece);
            } else {
                command.args(piece.split_whitespace());
            }
        }
        command.current_dir(&self.0).env("TMPDIR", self.0.join("tmp")).stdin(Stdio::null());
        command
    }

    fn roundtrip(&self, args: &str) -> Output {
        self.command(args).output().unwrap()
    }

    /// The contents of the folder, except for that of temporary files, which must be empty.
    fn left(&self) -> Vec<String> {
        let names = |path: PathBuf| -> Vec<String> {
            let entries = std::fs::read_dir(path).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let mut left = names(self.0.clone());
        left.retain(|name| name != "tmp");
        left.extend(names(self.0.join("tmp")));
        left
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const LATENCY: &str = "ipc latency --driver emulated --stack binder --callers other --iterations 100";

#[test]
fn a_slower_call_is_judged_worse_and_its_runs_can_be_compared_again() {
    let folder = Folder::new("worse");
    let args = format!("ab --pairs 8 --figures p50 --out kept -- {LATENCY} -- {LATENCY} --work 1ms");
    let output = folder.roundtrip(&args);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.lines().last().unwrap().starts_with("B's median call takes "), "{said}");
    assert!(said.starts_with("B (8 runs) against A (8 runs): worse"), "{said}");
    assert!(said.contains(&format!("A: {LATENCY}\nB: {LATENCY} --work 1ms\n")), "{said}");
    assert!(said.contains("Pairs of runs: Wilcoxon's signed-rank test"), "{said}");
    assert_eq!(folder.left(), ["kept"]);

    let again = folder.roundtrip("compare --figures p50 --fail-on p50>+50% kept --format json");
    assert_eq!(again.status.code(), Some(3));
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    let figure = &again["figures"][0];
    assert_eq!((figure["verdict"].as_str(), figure["base_runs"].as_u64()), (Some("worse"), Some(8)));
    assert_eq!(figure["basis"], "pairs");

    let page = folder.roundtrip("report kept -o page.html");
    assert_eq!(page.status.code(), Some(0), "{}", text(&page.stderr));
    let page = std::fs::read_to_string(folder.0.join("page.html")).unwrap();
    // It compares all figures, which takes more pairs than one figure.
    assert!(page.contains("median call takes"), "the page is that of the comparison");

    let refused = folder.roundtrip(&args);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("not empty"), "{}", text(&refused.stderr));
}

#[test]
fn a_scan_measures_both_with_each_value_and_its_runs_can_be_compared_again() {
    let folder = Folder::new("scan");
    let output = folder.roundtrip(&format!(
        "ab --scan work=50us,2ms --pairs 6 --figures p50 --out kept --format json -- {LATENCY}"
    ));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // Before the other pairs are measured.
    assert!(said.contains("By the first 4 pairs, 6 pairs "), "{said}");
    let figures = |json: &[u8]| -> Vec<(String, f64, u64)> {
        let json: Value = serde_json::from_slice(json).unwrap();
        let figure = |one: &Value| {
            let of = one["of"]["scan"].as_str().unwrap().to_owned();
            (of, one["base"].as_f64().unwrap(), one["base_runs"].as_u64().unwrap())
        };
        json["figures"].as_array().unwrap().iter().map(figure).collect()
    };
    let mut found = figures(&output.stdout);
    found.sort_by(|one, other| one.1.total_cmp(&other.1));
    let [(short, short_ns, 6), (long, long_ns, 6)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((short.as_str(), long.as_str()), ("work=50us", "work=2ms"));
    assert!((5e4..2e6).contains(short_ns) && *long_ns > 2e6, "{found:?}");
    let again = folder.roundtrip("compare --figures p50 --format json kept");
    let mut again = figures(&again.stdout);
    again.sort_by(|one, other| one.1.total_cmp(&other.1));
    assert_eq!(again, found);
}

#[test]
fn settings_change_before_each_run_and_after_the_last() {
    let folder = Folder::new("settings");
    let output = folder.roundtrip(&format!(
        "ab --pairs 2 --noise 1000% --before-a 'echo a >> log' --before-b 'echo b >> log' \
         --finally 'echo end >> log' -- {LATENCY}"
    ));
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    // The second pair has the opposite order of the first.
    let log = std::fs::read_to_string(folder.0.join("log")).unwrap();
    assert!(["a\nb\nb\na\nend\n", "b\na\na\nb\nend\n"].contains(&log.as_str()), "{log}");
    assert!(said.contains("cannot tell"), "{said}");
}

#[test]
fn wrong_input_gets_one_line_and_leaves_nothing() {
    let folder = Folder::new("wrong");
    for (args, status, hint) in [
        ("ab", 2, "A... [-- B...]"),
        ("ab -- ipc latency --", 2, "empty"),
        ("ab -- ipc latency -- ipc latency -- ipc latency", 2, "one '--'"),
        ("ab --name one -- ipc latency", 2, "two names"),
        ("ab --scan sizes -- ipc latency", 2, "sizes=4,4k,64k"),
        ("ab --scan sizes=4,../x -- ipc latency", 2, "sizes=4,4k,64k"),
        ("ab --scan work=1ms,1ms -- ipc latency", 2, "the value 1ms is there twice"),
        ("ab --scan out=x -- ipc latency", 2, "itself adds --out"),
        ("ab --pairs 1 --scan nonsense=1 -- ipc latency", 1, "unknown flag --nonsense"),
        ("ab --pairs 0 -- ipc latency", 2, "--pairs"),
        ("ab -- ipc latency --nonsense", 1, "unknown flag --nonsense"),
        ("ab -- /nowhere/roundtrip ipc latency", 1, "cannot be started: /nowhere/roundtrip"),
        ("ab -- sh -c 'exit 7'", 1, "exit status: 7"),
        ("ab --pairs 1 -- true", 1, "stored no run"),
        (
            "ab --before-b 'echo no such setting >&2; false' -- ipc latency --iterations 1",
            1,
            "no such setting",
        ),
        ("ab --finally false --pairs 1 -- ipc latency --iterations 1 --driver emulated", 1, "--finally"),
        (
            "ab --fail-on nonsense>+1% --pairs 1 -- ipc latency --iterations 1 --driver emulated",
            2,
            "nonsense",
        ),
    ] {
        let output = folder.roundtrip(args);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(status), 1), "{args}: {said}");
        assert!(said.contains(hint), "{args}: {said}");
        assert!(output.stdout.is_empty(), "{args}: {}", text(&output.stdout));
        assert_eq!(folder.left(), Vec::<String>::new(), "{args}");
    }
}

#[test]
fn a_signal_ends_the_command_with_the_result_of_complete_pairs() {
    let folder = Folder::new("signal");
    // The first three pairs are fast, and the fourth would take forever.
    let before = "echo >> log; test $(wc -l < log) -le 3 || exec sleep 1000";
    let args = format!(
        "ab --before-a '{before}' --finally 'rm log' --figures p50 --pairs 100 --out kept -- {LATENCY}"
    );
    let child = folder.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let waiting = || std::fs::read_to_string(folder.0.join("log")).is_ok_and(|log| log.lines().count() == 4);
    while !waiting() {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stdout);
    assert_eq!((output.status.code(), output.status.signal()), (Some(143), None), "{said}");
    assert!(said.contains("PARTIAL: a signal ended the measurement after 3 of 100 pairs."), "{said}");
    assert!(said.starts_with("B (3 runs) against A (3 runs): "), "{said}");
    assert_eq!(folder.left(), ["kept"]);
    assert!(folder.0.join("kept/a/0003/run.json").exists());
}
