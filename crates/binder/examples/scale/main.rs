//! Measures how the emulated driver scales: calls per second, call time and memory. It varies the
//! clients of one service (1 to 64), the services of one context (1 to 1,000) and the objects of
//! one process (1 to 1,000). It fails if a figure has a cliff (see `report::MEANING`).
//!
//! `cargo run --release -p roundtrip-binder --example scale -- [--rounds N] [--milliseconds N]
//! [--svg FILE]`
//!
//! A run with the defaults takes about a minute. The child processes run this same program.

mod chart;
mod process;
mod report;
mod side;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use roundtrip_binder_driver::Profile;
use roundtrip_binder_emulator::Context;

use process::Child;
use report::{Axis, Point, Sample};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USE: &str = "use: scale [--rounds N] [--milliseconds N] [--svg FILE]";

/// The client counts to measure.
const CLIENTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The service counts and object counts to measure.
const OBJECTS: [u32; 7] = [1, 3, 10, 30, 100, 300, 1000];
/// The maximum number of processes that host the services.
const HOSTS: u32 = 16;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["manager", address] => side::manager(address),
        ["host", address, first, count] => side::host(address, first, count),
        ["client", address, first, count, milliseconds] => side::client(address, first, count, milliseconds),
        _ => compare(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "scale: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &[&str]) -> Result<()> {
    let (mut rounds, mut time, mut svg) = (3_u32, Duration::from_millis(500), None);
    for option in arguments.chunks(2) {
        match *option {
            ["--rounds", value] => rounds = value.parse()?,
            ["--milliseconds", value] => time = Duration::from_millis(value.parse()?),
            ["--svg", file] => svg = Some(file),
            _ => return Err(USE.into()),
        }
    }
    if rounds == 0 || time.is_zero() {
        return Err("at least one round and one millisecond".into());
    }
    let mut axes = [
        Axis::new("clients", "clients of one service, each in a process of its own", &CLIENTS),
        Axis::new(
            "services",
            &format!("services of one context, in up to {HOSTS} processes, called in turn by one client"),
            &OBJECTS,
        ),
        Axis::new("objects", "objects of one process, called in turn by one client", &OBJECTS),
    ];
    for round in 0..rounds {
        for (index, axis) in axes.iter_mut().enumerate() {
            for point in &mut axis.points {
                write!(
                    std::io::stderr(),
                    "\rround {} of {rounds}: {} {}      ",
                    round + 1,
                    point.count,
                    axis.name
                )?;
                let (clients, services, hosts) = match index {
                    0 => (point.count, 1, 1),
                    1 => (1, point.count, point.count.min(HOSTS)),
                    _ => (1, point.count, 1),
                };
                point.samples.push(measure(clients, services, hosts, time)?);
            }
        }
    }
    writeln!(std::io::stderr())?;
    let mut out = std::io::stdout().lock();
    axes.iter().try_for_each(|axis| report::write(&mut out, axis))?;
    if let Some(file) = svg {
        std::fs::write(file, chart::svg(&axes)).map_err(|error| format!("cannot write {file}: {error}"))?;
    }
    let cliffs: Vec<String> = axes.iter().flat_map(Axis::cliffs).collect();
    match cliffs.is_empty() {
        true => Ok(writeln!(out, "no cliff: {}", report::MEANING)?),
        false => Err(format!("cliffs: {}", cliffs.join("; ")).into()),
    }
}

/// Measures `clients` clients that call `services` services, which `hosts` processes host.
fn measure(clients: u32, services: u32, hosts: u32, time: Duration) -> Result<Sample> {
    let context = Context::create(Profile::Ack)?;
    let address = context.address();
    let mut manager = Child::start(&["manager", address])?;
    manager.line()?;
    let mut holders = Vec::new();
    for host in 0..hosts {
        let (first, end) = (services * host / hosts, services * (host + 1) / hosts);
        let mut child = Child::start(&["host", address, &first.to_string(), &(end - first).to_string()])?;
        // The mean time of a registration, in nanoseconds.
        let register_ns: f64 = child.line()?.parse()?;
        holders.push((child, register_ns));
    }
    let mut callers = Vec::new();
    for _ in 0..clients {
        let milliseconds = time.as_millis().to_string();
        callers.push(Child::start(&["client", address, "0", &services.to_string(), &milliseconds])?);
    }
    let mut look_up_ns = 0.0;
    for caller in &mut callers {
        look_up_ns += caller.line()?.parse::<f64>()? / f64::from(clients);
    }
    callers.iter_mut().try_for_each(Child::go)?;
    let mut sample = Sample { look_up_ns, ..Sample::default() };
    for caller in &mut callers {
        let line = caller.line()?;
        let numbers = line.split(' ').map(str::parse::<f64>).collect::<std::result::Result<Vec<_>, _>>()?;
        let [per_second, median_ns, p99_ns] = numbers[..] else {
            return Err(format!("a client says '{line}'").into());
        };
        sample.calls_per_s += per_second;
        sample.median_ns += median_ns / f64::from(clients);
        sample.p99_ns = sample.p99_ns.max(p99_ns);
    }
    let children = callers.iter().chain(holders.iter().map(|(child, _)| child)).chain([&manager]);
    let pids = children.map(Child::pid).chain([std::process::id()]);
    sample.memory_kb = pids.map(process::memory_kb).sum::<Result<u64>>()?;
    sample.register_ns = holders.iter().map(|(_, ns)| ns).sum::<f64>() / f64::from(hosts);
    // End the clients first, so that none calls a dead service.
    callers.into_iter().try_for_each(Child::end)?;
    holders.into_iter().try_for_each(|(child, _)| child.end())?;
    manager.end()?;
    Ok(sample)
}

impl Axis {
    fn new(name: &'static str, about: &str, counts: &[u32]) -> Self {
        let points = counts.iter().map(|&count| Point { count, samples: Vec::new() }).collect();
        Self { name, about: about.to_owned(), points }
    }
}
