//! Tests calls between this project's stack and `rsbinder`, an independent implementation of
//! Android's library, over the kernel's binder driver. A client of each calls a service of the
//! other, with the service manager of either. `cargo xtask interop` runs this in a guest.
//!
//! Each part is a separate process, which runs this program with the part's name. Prints a line for
//! each pair, and stops at the first failure.

mod foreign;
mod observed;
mod ours;
mod theirs;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// The device that all parts use.
const DEVICE: &str = "/dev/binder";
/// The path at which `rsbinder`'s service manager opens the device.
const THEIR_DEVICE: &str = "/dev/binderfs/binder";

/// The names of the interface and of the registered service.
const INTERFACE: &str = "roundtrip.interop.IPeer";
const SERVICE: &str = "roundtrip.interop";

/// The timeout of each step.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a client prints when it is ready for the service's death.
const LINKED: &str = "linked";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["all", rsb_hub] => all(rsb_hub),
        ["observed", "all", rsb_hub, roundtrip] => observed::all(rsb_hub, roundtrip),
        ["observed", "serve"] => observed::serve(),
        ["observed", "foreign", rsb_hub, roundtrip] => foreign::all(rsb_hub, roundtrip),
        ["observed", "flood"] => observed::flood(),
        ["observed", "call", out] => observed::call(out, 1),
        ["observed", "call", out, "few"] => observed::call(out, 8),
        ["manage"] => ours::manage(),
        ["serve", "ours"] => ours::serve(),
        ["serve", "rsbinder"] => theirs::serve(),
        ["call", "ours"] => ours::call(),
        ["call", "rsbinder"] => theirs::call(),
        _ => bail!("use: interop all RSB_HUB | interop observed all RSB_HUB ROUNDTRIP"),
    }
}

/// Links the device to the path that `rsbinder`'s service manager opens.
fn link_device() -> Result<()> {
    if !Path::new(THEIR_DEVICE).exists() {
        std::fs::create_dir_all("/dev/binderfs")?;
        std::os::unix::fs::symlink(DEVICE, THEIR_DEVICE)?;
    }
    Ok(())
}

/// Tests every pair with every service manager.
fn all(rsb_hub: &str) -> Result<()> {
    link_device()?;
    for manager in ["roundtrip", "rsb_hub"] {
        let _manager = match manager {
            "roundtrip" => Running::own(&["manage"])?,
            _ => Running::start(Command::new(rsb_hub).arg("--insecure-allow-all"))?,
        };
        for server in ["ours", "rsbinder"] {
            for client in ["ours", "rsbinder"] {
                pair(server, client)
                    .with_context(|| format!("{manager} manages, {server} serves, {client} calls"))?;
                println!("{manager} manages, {server} serves, {client} calls: passed");
            }
        }
    }
    Ok(())
}

/// One client calls one service until the service is killed.
fn pair(server: &str, client: &str) -> Result<()> {
    let server = Running::own(&["serve", server])?;
    let mut client =
        Running::start(Command::new(std::env::current_exe()?).args(["call", client]).stdout(Stdio::piped()))?;
    let out = client.0.stdout.take().context("a pipe")?;
    let mut lines = BufReader::new(out).lines();
    let said = lines.next().transpose()?.unwrap_or_default();
    ensure!(said == LINKED, "the client said '{said}'");
    drop(server);
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = client.0.try_wait()? {
            ensure!(status.success(), "the client failed: {status}");
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the client did not receive the service's death notification");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process. Dropping it kills the process.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Running> {
        Ok(Running(command.spawn().with_context(|| format!("start {command:?}"))?))
    }

    fn own(arguments: &[&str]) -> Result<Running> {
        Running::start(Command::new(std::env::current_exe()?).args(arguments))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tells the parent that it may now kill the service.
fn say_linked() -> Result<()> {
    println!("{LINKED}");
    Ok(std::io::stdout().flush()?)
}

/// Retries until it succeeds or [`PATIENCE`] is over, because other processes are still starting.
fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}
