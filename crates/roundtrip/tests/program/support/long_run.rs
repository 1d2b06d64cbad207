//! A run that would take hours. A test ends it early, and checks its output and that nothing is
//! left behind.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::process::children;

/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A run, which is killed at the end of the test.
pub(crate) struct LongRun(Option<Child>);

impl LongRun {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// Waits until it has `count` worker processes for which `are_working` returns true. Returns
    /// their process ids, in the order of their start.
    pub(crate) fn workers(&self, count: usize, are_working: impl Fn(&[u32]) -> bool) -> Vec<u32> {
        let until = Instant::now() + PATIENCE;
        loop {
            let workers = children(self.pid());
            if workers.len() == count && are_working(&workers) {
                return workers;
            }
            assert!(Instant::now() < until, "the workers do not start: {workers:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for its end, after the test interrupted it. Returns its exit status, standard output
    /// and standard error, and checks that nothing is left behind.
    pub(crate) fn end(mut self, workers: &[u32]) -> (Option<i32>, String, String) {
        let begin = Instant::now();
        let Output { status, stdout, stderr } = self.0.take().unwrap().wait_with_output().unwrap();
        // The documented limit is one second, but a busy machine may need longer. The run itself
        // would take far longer.
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
        for pid in workers {
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "worker {pid} is left");
        }
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        if let Some(mut run) = self.0.take() {
            let _ = run.kill();
            let _ = run.wait();
        }
    }
}

pub(crate) fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}
