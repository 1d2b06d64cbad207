//! The programs that are observed. Each runs for a given time and says how many operations it
//! completed a second. Must not know whether it is observed.

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::cluster::Cluster;
use super::scratch::Scratch;
use super::workload::Workload;
use crate::outcome::Outcome;
use crate::shell::{bound, missing, split};

/// A program.
pub(crate) struct Program {
    /// Its name as an option.
    pub(crate) name: &'static str,
    /// What the table calls it.
    pub(crate) title: &'static str,
    /// The name of its processes.
    pub(crate) process: &'static str,
    prepare: fn(&Scratch, u32) -> Result<Box<dyn Workload>>,
}

impl Program {
    /// Prepares runs of this many seconds. Says what is missing where it cannot.
    pub(crate) fn prepare(&self, scratch: &Scratch, seconds: u32) -> Result<Box<dyn Workload>> {
        (self.prepare)(scratch, seconds)
    }
}

/// All of them.
pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "fio",
        title: "fio, one writer: 4 KiB at random places, each with fdatasync",
        process: "fio",
        prepare: Fio::prepare,
    },
    Program {
        name: "sqlite-wal",
        title: "SQLite, WAL, `synchronous=FULL`: transactions of one insert",
        process: "sqlite3",
        prepare: |scratch, seconds| Sqlite::prepare(scratch, seconds, "WAL"),
    },
    Program {
        name: "sqlite-rollback",
        title: "SQLite, rollback journal, `synchronous=FULL`: the same",
        process: "sqlite3",
        prepare: |scratch, seconds| Sqlite::prepare(scratch, seconds, "DELETE"),
    },
    Program {
        name: "pgbench",
        title: "PostgreSQL, pgbench with 4 clients: its transactions",
        process: "postgres",
        prepare: |scratch, seconds| Ok(Box::new(Cluster::start(scratch, seconds)?)),
    },
];

fn installed(program: &str, package: &str) -> Result<()> {
    match missing(program, package) {
        Some(Outcome::NotRun(why)) => bail!(why),
        _ => Ok(()),
    }
}

struct Fio {
    directory: PathBuf,
    arguments: Vec<String>,
}

impl Fio {
    fn prepare(scratch: &Scratch, seconds: u32) -> Result<Box<dyn Workload>> {
        installed("fio", "fio")?;
        let arguments = format!(
            "--name=job --thread --size=64M --overwrite=1 --bs=4k --rw=randwrite --ioengine=psync --fdatasync=1 \
             --time_based --runtime={seconds} --output-format=json"
        );
        let fio = Self { directory: scratch.path().to_owned(), arguments: split(&arguments) };
        fio.output(&["--create_only=1"])?;
        Ok(Box::new(fio))
    }

    fn output(&self, more: &[&str]) -> Result<String> {
        let output =
            bound().arg("fio").args(&self.arguments).args(more).current_dir(&self.directory).output()?;
        ensure!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Workload for Fio {
    fn run(&mut self) -> Result<f64> {
        let json = self.output(&[])?;
        fio_rate(&json).with_context(|| format!("fio printed {json}"))
    }
}

/// fio's writes a second. Its JSON may follow lines of text.
fn fio_rate(text: &str) -> Option<f64> {
    let json: Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    json["jobs"][0]["write"]["iops"].as_f64().filter(|rate| *rate > 0.0)
}

struct Sqlite {
    directory: PathBuf,
    journal: &'static str,
    inserts: u32,
}

impl Sqlite {
    /// Inserts of the run that shows how many are needed.
    const FIRST: u32 = 300;

    fn prepare(scratch: &Scratch, seconds: u32, journal: &'static str) -> Result<Box<dyn Workload>> {
        installed("sqlite3", "sqlite3")?;
        let directory = scratch.path().join(format!("sqlite-{journal}"));
        std::fs::create_dir(&directory)?;
        let mut sqlite = Self { directory, journal, inserts: Self::FIRST };
        sqlite.write()?;
        let rate = sqlite.run()?;
        sqlite.inserts = (rate * f64::from(seconds)) as u32 + 1;
        sqlite.write()?;
        Ok(Box::new(sqlite))
    }

    fn write(&self) -> Result<()> {
        Ok(std::fs::write(self.directory.join("script"), sqlite_script(self.journal, self.inserts))?)
    }
}

impl Workload for Sqlite {
    fn run(&mut self) -> Result<f64> {
        for file in ["db", "db-wal", "db-shm", "db-journal"] {
            let _ = std::fs::remove_file(self.directory.join(file));
        }
        let script = File::open(self.directory.join("script"))?;
        let mut command = bound();
        command.args(["sqlite3", "-bail", "db"]).current_dir(&self.directory).stdin(script);
        let start = Instant::now();
        let output = command.output()?;
        let took = start.elapsed();
        ensure!(output.status.success(), "sqlite3: {}", String::from_utf8_lossy(&output.stderr));
        Ok(f64::from(self.inserts) / took.as_secs_f64())
    }
}

/// Each insert is a transaction.
fn sqlite_script(journal: &str, inserts: u32) -> String {
    let begin = format!(
        "PRAGMA journal_mode={journal};\nPRAGMA synchronous=FULL;\nCREATE TABLE t(a INTEGER, b TEXT);\n"
    );
    begin + &"INSERT INTO t VALUES(1, hex(randomblob(100)));\n".repeat(inserts as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fios_rate_is_that_of_its_writes() {
        let json = r#"{"jobs": [{"read": {"iops": 0.0}, "write": {"iops": 6543.21}}]}"#;
        assert_eq!(fio_rate(json), Some(6543.21));
        assert_eq!(
            fio_rate(&format!("note: both iodepth >= 1 and synchronous I/O engine\n{json}")),
            Some(6543.21)
        );
        assert_eq!(fio_rate(r#"{"jobs": []}"#), None);
        assert_eq!(fio_rate(""), None);
    }

    #[test]
    fn each_insert_is_a_transaction_that_is_made_durable() {
        let script = sqlite_script("WAL", 3);
        assert!(script.starts_with("PRAGMA journal_mode=WAL;\nPRAGMA synchronous=FULL;\n"));
        assert_eq!(script.matches("INSERT").count(), 3);
        assert!(!script.contains("BEGIN"));
    }
}
