//! One side of a peer in its own process, talking to the harness in lines. The server says `ready ADDRESS`. The client says
//! `ready`, then does what it is asked: `warm BYTES CALLS`, answered by `ok`, and `time BYTES CALLS GAP`, answered by `ok`
//! and the nanoseconds of each call; the gap is what it sleeps before each call, in nanoseconds. `about TEXT`, before any of these, is for the report. What fails is said as
//! `error TEXT`, and ends the process.

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bench::clock::now_ns;

use crate::peer::{Echo, MAX_LEN, Peer};

/// The most calls that are timed at once: how many times there is memory for.
pub(crate) const MAX_CALLS: u64 = 50_000;

/// Between being asked and the first call. The harness, which has just run on one of the CPUs, is asleep again by then: were it
/// still there, the kernel would wake the server elsewhere, and the two sides would stay there.
const CALM: Duration = Duration::from_millis(3);

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("tell the harness")
}

/// Tells the harness something about this side that belongs into the report.
pub(crate) fn about(text: &str) -> Result<()> {
    say(&format!("about {text}"))
}

/// Says what went wrong, for the harness to report.
fn told(result: Result<()>) -> Result<()> {
    if let Err(error) = &result {
        say(&format!("error {}", format!("{error:#}").replace('\n', " ")))?;
    }
    result
}

pub(crate) fn serve(peer: &Peer) -> Result<()> {
    told((peer.serve)(&mut |address| say(&format!("ready {address}"))))
}

pub(crate) fn call(peer: &Peer, address: &str) -> Result<()> {
    told((peer.connect)(address).and_then(|mut echo| {
        say("ready")?;
        work(&mut *echo)
    }))
}

fn work(echo: &mut dyn Echo) -> Result<()> {
    // Written once, so that its pages are there when calls are timed.
    let mut times_ns = vec![u64::MAX; MAX_CALLS as usize];
    let mut payload = vec![0; MAX_LEN];
    let mut seed = 0_u8;
    for line in std::io::stdin().lock().lines() {
        let line = line.context("hear the harness")?;
        let words: Vec<&str> = line.split(' ').collect();
        let (is_timed, [size, calls, gap_ns]) = match words[..] {
            ["warm", size, calls] => (false, [size, calls, "0"]),
            ["time", size, calls, gap_ns] => (true, [size, calls, gap_ns]),
            _ => bail!("the harness asks '{line}'"),
        };
        let (size, calls, gap): (usize, u64, u64) = (size.parse()?, calls.parse()?, gap_ns.parse()?);
        ensure!(size <= MAX_LEN && calls <= MAX_CALLS, "the harness asks '{line}'");
        let payload = &mut payload[..size];
        seed = seed.wrapping_add(1);
        payload.iter_mut().zip(0_usize..).for_each(|(byte, i)| *byte = (i % 251) as u8 ^ seed);
        times_ns.clear();
        std::thread::sleep(CALM);
        for _ in 0..calls {
            if gap > 0 {
                std::thread::sleep(Duration::from_nanos(gap));
            }
            let start_ns = now_ns();
            let mut same = false;
            echo.echo(payload, &mut |reply| same = reply == payload)?;
            times_ns.push(now_ns() - start_ns);
            ensure!(same, "the echo of {size} bytes is not what was sent");
        }
        let mut answer = "ok".to_owned();
        if is_timed {
            times_ns.iter().for_each(|ns| answer += &format!(" {ns}"));
        }
        say(&answer)?;
    }
    Ok(())
}
