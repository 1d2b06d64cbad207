//! `roundtrip service dump`: what a service, or the driver, says of its state.

use anyhow::{Context as _, bail};
use bench::ipc::Endpoint;
use binder_driver::emulated::Emulated;

use super::context::{Found, NONE};
use super::{Typed, group};
use crate::args::{Entry, Kind, Positionals, ValueKind};
use crate::terminal::{Exit, Terminal};

/// Where the kernel's driver tells its state: debugfs, and a binderfs that was mounted with `stats=global`
/// (Documentation/admin-guide/binderfs.rst).
const KERNEL_STATES: [&str; 2] = ["/sys/kernel/debug/binder/state", "/dev/binderfs/binder_logs/state"];

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["service", "dump"],
    kind: Kind::Command,
    summary: "shows the state of a service, or of the driver",
    description: "With a service, what it writes when it is asked to describe its state, as dumpsys and lshal debug do; \
                  further words are given to it. Without one, what the driver holds: processes with their threads, \
                  transactions, nodes, references and buffers, in the form of the kernel's binder/state.",
    positionals: Some(Positionals {
        usage: "[SERVICE [ARGUMENT]...]",
        help: "A registered service, and what it is given.",
        count: 0..=usize::MAX,
        kind: ValueKind::Text,
        set: Typed::push,
    }),
    groups: &[group()],
    examples: &[
        ("roundtrip service dump", "Shows what a running emulated driver holds."),
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
            let context = Found::one(typed.context.as_deref())?;
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let text = context.service(name)?.dump(context.stack, &arguments)?;
            terminal.out.write_all(&text)?;
            if !text.is_empty() && !text.ends_with(b"\n") {
                writeln!(terminal.out)?;
            }
        }
        None => state(typed.context.as_deref(), terminal)?,
    }
    Ok(Exit::OK)
}

/// The least area: nothing is received.
const AREA_BYTES: u64 = 4096;

/// Prints what the driver of each context, or of the one that is named, holds.
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
                    writeln!(terminal.out, "{name}: emulated driver (proc {own} is this look at it)")?;
                    write!(terminal.out, "{}", driver.state())?;
                    shown = true;
                }
                Err(error) if named.is_some() => return Err(error.into()),
                // Another user's, or gone meanwhile.
                Err(_) => {}
            },
        }
    }
    if kernel {
        let read = |path: &&str| std::fs::read_to_string(path).ok();
        let text = KERNEL_STATES.iter().find_map(read);
        let state = text.with_context(|| {
            format!(
                "the kernel's driver tells its state in {}: be root, and mount debugfs",
                KERNEL_STATES.join(" or ")
            )
        });
        match state {
            Ok(state) => write!(terminal.out, "{state}")?,
            Err(error) if !shown => return Err(error),
            Err(error) => writeln!(terminal.err, "roundtrip: {error:#}")?,
        }
    } else if !shown {
        bail!("{NONE}");
    }
    Ok(())
}
