//! `roundtrip service list|call|dump`: examines running contexts: the registered services, a
//! method's reply, the state that a service or the driver reports. Measures nothing.

mod call;
mod context;
mod dump;
mod list;
mod parcel;

pub(crate) use call::COMMAND as CALL;
pub(crate) use dump::COMMAND as DUMP;
pub(crate) use list::COMMAND as LIST;

use roundtrip_binder::Dialect;

use crate::args::values::set;
use crate::args::{Group, Opt, values};

/// The options that select a context, for all three commands.
#[derive(Default)]
pub(crate) struct Place {
    context: Option<String>,
    /// The requested dialect of the services on a device.
    android: Option<Dialect>,
}

/// The arguments typed for `call` and `dump`.
#[derive(Default)]
pub(crate) struct Typed {
    place: Place,
    words: Vec<String>,
    timeout_ns: Option<u64>,
}

impl AsMut<Place> for Typed {
    fn as_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl Typed {
    fn push(&mut self, word: &str) -> Result<(), String> {
        self.words.push(word.to_owned());
        Ok(())
    }
}

/// The options that select the context.
pub(super) const fn group<A: AsMut<Place> + 'static>() -> Group<A> {
    Group { heading: "Where", options: Table::<A>::OPTIONS }
}

struct Table<A>(std::marker::PhantomData<A>);

impl<A: AsMut<Place> + 'static> Table<A> {
    const OPTIONS: &'static [Opt<A>] = &[
        Opt::value(
            &["--context"],
            "NAME",
            "The context: the name of an emulated one, as shown by list, or the path of a binder device. \
             Required if several contexts run.",
            |typed: &mut A, text| set(&mut typed.as_mut().context, values::any(text)),
        ),
        Opt::one_of(
            &["--android"],
            "RELEASE",
            &["10", "11", "12", "13", "14", "15", "16"],
            "The Android release whose protocol the services on a device use. Default: the phone's own \
             release, and 16 on other machines.",
            |typed: &mut A, text| {
                typed.as_mut().android = text.parse().ok().and_then(context::dialect_of_release);
                Ok(())
            },
        ),
    ];
}
