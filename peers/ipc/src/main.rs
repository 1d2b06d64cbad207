//! Compares calls over Roundtrip's emulated driver with other kinds of IPC, in one run, for `cargo
//! xtask ipc-peers`.
//!
//! Each kind is a [`Peer`](peer::Peer): a server and a client in separate processes, which run this
//! program again. The harness starts both, places them on CPUs, requests calls, compares the
//! figures, and reports which goals are met.

mod driver;
mod futex;
mod goals;
mod grpc;
mod iceoryx;
mod pair;
mod peer;
mod peers;
mod pipe;
mod place;
mod plan;
mod report;
mod rsbinder_rpc;
mod run;
mod scratch;
mod shared;
mod side;
mod socket;
mod stack;
mod stream;
mod zbus_p2p;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use roundtrip_bench::environment::CpuTimes;
use roundtrip_bench::kernel::root::Root;
use signal_hook::consts::{SIGINT, SIGTERM};

use peer::Peer;
use peers::PEERS;

const USE: &str = "use: ipc-peers compare [--rounds N] [--seconds S] [--peers NAME,...]
     ipc-peers check        makes a few calls with every peer and compares each echo with the request";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", name] => peers::find(name).and_then(side::serve),
        ["call", name, address] => peers::find(name).and_then(|peer| side::call(peer, address)),
        ["check"] => check(),
        ["compare", ref options @ ..] => compare(options),
        _ => Err(anyhow::anyhow!(USE)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "ipc-peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn plan(options: &[&str]) -> Result<run::Plan> {
    let mut plan = run::Plan { peers: PEERS.iter().collect(), rounds: 12, budget: Duration::from_secs(140) };
    let mut options = options.iter();
    while let Some(name) = options.next() {
        let value = options.next().with_context(|| format!("{name} needs a value\n{USE}"))?;
        let number = || value.parse().with_context(|| format!("{name} {value}: not a number"));
        match *name {
            "--rounds" => plan.rounds = number()?,
            "--seconds" => plan.budget = Duration::from_secs(number()?.into()),
            "--peers" => plan.peers = value.split(',').map(peers::find).collect::<Result<Vec<&Peer>>>()?,
            _ => bail!("unknown option {name}\n{USE}"),
        }
    }
    ensure!((1..=1000).contains(&plan.rounds), "{} rounds: choose from 1 to 1000", plan.rounds);
    Ok(plan)
}

fn compare(options: &[&str]) -> Result<()> {
    let plan = plan(options)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("catch signals")?;
    }
    let mut environment = roundtrip_bench::environment::collect();
    let program = std::env::current_exe().context("find this program")?;
    let before = CpuTimes::read(&Root::real());
    let mut err = std::io::stderr();
    let outcome = run::run(&plan, &program, &stop, &mut |round| {
        let _ = write!(err, "\rround {round} of {}", plan.rounds);
    });
    let _ = writeln!(err);
    let outcome = outcome?;
    let after = CpuTimes::read(&Root::real());
    environment.cpu_shares = before.zip(after).and_then(|(before, after)| before.shares_until(&after));
    report::write(&mut std::io::stdout().lock(), &outcome, &environment).context("print")?;
    ensure!(outcome.failed.is_empty(), "{} of the peers failed", outcome.failed.len());
    Ok(())
}

/// Makes a few calls with each peer in turn.
fn check() -> Result<()> {
    let program = std::env::current_exe().context("find this program")?;
    let mut failed = Vec::new();
    for peer in PEERS {
        let result = echoes(peer, &program);
        let said = match &result {
            Ok(()) => "works".to_owned(),
            Err(error) => format!("FAILED: {error:#}"),
        };
        writeln!(std::io::stdout(), "{:<15} {said}", peer.name).context("print")?;
        failed.extend(result.err().map(|_| peer.name));
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Calls with each payload size in each condition. The client checks every echo.
fn echoes(peer: &'static Peer, program: &Path) -> Result<()> {
    let scratch = scratch::Scratch::create()?;
    let usable = roundtrip_bench::sched::allowed_cpus(0)?;
    let mut pair = pair::Pair::start(peer, program, scratch.folder())?;
    for size_bytes in plan::SIZES_BYTES {
        for condition in plan::Condition::ALL {
            let start_cpus = [usable[0], usable[usable.len() - 1]];
            let then_cpus = usable.clone();
            pair.run(&pair::Block { size_bytes, calls: 5, gap: condition.gap(), start_cpus, then_cpus })?;
        }
    }
    pair.end()
}
