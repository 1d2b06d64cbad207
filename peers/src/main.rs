//! Compares round trips over the kernel's binder driver, for `cargo xtask peers`: the bare driver,
//! called as a C program would call it, plain and scatter-gather; `rsbinder`; and this project's
//! two stacks, as `roundtrip ipc throughput` measures them. Each round starts a new pair of
//! processes, which is the only user of the device.
//!
//! Prints a line for each batch of calls: the peer, the payload in bytes, and the nanoseconds per
//! call. In a guest that counts instructions, a nanosecond is one instruction. Must not know the
//! expected figures.

mod device;
mod gather;
mod plain;
mod rsbinder_echo;

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `rsbinder` allocates in each call, and musl's allocator can take longer than the call, so a
/// faster allocator is used. The other peers do not allocate in a call.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The device, which the peers use in turn.
const DEVICE: &str = "/dev/binder";

/// Untimed calls before the timed ones, so that memory is mapped and the server has started.
const WARM_UP: u32 = 50;

/// The number of batches in each measurement. Some are disturbed, because the kernel cleans up
/// after exited processes.
const BATCHES: u32 = 9;

/// A way to make a round trip.
struct Peer {
    name: &'static str,
    /// Serves until it is killed.
    serve: fn() -> Result<()>,
    /// Connects. Returns a function that sends a payload and checks the length of the reply.
    connect: fn() -> Result<Call>,
}

/// Makes one echo call. Returns false if no server is running yet.
pub(crate) type Call = Box<dyn FnMut(&[u8]) -> Result<bool>>;

const PEERS: [Peer; 4] = [
    Peer { name: "ioctl", serve: plain::serve, connect: || plain::connect(false) },
    Peer { name: "ioctl-message", serve: plain::serve_messages, connect: || plain::connect(true) },
    Peer { name: "ioctl-gather", serve: gather::serve, connect: gather::connect },
    Peer { name: "rsbinder", serve: rsbinder_echo::serve, connect: rsbinder_echo::connect },
];

/// This project's stacks: the arguments of a run, and the name in its result.
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

/// Runs one round of all peers. Each round begins with another peer.
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

/// A server process. Dropping it kills the process.
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

/// Runs a peer's client: calls with each payload size, and prints the time per call.
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

/// Measures one of this project's stacks with `roundtrip`.
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
