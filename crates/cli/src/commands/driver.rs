//! The options that select a driver, shared by all commands that measure over a driver. Measures
//! nothing.

use roundtrip_run::ipc::{Backend, DevicePath, DriverChoice, InheritBy, Mode, Profile, Stack};

use super::measure::Measures;
use crate::args::{Group, Opt};

/// The table for commands that measure over a driver.
pub(crate) const fn group<A: Measures>() -> Group<A> {
    Group { heading: "Driver", options: Table::<A>::OPTIONS }
}

/// A description of the driver, and of how it wakes threads, for the head of a report.
pub(crate) fn in_full(backend: Option<&Backend>, wake_up: Option<&str>) -> String {
    let name = backend.map_or_else(|| "no driver (in-process calls)".to_owned(), Backend::in_full);
    match wake_up {
        Some(wake_up) => format!("{name}; threads are woken {wake_up}"),
        None => name,
    }
}

/// The value of `--stack`: one stack, or both.
pub(super) fn stacks(text: &str) -> Result<Vec<Stack>, roundtrip_run::Error> {
    if text == "both" {
        Ok(Stack::ALL.into())
    } else {
        roundtrip_run::ipc::stack(text).map(|stack| vec![stack])
    }
}

/// The stacks to measure. Only the hwbinder stack can call within the process.
pub(super) fn stacks_or_default(typed: Option<&Vec<Stack>>, mode: Mode) -> Vec<Stack> {
    typed.cloned().unwrap_or_else(|| match mode {
        Mode::Binderize => Stack::ALL.into(),
        Mode::Passthrough => vec![Stack::Hwbinder],
    })
}

struct Table<A>(std::marker::PhantomData<A>);

impl<A: Measures> Table<A> {
    const OPTIONS: &'static [Opt<A>] = &[
        Opt::one_of(
            &["--driver"],
            "DRIVER",
            &["auto", "kernel", "emulated"],
            "kernel, emulated (Roundtrip's own driver), or auto: the kernel's if a device is free, else the \
             emulated one. Every result names its driver.",
            |typed: &mut A, text| {
                typed.common().driver.choice = match text {
                    "kernel" => DriverChoice::Kernel,
                    "emulated" => DriverChoice::Emulated,
                    _ => DriverChoice::Auto,
                };
                Ok(())
            },
        )
        .default("auto"),
        Opt::path(
            &["--device"],
            "PATH",
            "Use the kernel's driver on this binder device, for one stack. A device that has a context manager is refused.",
            |typed: &mut A, text| {
                typed.common().driver.choice = DriverChoice::Device(DevicePath::from(text.to_owned()));
                Ok(())
            },
        ),
        Opt::one_of(
            &["--profile"],
            "KERNEL",
            &["ack", "mainline"],
            "The priority rules that the emulated driver follows: ack (Android's common kernel) or mainline \
             (Linux).",
            |typed: &mut A, text| {
                typed.common().driver.profile = match text {
                    "mainline" => Profile::Mainline,
                    _ => Profile::Ack,
                };
                Ok(())
            },
        )
        .default("ack"),
        Opt::one_of(
            &["--inherit-by"],
            "HOW",
            &["auto", "policy", "pi-futex"],
            "How a server inherits a real-time caller's priority over the emulated driver (profile ack). policy: the caller \
             sets the server's scheduling policy, which needs permission. pi-futex: the caller waits in a priority-inheriting \
             futex, which needs none; the server's policy does not show it. auto: policy, and pi-futex where policy is refused.",
            |typed: &mut A, text| {
                typed.common().driver.inherit_by = match text {
                    "policy" => InheritBy::Policy,
                    "pi-futex" => InheritBy::PiFutex,
                    _ => InheritBy::Auto,
                };
                Ok(())
            },
        )
        .default("auto"),
    ];
}
