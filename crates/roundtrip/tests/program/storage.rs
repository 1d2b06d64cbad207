//! `roundtrip storage layers` as a process: real writes, on a journalled file system of the test if
//! it can be mounted.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use roundtrip_layers::storage::Layer;
use roundtrip_skips::{Need, skip};

use crate::support::csv;
use crate::support::process::text;
use crate::support::storage::{Journalled, folder};

fn layers(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(["storage", "layers"]).current_dir(directory).stdin(Stdio::null());
    command.args([
        "--sizes",
        "4k,16k",
        "--calls",
        "12",
        "--rounds",
        "2",
        "--warm-up",
        "1",
        "--file-size",
        "1M",
    ]);
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn without_kernel_events_response_times_are_shown_and_the_file_is_removed() {
    let directory = folder("times");
    let output =
        succeed(layers(&directory).args(["--no-recorder", "--writers", "native", "--format", "csv"]));
    let max = csv::of(&text(&output.stdout), "max", &["writer", "durability", "size_bytes", "samples"]);
    let keys: Vec<_> = max.iter().map(|(key, _)| key.as_str()).collect();
    assert!(keys.contains(&"native dsync 4096 12") && keys.len() == 2, "{keys:?}");
    assert_eq!(names(&directory), Vec::<String>::new());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn invalid_targets_give_a_one_line_error_and_stay_untouched() {
    let directory = folder("wrong");
    let mine = directory.join("mine");
    std::fs::write(&mine, "precious").unwrap();
    for (arguments, said, code) in [
        (vec!["--file", "mine"], "never writes to an existing file", 2),
        (vec!["--file", "."], "that is a directory", 2),
        (vec!["--file", "no/such/file"], "its directory does not exist", 2),
        (vec!["--file", "/proc/roundtrip.test"], "files cannot be created in /proc", 2),
        (vec!["--writers", "java-file", "--java", "/no/java"], "Java is not installed", 2),
        (vec!["--java", "/no/java"], "Java is not installed: '/no/java' was not found", 2),
        (vec!["--cpus", "0,8191"], "--cpus: CPU 8191 is not available; this process may use ", 2),
        (vec!["--durability", "hope"], "unknown durability 'hope'", 2),
        (vec!["--sizes", "2M"], "--file-size", 2),
    ] {
        let output = layers(&directory).args(&arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{arguments:?}: {stderr}");
    }
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "precious");
    assert_eq!(names(&directory), ["mine"]);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn writes_through_a_journal_and_a_loop_device_are_followed_to_the_device_and_add_up() {
    let Some(file_system) = Journalled::mount_as_root("journalled") else { return };
    let mount = file_system.mount.clone();
    let run = file_system.directory.join("run");
    let mut command = layers(&mount);
    command.args([
        "--writers",
        "native,java-channel-direct",
        "--durability",
        "fsync",
        "--position",
        "append",
    ]);
    let output = succeed(command.args(["--format", "csv", "--out"]).arg(&run));
    let csv = text(&output.stdout);
    let means = |layer: &str| csv::of(&csv, &format!("{layer}mean"), &["writer", "size_bytes"]);
    let whole = means("");
    assert_eq!(whole.len(), 2 * 2, "{csv}");
    for (group, ns) in whole {
        let mean = |layer: Layer| {
            let found = means(&format!("{}.", layer.name())).into_iter().find(|(of, _)| *of == group);
            found.map_or(0.0, |(_, ns)| ns)
        };
        let sum: f64 = Layer::ALL.into_iter().map(mean).sum();
        assert!((sum / ns - 1.0).abs() < 1e-9, "{group}: {sum} of {ns}: {csv}");
        // Appending makes the journal write, which reaches a real device through the loop device.
        for layer in [Layer::Device, Layer::Fs, Layer::Platform] {
            assert!(mean(layer) > 0.0, "{group}, {}: {csv}", layer.name());
        }
    }
    let shown = Command::new(env!("CARGO_BIN_EXE_roundtrip")).arg("show").arg(&run).output().unwrap();
    let shown = text(&shown.stdout);
    for part in ["ext4 on ", "(loop)", "host share", "a write: ", "slow: 4 KiB in "] {
        assert!(shown.contains(part), "no '{part}' in {shown}");
    }
    assert_eq!(names(&mount), ["lost+found"]);
}

/// A run in a guest with Linux 6.1 on QEMU 10's UFS controller: `storage layers --durability dsync
/// --position append --sizes 4k`.
#[test]
fn ufs_writes_are_bounded_by_commands_and_the_interrupt_on_any_machine() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/x86_64-6.1-ufs");
    let mut show = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    let page = text(&succeed(show.arg("show").arg(&run)).stdout);
    for part in [
        "sda (UFS): QEMU HARDDISK",
        "interrupt 10 ufshcd on CPU 1",
        "4 KiB  a write: 3.08 requests, 2.00 flushes; 5.00 device interrupts",
        "device: from ufshcd_command (send) to the controller's interrupt (60 requests)",
        // The command was sent while the handler of an earlier interrupt was still running. That
        // handler found its completion.
        "device: from ufshcd_command (send) to ufshcd_command (complete) (1 request)",
    ] {
        assert!(page.contains(part), "no '{part}' in:\n{page}");
    }
    // Response and its percentiles, the mean, each layer's mean (unexplained last), and the host's
    // share.
    let row = page.lines().find(|line| line.starts_with("4 KiB ")).unwrap();
    let row: Vec<f64> = row.split_whitespace().skip(5).map(|field| field.parse().unwrap()).collect();
    let [mean, layers @ .., unexplained, _] = row.as_slice() else { panic!("too short: {row:?}") };
    assert_eq!(*unexplained, 0.0);
    assert!((layers.iter().sum::<f64>() - mean).abs() <= 2.0, "{row:?}");
}

#[test]
fn a_full_disk_is_reported_and_leaves_nothing() {
    let Some(file_system) = Journalled::mount_as_root("full") else { return };
    let mount = file_system.mount.clone();
    let output = layers(&mount).args(["--file-size", "200M", "--writers", "native"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("no space for 209715200 bytes") && stderr.contains("--file-size"), "{stderr}");
    assert_eq!(names(&mount), ["lost+found"]);
}

/// Runs as an ordinary user, in a folder of that user.
fn as_somebody(command: &mut Command, directory: &Path) {
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65534;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
        // The child inherits this thread's nice value, which "nobody" may not lower to 0.
        rustix::process::setpriority_process(None, 0).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
}

#[test]
fn without_root_response_times_are_shown_and_missing_events_are_reported_once() {
    let directory = folder("somebody");
    let mut command = layers(&directory);
    as_somebody(&mut command, &directory);
    let output = succeed(command.args(["--writers", "native"]));
    let page = text(&output.stdout);
    let missing: Vec<&str> = page.lines().filter(|line| line.starts_with("Not possible: ")).collect();
    assert_eq!(missing.len(), 1, "{page}");
    assert!(missing[0].contains("layers below the application") && missing[0].contains("root"), "{page}");
    assert_eq!(page.lines().filter(|line| line.starts_with("native  ")).count(), 2, "{page}");
    assert!(
        text(&output.stderr).lines().all(|line| line.contains(": warning: ")),
        "{}",
        text(&output.stderr)
    );

    let interference = |neighbours: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        command.args([
            "storage",
            "interference",
            "--duration",
            "300ms",
            "--rounds",
            "1",
            "--file-size",
            "1M",
        ]);
        command.args(neighbours).current_dir(&directory).stdin(Stdio::null());
        as_somebody(&mut command, &directory);
        command
    };
    // By default, impossible conditions are left out. Requested ones must be possible.
    let refused = interference(&["--conditions", "hog-same,rq-affinity-2,io-limit"]).output().unwrap();
    let stderr = text(&refused.stderr);
    assert_eq!((refused.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    for hint in ["rq-affinity-2: ", "io-limit: ", "; possible here: ", "hog-same"] {
        assert!(stderr.contains(hint), "no '{hint}' in {stderr}");
    }
    let output = succeed(&mut interference(&[]));
    let page = text(&output.stdout);
    for missing in ["layers below the application", "rq-affinity-2", "io-limit"] {
        let reasons = page.lines().filter(|line| line.starts_with(&format!("Not possible: {missing}: ")));
        assert_eq!(reasons.count(), 1, "{missing}: {page}");
    }
    assert!(page.lines().any(|line| line.starts_with("alone  ")), "{page}");
    // On a slow machine, the time may be too short for all conditions.
    for condition in ["hog-other", "hog-same", "hog-all", "timers", "network", "files", "fsync", "memory"] {
        let row = page.lines().any(|line| line.starts_with(&format!("{condition}  ")));
        let left_out = format!("Not possible: {condition}: left out: ");
        assert_ne!(row, page.lines().any(|line| line.starts_with(&left_out)), "{condition}: {page}");
    }
    assert!(
        text(&output.stderr).lines().all(|line| line.contains(": warning: ")),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(names(&directory), Vec::<String>::new());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn the_studys_method_is_compared_with_kernel_events() {
    if Command::new("strace").arg("-V").output().is_err() {
        return skip(Need::Program("strace"), "no strace here");
    }
    let directory = folder("strace");
    let method = ["--method", "strace", "--writers", "native", "--format", "json"];
    let output = layers(&directory).args(method).output().unwrap();
    if !output.status.success() {
        // A container may forbid it. Then the command prints one line.
        let stderr = text(&output.stderr);
        assert!(stderr.contains("strace cannot watch the writer") && stderr.lines().count() == 1, "{stderr}");
        return skip(Need::Root, stderr);
    }
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for series in all["results"]["storage"]["layers"].as_array().unwrap() {
        let mean = |part: &str| series["parts"][part]["mean_ns"].as_f64().unwrap();
        assert_eq!(series["parts"]["strace_response"]["calls"], 12);
        assert_eq!(
            series["parts"]["strace_platform"]["calls"], 12,
            "every call has its write in strace's eyes"
        );
        // The part of a write outside of what strace shows is strace's own overhead.
        assert!(mean("strace_system") < mean("strace_response"));
        assert!(mean("strace_platform") > 0.0);
        if series["parts"]["platform"].is_object() {
            assert!(mean("strace_platform") > mean("platform"), "{series}");
        }
    }
    assert_eq!(names(&directory), Vec::<String>::new());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn without_strace_a_one_line_error_says_how_to_get_it() {
    let directory = folder("no-strace");
    let output =
        layers(&directory).args(["--method", "strace"]).env("PATH", "/nonexistent").output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("apt-get install strace") && stderr.lines().count() == 1, "{stderr}");
    assert_eq!(names(&directory), Vec::<String>::new());
    std::fs::remove_dir_all(&directory).unwrap();
}
