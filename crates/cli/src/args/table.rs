//! The types of option tables. Each option has its names, its description and the function that
//! stores its value in one place, so that they stay consistent.

use crate::terminal::{Exit, Terminal};

/// An option of a command that collects its typed arguments in `A`.
pub(crate) struct Opt<A: 'static> {
    /// With dashes, as typed. Old programs have long names with one dash (`-pair`).
    pub(crate) names: &'static [&'static str],
    pub(crate) action: Action<A>,
    /// The default if the option is not given; empty if there is nothing to say.
    pub(crate) default: &'static str,
    /// One or more sentences.
    pub(crate) help: &'static str,
    /// Whether an environment variable can set the default: the option's first name in upper case
    /// (`--benchmark_filter`: `BENCHMARK_FILTER`).
    pub(crate) environment: bool,
}

/// What value an option takes and how it is stored. A `set` function returns what is wrong with the
/// value.
pub(crate) enum Action<A: 'static> {
    Flag(fn(&mut A)),
    Value { name: &'static str, kind: ValueKind, set: fn(&mut A, &str) -> Result<(), String> },
    Optional { name: &'static str, kind: ValueKind, set: fn(&mut A, Option<&str>) -> Result<(), String> },
    Numbered { name: &'static str, set: fn(&mut A) },
}

/// The type of a value, to check it and to complete it in a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Text,
    Path,
    OneOf(&'static [&'static str]),
    /// A comma-separated list of these words. The option's function checks them.
    ListOf(&'static [&'static str]),
    /// An optional whole number, which may also be a separate argument: `-t 3`.
    Number,
}

impl<A> Opt<A> {
    /// An option without a value.
    pub(crate) const fn flag(names: &'static [&'static str], help: &'static str, set: fn(&mut A)) -> Self {
        Self::new(names, Action::Flag(set), help)
    }

    /// An option with a required value, which help calls `name`.
    pub(crate) const fn value(
        names: &'static [&'static str],
        name: &'static str,
        help: &'static str,
        set: fn(&mut A, &str) -> Result<(), String>,
    ) -> Self {
        Self::new(names, Action::Value { name, kind: ValueKind::Text, set }, help)
    }

    /// An option whose value is one of a few words. Others are rejected before `set` is called.
    pub(crate) const fn one_of(
        names: &'static [&'static str],
        name: &'static str,
        words: &'static [&'static str],
        help: &'static str,
        set: fn(&mut A, &str) -> Result<(), String>,
    ) -> Self {
        Self::new(names, Action::Value { name, kind: ValueKind::OneOf(words), set }, help)
    }

    /// An option whose value is a comma-separated list of a few words.
    pub(crate) const fn list_of(
        names: &'static [&'static str],
        name: &'static str,
        words: &'static [&'static str],
        help: &'static str,
        set: fn(&mut A, &str) -> Result<(), String>,
    ) -> Self {
        Self::new(names, Action::Value { name, kind: ValueKind::ListOf(words), set }, help)
    }

    /// An option whose value is a path.
    pub(crate) const fn path(
        names: &'static [&'static str],
        name: &'static str,
        help: &'static str,
        set: fn(&mut A, &str) -> Result<(), String>,
    ) -> Self {
        Self::new(names, Action::Value { name, kind: ValueKind::Path, set }, help)
    }

    /// A switch in Google's style: `--x`, `--x=true`, `--x=false`.
    pub(crate) const fn switch(
        names: &'static [&'static str],
        help: &'static str,
        set: fn(&mut A, Option<&str>) -> Result<(), String>,
    ) -> Self {
        let kind = ValueKind::OneOf(&["true", "false"]);
        Self::new(names, Action::Optional { name: "true|false", kind, set }, help)
    }

    /// An option of an old program that may be followed by a number, which is ignored.
    pub(crate) const fn flag_with_number(
        names: &'static [&'static str],
        name: &'static str,
        help: &'static str,
        set: fn(&mut A),
    ) -> Self {
        Self::new(names, Action::Numbered { name, set }, help)
    }

    const fn new(names: &'static [&'static str], action: Action<A>, help: &'static str) -> Self {
        Self { names, action, default: "", help, environment: false }
    }

    /// Describes what applies if the option is not given.
    pub(crate) const fn default(self, default: &'static str) -> Self {
        let Self { names, action, help, environment, .. } = self;
        Self { names, action, default, help, environment }
    }

    /// Lets an environment variable set the default.
    pub(crate) const fn or_environment(self) -> Self {
        let Self { names, action, default, help, .. } = self;
        Self { names, action, default, help, environment: true }
    }

    /// The option without its function, for documentation.
    pub(crate) fn doc(&self) -> OptDoc {
        let (value, kind) = match self.action {
            Action::Flag(_) => (None, ValueKind::Text),
            Action::Value { name, kind, .. } => (Some((name, true)), kind),
            Action::Optional { name, kind, .. } => (Some((name, false)), kind),
            Action::Numbered { name, .. } => (Some((name, false)), ValueKind::Number),
        };
        let Self { names, default, help, environment, .. } = *self;
        OptDoc { names, value, kind, default, help, environment }
    }

    /// Stores a value, which is present if the option requires one.
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

/// Options with a common heading. A group can be generic in `A`, so that several commands share it.
pub(crate) struct Group<A: 'static> {
    pub(crate) heading: &'static str,
    pub(crate) options: &'static [Opt<A>],
}

/// Arguments without a dash.
pub(crate) struct Positionals<A: 'static> {
    /// In the form of the synopsis: `RUN...`, `[COMMAND]...`.
    pub(crate) usage: &'static str,
    pub(crate) help: &'static str,
    /// The allowed number of arguments.
    pub(crate) count: std::ops::RangeInclusive<usize>,
    pub(crate) kind: ValueKind,
    pub(crate) set: fn(&mut A, &str) -> Result<(), String>,
}

/// How a command is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `roundtrip WORDS...`.
    Command,
    /// Like a command, but not shown in help and completion: for internal use.
    Hidden,
    /// A separate program: the binary under another name.
    OldName,
}

/// A command: its words, its table and its function. `A` contains what was typed.
pub(crate) struct Entry<A: 'static> {
    /// `["ipc", "latency"]`; for an old program, only its name.
    pub(crate) path: &'static [&'static str],
    pub(crate) kind: Kind,
    /// One line without a period.
    pub(crate) summary: &'static str,
    /// Paragraphs, separated by empty lines.
    pub(crate) description: &'static str,
    pub(crate) positionals: Option<Positionals<A>>,
    pub(crate) groups: &'static [Group<A>],
    /// Command lines, and what they show.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    pub(crate) run: fn(A, &mut Terminal<'_>) -> anyhow::Result<Exit>,
}

impl<A: Default> Entry<A> {
    pub(super) fn nothing_typed(&self) -> Typed<'_, A> {
        Typed { entry: self, values: A::default() }
    }
}

/// What was typed so far.
pub(super) struct Typed<'e, A: 'static> {
    entry: &'e Entry<A>,
    pub(super) values: A,
}

/// Stores values. The parser is not generic in the arguments, so the binary contains it only once.
pub(super) trait Sink {
    /// Stores the value of the option with this index in the table.
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

/// What documentation needs to know about a command.
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

    /// How it is called: `roundtrip ipc latency`, `schd-dbg`.
    pub(crate) fn invocation(&self) -> String {
        match self.kind {
            Kind::OldName => self.words(),
            Kind::Command | Kind::Hidden => format!("roundtrip {}", self.words()),
        }
    }

    /// The options of all groups.
    pub(crate) fn options(&self) -> impl Iterator<Item = &OptDoc> {
        self.groups.iter().flat_map(|(_, options)| options)
    }
}

/// What documentation needs to know about arguments without a dash.
pub(crate) struct PositionalsDoc {
    pub(crate) usage: &'static str,
    pub(crate) help: &'static str,
    pub(crate) count: std::ops::RangeInclusive<usize>,
    pub(crate) kind: ValueKind,
}

impl PositionalsDoc {
    /// Their description, with the allowed words.
    pub(crate) fn words(&self) -> String {
        with_words(self.help, self.kind, true)
    }
}

/// A help text that names every allowed word: those that it does not mention itself are appended.
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

/// What documentation needs to know about an option.
pub(crate) struct OptDoc {
    pub(crate) names: &'static [&'static str],
    /// The value's name, and whether it is required.
    pub(crate) value: Option<(&'static str, bool)>,
    pub(crate) kind: ValueKind,
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
    pub(crate) environment: bool,
}

impl OptDoc {
    /// Its description, with the allowed words.
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
