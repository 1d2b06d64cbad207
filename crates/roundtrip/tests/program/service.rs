//! `roundtrip service` on another command's context.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::process::children;

fn roundtrip(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(line.split_whitespace()).stdin(Stdio::null()).output().unwrap()
}

fn stdout(line: &str) -> String {
    let output = roundtrip(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refusal(line: &str) -> (Option<i32>, String) {
    let output = roundtrip(line);
    assert!(output.stdout.is_empty(), "{line}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A measurement that runs until this is dropped.
struct Running(Child);

impl Running {
    fn start() -> Self {
        Self::at("")
    }

    /// Starts it with calls so rare that a server is never stopped during one.
    fn seldom() -> Self {
        Self::at(" --rate 10/s")
    }

    fn at(rate: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        let args = format!("ipc latency --driver emulated --callers other --duration 10m{rate}");
        command.args(args.split(' '));
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The names of its two contexts, once both have their service.
    fn contexts(&self) -> Vec<(String, String)> {
        let until = Instant::now() + Duration::from_secs(30);
        let own = format!("roundtrip-{}-", self.0.id());
        loop {
            let list: serde_json::Value =
                serde_json::from_slice(&roundtrip("service list --format json").stdout).unwrap_or_default();
            let ours: Vec<(String, String)> = list
                .as_array()
                .into_iter()
                .flatten()
                .filter(|context| context["services"].as_array().is_some_and(|services| !services.is_empty()))
                .map(|context| (text(&context["context"]), text(&context["services"][0]["name"])))
                .filter(|(context, _)| context.starts_with(&own))
                .collect();
            if ours.len() == 2 {
                return ours;
            }
            assert!(Instant::now() < until, "{list}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The pids of the workers whose names start with `name`.
    fn workers(&self, name: &str) -> Vec<u32> {
        let is = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().starts_with(name);
        children(self.0.id()).into_iter().filter(is).collect()
    }

    /// The pids of the servers, one in each context.
    fn servers(&self) -> Vec<u32> {
        let servers = self.workers("server");
        assert_eq!(servers.len(), 2, "{servers:?}");
        servers
    }

    /// Waits until a client has received several replies. Until then, a server may have to open
    /// files for its first report.
    fn wait_for_calls(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        let tids = |pid: u32| {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
            tasks.filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok()).collect::<Vec<_>>()
        };
        let calls = |tid| {
            roundtrip_bench::kernel::counters::of_thread(tid).is_ok_and(|now| now.voluntary_switches > 20)
        };
        while !self.workers("client").into_iter().flat_map(tids).any(calls) {
            assert!(Instant::now() < until, "no client makes calls");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn services_of_a_running_measurement_are_listed_called_and_dumped() {
    let run = Running::start();
    let contexts = run.contexts();
    let (binder, service) = &contexts[0];
    let (hwbinder, hw_service) = &contexts[1];

    let list = stdout(&format!("service list --context {binder}"));
    assert!(
        list.starts_with(&format!("{binder}: emulated driver (ack profile), 1 binder service\n")),
        "{list}"
    );
    assert!(list.contains("roundtrip.IBenchmark/pair1-0  roundtrip.IBenchmark\n"), "{list}");
    let list = stdout(&format!("service list --context {hwbinder}"));
    assert!(list.contains(", 1 hwbinder service\n") && list.contains(hw_service), "{list}");

    // INTERFACE_TRANSACTION: a length of 20, and the name in UTF-16.
    let reply = stdout(&format!("service call --context {binder} {service} 1598968902"));
    assert!(
        reply.starts_with(
            "Result: Parcel(\n  0x00000000: 00000014 006f0072 006e0075 00740064 '....r.o.u.n.d.t.'\n"
        ),
        "{reply}"
    );
    // HIDL's ping, 0x0f504e47: a status of 0.
    let reply = stdout(&format!("service call --context {hwbinder} {hw_service} 256921159"));
    assert_eq!(reply, "Result: Parcel(00000000 '....')\n");

    let state = stdout(&format!("service dump --context {binder}"));
    assert!(state.contains("\nproc 2\n") && state.contains("  node 1: "), "{state}");
    for (context, service) in &contexts {
        assert_eq!(stdout(&format!("service dump --context {context} {service}")), "");
    }
}

#[test]
fn waiting_for_a_silent_service_ends_at_the_timeout() {
    let run = Running::seldom();
    let contexts = run.contexts();
    let servers = run.servers();
    let tell = |signal| {
        Command::new("kill").arg(signal).args(servers.iter().map(u32::to_string)).status().unwrap().success()
    };
    assert!(tell("-STOP"));
    let (context, service) = &contexts[0];
    let refused = refusal(&format!("service dump --context {context} --timeout 100ms {service}"));
    assert!(tell("-CONT"));
    let expected =
        format!("roundtrip: {service} did not finish its dump within 100ms; allow more with --timeout\n");
    assert_eq!(refused, (Some(1), expected));
}

#[test]
fn a_server_that_can_open_no_more_files_refuses_a_dump_and_continues() {
    let run = Running::seldom();
    let contexts = run.contexts();
    let servers = run.servers();
    let limit = |files: &str| {
        for server in &servers {
            let mut command = Command::new("prlimit");
            assert!(
                command
                    .args(["--pid", &server.to_string(), &format!("--nofile={files}:")])
                    .status()
                    .unwrap()
                    .success()
            );
        }
    };
    run.wait_for_calls();
    // A dump receives the descriptor to write to.
    limit("3");
    for (context, service) in &contexts {
        let (code, said) = refusal(&format!("service dump --context {context} {service}"));
        assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
        let why = format!("roundtrip: cannot ask {service} for its state: the driver refused call ");
        assert!(said.starts_with(&why) && said.contains("out of file descriptors"), "{said}");
    }
    limit("1024");
    for (context, service) in &contexts {
        assert_eq!(stdout(&format!("service dump --context {context} {service}")), "");
    }
    assert_eq!(run.servers(), servers, "they have gone on");
}

#[test]
fn invalid_service_calls_give_a_one_line_error() {
    let run = Running::start();
    let contexts = run.contexts();
    let context = &contexts[0].0;
    for (line, code, expected) in [
        (format!("service call --context {context} nothing 1"), 1, "no service is registered as 'nothing'"),
        (format!("service dump --context {context} nothing"), 1, "no service is registered as 'nothing'"),
        (
            format!("service call --context {context} {} x", contexts[0].1),
            2,
            "code x: expected a whole number",
        ),
        (format!("service call --context {context} {} 1 i32", contexts[0].1), 2, "i32 needs a value"),
        (format!("service call --context {context} {} 1 i32 a", contexts[0].1), 2, "i32 a: not a number"),
        (
            format!("service call --context {context} {} 1 u8 1", contexts[0].1),
            2,
            "argument type u8: expected",
        ),
        (
            format!("service call --context {context} {} 1 fd /no/such", contexts[0].1),
            1,
            "cannot open /no/such",
        ),
        ("service list --context roundtrip-0-0-0".into(), 2, "; contexts here: "),
        ("service list --context /dev/null".into(), 2, context),
        ("service call".into(), 2, "SERVICE CODE [TYPE VALUE]... is missing"),
    ] {
        let (status, stderr) = refusal(&line);
        assert_eq!((status, stderr.lines().count()), (Some(code), 1), "{line}: {stderr}");
        assert!(stderr.starts_with("roundtrip: ") && stderr.contains(expected), "{line}: {stderr}");
    }
    // At least two contexts run.
    let (status, stderr) = refusal("service call any 1");
    assert_eq!(status, Some(1));
    assert!(stderr.starts_with("roundtrip: several contexts run: choose one with --context: "), "{stderr}");
}
