//! Tests `roundtrip ipc observe` with a client and a service that do not know Roundtrip. The client
//! counts and times its own calls. Each slow method of the service delays its caller in one known
//! way, so the cause of each slow call is known.

mod observing;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rsbinder::{BinderResult, Interface, ProcessState, Strong, hub, interface};
use serde_json::{Value, json};

use crate::{DEVICE, Running, link_device, until};
use observing::Programs;

const SERVICE: &str = "roundtrip.observed";

/// The names by which `roundtrip` sees the two.
pub(crate) const CLIENT: &str = "rsb-client";
pub(crate) const SERVER: &str = "rsb-server";

/// How often each method is called.
pub(crate) const ECHOES: u64 = 2000;
pub(crate) const RELAYS: u64 = 200;
pub(crate) const NOTES: u64 = 300;
pub(crate) const SLOW: u64 = 40;

/// How many calls the driver refuses, because they are larger than the service's buffer.
const REFUSED: u64 = 5;

/// How many calls each client makes to flood the observer.
const FLOOD: u64 = 5000;

/// The deadline, and how long the service delays a slow call. Both are longer than one scheduler
/// tick, by which the observer may delay a call on the only CPU.
const DEADLINE: &str = "2ms";
const DELAY: Duration = Duration::from_millis(12);

/// The maximum ratio of a call's time with the observer to its time without.
const MAX_COST: f64 = 1.5;

/// The minimum share of a call's time, by its client's clock, that lies between the driver's
/// events.
const MIN_SHARE: f64 = 0.65;

/// The methods that delay their caller. Each has its code, and the cause that `roundtrip explain
/// --format json` must name.
const CAUSES: [(u64, &str); 3] = [(4, "sleep"), (5, "work"), (6, "competitor")];

/// The service's methods; their codes count from 1 in this order.
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

/// The service. Its real-time thread uses the CPU on request.
struct Load {
    hog: Sender<()>,
}

impl Load {
    fn new() -> Load {
        let (hog, requests) = channel();
        std::thread::Builder::new().name("hog".into()).spawn(move || run_hog(&requests)).unwrap();
        Load { hog }
    }
}

/// Spins as a real-time thread for [`DELAY`] on each request.
fn run_hog(requests: &Receiver<()>) {
    // By the system call, because musl's function always returns ENOSYS. The kernel's sched_param
    // is one int.
    let priority: libc::c_int = 50;
    // SAFETY: the call only reads the priority, which outlives it; 0 is the calling thread.
    let set =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    requests.iter().for_each(|()| spin());
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
        // There is only one CPU, which the hog takes now and keeps until it is done.
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

/// Makes calls, and writes its own measurements to a file. Divides the numbers of calls by `fewer`.
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
    let too_large = "x".repeat(2 << 20);
    for _ in 0..REFUSED {
        ensure!(load.echo(&too_large).is_err(), "a call larger than the buffer");
    }
    ensure!(load.die().is_err(), "the service is still alive");
    let at = |percent: usize| took_ns[took_ns.len() * percent / 100];
    let own = json!({ "pid": std::process::id(), "echo_p50_ns": at(50), "echo_p99_ns": at(99) });
    Ok(std::fs::write(out, own.to_string())?)
}

/// Makes calls without counting or timing them.
pub(crate) fn flood() -> Result<()> {
    ProcessState::init(DEVICE, 1).map_err(|error| anyhow::anyhow!("{error}"))?;
    let manager = until("find a service manager", || hub::default().ok())?;
    let load = until("find the service", || manager.check_interface::<dyn ILoad>(SERVICE).ok())?;
    for _ in 0..FLOOD {
        ensure!(load.echo("")?.is_empty(), "echo");
    }
    Ok(())
}

/// Observes client and service, and compares the result with the client's own measurements.
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
    // The explanations are read from this run later.
    observe(&["--deadline", DEADLINE, "--explain-limit", "200", "--out", "/out/run"], "own.json")?;

    let own = read("own.json")?;
    counts(&own)?;
    causes(roundtrip)?;
    let alone = number(&read("alone.json")?, "/echo_p50_ns")?;
    let counted = number(&read("counted.json")?, "/echo_p50_ns")? / alone;
    let observed = number(&own, "/echo_p50_ns")? / alone;
    println!("an observed echo takes {observed:.2} times as long, {counted:.2} times without explanations");
    ensure!(counted < observed && observed < MAX_COST, "observing costs too much");
    Ok(())
}

/// Checks that the observed counts and times agree with those of the client itself.
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
    for (code, failed, dead) in [(1, REFUSED, 0), (7, 1, 1)] {
        flows.expect(CLIENT, SERVER, code, "/failed", failed)?;
        flows.expect(CLIENT, SERVER, code, "/dead", dead)?;
    }
    let pid = number(own, "/pid")?;
    // No thread took the calls that the driver refused, so their row has no pool.
    let mut echo = flows.between(CLIENT, SERVER, 1);
    echo.retain(|flow| flow["latency"]["count"] != 0);
    let is_clients = |flow: &&Value| flow["client"]["pid"].as_f64() == Some(pid);
    ensure!(echo.iter().all(is_clients), "rows of another client: {echo:?}");
    let pools: Vec<&str> = echo.iter().filter_map(|flow| flow["pool"].as_str()).collect();
    ensure!(!echo.is_empty() && pools.len() == echo.len(), "a row without a pool: {echo:?}");
    for lost in ["lost_events", "forgotten"] {
        ensure!(observed["unseen"][lost] == 0, "{}", observed["unseen"]);
    }
    println!(
        "{} calls, {NOTES} oneway and {} failed: equal to the client's counts",
        flows.calls(),
        REFUSED + 1
    );
    // The client's time also includes the work of its library around the driver's call.
    for (percent, own_ns) in [("50", number(own, "/echo_p50_ns")?), ("99", number(own, "/echo_p99_ns")?)] {
        let all = echo[0]["latency"]["percentiles"].as_array().context("no percentiles")?;
        let found = all.iter().find(|one| one["percent"].to_string().trim_end_matches(".0") == percent);
        let ns = found.and_then(|one| one["ns"].as_f64()).with_context(|| format!("no p{percent}"))?;
        println!(
            "p{percent} of an echo: {:.1} us observed, {:.1} us by the client's clock",
            ns / 1e3,
            own_ns / 1e3
        );
        ensure!(ns <= own_ns && ns >= own_ns * MIN_SHARE, "the two times differ too much");
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

    /// The rows of one method. There can be several, because each pool and, up to a limit, each
    /// node has its own row.
    fn between(&self, client: &str, server: &str, code: u64) -> Vec<&'a Value> {
        let is = |flow: &&Value| {
            flow["client"]["name"] == client && flow["server"]["name"] == server && flow["code"] == code
        };
        self.0.iter().filter(is).collect()
    }

    /// Checks a count of one method, summed over its rows.
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
        ensure!(found == expected, "{client} to {server}, code {code}: {pointer} is {found}, not {expected}");
        Ok(())
    }

    fn calls(&self) -> u64 {
        self.0.iter().filter_map(|flow| flow["latency"]["count"].as_u64()).sum()
    }
}

/// Checks that the explanation of each slow call names the delay that its method causes.
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
                println!("{what}: {named} instead of {cause}");
            }
        }
    }
    let all = SLOW * CAUSES.len() as u64;
    println!("causes: {right} of {all} named correctly, {wrong} wrongly");
    ensure!(right * 100 >= all * 95 && wrong * 100 <= all, "too few correct causes, or too many wrong ones");
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
