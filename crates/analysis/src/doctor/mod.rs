//! What of a machine's settings lengthens round trips: a judgement on the environment that a run
//! stores, and on nothing else, so that a laptop can judge a phone. Must not read the machine, and
//! changes nothing.
//!
//! Each check is one function and one line of the table in `CHECKS`, which is in order of
//! importance: what can delay a call by the most, for the most programs, comes first.

mod kernel;
mod machine;
mod permissions;
mod processors;
mod scheduling;
#[cfg(test)]
mod tests;

use run::environment::Environment;

/// What a setting does to round trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It can make them longer.
    Lengthens,
    /// It could not be read, or is not there.
    CannotTell,
    /// It does not.
    Good,
}

impl State {
    /// All states, the one to act on first.
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

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check's name, for options and programs: "rt-throttling".
    pub check: &'static str,
    /// The check's name for people: "real-time throttling".
    pub title: &'static str,
    /// What it does to round trips.
    pub state: State,
    /// The value or, where it cannot be told, the reason.
    pub found: String,
    /// Why the setting matters.
    pub why: &'static str,
    /// Where that is written: a file of the kernel's documentation or source, or a manual page.
    pub source: &'static str,
    /// What helps; empty where nothing is to be done.
    pub advice: String,
    /// Commands that do it. They are for the reader to run: nothing here runs them.
    pub commands: Vec<String>,
}

/// What a check says of a machine.
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

/// What a check says, or why the fact that it needs is unknown.
type Judged = Result<Verdict, String>;

/// A check: its names, why it matters and where that is written, and its function.
struct Check {
    name: &'static str,
    title: &'static str,
    why: &'static str,
    source: &'static str,
    judge: fn(&Environment) -> Judged,
}

/// Every check, the most important first.
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

/// Judges a machine: one finding for each check. What lengthens round trips comes first, then what
/// could not be told, then what is good; within each, the most important first.
#[must_use]
pub fn judge(environment: &Environment) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS
        .iter()
        .copied()
        .flatten()
        .map(|check| {
            let verdict = (check.judge)(environment).unwrap_or_else(Verdict::cannot_tell);
            let Verdict { state, found, advice, commands } = verdict;
            let &Check { name, title, why, source, .. } = check;
            Finding { check: name, title, state, found, why, source, advice, commands }
        })
        .collect();
    findings.sort_by_key(|finding| finding.state);
    findings
}
