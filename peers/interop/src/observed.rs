//! A client and a service that know nothing of Roundtrip, and what `roundtrip ipc observe` has to
//! say of them. The client counts and times its own calls; the service has causes of slowness built
//! in, one a method, so that each slow call's cause is known.

mod observing;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rsbinder::{BinderResult, Interface, ProcessState, Strong, hub, interface};
use serde_json::{Value, json};

use observing::Programs;
use crate::{DEVICE, Running, link_device, until};

const SERVICE: &str = "roundtrip.observed";

/// The names by which `roundtrip` sees the two.
pub(crate) const CLIENT: &str = "rsb-client";
pub(crate) const SERVER: &str = "rsb-server";

/// How often each method is called.
pub(crate) const ECHOES: u64 = 2000;
pub(crate) const RELAYS: u64 = 200;
pub(crate) const NOTES: u64 = 300;
pub(crate) const SLOW: u64 = 40;

/// How often a client calls that floods the observer.
const FLOOD: u64 = 5000;

/// What a call may take, and for how long a slow one is delayed: longer than the tick that the
/// observer may take on the only processor.
const DEADLINE: &str = "2ms";
const DELAY: Duration = Duration::from_millis(12);

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

/// Calls, and does nothing else.
pub(crate) fn flood() -> Result<()> {
    ProcessState::init(DEVICE, 1).map_err(|error| anyhow::anyhow!("{error}"))?;
    let manager = until("find a service manager", || hub::default().ok())?;
    let load = until("find the service", || manager.check_interface::<dyn ILoad>(SERVICE).ok())?;
    for _ in 0..FLOOD {
        ensure!(load.echo("")?.is_empty(), "echo");
    }
    Ok(())
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

    Programs { roundtrip }.all()?;
    let server = serve()?;
    let alone = Command::new(&client).args(["observed", "call", "alone.json"]).status()?;
    ensure!(alone.success(), "the client failed alone");
    drop(server);

    let observe = |options: &[&str], out: &str| -> Result<()> {
        let _server = serve()?;
        let mut command = Command::new(roundtrip);
        command.args(["ipc", "observe"]).args(options).args(["--", &client, "observed", "call", out]);
        let status = command.stdout(Stdio::null()).status()?;
        ensure!(status.success(), "roundtrip ipc observe {status}");
        Ok(())
    };
    observe(&["--explain-limit", "0"], "counted.json")?;
    // Its explanations are read from the run.
    observe(&["--deadline", DEADLINE, "--explain-limit", "200", "--out", "/out/run"], "own.json")?;

    let own = read("own.json")?;
    counts(&own)?;
    causes(roundtrip)?;
    let alone = number(&read("alone.json")?, "/echo_p50_ns")?;
    let counted = number(&read("counted.json")?, "/echo_p50_ns")? / alone;
    let observed = number(&own, "/echo_p50_ns")? / alone;
    println!(
        "an echo takes {observed:.2} times as long while it is observed, {counted:.2} times without explanations"
    );
    ensure!(counted < observed && observed < MOST_COST, "more than it may");
    Ok(())
}

/// What was observed is what the client counted and timed itself.
fn counts(own: &Value) -> Result<()> {
    let run = read("/out/run/run.json")?;
    let flows = Flows::of(&run)?;
    let observed = &run["results"]["observed_calls"];
    for (code, calls) in [(1, ECHOES + NOTES), (2, RELAYS), (4, SLOW), (5, SLOW), (6, SLOW)] {
        flows.expect(CLIENT, SERVER, code, "/latency/count", calls)?;
    }
    flows.expect(CLIENT, SERVER, 3, "/oneway/count", NOTES)?;
    flows.expect(SERVER, CLIENT, 1, "/latency/count", RELAYS)?;
    flows.expect(SERVER, CLIENT, 1, "/nested", RELAYS)?;
    flows.expect(CLIENT, SERVER, 7, "/failed", 1)?;
    let pid = number(own, "/pid")?;
    let echo = flows.between(CLIENT, SERVER, 1);
    let is_clients = |flow: &&Value| flow["client"]["pid"].as_f64() == Some(pid);
    ensure!(echo.iter().all(is_clients), "another client: {echo:?}");
    let pools: Vec<&str> = echo.iter().filter_map(|flow| flow["pool"].as_str()).collect();
    ensure!(!echo.is_empty() && pools.len() == echo.len(), "a row without its pool: {echo:?}");
    for lost in ["lost_events", "forgotten", "other_flows"] {
        ensure!(observed["unseen"][lost] == 0, "{}", observed["unseen"]);
    }
    println!("{} calls, {NOTES} oneway and 1 failed: as many as the client made", flows.calls());
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

/// The rows of a run.
pub(crate) struct Flows<'a>(pub(crate) &'a [Value]);

impl<'a> Flows<'a> {
    pub(crate) fn of(run: &'a Value) -> Result<Self> {
        let flows = run.pointer("/results/observed_calls/flows").and_then(Value::as_array);
        Ok(Self(flows.context("no observed calls")?))
    }

    /// Those of one method: nodes that are made for a call have rows of their own, up to a limit,
    /// and so have the pools that serve.
    fn between(&self, client: &str, server: &str, code: u64) -> Vec<&'a Value> {
        let is = |flow: &&Value| {
            flow["client"]["name"] == client && flow["server"]["name"] == server && flow["code"] == code
        };
        self.0.iter().filter(is).collect()
    }

    /// A count of one method must be what the client counted.
    pub(crate) fn expect(
        &self,
        client: &str,
        server: &str,
        code: u64,
        pointer: &str,
        expected: u64,
    ) -> Result<()> {
        let counts = self.between(client, server, code).into_iter();
        let found: u64 = counts.filter_map(|flow| flow.pointer(pointer).and_then(Value::as_u64)).sum();
        ensure!(
            found == expected,
            "{client} to {server}, code {code}: {found} at {pointer} in place of {expected}"
        );
        Ok(())
    }

    fn calls(&self) -> u64 {
        self.0.iter().filter_map(|flow| flow["latency"]["count"].as_u64()).sum()
    }
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
