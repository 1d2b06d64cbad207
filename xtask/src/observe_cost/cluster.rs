//! A PostgreSQL server in a temporary folder, as an unprivileged user, and pgbench against it.

use std::fs::File;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::scratch::Scratch;
use super::workload::Workload;
use crate::shell::bound;

/// The user that the server runs as, "nobody": PostgreSQL refuses root.
const USER: u32 = 65534;

/// Clients of pgbench: enough to keep two CPUs busy.
const CLIENTS: u32 = 4;

/// Enough branches that the clients seldom wait for each other's rows.
const SCALE: u32 = 10;

pub(crate) struct Cluster {
    bin: PathBuf,
    directory: PathBuf,
    seconds: u32,
}

impl Cluster {
    /// Creates a database and starts its server, which stops before the folder is removed.
    pub(crate) fn start(scratch: &Scratch, seconds: u32) -> Result<Self> {
        let bin = newest(Path::new("/usr/lib/postgresql"))
            .context("PostgreSQL is not installed; install Debian's package postgresql")?;
        let directory = scratch.path().join("postgres");
        std::fs::create_dir(&directory)?;
        chown(&directory, Some(USER), Some(USER))?;
        let cluster = Self { bin, directory, seconds };
        cluster.run("initdb", &["--auth=trust", "--no-sync"])?;
        scratch.stop_by(&cluster.stopper())?;
        // Nothing in the background begins or ends during a run.
        let place = cluster.directory.display();
        let options = format!(
            "-k {place} -c listen_addresses= -c autovacuum=off -c checkpoint_timeout=1h -c max_wal_size=8GB"
        );
        cluster.run("pg_ctl", &["--wait", "--silent", "--log", "log", "--options", &options, "start"])?;
        cluster.run("createdb", &["bench"])?;
        cluster.run("pgbench", &["--initialize", "--quiet", "--scale", &SCALE.to_string(), "bench"])?;
        Ok(cluster)
    }

    /// Runs a program of PostgreSQL's as the server's user, and returns what it prints.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let (user, place) = (USER.to_string(), &self.directory);
        let mut command = bound();
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        command.arg(self.bin.join(program)).args(arguments).current_dir(place);
        command.env("HOME", place).env("PGDATA", place.join("data")).env("PGHOST", place);
        // Not a pipe: the server keeps it open.
        let file = place.join("output");
        let output = File::create(&file)?;
        let status = command.stdout(output.try_clone()?).stderr(output).status();
        let status = status.with_context(|| format!("cannot start {program}"))?;
        let text = std::fs::read_to_string(&file)?;
        ensure!(status.success(), "{program} ended with {status}: {}", text.trim());
        Ok(text)
    }

    /// The shell command that stops the server.
    fn stopper(&self) -> String {
        let (bin, data) = (self.bin.display(), self.directory.join("data"));
        let own = format!("setpriv --reuid={USER} --regid={USER} --clear-groups");
        format!("{own} '{bin}/pg_ctl' -D '{}' --wait --mode=immediate stop", data.display())
    }
}

impl Workload for Cluster {
    fn run(&mut self) -> Result<f64> {
        let (clients, seconds) = (CLIENTS.to_string(), self.seconds.to_string());
        let arguments = ["--no-vacuum", "--client", &clients, "--time", &seconds, "bench"];
        let text = Self::run(self, "pgbench", &arguments)?;
        transactions(&text).with_context(|| format!("pgbench printed {text}"))
    }
}

/// The folder with the programs of the newest version.
fn newest(above: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(above).into_iter().flatten().flatten();
    let numbered = versions.filter_map(|version| {
        let number: u32 = version.file_name().to_str()?.parse().ok()?;
        let bin = version.path().join("bin");
        bin.join("initdb").exists().then_some((number, bin))
    });
    numbered.max().map(|(_, bin)| bin)
}

/// pgbench's transactions a second.
fn transactions(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split(' ').next()?.parse().ok().filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbenchs_rate_is_read_from_what_it_prints() {
        let text = "pgbench (15.18 (Debian 15.18-0+deb12u1))\nnumber of clients: 4\n\
                    latency average = 1.076 ms\ninitial connection time = 11.026 ms\n\
                    tps = 3718.413000 (without initial connection time)\n";
        assert_eq!(transactions(text), Some(3718.413));
        assert_eq!(transactions("tps = 0.000000 (without initial connection time)"), None);
        assert_eq!(transactions("pgbench: error: connection to server failed"), None);
    }

    #[test]
    fn the_newest_version_is_used() {
        let above = crate::shell::target_dir().join(format!("versions-{}", std::process::id()));
        for (version, program) in [("9", "initdb"), ("15", "initdb"), ("16", "psql"), ("common", "initdb")] {
            let bin = above.join(version).join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            std::fs::write(bin.join(program), "").unwrap();
        }
        assert_eq!(newest(&above), Some(above.join("15/bin")));
        assert_eq!(newest(&above.join("none")), None);
        std::fs::remove_dir_all(&above).unwrap();
    }
}
