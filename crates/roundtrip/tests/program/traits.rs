//! `roundtrip ipc traits` as a process: one table, one JSON value, and correct reports without
//! real-time permission.

use std::process::{Command, Output, Stdio};

use roundtrip_skips::{Need, skip};
use serde_json::Value;

use crate::support::csv;

fn traits(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command
        .args(["ipc", "traits", "--driver", "emulated", "--iterations", "20"])
        .args(args.split_whitespace())
        .stdin(Stdio::null());
    command
}

fn succeed(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn the_table_names_the_driver_and_has_every_aspect() {
    let text = String::from_utf8(succeed(traits("--profile mainline")).stdout).unwrap();
    let (_, table) = text.split_once("emulated driver (mainline profile)\n\naspect ").expect(&text);
    let (table, _) = table.split_once("\n\n").expect(&text);
    assert_eq!(table.lines().count(), 12, "{text}");
}

#[test]
fn csv_has_the_copies_of_both_stacks() {
    let text = String::from_utf8(succeed(traits("--format csv")).stdout).unwrap();
    let copies = csv::of(&text, "request_copies", &["emulated", "stack"]);
    assert_eq!(copies, [("true binder".to_owned(), 2.0), ("true hwbinder".to_owned(), 1.0)], "{text}");
}

#[test]
fn json_is_one_value_and_equals_run_json() {
    let directory = std::env::temp_dir().join(format!("roundtrip-traits-{}", std::process::id()));
    let mut command = traits("--format json --out");
    command.arg(&directory);
    let printed: Value = serde_json::from_slice(&succeed(command).stdout).unwrap();
    let stored = std::fs::read(directory.join("run.json")).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(printed == serde_json::from_slice::<Value>(&stored).unwrap());
    assert_eq!(printed["results"]["traits"]["rows"].as_array().unwrap().len(), 11);
}

/// The nice value of these tests (proc_pid_stat(5), field 19).
fn own_nice() -> i64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind_name = stat.rsplit(')').next().unwrap();
    behind_name.split_whitespace().nth(16).unwrap().parse().unwrap()
}

/// Runs as an ordinary user, if util-linux's setpriv(1) can be used.
#[test]
fn without_real_time_permission_the_cells_say_so_and_the_other_aspects_are_tried() {
    let binary = std::env::temp_dir().join(format!("roundtrip-traits-nobody-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_roundtrip"), &binary).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"])
        .arg(&binary)
        .args(["ipc", "traits", "--driver", "emulated", "--iterations", "20", "--format", "json"])
        .stdin(Stdio::null())
        .output();
    std::fs::remove_file(&binary).unwrap();
    let output = match output {
        Ok(output) => output,
        Err(error) => return skip(Need::Program("setpriv"), error),
    };
    if !output.status.success() {
        return skip(
            Need::Root,
            format!("cannot become nobody: {}", String::from_utf8_lossy(&output.stderr)),
        );
    }
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = run["results"]["traits"]["rows"].as_array().unwrap();
    let row = |aspect: &str| rows.iter().find(|row| row["aspect"] == aspect).unwrap();
    if run["environment"]["realtime"]["realtime"] != "refused" {
        return skip(Need::Machine, "every user of this machine may use real-time priorities");
    }
    for aspect in ["realtime_inheritance", "least_policy"] {
        assert_eq!(row(aspect)["hwbinder"]["kind"], "not_tried");
        assert!(row(aspect)["hwbinder"]["reason"].as_str().unwrap().contains("RLIMIT_RTPRIO"));
    }
    assert_eq!(row("nice_lowered")["binder"]["kind"], "not_tried");
    assert_eq!(row("background_policy")["binder"]["holds"], true);
    // An ordinary user cannot lower a nice value, so this cannot be tested if these tests have a
    // nice value above 0.
    let hwbinder = &row("background_policy")["hwbinder"];
    if own_nice() == 0 {
        assert_eq!(hwbinder["holds"], false, "{hwbinder}");
    } else {
        assert!(hwbinder["holds"] == false || hwbinder["kind"] == "not_tried", "{hwbinder}");
    }
    assert_eq!(row("request_copies")["binder"]["kind"], "copies");
}
