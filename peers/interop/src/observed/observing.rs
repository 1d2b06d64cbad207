//! Tests how `roundtrip ipc observe` behaves when it is killed or interrupted, when it observes
//! only one process or name, when there are more events than it can read, and in live mode.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::observed::{CLIENT, ECHOES, Flows, NOTES, RELAYS, SERVER, SLOW};
use crate::{Running, until};

/// The directory of trace instances.
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// By how much the client divides its numbers of calls, to make a test shorter.
const FEWER: u64 = 8;

/// The maximum memory of a flooded observer, in kilobytes: recorded pages and what it derives from
/// them.
const MAX_KILOBYTES: u64 = 64 << 10;

/// How many clients flood the observer.
const FLOODING: usize = 3;

/// The programs to test with.
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

    /// Starts an observer that runs until it is interrupted.
    fn observe(&self, arguments: &[&str]) -> Result<Child> {
        let mut command = Command::new(self.roundtrip);
        command.args(["ipc", "observe", "--duration", "1h", "--quiet"]).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("start the observer")
    }

    /// Runs all tests.
    pub(crate) fn all(&self) -> Result<()> {
        self.killed()?;
        self.interrupted()?;
        self.by_pid_and_name()?;
        self.flooded()?;
        self.live()?;
        self.on_a_terminal()
    }

    /// A killed observer does not disturb the client, and its guard removes its trace instance.
    fn killed(&self) -> Result<()> {
        let _server = self.serve()?;
        let mut observer = self.observe(&[])?;
        recording(1)?;
        observer.kill()?;
        observer.wait()?;
        ensure!(self.client(false).status()?.success(), "the client failed after its observer was killed");
        until("wait for the guard of a killed observer to remove its trace instance", || {
            instances().ok()?.is_empty().then_some(())
        })?;
        println!("a killed observer: the client continued, the guard removed its trace instance");
        Ok(())
    }

    /// Ctrl-C, the usual end of an observer without `--duration`, prints the result so far.
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

    /// Two observers run at once, one with `--pid` and one with `--name`. Each reports all calls of
    /// its subject, including nested and failed ones, and no others.
    fn by_pid_and_name(&self) -> Result<()> {
        let server = self.serve()?;
        let pid = server.0.id().to_string();
        let by_pid = self.observe(&["--format", "json", "--explain-limit", "0", "--pid", &pid])?;
        let by_name = self.observe(&["--format", "json", "--name", CLIENT])?;
        recording(2)?;
        ensure!(self.client(true).status()?.success(), "the client failed while two observers ran");
        for (observer, subject) in [(by_pid, SERVER), (by_name, CLIENT)] {
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
            let others = flows.0.iter().filter(|flow| flow["client"]["name"] != subject);
            let others = others.filter(|flow| flow["server"]["name"] != subject).count();
            ensure!(others == 0, "{others} rows without {subject}");
            let lost = run.pointer("/results/observed_calls/unseen/lost_events");
            ensure!(lost == Some(&0.into()), "{lost:?} events were lost");
        }
        println!("--pid and --name: equal to the client's counts, including nested and failed calls");
        Ok(())
    }

    /// With the smallest buffer, more events than it holds, and only slow calls, the observer
    /// reports how many events were lost, and its memory is bounded.
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
        let warnings = run["warnings"].to_string();
        ensure!(
            lost.is_some_and(|lost| lost > 0) && warnings.contains("were lost"),
            "{lost:?} events lost, warnings {warnings}"
        );
        ensure!(peak < MAX_KILOBYTES, "the observer used {peak} kB");
        println!("a flood: {} events lost and reported, at most {peak} kB used", lost.unwrap_or(0));
        Ok(())
    }

    /// `--live` prints each interval, with the pool that served each row.
    fn live(&self) -> Result<()> {
        let _server = self.serve()?;
        let mut command = Command::new(self.roundtrip);
        command.args(["ipc", "observe", "--live", "--interval", "200ms", "--"]);
        let client = self.client(false);
        let output = command.arg(client.get_program()).args(client.get_args()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let intervals = text.lines().filter(|line| line.contains(" s  Last ")).count();
        let pools = text.lines().filter(|line| line.contains(", by ") && line.contains(": p50 ")).count();
        ensure!(output.status.success() && intervals >= 2 && pools > 0, "{}: {text}", output.status);
        ensure!(text.contains("Observed: "), "no result after the intervals: {text}");
        println!("live: {intervals} intervals, {pools} rows with their pool");
        Ok(())
    }

    /// On a terminal `--live` draws a full-screen view. `q` ends it, restores the terminal, and
    /// prints the result.
    fn on_a_terminal(&self) -> Result<()> {
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
        // Reading the terminal ends when the last process has closed its other side.
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
        let (view, rest) = drawn.with_context(|| format!("no full-screen view: {text}"))?;
        ensure!(
            status.success() && view.contains("calls of all processes") && view.contains("binder:#_#"),
            "{status}: {text}"
        );
        ensure!(
            rest.contains("Observed: ") && !view.contains("Observed: "),
            "no result after the view: {text}"
        );
        println!("live on a terminal: drawn, ended by q");
        Ok(())
    }
}

/// Creates a pseudoterminal. Returns the user's side and the program's side.
fn terminal() -> Result<(File, File)> {
    std::fs::create_dir_all("/dev/pts")?;
    let options = c"newinstance,ptmxmode=0600";
    // SAFETY: all strings end in NUL and outlive the call.
    let mounted = unsafe {
        libc::mount(c"devpts".as_ptr(), c"/dev/pts".as_ptr(), c"devpts".as_ptr(), 0, options.as_ptr().cast())
    };
    ensure!(mounted == 0, "mount devpts: {}", std::io::Error::last_os_error());
    let open = |path: &str| File::options().read(true).write(true).open(path).context(path.to_owned());
    let keyboard = open("/dev/pts/ptmx")?;
    let (locked, mut number): (libc::c_int, libc::c_int) = (0, 0);
    // SAFETY: each ioctl reads or writes the one int that its argument points to (ioctl_tty(2)).
    let made = unsafe {
        let fd = keyboard.as_raw_fd();
        libc::ioctl(fd, libc::TIOCSPTLCK, &raw const locked) == 0
            && libc::ioctl(fd, libc::TIOCGPTN, &raw mut number) == 0
    };
    ensure!(made, "create a terminal: {}", std::io::Error::last_os_error());
    Ok((keyboard, open(&format!("/dev/pts/{number}"))?))
}

/// All trace instances.
fn instances() -> Result<Vec<std::path::PathBuf>> {
    std::fs::read_dir(INSTANCES)?.map(|entry| Ok(entry?.path())).collect()
}

/// Waits until this many trace instances exist, all of which record.
fn recording(count: usize) -> Result<()> {
    let is_on = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path.join("tracing_on")).is_ok_and(|text| text.trim() == "1")
    };
    until("wait for recording trace instances", || {
        let instances = instances().ok()?;
        (instances.len() == count && instances.iter().all(is_on)).then_some(())
    })
}

/// Stops an observer with SIGINT, as Ctrl-C does, and returns its output.
fn interrupt(observer: Child) -> Result<Output> {
    let pid = libc::pid_t::try_from(observer.id())?;
    // SAFETY: the child has not been waited for, so its pid is still its own.
    ensure!(unsafe { libc::kill(pid, libc::SIGINT) } == 0, "{}", std::io::Error::last_os_error());
    Ok(observer.wait_with_output()?)
}

/// The JSON document that an observer printed.
fn document(output: &Output) -> Result<Value> {
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
