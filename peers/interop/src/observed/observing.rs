//! How `roundtrip ipc observe` behaves beside a client and a service that know nothing of it: when
//! it is killed or interrupted, when it is to look at one process or name only, when there are more
//! events than it can take, and while it goes on.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::observed::{CLIENT, ECHOES, Flows, NOTES, RELAYS, SERVER, SLOW};
use crate::{Running, until};

/// Where the trace's instances are.
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// How many of the calls are left out: the client makes one of so many.
const FEWER: u64 = 8;

/// How much memory a flooded observer may have, in kilobytes: its pages, and what it makes of them.
const MOST_KILOBYTES: u64 = 64 << 10;

/// How many clients flood it.
const FLOODING: usize = 3;

/// The programs.
pub(crate) struct Programs<'a> {
    pub(crate) roundtrip: &'a str,
}

impl Programs<'_> {
    fn serve(&self) -> Result<Running> {
        Running::start(Command::new(format!("./{SERVER}")).args(["observed", "serve"]))
    }

    fn client(&self, fewer: bool) -> Command {
        let mut command = Command::new(format!("./{CLIENT}"));
        command.args(["observed", "call", "client.json"]).args(fewer.then_some("few"));
        command
    }

    /// An observer that goes on until it is interrupted.
    fn observe(&self, arguments: &[&str]) -> Result<Child> {
        let mut command = Command::new(self.roundtrip);
        command.args(["ipc", "observe", "--duration", "1h", "--quiet"]).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("start the observer")
    }

    /// All of it.
    pub(crate) fn all(&self) -> Result<()> {
        self.abandoned()?;
        self.interrupted()?;
        self.narrowed()?;
        self.flooded()?;
        self.live()?;
        self.drawn()
    }

    /// An observer that is killed leaves the client alone, and nothing that the next one does not
    /// remove.
    fn abandoned(&self) -> Result<()> {
        let _server = self.serve()?;
        let mut observer = self.observe(&[])?;
        recording(1)?;
        observer.kill()?;
        observer.wait()?;
        ensure!(self.client(false).status()?.success(), "the client failed after its observer was killed");
        ensure!(instances()?.len() == 1, "what a killed observer leaves is gone before anybody looked");
        let mut next = Command::new(self.roundtrip);
        let next = next.args(["ipc", "observe", "--duration", "10ms", "--quiet"]).status()?;
        ensure!(next.success() && instances()?.is_empty(), "{:?} are left", instances()?);
        println!("a killed observer: the client went on, the next observer removed what was left");
        Ok(())
    }

    /// Ctrl-C is the usual end of an observing without a limit: what was seen until then is told.
    fn interrupted(&self) -> Result<()> {
        let _server = self.serve()?;
        let observer = self.observe(&["--format", "csv", "--name", CLIENT])?;
        recording(1)?;
        ensure!(self.client(true).status()?.success(), "the client failed while it was observed");
        let output = interrupt(observer)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines().filter(|line| line.contains(CLIENT)).count();
        ensure!(output.status.success() && lines >= 6, "{}: {lines} lines", output.status);
        println!("an interrupted observer: {lines} lines");
        Ok(())
    }

    /// Two observers at once, one of a process and one of a name: each has all calls of whom it
    /// looks at, nested and failed ones too, and no others.
    fn narrowed(&self) -> Result<()> {
        let server = self.serve()?;
        let pid = server.0.id().to_string();
        let by_pid = self.observe(&["--format", "json", "--explain-limit", "0", "--pid", &pid])?;
        let by_name = self.observe(&["--format", "json", "--name", CLIENT])?;
        recording(2)?;
        ensure!(self.client(true).status()?.success(), "the client failed while it was observed twice");
        for (observer, whom) in [(by_pid, SERVER), (by_name, CLIENT)] {
            let run = document(&interrupt(observer)?)?;
            let flows = Flows::of(&run)?;
            for (code, calls) in [
                (1, ECHOES / FEWER + NOTES / FEWER),
                (2, RELAYS / FEWER),
                (4, SLOW / FEWER),
                (5, SLOW / FEWER),
                (6, SLOW / FEWER),
            ] {
                flows.expect(CLIENT, SERVER, code, "/latency/count", calls)?;
            }
            flows.expect(CLIENT, SERVER, 3, "/oneway/count", NOTES / FEWER)?;
            flows.expect(CLIENT, SERVER, 7, "/failed", 1)?;
            flows.expect(SERVER, CLIENT, 1, "/nested", RELAYS / FEWER)?;
            let others = flows.0.iter().filter(|flow| flow["client"]["name"] != whom);
            let others = others.filter(|flow| flow["server"]["name"] != whom).count();
            ensure!(others == 0, "{others} rows of others beside those of {whom}");
            let lost = run.pointer("/results/observed_calls/unseen/lost_events");
            ensure!(lost == Some(&0.into()), "{lost:?} events were lost");
        }
        println!("--pid and --name: as many calls as the client made, nested and failed ones too");
        Ok(())
    }

    /// More events than the smallest buffer holds, and each call a slow one: what is lost is
    /// counted and told, and the memory is bounded.
    fn flooded(&self) -> Result<()> {
        let _server = self.serve()?;
        let options = ["--format", "json", "--buffer", "64k", "--deadline", "1us", "--explain-limit", "1000"];
        let observer = self.observe(&options)?;
        recording(1)?;
        let flood = || Running::start(Command::new(format!("./{CLIENT}")).args(["observed", "flood"]));
        let mut clients = (0..FLOODING).map(|_| flood()).collect::<Result<Vec<_>>>()?;
        for client in &mut clients {
            ensure!(client.0.wait()?.success(), "a client failed while it was observed");
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", observer.id()))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        let peak: u64 = peak.context("no VmHWM")?.parse()?;
        let run = document(&interrupt(observer)?)?;
        let lost = run.pointer("/results/observed_calls/unseen/lost_events").and_then(Value::as_u64);
        let told = run["warnings"].to_string();
        ensure!(lost.is_some_and(|lost| lost > 0) && told.contains("were lost"), "lost {lost:?}: {told}");
        ensure!(peak < MOST_KILOBYTES, "the observer took {peak} kB");
        println!("a flood: {} events lost and told, {peak} kB at most", lost.unwrap_or(0));
        Ok(())
    }

    /// What goes on is told several times a second, with the pool that serves.
    fn live(&self) -> Result<()> {
        let _server = self.serve()?;
        let mut command = Command::new(self.roundtrip);
        command.args(["ipc", "observe", "--live", "--interval", "200ms", "--"]);
        let client = self.client(false);
        let output = command.arg(client.get_program()).args(client.get_args()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = text.lines().filter(|line| line.contains(" s  Last ")).count();
        let pools = text.lines().filter(|line| line.contains(", by ") && line.contains(": p50 ")).count();
        ensure!(output.status.success() && told >= 2 && pools > 0, "{}: {text}", output.status);
        ensure!(text.contains("Observed: "), "no result behind it: {text}");
        println!("live: {told} intervals, {pools} rows with their pool");
        Ok(())
    }

    /// On a terminal it is drawn, `q` ends it, and the result follows on the terminal as it was.
    fn drawn(&self) -> Result<()> {
        let _server = self.serve()?;
        let (mut keyboard, terminal) = terminal()?;
        let mut command = Command::new(self.roundtrip);
        command.args(["ipc", "observe", "--live", "--interval", "200ms", "--duration", "1h"]);
        command
            .env("TERM", "xterm")
            .stdin(terminal.try_clone()?)
            .stdout(terminal.try_clone()?)
            .stderr(terminal);
        let mut observer = Running::start(&mut command)?;
        // The terminal ends with its last user.
        drop(command);
        let mut screen = keyboard.try_clone()?;
        let reader = std::thread::spawn(move || {
            let (mut text, mut bytes) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                text.extend_from_slice(&bytes[..read]);
            }
            String::from_utf8_lossy(&text).into_owned()
        });
        recording(1)?;
        ensure!(self.client(false).status()?.success(), "the client failed while it was observed");
        keyboard.write_all(b"q")?;
        let status = observer.0.wait()?;
        let text = reader.join().unwrap_or_default();
        let drawn = text.split_once("\x1b[?1049h").and_then(|(_, text)| text.split_once("\x1b[?1049l"));
        let (picture, rest) = drawn.with_context(|| format!("no picture: {text}"))?;
        ensure!(
            status.success() && picture.contains("calls of all processes") && picture.contains("binder:#_#"),
            "{status}: {text}"
        );
        ensure!(
            rest.contains("Observed: ") && !picture.contains("Observed: "),
            "no result behind it: {text}"
        );
        println!("live on a terminal: drawn, ended by q");
        Ok(())
    }
}

/// A terminal: whoever is at it, and its other side.
fn terminal() -> Result<(File, File)> {
    std::fs::create_dir_all("/dev/pts")?;
    let options = c"newinstance,ptmxmode=0600";
    // SAFETY: all strings end in zeros and live through the call.
    let mounted = unsafe {
        libc::mount(c"devpts".as_ptr(), c"/dev/pts".as_ptr(), c"devpts".as_ptr(), 0, options.as_ptr().cast())
    };
    ensure!(mounted == 0, "mount devpts: {}", std::io::Error::last_os_error());
    let open = |path: &str| File::options().read(true).write(true).open(path).context(path.to_owned());
    let keyboard = open("/dev/pts/ptmx")?;
    let (locked, mut number): (libc::c_int, libc::c_int) = (0, 0);
    // SAFETY: both read or write the one int that they are given (ioctl_tty(2)).
    let made = unsafe {
        let fd = keyboard.as_raw_fd();
        libc::ioctl(fd, libc::TIOCSPTLCK, &raw const locked) == 0
            && libc::ioctl(fd, libc::TIOCGPTN, &raw mut number) == 0
    };
    ensure!(made, "a terminal: {}", std::io::Error::last_os_error());
    Ok((keyboard, open(&format!("/dev/pts/{number}"))?))
}

/// The instances of the trace that are there.
fn instances() -> Result<Vec<std::path::PathBuf>> {
    std::fs::read_dir(INSTANCES)?.map(|entry| Ok(entry?.path())).collect()
}

/// Waits until so many instances record.
fn recording(count: usize) -> Result<()> {
    let is_on = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path.join("tracing_on")).is_ok_and(|text| text.trim() == "1")
    };
    until("an instance of the trace that records", || {
        let instances = instances().ok()?;
        (instances.len() == count && instances.iter().all(is_on)).then_some(())
    })
}

/// Ends an observer as Ctrl-C does.
fn interrupt(observer: Child) -> Result<Output> {
    let pid = libc::pid_t::try_from(observer.id())?;
    // SAFETY: the observer is a child that has not been waited for: the number is still its own.
    ensure!(unsafe { libc::kill(pid, libc::SIGINT) } == 0, "{}", std::io::Error::last_os_error());
    Ok(observer.wait_with_output()?)
}

/// What an observer has printed as JSON.
fn document(output: &Output) -> Result<Value> {
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
