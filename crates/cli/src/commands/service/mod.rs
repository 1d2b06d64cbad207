//! `roundtrip service list|call|dump`: looks at contexts that run: who is registered, what a method answers, what a service or
//! the driver says of its state. Measures nothing.

mod call;
mod context;
mod dump;
mod list;
mod parcel;

pub(crate) use call::COMMAND as CALL;
pub(crate) use dump::COMMAND as DUMP;
pub(crate) use list::COMMAND as LIST;

use crate::args::{Group, Opt};

/// What was typed for `call` and `dump`.
#[derive(Default)]
pub(crate) struct Typed {
    context: Option<String>,
    words: Vec<String>,
    timeout_ns: Option<u64>,
}

impl AsMut<Option<String>> for Typed {
    fn as_mut(&mut self) -> &mut Option<String> {
        &mut self.context
    }
}

impl Typed {
    fn push(&mut self, word: &str) -> Result<(), String> {
        self.words.push(word.to_owned());
        Ok(())
    }
}

/// Which context is meant: what was typed, shared by the three.
pub(super) const fn group<A: AsMut<Option<String>> + 'static>() -> Group<A> {
    Group { heading: "Where", options: Table::<A>::OPTIONS }
}

struct Table<A>(std::marker::PhantomData<A>);

impl<A: AsMut<Option<String>> + 'static> Table<A> {
    const OPTIONS: &'static [Opt<A>] = &[Opt::value(
        &["--context"],
        "NAME",
        "The context: an emulated one's name, as list shows it, or the path of a binder device. Needed where several run.",
        |typed: &mut A, text| {
            *typed.as_mut() = Some(text.to_owned());
            Ok(())
        },
    )];
}
