//! The options that choose a driver, shared by every command that measures over one. Measures nothing.

use bench::ipc::{DevicePath, DriverChoice, DriverPlan};
use binder_driver::{Backend, Profile};
use binder_emulator::Lending;

use crate::args::{Group, Opt};

/// The table for commands whose typed arguments contain a [`DriverPlan`].
pub(crate) const fn group<A: AsMut<DriverPlan> + 'static>() -> Group<A> {
    Group { heading: "Driver", options: Table::<A>::OPTIONS }
}

/// What the head of a report says of the driver, and how it wakes threads.
pub(crate) fn in_full(backend: Option<&Backend>, wake_up: Option<&str>) -> String {
    let name = backend.map_or_else(|| "no driver (in-process calls)".to_owned(), Backend::in_full);
    match wake_up {
        Some(wake_up) => format!("{name}; threads are woken {wake_up}"),
        None => name,
    }
}

struct Table<A>(std::marker::PhantomData<A>);

impl<A: AsMut<DriverPlan> + 'static> Table<A> {
    const OPTIONS: &'static [Opt<A>] = &[
        Opt::one_of(
            &["--driver"],
            "DRIVER",
            &["auto", "kernel", "emulated"],
            "The driver: the kernel's, Roundtrip's own, or auto: the kernel's where it is usable. Every result names it.",
            |typed: &mut A, text| {
                typed.as_mut().choice = match text {
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
            "The kernel's driver on this binder device, for one stack; a device with a context manager is refused.",
            |typed: &mut A, text| {
                typed.as_mut().choice = DriverChoice::Device(DevicePath::from(text.to_owned()));
                Ok(())
            },
        ),
        Opt::one_of(
            &["--profile"],
            "KERNEL",
            &["ack", "mainline"],
            "Whose rules for priorities the emulated driver follows: those of Android's kernel or of Linux's own.",
            |typed: &mut A, text| {
                typed.as_mut().profile = match text {
                    "mainline" => Profile::Mainline,
                    _ => Profile::Ack,
                };
                Ok(())
            },
        )
        .default("ack"),
        Opt::one_of(
            &["--lending"],
            "HOW",
            &["auto", "policy", "pi-futex"],
            "How a real-time caller lends its priority over the emulated driver, by Android's rules: it sets its server's \
             policy; it waits for it in a priority-inheriting futex, which takes no permission, and which policies do not show; or \
             auto: the latter where the former is refused.",
            |typed: &mut A, text| {
                typed.as_mut().lending = match text {
                    "policy" => Lending::Policy,
                    "pi-futex" => Lending::PiFutex,
                    _ => Lending::Auto,
                };
                Ok(())
            },
        )
        .default("auto"),
    ];
}
