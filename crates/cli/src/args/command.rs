//! A command with any type of arguments, as the registries store it. Parses its arguments by its
//! table and runs it.

use std::ffi::OsString;

use super::help;
use super::parse::{Parsed, parse};
use super::table::{Doc, Entry, Opt, PositionalsDoc};
use crate::terminal::{Exit, Terminal};

/// A command whose argument type is hidden, as the registries store it.
pub(crate) trait Command: Sync {
    /// What documentation needs of it.
    fn doc(&self) -> Doc;

    /// Parses the arguments after the command's words and runs the command.
    fn run(&self, args: Vec<OsString>, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit>;

    /// Only parses them.
    #[cfg(test)]
    fn check(&self, args: Vec<OsString>) -> Result<(), super::Usage>;
}

impl<A: Default> Command for Entry<A> {
    fn doc(&self) -> Doc {
        Doc {
            path: self.path,
            kind: self.kind,
            summary: self.summary,
            description: self.description,
            positionals: self.positionals.as_ref().map(|rule| PositionalsDoc {
                usage: rule.usage,
                help: rule.help,
                count: rule.count.clone(),
                kind: rule.kind,
            }),
            groups: self
                .groups
                .iter()
                .map(|group| (group.heading, group.options.iter().map(Opt::doc).collect()))
                .collect(),
            examples: self.examples,
        }
    }

    fn run(&self, args: Vec<OsString>, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
        let doc = self.doc();
        let mut typed = self.nothing_typed();
        match parse(&doc, &mut typed, args, &|name| std::env::var(name).ok())? {
            Parsed::Run => (self.run)(typed.values, terminal),
            Parsed::Help => {
                let text = help::command(&doc, help::width(terminal.look));
                terminal.out.write_all(terminal.look.fit(text).as_bytes())?;
                Ok(Exit::OK)
            }
        }
    }

    #[cfg(test)]
    fn check(&self, args: Vec<OsString>) -> Result<(), super::Usage> {
        parse(&self.doc(), &mut self.nothing_typed(), args, &|_| None).map(drop)
    }
}
