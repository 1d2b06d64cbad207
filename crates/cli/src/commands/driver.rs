//! The options that choose a driver, shared by every command that measures over one. Measures nothing.

use bench::ipc::{DriverChoice, DriverPlan};
use binder_driver::Profile;

use crate::args::{Group, Opt};

/// The table for commands whose typed arguments contain a [`DriverPlan`].
pub(crate) const fn group<A: AsMut<DriverPlan> + 'static>() -> Group<A> {
    Group { heading: "Driver", options: Table::<A>::OPTIONS }
}

struct Table<A>(std::marker::PhantomData<A>);

impl<A: AsMut<DriverPlan> + 'static> Table<A> {
    const OPTIONS: &'static [Opt<A>] = &[
        Opt::one_of(
            &["--driver"],
            "DRIVER",
            &["auto", "emulated"],
            "The driver: emulated is Roundtrip's own, auto the best that is usable here. Every result names it.",
            |typed: &mut A, text| {
                typed.as_mut().choice = match text {
                    "emulated" => DriverChoice::Emulated,
                    _ => DriverChoice::Auto,
                };
                Ok(())
            },
        )
        .default("auto"),
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
    ];
}
