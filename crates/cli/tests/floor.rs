//! `roundtrip ipc floor` as a process: what it prints and writes, and that nothing is left when it is cut short.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Long enough for the slowest machine; nothing waits for it when all is well.
const PATIENCE: Duration = Duration::from_secs(30);

const QUICK: [&str; 10] = [
    "--sizes",
    "4,4k",
    "--placements",
    "free",
    "--transports",
    "pipe",
    "--rounds",
    "2",
    "--duration",
    "20ms",
];

fn roundtrip() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(["ipc", "floor"]).stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn csv_holds_a_line_for_each_transport_and_size() {
    let output = succeed(roundtrip().args(QUICK).args(["--format", "csv"]));
    let text = String::from_utf8(output.stdout).unwrap();
    let keys: Vec<_> =
        text.lines().skip(1).map(|line| line.split(',').take(3).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(keys, ["futex free 4", "futex free 4096", "pipe free 4", "pipe free 4096"]);
}

#[test]
fn json_is_one_value_and_the_same_document_as_the_run_directorys() {
    let directory: PathBuf = std::env::temp_dir().join(format!("roundtrip-floor-{}", std::process::id()));
    let output = succeed(roundtrip().args(QUICK).args(["--format", "json", "--out"]).arg(&directory));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stored = std::fs::read(directory.join("run.json")).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(printed == serde_json::from_slice::<serde_json::Value>(&stored).unwrap());
    assert_eq!(printed["schema"], "roundtrip.run");
    assert_eq!(printed["results"]["floor"]["cells"].as_array().unwrap().len(), 4);
}

#[test]
fn an_unknown_transport_is_one_line_and_exit_code_2() {
    let output = roundtrip().args(["--transports", "pigeon"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1);
    assert!(stderr.contains("pigeon") && output.stdout.is_empty(), "{stderr}");
}

/// A run that would take minutes, and its worker processes.
fn long_run() -> (Child, Vec<u32>) {
    let run =
        roundtrip().args(["--duration", "10m"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let path = format!("/proc/{0}/task/{0}/children", run.id());
    let until = Instant::now() + PATIENCE;
    loop {
        let workers: Vec<u32> = std::fs::read_to_string(&path)
            .unwrap()
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect();
        // Two for each of the six transports that take part by default.
        if workers.len() == 12 {
            return (run, workers);
        }
        assert!(Instant::now() < until, "the workers do not come up");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

fn ended(run: Child, workers: &[u32]) -> (Option<i32>, String) {
    let output = run.wait_with_output().unwrap();
    for pid in workers {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "worker {pid} is left");
    }
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_killed_worker_ends_the_run_with_the_reason() {
    let (run, workers) = long_run();
    kill(workers[3], "-KILL");
    let (code, stderr) = ended(run, &workers);
    assert_eq!(code, Some(1));
    let reason = format!("(pid {}) was killed by SIGKILL", workers[3]);
    assert!(stderr.contains(&reason) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn an_interrupt_ends_the_run_with_status_130() {
    let (run, workers) = long_run();
    kill(run.id(), "-INT");
    let (code, stderr) = ended(run, &workers);
    assert_eq!(code, Some(130));
    assert_eq!(stderr, "roundtrip: interrupted by SIGINT\n");
}
