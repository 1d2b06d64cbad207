//! What else the machine does while operations are disturbed.

use std::path::Path;
use std::process::Child;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::shell::bound;

/// Other load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    Compile,
    Database,
}

impl Beside {
    pub(super) const ALL: [Self; 3] = [Self::Nothing, Self::Compile, Self::Database];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "alone",
            Self::Compile => "compile",
            Self::Database => "database",
        }
    }

    /// Starts it, with its files in this folder.
    pub(super) fn start(self, folder: &Path) -> Result<Load> {
        let mut command = bound();
        match self {
            Self::Nothing => return Ok(Load(None)),
            Self::Compile => {
                let source = folder.join("compiled.rs");
                std::fs::write(&source, source_text()).context("write what is compiled")?;
                let script = "while rustc --edition 2021 -O -C codegen-units=4 --crate-type lib compiled.rs; do :; \
                              done";
                command.args(["setsid", "sh", "-c", script]);
            }
            Self::Database => {
                command.args(["setsid", "python3", "-c", DATABASE]);
            }
        }
        command.current_dir(folder).stdout(std::process::Stdio::null());
        Ok(Load(Some(command.spawn().with_context(|| format!("start the {}", self.name()))?)))
    }
}

/// Transactions of a SQLite database with a write-ahead log, each made durable.
const DATABASE: &str = "
import sqlite3
base = sqlite3.connect('busy.db', isolation_level=None)
base.execute('pragma journal_mode = wal')
base.execute('pragma synchronous = full')
base.execute('create table if not exists rows (name text, body blob)')
while True:
    for number in range(2000):
        base.execute('begin')
        for _ in range(20):
            base.execute('insert into rows values (?, randomblob(500))', (str(number),))
        base.execute('commit')
    base.execute('delete from rows')
";

/// Something that takes a compiler some seconds.
fn source_text() -> String {
    let function = |number: usize| {
        format!(
            "pub fn f{number}(all: &mut Vec<String>) -> usize {{ all.sort_by_key(|one| one.len() ^ {number}); \
             all.iter().map(|one| one.chars().rev().collect::<String>()).filter(|one| one > &all[0])\
             .map(|one| one.len() * {number}).sum() }}\n"
        )
    };
    (0..120).map(function).collect()
}

/// A running load, which ends when this value is dropped.
pub(super) struct Load(Option<Child>);

impl Drop for Load {
    fn drop(&mut self) {
        let Some(child) = &mut self.0 else { return };
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        let _ = child.wait();
    }
}
