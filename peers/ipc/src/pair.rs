//! A peer's two processes: starts them, places them on CPUs, requests blocks of calls, and stops
//! them. If a process hangs or dies, the error names the peer. Must not know what is compared.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::peer::Peer;
use crate::place::place;

/// The timeout for starting a side, and for its answer in addition to the time of its calls.
const PATIENCE: Duration = Duration::from_secs(20);

/// A block of calls.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) size_bytes: usize,
    pub(crate) calls: u64,
    /// How long the client sleeps before each call.
    pub(crate) gap: Duration,
    /// The CPUs on which client and server start.
    pub(crate) start_cpus: [u32; 2],
    /// The CPUs on which both may run after that. If empty, both stay on their first CPU.
    pub(crate) then_cpus: Vec<u32>,
}

/// A peer's client and server.
pub(crate) struct Pair {
    peer: &'static Peer,
    client: Side,
    server: Side,
}

impl Pair {
    /// Starts both in the harness's directory. `program` is this executable.
    pub(crate) fn start(peer: &'static Peer, program: &Path, folder: &Path) -> Result<Pair> {
        let mut server = Side::start(program, folder, &["serve", peer.name])
            .with_context(|| format!("start the server of {}", peer.name))?;
        let ready =
            server.answer("ready", PATIENCE).with_context(|| format!("the server of {}", peer.name))?;
        let mut client = Side::start(program, folder, &["call", peer.name, ready.trim()])
            .with_context(|| format!("start the client of {}", peer.name))?;
        client.answer("ready", PATIENCE).with_context(|| format!("the client of {}", peer.name))?;
        Ok(Pair { peer, client, server })
    }

    /// What the server and the client reported about themselves.
    pub(crate) fn about(&self) -> [&str; 2] {
        [&self.server.about, &self.client.about]
    }

    /// Runs a block. Returns the duration of each call, in nanoseconds.
    pub(crate) fn run(&mut self, block: &Block) -> Result<Vec<u64>> {
        self.run_block(block).with_context(|| format!("calls of {}", self.peer.name))
    }

    fn run_block(&mut self, block: &Block) -> Result<Vec<u64>> {
        let Block { size_bytes, calls, gap, start_cpus: [client, server], then_cpus } = block;
        place(self.server.child.id(), &[*server])?;
        place(self.client.child.id(), &[*client])?;
        let then = match then_cpus[..] {
            [] => "-".to_owned(),
            _ => then_cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        };
        let server = self.server.child.id();
        self.client.ask(&format!("time {size_bytes} {calls} {} {server} {then}", gap.as_nanos()))?;
        let answer = self.client.answer("ok", PATIENCE + *gap * *calls as u32)?;
        let times_ns = answer.split_ascii_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
        let times_ns = times_ns.context("the client's times")?;
        if times_ns.is_empty() || times_ns.len() as u64 != *calls {
            bail!("{} of {calls} calls were timed", times_ns.len());
        }
        Ok(times_ns)
    }

    /// Whether the working threads of both sides last ran on the same CPU.
    pub(crate) fn on_one_cpu(&self) -> Option<bool> {
        Some(self.server.cpu()? == self.client.cpu()?)
    }

    /// Stops both processes.
    pub(crate) fn end(self) -> Result<()> {
        let Pair { peer, client, mut server } = self;
        client.end().with_context(|| format!("end the client of {}", peer.name))?;
        if !peer.ends_with_client {
            return Ok(()); // it is killed as it is dropped
        }
        server.wait(PATIENCE).with_context(|| format!("end the server of {}", peer.name))
    }
}

/// One process. Dropping it kills the process.
struct Side {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// What the process reported about itself.
    about: String,
}

impl Side {
    fn start(program: &Path, folder: &Path, arguments: &[&str]) -> Result<Side> {
        let mut command = Command::new(program);
        // In a separate process group, so that Ctrl-C reaches only the harness, which then stops
        // the pairs.
        command.args(arguments).current_dir(folder).process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("a pipe from the process")?);
        Ok(Side { child, input, output, about: String::new() })
    }

    /// The CPU on which the thread with the most running time last ran.
    fn cpu(&self) -> Option<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let busiest = tasks.flatten().max_by_key(|task| {
            // The first field is the time on a CPU in ns (Documentation/scheduler/sched-stats.rst).
            let times = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            times.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0)
        })?;
        let stat = std::fs::read_to_string(busiest.path().join("stat")).ok()?;
        // Field 39 of proc_pid_stat(5). The name, which can contain any character, is the second
        // field, so fields are counted from the end of the name.
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(36)?.parse().ok()
    }

    fn ask(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("its input is closed")?;
        writeln!(input, "{line}").and_then(|()| input.flush()).context("write to it")
    }

    /// What follows `word` in the next line.
    fn answer(&mut self, word: &str, patience: Duration) -> Result<String> {
        let deadline = Instant::now() + patience;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            if self.output.buffer().is_empty() {
                self.wait_for_output(deadline, patience)?;
            }
            let have = self.output.fill_buf().context("read from it")?;
            if have.is_empty() {
                bail!("it ended without an answer: {}", self.child.wait()?);
            }
            let used = have.iter().position(|&byte| byte == b'\n').map_or(have.len(), |at| at + 1);
            line.extend_from_slice(&have[..used]);
            self.output.consume(used);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        match line.split_once(' ').unwrap_or((line, "")) {
            (first, rest) if first == word => Ok(rest.to_owned()),
            ("about", text) => {
                self.about = text.to_owned();
                self.answer(word, patience)
            }
            ("error", text) => bail!("{text}"),
            _ => bail!("unexpected answer '{}'", line.chars().take(80).collect::<String>()),
        }
    }

    fn wait_for_output(&self, deadline: Instant, patience: Duration) -> Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => bail!("no answer for {} s", patience.as_secs()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("poll"),
        }
    }

    fn end(mut self) -> Result<()> {
        self.input = None;
        self.wait(PATIENCE)
    }

    fn wait(&mut self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("it ended with {status}"),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        bail!("it did not end within {} s", patience.as_secs())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
