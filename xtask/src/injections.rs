//! Makes real round trips slow in known ways, explains them, and compares the named causes with the
//! real ones. Needs root and tracefs. Knows the binary's options and its JSON, but not its code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use roundtrip_skips::Quiet;
use serde_json::Value;

use crate::outcome::Outcome;
use crate::shell::{cargo, say, target_dir};

/// The least share of slow calls whose cause must be named correctly, and the most that may be
/// named wrongly, in percent.
const RIGHT_PERCENT: usize = 95;
const WRONG_PERCENT: usize = 1;

/// The cause in the JSON that counts as correct.
#[derive(Clone, Copy)]
enum Expected {
    /// This kind, and the thread that the injector noted.
    Thread(&'static str),
    /// This kind.
    Kind(&'static str),
    /// A thread that sends packets, or the softirqs that it causes.
    Flood,
    /// The quota, or that it is unknown.
    Quota,
}

struct Scenario {
    name: &'static str,
    inject: &'static str,
    arguments: &'static str,
    expected: Expected,
}

/// Two real-time threads on different CPUs, which other load on the machine does not delay.
const APART: &str = "--callers fifo:10 --inheritance on --client-cpus 0 --server-cpus 1 --deadline 2ms";
/// Both on one CPU.
const TOGETHER: &str = "--callers fifo:10 --inheritance on --client-cpus 1 --server-cpus 1 --deadline 2ms";
/// The duration of a file write is not configurable, and is shorter than the other disturbances.
const FILE: &str = "--callers fifo:10 --inheritance on --client-cpus 0 --server-cpus 1 --deadline 1ms";
/// A real-time client whose server stays an ordinary thread.
const INVERTED: &str = "--callers fifo:99 --inheritance off --client-cpus 0 --server-cpus 1 --deadline 4ms";
/// Ordinary threads.
const ORDINARY: &str = "--callers other --client-cpus 0 --server-cpus 1 --deadline 4ms";
/// The same for waits of tens of milliseconds.
const SLOW: &str = "--callers other --client-cpus 0 --server-cpus 1 --deadline 15ms";

const SCENARIOS: &[Scenario] = &[
    scenario("FIFO hog on the server's CPU", "hog,cpus=1", APART, Expected::Thread("competitor")),
    scenario("FIFO hog on the client's CPU", "hog,cpus=0", APART, Expected::Thread("competitor")),
    scenario("FIFO hog on a shared CPU", "hog,cpus=1", TOGETHER, Expected::Thread("competitor")),
    scenario("nice -20 hog", "hog,cpus=1,policy=nice:-20,for=8ms", ORDINARY, Expected::Thread("competitor")),
    scenario("RT client, CFS server", "hog,cpus=1,policy=fifo:50", INVERTED, Expected::Thread("competitor")),
    scenario("lock holder", "lock,cpus=0", APART, Expected::Thread("waited_for")),
    scenario("lock holder, preempted", "lock-preempted,cpus=0", APART, Expected::Thread("competitor")),
    scenario("sleep", "sleep", APART, Expected::Kind("sleep")),
    scenario("extra work", "work", APART, Expected::Kind("work")),
    scenario("SIGSTOP", "stop,cpus=0", APART, Expected::Kind("stopped")),
    scenario("fsync", "fsync", FILE, Expected::Kind("io")),
    scenario("softirq load", "flood,cpus=1,policy=fifo:50", APART, Expected::Flood),
    scenario("CPU quota", "", SLOW, Expected::Quota),
];

const fn scenario(
    name: &'static str,
    inject: &'static str,
    arguments: &'static str,
    expected: Expected,
) -> Scenario {
    Scenario { name, inject, arguments, expected }
}

/// The result of one scenario.
#[derive(Default)]
struct Tally {
    right: usize,
    cannot_tell: usize,
    wrong: usize,
    /// Slow calls that we did not disturb, or only a little.
    others: usize,
    named: BTreeMap<String, usize>,
}

/// Runs all scenarios, prints a table, and fails if causes are named wrongly. Not run without root,
/// or on fewer than two CPUs.
pub(crate) fn check() -> Result<Outcome> {
    if let Some(why) = not_possible() {
        return Ok(Outcome::NotRun(why));
    }
    cargo(&["build", "--package", "roundtrip"])?;
    let program = target_dir().join("debug/roundtrip");
    let folder = target_dir().join("injections");
    let (mut tallies, quiet) = (Vec::new(), Quiet::watch());
    let only = std::env::var("SCENARIO").unwrap_or_default();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&only)) {
        let tally = run(scenario, &program, &folder).with_context(|| scenario.name.to_owned())?;
        say(&row(scenario.name, &tally));
        tallies.push((scenario, tally));
    }
    say(&format!(
        "\n{:<28} {:>6} {:>6} {:>11} {:>6}  named",
        "scenario", "calls", "right", "cannot tell", "wrong"
    ));
    for (scenario, tally) in &tallies {
        say(&row(scenario.name, tally));
    }
    match quiet.disturbance() {
        Some(why) => Ok(Outcome::NotRun(why)),
        None => judge(&tallies),
    }
}

fn not_possible() -> Option<String> {
    let root = fs::metadata("/proc/self").ok().is_some_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    if !root {
        return Some("root is needed to record the kernel's events".into());
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Some("two CPUs are needed".into());
    }
    None
}

fn row(name: &str, tally: &Tally) -> String {
    let Tally { right, cannot_tell, wrong, others, named } = tally;
    let calls = right + cannot_tell + wrong;
    let mut named: Vec<_> = named.iter().collect();
    named.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut names: Vec<String> =
        named.iter().take(4).map(|(name, count)| format!("{name} {count}")).collect();
    if *others > 0 {
        names.push(format!("(not ours: {others})"));
    }
    format!("{name:<28} {calls:>6} {right:>6} {cannot_tell:>11} {wrong:>6}  {}", names.join(", "))
}

fn judge(tallies: &[(&Scenario, Tally)]) -> Result<Outcome> {
    let sum = |of: fn(&Tally) -> usize| tallies.iter().map(|(_, tally)| of(tally)).sum::<usize>();
    let (right, wrong) = (sum(|tally| tally.right), sum(|tally| tally.wrong));
    let calls = right + wrong + sum(|tally| tally.cannot_tell);
    say(&format!("{right} of {calls} named correctly, {wrong} wrongly"));
    for (scenario, tally) in tallies {
        ensure!(tally.right + tally.wrong + tally.cannot_tell > 0, "'{}' made no call slow", scenario.name);
    }
    ensure!(right * 100 >= calls * RIGHT_PERCENT, "fewer than {RIGHT_PERCENT}% are named correctly");
    ensure!(wrong * 100 <= calls * WRONG_PERCENT, "more than {WRONG_PERCENT}% are named wrongly");
    Ok(Outcome::Passed)
}

/// A control group with a CPU quota, removed when this value is dropped.
struct Quota(PathBuf);

impl Quota {
    /// 60 ms in each 100 ms.
    fn new() -> Result<Self> {
        let name = format!("roundtrip-injections-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/cpu");
        let (folder, limit) = if first.join("cpu.cfs_quota_us").exists() {
            (first.join(name), ("cpu.cfs_quota_us", "60000"))
        } else {
            (Path::new("/sys/fs/cgroup").join(name), ("cpu.max", "60000 100000"))
        };
        fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
        let quota = Self(folder);
        let file = quota.0.join(limit.0);
        fs::write(&file, limit.1).with_context(|| format!("write {}", file.display()))?;
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Its processes have ended, but the kernel may take a moment to notice.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn run(scenario: &Scenario, program: &Path, folder: &Path) -> Result<Tally> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let mut arguments: Vec<&str> = "ipc latency --driver emulated --stack hwbinder --format csv --explain \
                                    --explain-limit 300 --duration 8s"
        .split(' ')
        .collect();
    arguments.extend(scenario.arguments.split(' '));
    if !scenario.inject.is_empty() {
        arguments.extend(["--inject", scenario.inject]);
    }
    arguments.push("--out");
    let quota = matches!(scenario.expected, Expected::Quota).then(Quota::new).transpose()?;
    let mut command = match &quota {
        None => Command::new(program),
        Some(Quota(group)) => {
            // The shell moves itself into the group, and becomes the program.
            let mut shell = Command::new("sh");
            let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.display());
            shell.args(["-c", &enter, "sh"]).arg(program);
            shell
        }
    };
    let output = command.args(&arguments).arg(folder).stdin(Stdio::null()).output().context("start it")?;
    drop(quota);
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let explain = Command::new(program).args(["explain", "--format", "json"]).arg(folder).output()?;
    if !explain.status.success() {
        bail!("{}", String::from_utf8_lossy(&explain.stderr));
    }
    let explained: Value = serde_json::from_slice(&explain.stdout).context("its JSON")?;
    let injected = injected(&folder.join("injected.csv"))?;
    let calls = explained["slow_calls"].as_array().context("no slow_calls in the JSON")?;
    let mut tally = Tally::default();
    for call in calls {
        count(scenario, call, &injected, &mut tally);
    }
    Ok(tally)
}

/// When calls were made slow, and by which thread.
struct Injected {
    tid: u64,
    begin_ns: u64,
    end_ns: u64,
}

fn injected(path: &Path) -> Result<Vec<Injected>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let line = |line: &str| {
        let mut numbers = line.split(',').skip(1).map(str::parse::<u64>);
        let mut next = || numbers.next().and_then(Result::ok).context("a line of it is damaged");
        Ok(Injected { tid: next()?, begin_ns: next()?, end_ns: next()? })
    };
    text.lines().skip(1).map(line).collect()
}

fn count(scenario: &Scenario, call: &Value, injected: &[Injected], tally: &mut Tally) {
    let explanation = &call["explanation"];
    let (start_ns, end_ns) =
        (explanation["start_ns"].as_u64().unwrap_or(0), explanation["end_ns"].as_u64().unwrap_or(0));
    let overlap_ns = |one: &&Injected| one.end_ns.min(end_ns).saturating_sub(one.begin_ns.max(start_ns));
    let truth = injected.iter().max_by_key(overlap_ns);
    // On a shared machine, other load makes calls slow, too. Only those count that we caused
    // mostly.
    let ours = match scenario.expected {
        Expected::Quota => end_ns - start_ns >= 15_000_000,
        _ => truth.is_some_and(|one| overlap_ns(&one) * 4 > (end_ns - start_ns) * 3),
    };
    if !ours {
        tally.others += 1;
        return;
    }
    let cause = &explanation["causes"][0];
    let kind = cause["kind"].as_str().unwrap_or("nothing");
    let tid = cause["thread"]["tid"].as_u64();
    let is_injector = tid.is_some() && tid == truth.map(|one| one.tid);
    let right = match scenario.expected {
        Expected::Thread(expected) => kind == expected && is_injector,
        Expected::Kind(expected) => kind == expected,
        Expected::Flood => {
            let name = cause["name"].as_str().unwrap_or_default();
            (kind == "competitor" && is_injector) || (kind == "interrupt" && name.contains("softirq"))
        }
        Expected::Quota => matches!(kind, "throttled" | "cannot_tell"),
    };
    let comm = cause["thread"]["comm"].as_str().or(cause["name"].as_str()).unwrap_or_default();
    *tally.named.entry(format!("{kind} {comm}").trim().to_owned()).or_default() += 1;
    match kind {
        _ if right => tally.right += 1,
        "cannot_tell" => tally.cannot_tell += 1,
        _ => {
            tally.wrong += 1;
            say(&format!("wrong: {}", explanation["verdict"].as_str().unwrap_or_default()));
        }
    }
}
