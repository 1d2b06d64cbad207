//! `roundtrip watch` on a terminal and in a pipe.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use roundtrip_skips::{Need, skip};

const WATCH: &str = "watch --driver emulated --stack binder --callers other --interval 200ms";

const SIZE: (usize, usize) = (80, 24);

/// The contents of a terminal of this size after some output. Supports text, cursor movement and
/// erasing.
fn screen(output: &str, (columns, rows): (usize, usize)) -> Vec<String> {
    let mut cells = vec![vec![' '; columns]; rows];
    let (mut row, mut column) = (0, 0);
    let mut rest = output.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\x1b' => {
                assert_eq!(rest.next(), Some('['), "an unknown sequence");
                let mut sequence = String::new();
                let end = rest.by_ref().find(|letter| {
                    sequence.push(*letter);
                    letter.is_ascii_alphabetic()
                });
                match end.expect("a complete sequence") {
                    'H' => {
                        let (down, right) = sequence.trim_end_matches('H').split_once(';').unwrap();
                        (row, column) =
                            (down.parse::<usize>().unwrap() - 1, right.parse::<usize>().unwrap() - 1);
                    }
                    'J' => cells = vec![vec![' '; columns]; rows],
                    _ => {}
                }
            }
            _ => {
                assert!(
                    row < rows && column < columns,
                    "{letter:?} at {row}, {column} is outside the terminal"
                );
                cells[row][column] = letter;
                column += 1;
            }
        }
    }
    cells.into_iter().map(|row| row.into_iter().collect::<String>().trim_end().to_owned()).collect()
}

/// A shell in a new terminal from script(1).
struct Session {
    child: std::process::Child,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Session {
    fn start(line: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new("script");
        let line = format!("stty rows {} cols {}; stty -g; {line}; echo status=$?; stty -g", SIZE.1, SIZE.0);
        command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
        command.env_remove("COLUMNS").envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut from = child.stdout.take().unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&output);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                read.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self { child, output }
    }

    fn output(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    /// The last screen that was drawn completely, if there is one.
    fn drawn(&self) -> Option<String> {
        let output = self.output();
        let (_, drawn) = output.split_once("\x1b[?1049h")?;
        let drawn = drawn.split("\x1b[?1049l").next()?;
        let complete = &drawn[..drawn.rfind('\x1b').unwrap_or(0)];
        Some(screen(complete, SIZE).join("\n"))
    }

    /// Waits until the terminal shows a text.
    fn wait_for(&self, text: &str) -> String {
        let began = Instant::now();
        loop {
            let drawn = self.drawn().unwrap_or_default();
            if drawn.contains(text) {
                return drawn;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "no {text:?} in\n{drawn}\n{:?}",
                self.output()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for its end. Returns what it printed after leaving the alternate screen, and the exit
    /// status. Checks that the terminal is restored.
    fn end(mut self) -> (String, i32) {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not end: {:?}", self.output());
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(100));
        let output = self.output().replace('\r', "");
        let (before, after_start) = output.split_once("\x1b[?1049h").expect("an alternate screen");
        let (_, after_end) =
            after_start.rsplit_once("\x1b[0m\x1b[?25h\x1b[?1049l").expect("a restored terminal");
        let (printed, end) = after_end.rsplit_once("status=").unwrap();
        let (status, after) = end.split_once('\n').unwrap();
        assert_eq!(before.trim(), after.trim(), "the terminal's settings");
        (printed.to_owned(), status.parse().unwrap())
    }
}

fn has_script() -> bool {
    let met = Need::Program("script").is_met();
    if !met {
        skip(Need::Program("script"), "there is no terminal to draw on");
    }
    met
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_roundtrip")
}

#[test]
fn a_terminal_shows_intervals_m_sets_a_mark_and_q_ends_the_command() {
    if !has_script() {
        return;
    }
    let mut session = Session::start(&format!("'{}' {WATCH}", program()), &[]);
    let drawn = session.wait_for("last interval: ");
    for part in ["ipc latency, 16 B, deadline 2.50 ms", "caller", "binder, other", "p99", "q: end", " ago"] {
        assert!(drawn.contains(part), "no {part:?} in\n{drawn}");
    }
    std::thread::sleep(Duration::from_millis(1500));
    session.press("m");
    session.wait_for("Since the mark: 0 against");
    session.wait_for("Since the mark: 6 against");
    session.press("\x1b[Aq");
    let (printed, status) = session.end();
    assert_eq!(status, 0, "{printed}");
    for part in
        ["Latency against", "Watched for ", "intervals of 200 ms", "Since the mark: ", "binder, other: p50 "]
    {
        assert!(printed.contains(part), "no {part:?} in\n{printed}");
    }
    assert!(!printed.contains("PARTIAL"), "{printed}");
}

#[test]
fn control_c_ends_watch_like_q_and_a_signal_ends_it_like_any_command() {
    if !has_script() {
        return;
    }
    let mut session = Session::start(&format!("'{}' {WATCH}", program()), &[]);
    session.wait_for("last interval: ");
    session.press("\x03");
    let (printed, status) = session.end();
    assert!(status == 0 && printed.contains("Watched for "), "{status}: {printed}");
    let line = format!("timeout --foreground -s TERM 5 '{}' {WATCH}", program());
    let (printed, status) = Session::start(&line, &[]).end();
    // timeout(1) returns 124 if it has ended the command.
    assert!(
        status == 124 && printed.contains("SIGTERM") && printed.contains("Watched for "),
        "{status}: {printed}"
    );
}

#[test]
fn watch_fits_a_shrinking_terminal_and_respects_no_color() {
    if !has_script() {
        return;
    }
    let line = format!(
        "(sleep 1; stty rows 10 cols 40 < /dev/tty) & '{}' {WATCH} --duration 3s --deadline 1ns",
        program()
    );
    let session = Session::start(&line, &[("NO_COLOR", "1")]);
    let output = Arc::clone(&session.output);
    let (printed, status) = session.end();
    assert_eq!(status, 0, "{printed}");
    let output = String::from_utf8_lossy(&output.lock().unwrap()).into_owned();
    let drawn = output.split("\x1b[?1049h").nth(1).unwrap().split("\x1b[?1049l").next().unwrap();
    let (_, small) = drawn.rsplit_once("\x1b[2J").expect("a new screen");
    assert!(screen(small, (40, 10)).join("\n").contains("binder, other"), "{small:?}");
    // All calls missed the deadline. Without NO_COLOR, that is shown in red.
    assert!(!drawn.contains(";31m"), "{drawn:?}");
    let coloured = Session::start(&format!("'{}' {WATCH} --duration 1s --deadline 1ns", program()), &[]);
    let output = Arc::clone(&coloured.output);
    coloured.end();
    assert!(String::from_utf8_lossy(&output.lock().unwrap()).contains(";31m"));
}

#[test]
fn a_dumb_terminal_and_a_pipe_get_lines_and_the_run_is_stored() {
    let out = std::env::temp_dir().join(format!("roundtrip-watch-{}", std::process::id()));
    let lines = |text: &str| text.lines().filter(|line| line.contains(" s  binder, other: p50 ")).count();
    let mut command = Command::new(program());
    command.args(WATCH.split(' ')).args(["--duration", "2s", "--out"]).arg(&out).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!((4..=10).contains(&lines(&text)) && text.contains("Watched for "), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    let stored = std::fs::read_to_string(Path::new(&out).join("run.json")).unwrap();
    let run: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let latency = &run["results"]["latency"];
    let ns = latency["plan"]["amount"]["duration_ns"].as_u64().unwrap();
    assert!((1_000_000_000..=2_500_000_000).contains(&ns), "{ns}");
    std::fs::remove_dir_all(out).unwrap();
    if !has_script() {
        return;
    }
    let line = format!("'{}' {WATCH} --duration 1s > /dev/tty", program());
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "dumb").stdin(Stdio::null());
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(lines(&text) > 1 && !text.contains('\x1b'), "{text:?}");
}

/// The output and status of `watch` in a pipe.
fn piped(more: &str) -> std::process::Output {
    let mut command = Command::new(program());
    command.args(WATCH.split(' ')).args(["--duration", "1s"]).args(more.split_whitespace());
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_violated_gate_makes_watch_fail_after_it_prints_its_result() {
    let bad = piped("--fail-on p50<1000s --fail-on missed>=0 --fail-on p50>1000s");
    assert_eq!(bad.status.code(), Some(2), "an invalid limit");
    let bad = piped("--fail-on p50<1000s --fail-on p50>1000s");
    let text = String::from_utf8(bad.stderr).unwrap();
    assert_eq!(bad.status.code(), Some(3), "{text}");
    assert_eq!(text.matches("roundtrip: failed: ").count(), 1, "{text}");
    assert!(text.contains("failed: p50<1000s: ") && text.contains("caller other"), "{text}");
    assert!(String::from_utf8(bad.stdout).unwrap().contains("Watched for "));
    let good = piped("--fail-on p50>1000s");
    assert_eq!(good.status.code(), Some(0), "{}", String::from_utf8_lossy(&good.stderr));
    // There is no real-time caller, so nothing is measured.
    let refused = piped("--require realtime");
    assert!(refused.status.code() == Some(2) && refused.stdout.is_empty());
}

#[test]
fn machine_readable_formats_are_printed_alone_even_on_a_terminal() {
    let json = piped("--format json").stdout;
    let run: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert!(run["results"]["latency"]["series"].is_array(), "{}", run["results"]);
    let csv = String::from_utf8(piped("--format csv").stdout).unwrap();
    assert!(csv.lines().count() > 1 && csv.lines().all(|line| line.contains(',')), "{csv}");
    let markdown = String::from_utf8(piped("--format markdown").stdout).unwrap();
    assert!(markdown.contains("| p50 ") && !markdown.contains(" s  binder, other: "), "{markdown}");
    if !has_script() {
        return;
    }
    let line = format!("'{}' {WATCH} --duration 1s --format json 2> /dev/null", program());
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
    let text = command.output().unwrap().stdout;
    assert!(!text.contains(&0x1b), "nothing is drawn");
    serde_json::from_slice::<serde_json::Value>(&text).unwrap();
}
