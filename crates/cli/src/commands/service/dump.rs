//! `roundtrip service dump`: what a service, or the driver, reports about its state.

use std::io::{IsTerminal as _, Read as _, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use roundtrip_bench::ipc::Endpoint;
use roundtrip_binder_emulator::Emulated;

use super::context::{Found, NONE};
use super::{Typed, group};
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, values};
use crate::terminal::{Exit, Terminal};

/// Where the kernel's driver shows its state: debugfs, or a binderfs mounted with `stats=global`
/// (Documentation/admin-guide/binderfs.rst).
const KERNEL_STATES: [&str; 2] = ["/sys/kernel/debug/binder/state", "/dev/binderfs/binder_logs/state"];

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["service", "dump"],
    kind: Kind::Command,
    summary: "shows the state of a service, or of the driver",
    description: "With a service: asks it for its state and prints the answer, as dumpsys and lshal debug do. \
                  Further arguments go to the service. Without a service: prints the driver's state \
                  (processes with their threads, transactions, nodes, references and buffers) in the form of \
                  the kernel's binder/state.",
    positionals: Some(Positionals {
        usage: "[SERVICE [ARGUMENT]...]",
        help: "A registered service, and arguments for it.",
        count: 0..=usize::MAX,
        kind: ValueKind::Text,
        set: Typed::push,
    }),
    groups: &[
        group(),
        Group {
            heading: "How long",
            options: &[Opt::value(
                &["--timeout"],
                "TIME",
                "The time limit for the service, as in 30s. Roundtrip shows what it has written by then.",
                |typed: &mut Typed, text| set(&mut typed.timeout_ns, values::duration_ns(text)),
            )
            .default("10s")],
        },
    ],
    examples: &[
        ("roundtrip service dump", "Shows the state of a running emulated driver."),
        (
            "roundtrip service dump --context /dev/binder activity",
            "Asks a phone's activity manager for its state.",
        ),
    ],
    run,
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    match typed.words.split_first() {
        Some((name, arguments)) => {
            let context = Found::one(&typed.place)?;
            let timeout = Duration::from_nanos(typed.timeout_ns.unwrap_or(TIMEOUT_NS));
            service(&context, name, arguments, timeout, terminal)?;
        }
        None => state(typed.place.context.as_deref(), terminal)?,
    }
    Ok(Exit::OK)
}

/// The timeout of dumpsys.
const TIMEOUT_NS: u64 = 10_000_000_000;

/// Prints a service's output as it is written. One thread makes the call and another one reads,
/// because neither can be interrupted, and a service may hang in the call or keep the pipe open.
/// Remaining threads end with the process.
fn service(
    context: &Found,
    name: &str,
    arguments: &[String],
    timeout: Duration,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<()> {
    let until = Instant::now() + timeout;
    let (service, stack, arguments) = (context.service(name)?, context.stack, arguments.to_vec());
    let (mut from, to) = std::io::pipe().context("cannot make a pipe for the service's output")?;
    let (say, said) = mpsc::sync_channel(1);
    let call = say.clone();
    start("dump-call", move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let _ = call.send(
            service.dump(stack, &arguments, to.into()).map(|()| Vec::new()).map_err(anyhow::Error::from),
        );
    })?;
    start("dump-reader", move || {
        let mut text = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut text)
            && say.send(Ok(text[..read].to_vec())).is_ok()
        {}
    })?;
    let mut last = b'\n';
    let ended = loop {
        match said.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(text)) => {
                last = text.last().copied().unwrap_or(last);
                if std::io::stdout().is_terminal() {
                    terminal.out.write_all(&text)?;
                } else {
                    // The output may not be text, and must reach a file unchanged.
                    terminal.out.flush()?;
                    std::io::stdout().write_all(&text)?;
                }
            }
            Ok(Err(error)) => break Err(error.context(format!("cannot ask {name} for its state"))),
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                break Err(anyhow!(
                    "{name} did not finish its dump within {timeout:?}; allow more with --timeout"
                ));
            }
        }
    };
    if last != b'\n' {
        writeln!(terminal.out)?;
    }
    ended
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop).context("cannot start a thread")
}

/// Prints the kernel's text, which contains device names. Their creators can choose any name. A
/// name that contains a line break cannot be recognised.
fn kernel_state(text: &str, out: &mut dyn Write) -> std::io::Result<()> {
    text.lines().try_for_each(|line| writeln!(out, "{}", roundtrip_report::text::inert::line(line)))
}

/// The size of the receive area: the smallest one, because nothing is received.
const AREA_BYTES: u64 = 4096;

/// Prints the driver state of each context, or of the named one.
fn state(named: Option<&str>, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
    let contexts = match named {
        Some(name) => vec![Endpoint::named(name)],
        None => Endpoint::all(),
    };
    let mut kernel = false;
    let mut shown = false;
    for context in &contexts {
        match context {
            Endpoint::Kernel(_) => kernel = true,
            Endpoint::Emulated(name) => match Emulated::join(name, AREA_BYTES) {
                Ok(driver) => {
                    let own = driver.number();
                    let name = roundtrip_report::text::inert::line(name);
                    writeln!(terminal.out, "{name}: emulated driver (proc {own} is this command)")?;
                    write!(terminal.out, "{}", driver.state())?;
                    shown = true;
                }
                Err(error) if named.is_some() => return Err(error.into()),
                // Skip a context that belongs to another user, or has ended.
                Err(_) => {}
            },
        }
    }
    if kernel {
        let read = |path: &&str| std::fs::read_to_string(path).ok();
        let text = KERNEL_STATES.iter().find_map(read);
        let state = text.with_context(|| {
            format!(
                "the kernel's driver shows its state in {}: run as root, and mount debugfs",
                KERNEL_STATES.join(" or ")
            )
        });
        match state {
            Ok(state) => kernel_state(&state, terminal.out)?,
            Err(error) if !shown => return Err(error),
            Err(error) => writeln!(terminal.err, "roundtrip: {error:#}")?,
        }
    } else if !shown {
        bail!("{NONE}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_name_in_the_kernels_state_acts_on_no_terminal() {
        let mut out = Vec::new();
        let text = "binder state:\nproc 7\ncontext a\n\u{1b}]0;pwn\u{7}b\r\u{9b}2J\n  thread 7: l 12\n";
        kernel_state(text, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "binder state:\nproc 7\ncontext a\n\\u001b]0;pwn\\u0007b\\u000d\\u009b2J\n  thread 7: l 12\n"
        );
    }
}
