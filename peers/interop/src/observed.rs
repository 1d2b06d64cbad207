//! A client and a service that know nothing of Roundtrip, and what `roundtrip ipc observe` has to
//! say of them. The client counts and times its own calls; the service has causes of slowness built
//! in, one a method, so that each slow call's cause is known.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rsbinder::{BinderResult, Interface, ProcessState, Strong, hub, interface};
use serde_json::{Value, json};

use crate::{DEVICE, Running, link_device, until};

const SERVICE: &str = "roundtrip.observed";

/// The names by which `roundtrip` sees the two.
pub(crate) const CLIENT: &str = "rsb-client";
pub(crate) const SERVER: &str = "rsb-server";

/// How often each method is called.
const ECHOES: u64 = 2000;
const RELAYS: u64 = 200;
const NOTES: u64 = 300;
const SLOW: u64 = 40;

/// What a call may take, and for how long a slow one is delayed: longer than the tick that the
/// observer may take on the only processor.
const DEADLINE: &str = "2ms";
const DELAY: Duration = Duration::from_millis(12);

/// Where the trace's instances are.
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// How many times as long a call may take while it is observed.
const MOST_COST: f64 = 1.5;

/// How much of what a call takes by its client's clock is between the driver's events, at least.
const LEAST_SHARE: f64 = 0.65;

/// The methods that delay their caller. Each has its code, and the cause that `roundtrip explain
/// --format json` must name.
const CAUSES: [(u64, &str); 3] = [(4, "sleep"), (5, "work"), (6, "competitor")];

/// What the service does; codes count from 1 in this order.
#[interface(descriptor = "roundtrip.observed.ILoad")]
pub trait ILoad {
    fn echo(&self, text: &str) -> BinderResult<String>;
    fn relay(&self, other: &Strong<dyn ILoad>, text: &str) -> BinderResult<String>;
    #[oneway]
    fn note(&self, number: i32) -> BinderResult<()>;
    fn nap(&self) -> BinderResult<()>;
    fn burn(&self) -> BinderResult<()>;
    fn crowd(&self) -> BinderResult<()>;
    fn die(&self) -> BinderResult<()>;
}

/// The service, with a real-time thread that takes the processor when it is told to.
struct Load {
    hog: Sender<()>,
}

impl Load {
    fn new() -> Load {
        let (hog, told) = channel();
        std::thread::Builder::new().name("hog".into()).spawn(move || take_the_processor(&told)).unwrap();
        Load { hog }
    }
}

fn take_the_processor(told: &Receiver<()>) {
    // The system call itself: musl's function only says that it does not exist. The kernel's
    // sched_param is one int.
    let priority: libc::c_int = 50;
    // SAFETY: the priority lives through the call, which reads it; 0 is the calling thread.
    let set =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    told.iter().for_each(|()| spin());
}

impl Interface for Load {}

impl ILoad for Load {
    fn echo(&self, text: &str) -> BinderResult<String> {
        Ok(text.to_owned())
    }
    fn relay(&self, other: &Strong<dyn ILoad>, text: &str) -> BinderResult<String> {
        other.echo(text)
    }
    fn note(&self, _: i32) -> BinderResult<()> {
        Ok(())
    }
    fn nap(&self) -> BinderResult<()> {
        std::thread::sleep(DELAY);
        Ok(())
    }
    fn burn(&self) -> BinderResult<()> {
        spin();
        Ok(())
    }
    fn crowd(&self) -> BinderResult<()> {
        // There is one processor: the thread has it from here on until it is done.
        self.hog.send(()).map_err(|_| rsbinder::StatusCode::Unknown.into())
    }
    fn die(&self) -> BinderResult<()> {
        std::process::exit(0)
    }
}

fn spin() {
    let start = Instant::now();
    while start.elapsed() < DELAY {
        std::hint::spin_loop();
    }
}

pub(crate) fn serve() -> Result<()> {
    ProcessState::init(DEVICE, 1).map_err(|error| anyhow::anyhow!("{error}"))?;
    let manager = until("find a service manager", || hub::default().ok())?;
    manager.add_service(SERVICE, BnLoad::new_binder(Load::new()))?;
    ProcessState::start_thread_pool();
    Ok(ProcessState::join_thread_pool()?)
}

/// Calls, and writes down what it has seen itself. Makes one of `fewer` of the calls.
pub(crate) fn call(out: &str, fewer: u64) -> Result<()> {
    ProcessState::init(DEVICE, 1).map_err(|error| anyhow::anyhow!("{error}"))?;
    let manager = until("find a service manager", || hub::default().ok())?;
    ProcessState::start_thread_pool();
    let load = until("find the service", || manager.check_interface::<dyn ILoad>(SERVICE).ok())?;
    let mut took_ns = Vec::new();
    for _ in 0..ECHOES / fewer {
        let start = Instant::now();
        ensure!(load.echo("sixteen bytes it")? == "sixteen bytes it", "echo");
        took_ns.push(start.elapsed().as_nanos() as u64);
    }
    took_ns.sort_unstable();
    let own = BnLoad::new_binder(Load::new());
    for _ in 0..RELAYS / fewer {
        ensure!(load.relay(&own, "there and back")? == "there and back", "relay");
    }
    for number in 0..NOTES / fewer {
        load.note(number as i32)?;
        // The calls in between keep the queue short.
        load.echo("")?;
    }
    for _ in 0..SLOW / fewer {
        load.nap()?;
        load.burn()?;
        load.crowd()?;
    }
    ensure!(load.die().is_err(), "the service lives");
    let at = |percent: usize| took_ns[took_ns.len() * percent / 100];
    let own = json!({ "pid": std::process::id(), "echo_p50_ns": at(50), "echo_p99_ns": at(99) });
    Ok(std::fs::write(out, own.to_string())?)
}

/// Observes client and service, and compares.
pub(crate) fn all(rsb_hub: &str, roundtrip: &str) -> Result<()> {
    link_device()?;
    for name in [CLIENT, SERVER] {
        std::os::unix::fs::symlink(std::env::current_exe()?, name)?;
    }
    let _manager = Running::start(Command::new(rsb_hub).arg("--insecure-allow-all"))?;
    let serve = || Running::start(Command::new(format!("./{SERVER}")).args(["observed", "serve"]));
    let client = format!("./{CLIENT}");

    let server = serve()?;
    abandoned(roundtrip, Command::new(&client).args(["observed", "call", "alone.json"]))?;
    drop(server);
    let server = serve()?;
    interrupted(roundtrip, Command::new(&client).args(["observed", "call", "interrupted.json"]))?;
    drop(server);

    let _server = serve()?;
    let mut command = Command::new(roundtrip);
    command.args([
        "ipc",
        "observe",
        "--deadline",
        DEADLINE,
        "--explain-limit",
        "200",
        "--out",
        "/out/run",
        "--",
    ]);
    // Its explanations are read from the run.
    let status = command.args([&client, "observed", "call", "own.json"]).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "roundtrip ipc observe {status}");

    let own = read("own.json")?;
    counts(&own)?;
    causes(roundtrip)?;
    let (observed, alone) = (number(&own, "/echo_p50_ns")?, number(&read("alone.json")?, "/echo_p50_ns")?);
    println!("an echo takes {:.2} times as long while it is observed", observed / alone);
    ensure!(observed / alone < MOST_COST, "more than it may");
    Ok(())
}

/// An observer that is killed leaves the client alone, and nothing that the next one does not
/// remove.
fn abandoned(roundtrip: &str, client: &mut Command) -> Result<()> {
    let observer = Running::start(Command::new(roundtrip).args(["ipc", "observe", "--duration", "1h"]))?;
    let instances = || -> Result<usize> { Ok(std::fs::read_dir(INSTANCES)?.count()) };
    until("an instance of the trace", || instances().ok().filter(|&count| count == 1))?;
    drop(observer);
    ensure!(client.status()?.success(), "the client failed after its observer was killed");
    ensure!(instances()? == 1, "what a killed observer leaves is gone before anybody looked");
    let next = Command::new(roundtrip).args(["ipc", "observe", "--duration", "10ms", "--quiet"]).status()?;
    ensure!(next.success() && instances()? == 0, "{} instances are left", instances()?);
    println!("a killed observer: the client went on, the next observer removed what was left");
    Ok(())
}

/// Ctrl-C is the usual end of observing without a limit: what was seen until then is reported.
fn interrupted(roundtrip: &str, client: &mut Command) -> Result<()> {
    let mut observer = Command::new(roundtrip);
    observer.args(["ipc", "observe", "--duration", "1h", "--format", "csv", "--quiet", "--name", CLIENT]);
    let observer = observer.stdout(Stdio::piped()).spawn()?;
    until("an instance of the trace", || std::fs::read_dir(INSTANCES).ok()?.find_map(Result::ok))?;
    ensure!(client.status()?.success(), "the client failed while it was observed");
    let pid = libc::pid_t::try_from(observer.id())?;
    // SAFETY: the observer is a child that has not been waited for: the number is still its own.
    ensure!(unsafe { libc::kill(pid, libc::SIGINT) } == 0, "{}", std::io::Error::last_os_error());
    let output = observer.wait_with_output()?;
    let lines = String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains(CLIENT)).count();
    ensure!(output.status.success() && lines >= 6, "{}: {lines} lines", output.status);
    println!("an interrupted observer: {lines} lines");
    Ok(())
}

/// What was observed is what the client counted and timed itself.
fn counts(own: &Value) -> Result<()> {
    let run = read("/out/run/run.json")?;
    let observed = run.pointer("/results/observed_calls").context("no observed calls")?;
    let flows = observed["flows"].as_array().context("no flows")?;
    // Nodes that are made for a call have rows of their own, up to a limit.
    let of = |client: &str, server: &str, code: u64| -> Vec<&Value> {
        let named = |flow: &Value, side: &str, name: &str| flow[side]["name"] == name;
        let is = |flow: &&Value| {
            named(flow, "client", client) && named(flow, "server", server) && flow["code"] == code
        };
        flows.iter().filter(is).collect()
    };
    let sum = |flows: &[&Value], pointer: &str| -> u64 {
        flows.iter().filter_map(|flow| flow.pointer(pointer).and_then(Value::as_u64)).sum()
    };
    let expect = |client: &str, server: &str, code: u64, pointer: &str, expected: u64| {
        let found = sum(&of(client, server, code), pointer);
        ensure!(
            found == expected,
            "{client} to {server}, code {code}: {found} at {pointer} in place of {expected}"
        );
        Ok(())
    };
    for (code, calls) in [(1, ECHOES + NOTES), (2, RELAYS), (4, SLOW), (5, SLOW), (6, SLOW)] {
        expect(CLIENT, SERVER, code, "/latency/count", calls)?;
    }
    expect(CLIENT, SERVER, 3, "/oneway/count", NOTES)?;
    expect(SERVER, CLIENT, 1, "/latency/count", RELAYS)?;
    expect(SERVER, CLIENT, 1, "/nested", RELAYS)?;
    expect(CLIENT, SERVER, 7, "/failed", 1)?;
    let pid = number(own, "/pid")?;
    let echo = of(CLIENT, SERVER, 1);
    ensure!(echo.len() == 1 && echo[0]["client"]["pid"].as_f64() == Some(pid), "another client: {echo:?}");
    for lost in ["lost_events", "forgotten", "other_flows"] {
        ensure!(observed["unseen"][lost] == 0, "{}", observed["unseen"]);
    }
    println!("{} calls, {NOTES} oneway and 1 failed: as many as the client made", observed_calls(flows));
    // The client's clock also has what its library does around the driver's call.
    for (percent, own_ns) in [("50", number(own, "/echo_p50_ns")?), ("99", number(own, "/echo_p99_ns")?)] {
        let all = echo[0]["latency"]["percentiles"].as_array().context("no percentiles")?;
        let found = all.iter().find(|one| one["percent"].to_string().trim_end_matches(".0") == percent);
        let ns = found.and_then(|one| one["ns"].as_f64()).with_context(|| format!("no p{percent}"))?;
        println!(
            "p{percent} of an echo: {:.1} us observed, {:.1} us by the client's clock",
            ns / 1e3,
            own_ns / 1e3
        );
        ensure!(ns <= own_ns && ns >= own_ns * LEAST_SHARE, "too far apart");
    }
    Ok(())
}

fn observed_calls(flows: &[Value]) -> u64 {
    flows.iter().filter_map(|flow| flow["latency"]["count"].as_u64()).sum()
}

/// Each slow call is explained by what the service did in that method.
fn causes(roundtrip: &str) -> Result<()> {
    let output = Command::new(roundtrip).args(["explain", "--format", "json", "/out/run"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let explained: Value = serde_json::from_slice(&output.stdout)?;
    let slow = explained["slow_calls"].as_array().context("no slow calls")?;
    let (mut right, mut wrong) = (0, 0);
    for call in slow {
        let what = call["what"].as_str().unwrap_or_default();
        let Some((_, cause)) = CAUSES.into_iter().find(|(code, _)| what.ends_with(&format!(", code {code}")))
        else {
            continue;
        };
        match call.pointer("/explanation/causes/0/kind").and_then(Value::as_str) {
            Some(named) if named == cause => right += 1,
            Some("cannot_tell") | None => {}
            Some(named) => {
                wrong += 1;
                println!("{what}: {named} in place of {cause}");
            }
        }
    }
    let all = SLOW * CAUSES.len() as u64;
    println!("causes: {right} of {all} named rightly, {wrong} wrongly");
    ensure!(right * 100 >= all * 95 && wrong * 100 <= all, "too few, or too many");
    Ok(())
}

fn read(path: impl AsRef<Path>) -> Result<Value> {
    let path = path.as_ref();
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("read {}", path.display()))
}

fn number(value: &Value, pointer: &str) -> Result<f64> {
    value.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no {pointer}"))
}
