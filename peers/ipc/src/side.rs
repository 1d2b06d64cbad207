//! One side of a peer in a separate process, with a line protocol to the harness.
//!
//! Before anything else a side may send `about TEXT` for the report. The server sends `ready
//! ADDRESS`. The client sends `ready`, and answers requests `time BYTES CALLS GAP SERVER CPUS` with
//! `ok` and the nanoseconds of each call. It sleeps GAP nanoseconds before each call. After a
//! failure a side sends `error TEXT` and exits.
//!
//! After some calls on the initial CPUs, the client allows itself and the process SERVER to run on
//! CPUS (`-`: no change). It does so without a pause and without the harness, because an idle CPU,
//! or the harness on a CPU, would influence where the kernel wakes the server.

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use roundtrip_bench::clock::now_ns;

use crate::peer::{Echo, MAX_LEN, Peer};
use crate::place::place;

/// The most calls in a block: the number of durations that fit into memory.
pub(crate) const MAX_CALLS: u64 = 50_000;

/// Untimed calls before a block: first on the initial CPUs, then on the CPUs that it may use.
const WARM_UP: u64 = 20;

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("write to the harness")
}

/// Sends text about this side to the harness, for the report.
pub(crate) fn about(text: &str) -> Result<()> {
    say(&format!("about {text}"))
}

/// Sends an error to the harness.
fn report(result: Result<()>) -> Result<()> {
    if let Err(error) = &result {
        say(&format!("error {}", format!("{error:#}").replace('\n', " ")))?;
    }
    result
}

pub(crate) fn serve(peer: &Peer) -> Result<()> {
    report((peer.serve)(&mut |address| say(&format!("ready {address}"))))
}

pub(crate) fn call(peer: &Peer, address: &str) -> Result<()> {
    report((peer.connect)(address).and_then(|mut echo| {
        say("ready")?;
        work(&mut *echo)
    }))
}

fn work(echo: &mut dyn Echo) -> Result<()> {
    // Written once, so that its pages are mapped before calls are timed.
    let mut times_ns = vec![u64::MAX; MAX_CALLS as usize];
    // Page-aligned, because on some CPUs the alignment determines the speed of copying.
    let mut memory = vec![1; MAX_LEN + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let payload = &mut memory[start..];
    let mut seed = 0_u8;
    for line in std::io::stdin().lock().lines() {
        let line = line.context("read from the harness")?;
        let words: Vec<&str> = line.split(' ').collect();
        let ["time", size, calls, gap_ns, server, cpus] = words[..] else {
            bail!("invalid request '{line}'")
        };
        let (size, calls, gap_ns): (usize, u64, u64) = (size.parse()?, calls.parse()?, gap_ns.parse()?);
        let cpus = match cpus {
            "-" => None,
            cpus => Some(cpus.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>()?),
        };
        ensure!(size <= MAX_LEN && calls <= MAX_CALLS, "invalid request '{line}'");
        let payload = &mut payload[..size];
        seed = seed.wrapping_add(1);
        payload.iter_mut().zip(0_usize..).for_each(|(byte, i)| *byte = (i % 251) as u8 ^ seed);
        times_ns.clear();
        call_often(echo, payload, WARM_UP, Duration::ZERO, &mut times_ns)?;
        if let Some(cpus) = cpus {
            place(server.parse()?, &cpus)?;
            place(std::process::id(), &cpus)?;
            call_often(echo, payload, WARM_UP, Duration::ZERO, &mut times_ns)?;
        }
        times_ns.clear();
        call_often(echo, payload, calls, Duration::from_nanos(gap_ns), &mut times_ns)?;
        let mut answer = "ok".to_owned();
        times_ns.iter().for_each(|ns| answer += &format!(" {ns}"));
        say(&answer)?;
    }
    Ok(())
}

/// Makes calls, and records the nanoseconds of each.
fn call_often(
    echo: &mut dyn Echo,
    payload: &[u8],
    calls: u64,
    gap: Duration,
    times_ns: &mut Vec<u64>,
) -> Result<()> {
    for _ in 0..calls {
        if !gap.is_zero() {
            std::thread::sleep(gap);
        }
        let start_ns = now_ns();
        let mut same = false;
        echo.echo(payload, &mut |reply| same = reply == payload)?;
        times_ns.push(now_ns() - start_ns);
        ensure!(same, "the echo of {} bytes differs from the request", payload.len());
    }
    Ok(())
}
