//! The command line: each command has one table of options, from which parsing, `--help`, the
//! manual page and shell completion are derived.
//!
//! Arguments are processed in two steps. The table fills a plain struct with *what was typed*,
//! without side effects. Then the command resolves that into *what it means*. Both steps reject
//! invalid usage with a [`Usage`]. Nothing in this module knows what any command does.

mod command;
mod completion;
mod help;
mod listing;
mod man;
mod parse;
mod suggest;
mod table;
pub(crate) mod values;

pub(crate) use command::Command;
pub(crate) use completion::{bash as bash_completion, fish as fish_completion, zsh as zsh_completion};
pub(crate) use help::{command as command_help, entry as help_entry, width as help_width};
pub(crate) use listing::{first as first_help, group as group_help, program as program_help};
pub(crate) use man::{command as command_man, group as group_man, program as program_man};
pub(crate) use suggest::nearest;
pub(crate) use table::{Doc, Entry, Group, Kind, Opt, Positionals, ValueKind};

/// Invalid usage: reported in one line, exit status 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Rejects a command line from within a command: `usage!("--count and --duration exclude each
/// other")`.
macro_rules! usage {
    ($($arg:tt)*) => { anyhow::Error::from($crate::args::Usage(format!($($arg)*))) };
}
pub(crate) use usage;
