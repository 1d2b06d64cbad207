//! The types that a table of options is made of. Each option holds its names, its words for the
//! reader and the function that stores what was typed, so that the three cannot drift apart.

use crate::terminal::{Exit, Terminal};

/// One option of a command whose typed arguments are collected in `A`.
pub(crate) struct Opt<A: 'static> {
    /// As typed, dashes included; old programs have long names with one dash (`-pair`).
    pub(crate) names: &'static [&'static str],
    /// Names from earlier versions. They still work, but help and completion do not show them.
    pub(crate) old_names: &'static [&'static str],
    pub(crate) action: Action<A>,
    /// What holds when the option is not given; empty where there is nothing to say.
    pub(crate) default: &'static str,
    /// One or more sentences.
    pub(crate) help: &'static str,
    /// Whether the environment gives the default, in the variable that is called like the option's
    /// first name in capitals (`--benchmark_filter`: `BENCHMARK_FILTER`).
    pub(crate) environment: bool,
}

/// What an option takes and where it goes. A `set` function answers with what is wrong with the
/// value.
pub(crate) enum Action<A: 'static> {
    Flag(fn(&mut A)),
    Value { name: &'static str, kind: ValueKind, set: fn(&mut A, &str) -> Result<(), String> },
    Optional { name: &'static str, kind: ValueKind, set: fn(&mut A, Option<&str>) -> Result<(), String> },
    Numbered { name: &'static str, set: fn(&mut A) },
}

/// What a value is, for checking it and for completing it in a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Text,
    Path,
    OneOf(&'static [&'static str]),
    /// Some of these, separated by commas. The option's function looks at them.
    ListOf(&'static [&'static str]),
    /// A whole number that may follow an option or not, also as an argument of its own: `-t 3`.
    Number,
}

impl<A> Opt<A> {
    /// An option without a value.
    pub(crate) const fn flag(names: &'static [&'static str], help: &'static str, set: fn(&mut A)) -> Self {
        Self::new(names, Action::Flag(set), help)
    }

    /// An option that needs a value, which the help calls `name`.
    pub(crate) const fn value(
        names: &'static [&'static str],
        name: &'static str,
        help: &'static str,
        set: fn(&mut A, &str) -> Result<(), String>,
    ) -> Self {
        Self::new(names, Action::Value { name, kind: ValueKind::Text, set }, help)
    }

    /// An option that needs one of a few words; others are refused before `set` sees them.
    pub(crate) const fn one_of(
        names: &'static [&'static str],
        name: &'static str,
        words: &'static [&'static str],
        help: &'static str,
        set: fn(&mut A, &str) -> Result<(), String>,
    ) -> Self {
        Self::new(names, Action::Value { name, kind: ValueKind::OneOf(words), set }, help)
    }

    /// An option that needs some of a few words, separated by commas.
    pub(crate) const fn list_of(
        names: &'static [&'static str],
        name: &'static str,
        words: &'static [&'static str],
        help: &'static str,
        set: fn(&mut A, &str) -> Result<(), String>,
    ) -> Self {
        Self::new(names, Action::Value { name, kind: ValueKind::ListOf(words), set }, help)
    }

    /// An option that needs a path.
    pub(crate) const fn path(
        names: &'static [&'static str],
        name: &'static str,
        help: &'static str,
        set: fn(&mut A, &str) -> Result<(), String>,
    ) -> Self {
        Self::new(names, Action::Value { name, kind: ValueKind::Path, set }, help)
    }

    /// A switch in Google's manner: `--x`, `--x=true`, `--x=false`.
    pub(crate) const fn switch(
        names: &'static [&'static str],
        help: &'static str,
        set: fn(&mut A, Option<&str>) -> Result<(), String>,
    ) -> Self {
        let kind = ValueKind::OneOf(&["true", "false"]);
        Self::new(names, Action::Optional { name: "true|false", kind, set }, help)
    }

    /// An option of an old program that may be followed by a number, of which nothing is made.
    pub(crate) const fn flag_with_number(
        names: &'static [&'static str],
        name: &'static str,
        help: &'static str,
        set: fn(&mut A),
    ) -> Self {
        Self::new(names, Action::Numbered { name, set }, help)
    }

    const fn new(names: &'static [&'static str], action: Action<A>, help: &'static str) -> Self {
        Self { names, old_names: &[], action, default: "", help, environment: false }
    }

    /// States what holds when the option is not given.
    pub(crate) const fn default(self, default: &'static str) -> Self {
        let Self { names, old_names, action, help, environment, .. } = self;
        Self { names, old_names, action, default, help, environment }
    }

    /// Names that the option had in earlier versions: accepted, but no longer shown.
    pub(crate) const fn formerly(self, old_names: &'static [&'static str]) -> Self {
        let Self { names, action, default, help, environment, .. } = self;
        Self { names, old_names, action, default, help, environment }
    }

    /// Lets the environment give the default.
    pub(crate) const fn or_environment(self) -> Self {
        let Self { names, old_names, action, default, help, .. } = self;
        Self { names, old_names, action, default, help, environment: true }
    }

    /// The option without its function: what documentation needs.
    pub(crate) fn doc(&self) -> OptDoc {
        let (value, kind) = match self.action {
            Action::Flag(_) => (None, ValueKind::Text),
            Action::Value { name, kind, .. } => (Some((name, true)), kind),
            Action::Optional { name, kind, .. } => (Some((name, false)), kind),
            Action::Numbered { name, .. } => (Some((name, false)), ValueKind::Number),
        };
        let Self { names, old_names, default, help, environment, .. } = *self;
        OptDoc { names, old_names, value, kind, default, help, environment }
    }

    /// Stores what was typed: a value is there where the option must have one.
    fn store(&self, typed: &mut A, value: Option<&str>) -> Result<(), String> {
        match self.action {
            Action::Flag(set) | Action::Numbered { set, .. } => {
                set(typed);
                Ok(())
            }
            Action::Value { set, .. } => set(typed, value.unwrap_or_default()),
            Action::Optional { set, .. } => set(typed, value),
        }
    }
}

/// Options under one heading. A group can be generic in `A` and so be shared by several commands.
pub(crate) struct Group<A: 'static> {
    pub(crate) heading: &'static str,
    pub(crate) options: &'static [Opt<A>],
}

/// Arguments without a dash.
pub(crate) struct Positionals<A: 'static> {
    /// As the synopsis shows them: `RUN...`, `[COMMAND]...`.
    pub(crate) usage: &'static str,
    pub(crate) help: &'static str,
    /// The fewest and the most that make sense.
    pub(crate) count: std::ops::RangeInclusive<usize>,
    pub(crate) kind: ValueKind,
    pub(crate) set: fn(&mut A, &str) -> Result<(), String>,
}

/// How a command is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `roundtrip WORDS...`.
    Command,
    /// Like a command, but left out of help and completion: for this program's own use, or an
    /// earlier name of a command.
    Hidden,
    /// A program of its own: the binary under another name.
    OldName,
}

/// One command: its words, its table and what it does. `A` holds what was typed.
pub(crate) struct Entry<A: 'static> {
    /// `["ipc", "latency"]`; for an old name, that name alone.
    pub(crate) path: &'static [&'static str],
    pub(crate) kind: Kind,
    /// One line without a full stop.
    pub(crate) summary: &'static str,
    /// Paragraphs, separated by empty lines.
    pub(crate) description: &'static str,
    pub(crate) positionals: Option<Positionals<A>>,
    pub(crate) groups: &'static [Group<A>],
    /// A command line and what it shows.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    pub(crate) run: fn(A, &mut Terminal<'_>) -> anyhow::Result<Exit>,
}

impl<A: Default> Entry<A> {
    pub(super) fn nothing_typed(&self) -> Typed<'_, A> {
        Typed { entry: self, values: A::default() }
    }
}

/// What was typed so far, and where the rest of it goes.
pub(super) struct Typed<'e, A: 'static> {
    entry: &'e Entry<A>,
    pub(super) values: A,
}

/// Where values go. The reading of command lines knows no command's arguments, so that it is in the
/// binary once, and not once for each command.
pub(super) trait Sink {
    /// Stores the value of the option with this index among all of the table.
    fn option(&mut self, index: usize, value: Option<&str>) -> Result<(), String>;

    /// Stores an argument without a dash.
    fn positional(&mut self, value: &str) -> Result<(), String>;
}

impl<A> Sink for Typed<'_, A> {
    fn option(&mut self, index: usize, value: Option<&str>) -> Result<(), String> {
        let option = self.entry.groups.iter().flat_map(|group| group.options).nth(index);
        option.map_or(Ok(()), |option| option.store(&mut self.values, value))
    }

    fn positional(&mut self, value: &str) -> Result<(), String> {
        self.entry.positionals.as_ref().map_or(Ok(()), |rule| (rule.set)(&mut self.values, value))
    }
}

/// What documentation needs of a command.
pub(crate) struct Doc {
    pub(crate) path: &'static [&'static str],
    pub(crate) kind: Kind,
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    pub(crate) positionals: Option<PositionalsDoc>,
    pub(crate) groups: Vec<(&'static str, Vec<OptDoc>)>,
    pub(crate) examples: &'static [(&'static str, &'static str)],
}

impl Doc {
    /// The command's words: `ipc latency`.
    pub(crate) fn words(&self) -> String {
        self.path.join(" ")
    }

    /// What is typed to call it: `roundtrip ipc latency`, `schd-dbg`.
    pub(crate) fn invocation(&self) -> String {
        match self.kind {
            Kind::OldName => self.words(),
            Kind::Command | Kind::Hidden => format!("roundtrip {}", self.words()),
        }
    }

    /// All options, across the groups.
    pub(crate) fn options(&self) -> impl Iterator<Item = &OptDoc> {
        self.groups.iter().flat_map(|(_, options)| options)
    }
}

/// What documentation needs of arguments without a dash.
pub(crate) struct PositionalsDoc {
    pub(crate) usage: &'static str,
    pub(crate) help: &'static str,
    pub(crate) count: std::ops::RangeInclusive<usize>,
    pub(crate) kind: ValueKind,
}

impl PositionalsDoc {
    /// What they are, and which words they can be.
    pub(crate) fn words(&self) -> String {
        with_words(self.help, self.kind, true)
    }
}

/// A help text that names every word that a value can be: those that it does not mention itself
/// stand behind it.
fn with_words(help: &str, kind: ValueKind, is_listed: bool) -> String {
    let (head, words) = match kind {
        ValueKind::OneOf(words) => ("One of", words),
        ValueKind::ListOf(words) => ("Any of", words),
        ValueKind::Text | ValueKind::Path | ValueKind::Number => return help.to_owned(),
    };
    let mentioned: Vec<&str> = help
        .split(|c: char| !c.is_ascii_alphanumeric() && !['-', '_', '.'].contains(&c))
        .map(|word| word.trim_end_matches('.'))
        .collect();
    if !is_listed || words.iter().all(|word| mentioned.contains(word)) {
        return help.to_owned();
    }
    format!("{help} {head}: {}.", words.join(", "))
}

/// What documentation needs of an option.
pub(crate) struct OptDoc {
    pub(crate) names: &'static [&'static str],
    /// Accepted, but not shown.
    pub(crate) old_names: &'static [&'static str],
    /// The value's name and whether it must be there.
    pub(crate) value: Option<(&'static str, bool)>,
    pub(crate) kind: ValueKind,
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
    pub(crate) environment: bool,
}

impl OptDoc {
    /// What it does, and which words it takes.
    pub(crate) fn words(&self) -> String {
        with_words(self.help, self.kind, self.value.is_some_and(|(_, must)| must))
    }

    /// `-i, --iterations N`; `--benchmark_dry_run[=true|false]`.
    pub(crate) fn synopsis(&self) -> String {
        let names = self.names.join(", ");
        match self.value {
            None => names,
            Some((value, true)) if self.is_google_style() => format!("{names}={value}"),
            Some((value, true)) => format!("{names} {value}"),
            Some((value, false)) if self.kind == ValueKind::Number => format!("{names} [{value}]"),
            Some((value, false)) => format!("{names}[={value}]"),
        }
    }

    fn is_google_style(&self) -> bool {
        self.names.iter().all(|name| name.starts_with("--") && name.contains('_'))
    }
}
