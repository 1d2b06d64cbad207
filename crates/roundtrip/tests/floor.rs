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

#[test]
fn a_run_that_cannot_be_stored_says_why_once() {
    let output = roundtrip().args(QUICK).args(["--out", "/dev/null/run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stdout.is_empty(), "what was measured is shown all the same");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let error = stderr.lines().last().unwrap();
    assert_eq!(error, "roundtrip: cannot create /dev/null/run: Not a directory (os error 20)");
}

/// A run that would take minutes. It does not outlive the test, however that ends.
struct LongRun(Option<Child>);

impl LongRun {
    fn start() -> LongRun {
        let mut command = roundtrip();
        command.args(["--duration", "10m"]).stdout(Stdio::null()).stderr(Stdio::piped());
        LongRun(Some(command.spawn().unwrap()))
    }

    fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// Waits until all worker processes are there.
    fn workers(&self) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let until = Instant::now() + PATIENCE;
        loop {
            let children = std::fs::read_to_string(&path).unwrap();
            let workers: Vec<u32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
            // Two for each of the nine transports that take part by default.
            if workers.len() >= 18 {
                return workers;
            }
            assert!(Instant::now() < until, "the workers do not come up");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// How it ended; no worker may be left by then.
    fn end(mut self, workers: &[u32]) -> (Option<i32>, String) {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        for pid in workers {
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "worker {pid} is left");
        }
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        if let Some(mut run) = self.0.take() {
            run.kill().unwrap();
            run.wait().unwrap();
        }
    }
}

fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_killed_worker_ends_the_run_with_the_reason() {
    let run = LongRun::start();
    let workers = run.workers();
    kill(workers[3], "-KILL");
    let (code, stderr) = run.end(&workers);
    assert_eq!(code, Some(1));
    let reason = format!("(pid {}) was killed by SIGKILL", workers[3]);
    assert!(stderr.contains(&reason) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn an_interrupt_ends_the_run_with_status_130() {
    let run = LongRun::start();
    let workers = run.workers();
    kill(run.pid(), "-INT");
    let (code, stderr) = run.end(&workers);
    assert_eq!(code, Some(130));
    assert_eq!(stderr, "roundtrip: interrupted by SIGINT\n");
}
