//! Round trips over the kernel's binder driver by several means, for `cargo xtask peers`: the
//! driver by itself, called as a C program would call it, plain and scatter-gather; `rsbinder`; and
//! this project's two stacks, as `roundtrip ipc throughput` measures them. Each pair of processes
//! is started anew for each round, and uses the device alone.
//!
//! Prints one line for each batch of calls: who, payload in bytes, nanoseconds for a call. In a
//! guest that counts, a nanosecond is an instruction. Knows nothing of what is expected.

mod device;
mod gather;
mod plain;
mod rsbinder_echo;

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `rsbinder` allocates for every call, and musl's allocator can take longer than the call: it gets
/// a quicker one. Of the others none allocates for a call.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The device that all share, one after the other.
const DEVICE: &str = "/dev/binder";

/// Untimed calls before those that count: then memory is there, and a server that was still
/// starting is up.
const WARM_UP: u32 = 50;

/// Batches of each measurement. Several, because some are disturbed: the kernel cleans up after
/// processes that ended.
const BATCHES: u32 = 9;

/// A means to make a round trip.
struct Peer {
    name: &'static str,
    /// Serves until it is killed.
    serve: fn() -> Result<()>,
    /// Connects; what it returns sends a payload and checks that as many bytes come back, or says
    /// that nobody serves yet.
    connect: fn() -> Result<Call>,
}

/// One echo; false when nobody serves yet.
pub(crate) type Call = Box<dyn FnMut(&[u8]) -> Result<bool>>;

const PEERS: [Peer; 4] = [
    Peer { name: "ioctl", serve: plain::serve, connect: || plain::connect(false) },
    Peer { name: "ioctl-message", serve: plain::serve_messages, connect: || plain::connect(true) },
    Peer { name: "ioctl-gather", serve: gather::serve, connect: gather::connect },
    Peer { name: "rsbinder", serve: rsbinder_echo::serve, connect: rsbinder_echo::connect },
];

/// This project's stacks: the arguments of a run, and what a result calls them.
const STACKS: [&str; 2] = ["binder", "hwbinder"];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", name] => (peer(name)?.serve)(),
        ["call", name, calls, sizes] => call(peer(name)?, calls.parse()?, &parse_sizes(sizes)?),
        ["compare", roundtrip, rounds, calls, sizes] => {
            for round in 0..rounds.parse()? {
                compare(round, roundtrip, calls, sizes)?;
            }
            Ok(())
        }
        _ => Err("use: peers compare ROUNDTRIP ROUNDS CALLS SIZE,...".into()),
    }
}

fn peer(name: &str) -> Result<&'static Peer> {
    Ok(PEERS.iter().find(|peer| peer.name == name).ok_or_else(|| format!("there is no peer {name}"))?)
}

fn parse_sizes(sizes: &str) -> Result<Vec<usize>> {
    Ok(sizes.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?)
}

/// One round of all, each time from another one on.
fn compare(round: usize, roundtrip: &str, calls: &str, sizes: &str) -> Result<()> {
    let all = PEERS.len() + STACKS.len();
    for turn in 0..all {
        match (round + turn) % all {
            index if index < PEERS.len() => {
                let name = PEERS[index].name;
                let own = std::env::current_exe()?;
                let mut server = Running(Command::new(&own).args(["serve", name]).spawn()?);
                let client = Command::new(&own).args(["call", name, calls, sizes]).status()?;
                server.end()?;
                if !client.success() {
                    return Err(format!("the client of {name} failed: {client}").into());
                }
            }
            index => throughput(roundtrip, STACKS[index - PEERS.len()], calls, sizes)?,
        }
    }
    Ok(())
}

/// A server, killed when it is not needed any more.
struct Running(Child);

impl Running {
    fn end(&mut self) -> Result<()> {
        if let Some(status) = self.0.try_wait()? {
            return Err(format!("a server ended by itself: {status}").into());
        }
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A peer's client: calls with each payload, and prints what one call took.
fn call(peer: &Peer, calls: u32, sizes: &[usize]) -> Result<()> {
    let mut call = (peer.connect)()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    for &size in sizes {
        let payload: Vec<u8> = (0..size).map(|i| i as u8).collect();
        let mut warm = 0;
        while warm < WARM_UP {
            if call(&payload)? {
                warm += 1;
            } else if Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            } else {
                return Err(format!("no server for {}", peer.name).into());
            }
        }
        for _ in 0..BATCHES {
            let begin = Instant::now();
            for _ in 0..calls {
                call(&payload)?;
            }
            let elapsed = begin.elapsed();
            println!("{} {size} {:.0}", peer.name, elapsed.as_nanos() as f64 / f64::from(calls));
        }
    }
    Ok(())
}

/// This project's own measurement of one stack.
fn throughput(roundtrip: &str, stack: &str, calls: &str, sizes: &str) -> Result<()> {
    let arguments = ["ipc", "throughput", "--driver", "kernel", "--format", "json"];
    let output = Command::new(roundtrip)
        .args(arguments)
        .args(["--stack", stack, "--sizes", sizes, "--iterations", calls])
        .args(["--repetitions", &BATCHES.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{roundtrip} failed: {}", output.status).into());
    }
    let run: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let result = &run["results"]["throughput"];
    let missing = || format!("{roundtrip} printed an unexpected result");
    if result["backend"]["driver"] != "kernel" {
        return Err(format!("{roundtrip} did not use the kernel's driver").into());
    }
    for row in result["rows"].as_array().ok_or_else(missing)? {
        let number = |value: &serde_json::Value| value.as_u64().ok_or_else(missing);
        for batch in row["batches"].as_array().ok_or_else(missing)? {
            let mean = number(&batch["elapsed_ns"])? as f64 / number(&batch["iterations"])? as f64;
            println!("{stack} {} {mean:.0}", number(&row["size_bytes"])?);
        }
    }
    Ok(())
}
