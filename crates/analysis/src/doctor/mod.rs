//! Finds settings of a machine that lengthen round trips. Judges only the environment that a run
//! stores, so a laptop can judge a phone. Must not read the machine's settings or change anything.
//!
//! Each check is one function and one line in the table `CHECKS`. The table is ordered by
//! importance: the first checks find what can delay calls the most, in the most programs.

mod kernel;
mod machine;
mod permissions;
mod processors;
mod scheduling;
#[cfg(test)]
mod tests;

use roundtrip_run::environment::Environment;

/// The effect of a setting on round trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The setting can lengthen round trips.
    Lengthens,
    /// The setting could not be read, or does not exist.
    CannotTell,
    /// The setting does not lengthen round trips.
    Good,
}

impl State {
    /// All states, most urgent first.
    pub const ALL: [Self; 3] = [Self::Lengthens, Self::CannotTell, Self::Good];

    /// The state's name in JSON and in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lengthens => "lengthens",
            Self::CannotTell => "cannot-tell",
            Self::Good => "good",
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check's name, for options and programs: "rt-throttling".
    pub check: &'static str,
    /// The check's name in text: "real-time throttling".
    pub title: &'static str,
    /// The effect on round trips.
    pub state: State,
    /// The value or, if unknown, the reason.
    pub found: String,
    /// Why the setting matters.
    pub why: &'static str,
    /// The source for this reason: a file of the kernel's documentation or source, or a manual
    /// page.
    pub source: &'static str,
    /// What to do; empty if nothing needs to be done.
    pub advice: String,
    /// Commands that follow the advice. The user may run them; this program does not.
    pub commands: Vec<String>,
}

/// A check's judgement of a machine.
struct Verdict {
    state: State,
    found: String,
    advice: String,
    commands: Vec<String>,
}

impl Verdict {
    fn good(found: impl Into<String>) -> Self {
        Self { state: State::Good, found: found.into(), advice: String::new(), commands: Vec::new() }
    }

    fn lengthens(found: impl Into<String>, advice: impl Into<String>) -> Self {
        let (found, advice) = (found.into(), advice.into());
        Self { state: State::Lengthens, found, advice, commands: Vec::new() }
    }

    fn cannot_tell(reason: impl Into<String>) -> Self {
        let found = reason.into();
        Self { state: State::CannotTell, found, advice: String::new(), commands: Vec::new() }
    }

    fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }
}

/// A check's judgement, or the reason why a setting that it needs is unknown.
type Judged = Result<Verdict, String>;

/// A check: its names, the reason why it matters with a source, and its function.
struct Check {
    name: &'static str,
    title: &'static str,
    why: &'static str,
    source: &'static str,
    judge: fn(&Environment) -> Judged,
}

/// All checks, most important first.
static CHECKS: &[&[Check]] = &[
    kernel::DEBUGGING,
    scheduling::LIMITS,
    processors::FREQUENCY,
    machine::DISTURBANCE,
    scheduling::PREEMPTION,
    processors::PLACEMENT,
    scheduling::REALTIME,
    permissions::BINDER,
    machine::MEMORY,
    kernel::VERSION,
    scheduling::TIMERS,
    machine::DISK,
    permissions::RIGHTS,
];

/// The names of all checks, in order of importance.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().copied().flatten().map(|check| check.name)
}

/// The verdict with commands that work on this machine, and with what makes an unknown setting
/// readable.
fn usable(mut verdict: Verdict, environment: &Environment) -> Verdict {
    const MOUNT: &str = "mount -t debugfs nodev /sys/kernel/debug";
    let names_debugfs = |text: &String| text.contains("/sys/kernel/debug");
    let is_unknown = verdict.state == State::CannotTell;
    let lacks_debugfs = environment.facts.text("debugfs") == Ok("not mounted");
    if lacks_debugfs
        && (verdict.commands.iter().any(names_debugfs) || is_unknown && names_debugfs(&verdict.found))
    {
        verdict.commands.insert(0, MOUNT.to_owned());
    }
    if is_unknown && verdict.advice.is_empty() && verdict.found.contains("not readable without root") {
        verdict.advice = how_to_read(environment).to_owned();
    }
    verdict
}

/// What makes a setting readable that the kernel shows only to root.
fn how_to_read(environment: &Environment) -> &'static str {
    let may_administer = environment
        .facts
        .names("capabilities")
        .is_ok_and(|held| held.iter().any(|name| name == "CAP_SYS_ADMIN"));
    match environment.facts.text("root") {
        Ok("no") => "Run as root.",
        Ok("in a user namespace") => {
            "This root is root only of its user namespace: run outside the container."
        }
        Ok(_) if !may_administer => {
            "This root lacks CAP_SYS_ADMIN: run outside the container, or in a privileged one."
        }
        Ok(_) => "The container or a security module hides it from root: run outside the container.",
        // Runs of older versions do not say.
        Err(_) => "Run as root, outside a container.",
    }
}

/// Judges a machine, with one finding for each check. Settings that lengthen round trips come
/// first, then unknown ones, then good ones; each group is ordered by importance.
#[must_use]
pub fn judge(environment: &Environment) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS
        .iter()
        .copied()
        .flatten()
        .map(|check| {
            let verdict = (check.judge)(environment).unwrap_or_else(Verdict::cannot_tell);
            let Verdict { state, found, advice, commands } = usable(verdict, environment);
            let &Check { name, title, why, source, .. } = check;
            Finding { check: name, title, state, found, why, source, advice, commands }
        })
        .collect();
    findings.sort_by_key(|finding| finding.state);
    findings
}
