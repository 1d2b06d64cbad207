//! The flags and the output of Android's programs.

use std::process::Command;

use roundtrip_bench::sched::realtime_permission;
use serde_json::Value;

use super::{called, check_block, json, judged, latency, stderr, succeed};

fn near(one: &Value, other: f64) -> bool {
    one.as_f64().is_some_and(|one| (one - other).abs() <= 1e-3 * other.abs())
}

#[test]
fn raw_data_is_one_json_value_whose_counts_add_up() {
    let output =
        judged(called("libhwbinder_latency").args("-raw_data -pair 1 -i 1000 -m BINDERIZE".split(' ')));
    let value = json(&output);
    let realtime = realtime_permission().max_priority().is_some();
    assert_eq!(value["cfg"]["pair"], 1);
    assert_eq!(value["cfg"]["iterations"], 1000);
    assert_eq!(value["cfg"]["deadline_us"], 2500);
    assert_eq!(value["cfg"]["passthrough"], 0);
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let at = ["\"cfg\"", "\"fifo_0_data\"", "\"ALL\"", "\"P0\"", "\"inheritance\""].map(|key| text.find(key));
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "the original's order: {text}");
    assert!(value["cfg"]["driver"].as_str().unwrap().contains("driver"));
    check_block(&value["P0"], 1000, realtime);
    assert_eq!(value["P0"], value["ALL"]);
    let raw: Vec<f64> =
        value["fifo_0_data"].as_array().unwrap().iter().map(|ns| ns.as_u64().unwrap() as f64).collect();
    assert_eq!(raw.len(), if realtime { 1000 } else { 0 });
    if realtime {
        let fifo = &value["P0"]["fifo_ms"];
        assert!(near(&fifo["avg"], raw.iter().sum::<f64>() / 1000.0 / 1e6), "{fifo}");
        assert!(near(&fifo["wst"], raw.iter().copied().fold(0.0, f64::max) / 1e6), "{fifo}");
        assert!(near(&fifo["bst"], raw.iter().copied().fold(f64::MAX, f64::min) / 1e6), "{fifo}");
        let missed = raw.iter().filter(|&&ns| ns > 2_500_000.0).count();
        assert_eq!(fifo["miss"], missed);
    }
}

#[test]
fn a_deadline_of_zero_is_missed_by_both_callers() {
    let value = json(&judged(called("schd-dbg64").args("-i 20 -deadline_us 0".split(' '))));
    let keys: Vec<_> = value.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["P0", "cfg", "inheritance"], "all that the original prints at the top");
    assert_eq!(value["P0"], value["cfg"]["ALL"]);
    assert_eq!(value["P0"]["other_ms"]["miss"], 20);
    assert_eq!(value["P0"]["other_ms"]["meetR"], 0);
    if realtime_permission().max_priority().is_some() {
        assert_eq!(value["P0"]["fifo_ms"]["miss"], 20);
        assert_eq!(value["inheritance"], "FAIL", "binder does not inherit real-time priorities");
        // 256 calls without inheritance, which an exit status of one byte would report as 0.
        assert_eq!(json(&judged(called("schd-dbg").args(["-i", "256"])))["inheritance"], "FAIL");
    }
}

/// The roles and policies in the blocks of `-v`, and what follows the blocks.
fn blocks(text: &str) -> (Vec<String>, String) {
    let rule = format!("{}\n", "-".repeat(50));
    let mut roles = Vec::new();
    let mut behind = String::new();
    for block in text.split(&rule).skip(1) {
        let (head, policy) = block.split_once('\n').unwrap();
        let (role, ids) = head.split_at(12);
        let numbers: Vec<_> = ids.split_whitespace().collect();
        assert_eq!([numbers[0], numbers[2], numbers[4]], ["pid:", "tid:", "cpu:"], "{block}");
        let (policy, rest) = policy.split_once('\n').unwrap();
        roles.push(format!("{} {policy}", role.trim_end()));
        behind = rest.to_owned();
    }
    (roles, behind)
}

#[test]
fn verbose_blocks_precede_the_json_in_each_programs_order() {
    let realtime = realtime_permission().max_priority() == Some(99);
    for (name, processes, stack, inherited) in [
        ("libhwbinder_latency", ["service", "main", "client"], "hwbinder", "???         99"),
        ("schd-dbg", ["main", "server", "client"], "binder", "SCHED_OTHER 0"),
    ] {
        let output = called(name).args("-i 1 -v".split(' ')).output().unwrap();
        let text = std::str::from_utf8(&output.stdout).unwrap();
        let (roles, value) = blocks(text);
        serde_json::from_str::<Value>(&value).unwrap_or_else(|error| panic!("{error}: {text}"));
        let mut expected: Vec<String> =
            processes.iter().map(|role| format!("{role} SCHED_OTHER 0")).collect();
        if realtime {
            expected.extend(["fifo-caller SCHED_FIFO  99".to_owned(), format!("{stack} {inherited}")]);
        }
        expected.extend(["other-caller SCHED_OTHER 0".to_owned(), format!("{stack} SCHED_OTHER 0")]);
        assert_eq!(roles, expected, "{name}");
        assert!(!stderr(&output).contains("pid:"), "{}", stderr(&output));
    }
    let output = succeed(&mut latency("--stack hwbinder --iterations 1 --verbose --format json"));
    json(&output);
    assert!(stderr(&output).contains("other-caller pid:"), "{}", stderr(&output));
}

#[test]
fn without_permission_for_real_time_only_the_ordinary_caller_measures() {
    // The program inherits the reduced capabilities of this test's thread. Even root does not
    // regain them on exec.
    let _ = rustix::thread::remove_capability_from_bounding_set(rustix::thread::CapabilitySet::SYS_NICE);
    let script = "ulimit -r 0 && exec \"$0\" ipc latency --stack hwbinder --format android --iterations 50";
    let output = succeed(Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_roundtrip")]));
    let value = json(&output);
    assert_eq!(value["inheritance"], "SKIP");
    let reason = value["cfg"]["inheritance_reason"].as_str().unwrap();
    assert!(reason.contains("CAP_SYS_NICE") && stderr(&output).contains("CAP_SYS_NICE"), "{reason}");
    check_block(&value["P0"], 50, false);
    assert_eq!(value["P0"]["fifo_ms"]["avg"], Value::Null);
    // An explicit request is rejected instead.
    for (command, option) in [
        ("ipc latency --callers fifo:99", "--callers: fifo:99"),
        ("ipc latency --callers other,nice:-20", "--callers: nice:-20"),
        ("ipc latency --load hogs=1,policy=rr:1", "--load: rr:1"),
        ("ipc latency --inject hog,policy=fifo:2", "--inject: fifo:2"),
        ("storage layers --policy fifo:1", "--policy: fifo:1"),
    ] {
        let script = format!("ulimit -r 0 && exec \"$0\" {command}");
        let output =
            Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_roundtrip")]).output().unwrap();
        let text = stderr(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{command}: {text}");
        assert!(text.contains(&format!("{option} is not allowed")) && output.stdout.is_empty(), "{text}");
    }
    // It may not lower its nice value again either.
    let script = script.replace("exec", "exec nice -n 5");
    let output = succeed(Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_roundtrip")]));
    check_block(&json(&output)["P0"], 50, false);
    assert!(stderr(&output).contains("caller other runs as nice:"), "{}", stderr(&output));
}

#[test]
fn unknown_and_incomplete_flags_are_one_line_and_exit_code_2() {
    for (name, args, hint) in [
        ("libhwbinder_latency", "-pairs 3", "unknown flag -pairs (did you mean -pair?)"),
        ("libhwbinder_latency", "-i", "-i needs a value"),
        ("libhwbinder_latency", "-i x", "whole number"),
        ("libhwbinder_latency", "-i 0", "whole number"),
        ("libhwbinder_latency", "-pair 0", "from 1 to 256"),
        ("libhwbinder_latency", "-m binder", "BINDERIZE, PASSTHROUGH"),
        ("schd-dbg", "-deadline_us -1", "whole number"),
        ("schd-dbg", "-m BINDERIZE", "unknown flag -m"),
        ("schd-dbg", "extra", "unexpected argument 'extra'"),
        ("roundtrip", "ipc latency --callers fifo:100", "fifo:1..99"),
        ("roundtrip", "ipc latency --load hogs=0", "1 to 4096"),
        ("roundtrip", "ipc latency --payload 512k", "at most 500k"),
        ("roundtrip", "ipc latency --client-cpus 8191", "--client-cpus: CPU 8191 is not available"),
        ("roundtrip", "ipc latency --load hogs=1,cpus=8191", "--load: CPU 8191 is not available"),
        ("roundtrip", "ipc latency --inject hog,cpus=8191", "--inject: CPU 8191 is not available"),
        ("roundtrip", "ipc throughput --server-cpus 0,8191", "--server-cpus: CPU 8191 is not available"),
        ("roundtrip", "ipc latency --payload 400k --server-threads 2", "does not fit"),
        ("roundtrip", "ipc latency --format android", "one stack"),
    ] {
        let output = called(name).args(args.split(' ')).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{name} {args}: {text}");
        assert!(text.contains(hint) && text.lines().count() == 1 && output.stdout.is_empty(), "{text}");
    }
}
