//! Existing results, and symbolic links at their paths, stay unchanged.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A quick run.
const BASELINE: &str =
    "ipc baseline --rounds 1 --duration 50ms --sizes 4 --transports futex --placements same";

/// A temporary folder of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-results-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn roundtrip(&self, args: &str) -> Output {
        self.run("roundtrip", args)
    }

    /// Runs the program under one of its names.
    fn run(&self, name: &str, args: &str) -> Output {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        command.arg0(name).args(args.split_whitespace().map(|arg| if arg == "''" { "" } else { arg }));
        command.current_dir(&self.0).stdin(Stdio::null()).output().unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn refused(output: &Output, status: i32, hint: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.lines().count() == 1 && said.contains(hint), "{said}");
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/runs/x86_64-6.1-binder")
        .canonicalize()
        .unwrap()
}

#[test]
fn a_run_is_replaced_only_with_force_and_as_a_whole() {
    let folder = Folder::new("run");
    std::fs::create_dir_all(folder.0.join("run/recording")).unwrap();
    for (name, text) in [("run/run.json", "precious"), ("run/injected.csv", "old"), ("run/notes", "mine")] {
        folder.write(name, text);
    }
    refused(&folder.roundtrip(&format!("{BASELINE} --out run")), 1, "--force");
    assert_eq!(folder.text("run/run.json"), "precious");
    assert_eq!(folder.names("run"), ["injected.csv", "notes", "recording", "run.json"]);
    let output = folder.roundtrip(&format!("{BASELINE} --out run --force"));
    assert!(output.status.success(), "{output:?}");
    assert!(folder.text("run/run.json").contains("\"schema\":\"roundtrip.run\""));
    assert_eq!(
        folder.names("run"),
        ["notes", "run.json"],
        "no file of the earlier run stands beside the new one"
    );
}

#[test]
fn a_failed_run_keeps_the_run_that_it_would_replace() {
    let folder = Folder::new("failed");
    std::fs::create_dir(folder.0.join("run")).unwrap();
    folder.write("run/run.json", "precious");
    let output = folder.roundtrip("ipc latency --driver kernel --client-cpus 4095 --out run --force");
    assert!(!output.status.success());
    assert_eq!(
        (folder.names("run"), folder.text("run/run.json")),
        (vec!["run.json".into()], "precious".into())
    );
}

#[test]
fn an_empty_path_is_rejected() {
    let folder = Folder::new("empty");
    refused(&folder.roundtrip(&format!("{BASELINE} --out ''")), 2, "must not be empty");
    refused(&folder.roundtrip("trace convert run -o ''"), 2, "-o");
    assert_eq!(folder.names(""), [""; 0]);
}

#[test]
fn a_link_at_a_results_path_is_neither_followed_nor_replaced() {
    let folder = Folder::new("links");
    folder.write("precious", "precious");
    for name in ["run/run.json", "run/injected.csv", "run/latency-samples.csv", "run/recording"] {
        std::fs::create_dir_all(folder.0.join("run")).unwrap();
        for to in ["../precious", "../nowhere"] {
            symlink(to, folder.0.join(name)).unwrap();
            refused(&folder.roundtrip(&format!("{BASELINE} --out run")), 1, "--force");
            std::fs::remove_file(folder.0.join(name)).unwrap();
        }
    }
    symlink("precious", folder.0.join("trace.txt")).unwrap();
    let run = fixture();
    for force in ["", "--force"] {
        let args = format!("trace convert {} --snapshot 1 -o trace.txt {force}", run.display());
        refused(&folder.roundtrip(&args), 1, "trace.txt");
    }
    assert_eq!(
        (folder.text("precious"), folder.names("")),
        ("precious".into(), ["precious", "run", "trace.txt"].map(String::from).to_vec())
    );
}

#[test]
fn a_converted_trace_is_replaced_only_with_force() {
    let folder = Folder::new("convert");
    let run = fixture();
    for (command, name) in [("trace convert --snapshot 1", "trace.txt"), ("explain", "slow.perfetto-trace")] {
        folder.write(name, "precious");
        let args = format!("{command} {} -o {name}", run.display());
        refused(&folder.roundtrip(&args), 1, "--force");
        assert_eq!(folder.text(name), "precious");
        let output = folder.roundtrip(&format!("{args} --force"));
        assert!(output.status.success(), "{output:?}");
        assert_ne!(std::fs::read(folder.0.join(name)).unwrap(), b"precious");
    }
    assert_eq!(folder.names(""), ["slow.perfetto-trace", "trace.txt"]);
}

#[test]
fn benchmark_out_replaces_a_regular_file_and_follows_only_the_users_links() {
    let folder = Folder::new("benchmark");
    let bench = |out: &str| {
        let args = "--benchmark_filter=BM_sendVec_binder/4$ --benchmark_min_time=0.001 --benchmark_out=";
        folder.run("libbinder_benchmark", &format!("{args}{out}"))
    };
    folder.write("out.json", "earlier");
    symlink("out.json", folder.0.join("link")).unwrap();
    for name in ["out.json", "link"] {
        let output = bench(name);
        assert!(output.status.success(), "{output:?}");
        assert!(folder.text("out.json").contains("\"benchmarks\""));
        folder.write("out.json", "earlier");
    }
    assert!(std::fs::read_link(folder.0.join("link")).is_ok());
    if !rustix::process::geteuid().is_root() {
        return roundtrip_skips::skip(roundtrip_skips::Need::Root, "only root can make another user's link");
    }
    std::os::unix::fs::lchown(folder.0.join("link"), Some(12345), None).unwrap();
    refused(&bench("link"), 1, "another user");
    assert_eq!(
        (folder.text("out.json"), folder.names("")),
        ("earlier".into(), vec!["link".into(), "out.json".into()])
    );
}
