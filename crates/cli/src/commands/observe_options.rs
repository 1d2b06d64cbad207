//! The options that `ipc observe` and `storage observe` share: what to observe, for how long, and
//! what counts as slow. Parses them and applies defaults; must not know what is recorded.

use roundtrip_latency::Deadline;
use roundtrip_run::observe::Subject;

use crate::args::values::{push, set};
use crate::args::{Opt, Positionals, Usage, ValueKind, values};

/// The options as typed.
#[derive(Default)]
pub(crate) struct ObserveOptions {
    pid: Option<u32>,
    name: Option<String>,
    command: Vec<String>,
    duration_ns: Option<u64>,
    deadline_ns: Option<u64>,
    limit: Option<u32>,
    buffer_kilobytes: Option<u64>,
}

/// The typed arguments of a command that has these options.
pub(crate) trait Observes {
    fn observing(&mut self) -> &mut ObserveOptions;
}

/// The parts of a plan that the options set. At first they have the plan's defaults.
pub(crate) struct Observing<'p> {
    pub(crate) subject: &'p mut Subject,
    pub(crate) duration_ns: &'p mut Option<u64>,
    pub(crate) deadline: &'p mut Deadline,
    pub(crate) limit: &'p mut u32,
    pub(crate) kilobytes: &'p mut u64,
}

impl ObserveOptions {
    /// Puts what was typed into a plan. With COMMAND there is no default duration: it is observed
    /// until it exits.
    ///
    /// # Errors
    /// If several subjects are given, or `--pid` names no process.
    pub(crate) fn apply(&self, plan: Observing<'_>) -> Result<(), Usage> {
        *plan.subject = self.subject()?;
        let default_ns = plan.duration_ns.filter(|_| self.command.is_empty());
        *plan.duration_ns = self.duration_ns.or(default_ns);
        *plan.deadline = self.deadline_ns.map_or(*plan.deadline, |ns| Deadline { ns });
        *plan.limit = self.limit.unwrap_or(*plan.limit);
        *plan.kilobytes = self.buffer_kilobytes.unwrap_or(*plan.kilobytes);
        Ok(())
    }

    fn subject(&self) -> Result<Subject, Usage> {
        let asked = [self.pid.is_some(), self.name.is_some(), !self.command.is_empty()];
        if asked.into_iter().filter(|asked| *asked).count() > 1 {
            return Err(Usage("--pid, --name and COMMAND exclude each other".into()));
        }
        match (self.pid, &self.name) {
            (Some(pid), _) => match process_of(pid) {
                None => Err(Usage(format!("--pid {pid}: there is no such process"))),
                Some(process) if process != pid => {
                    Err(Usage(format!("--pid {pid}: this is a thread of process {process}")))
                }
                Some(_) => Ok(Subject::Process(pid)),
            },
            (_, Some(name)) => Ok(Subject::Name(name.clone())),
            _ if !self.command.is_empty() => Ok(Subject::Command(self.command.clone())),
            _ => Ok(Subject::Everyone),
        }
    }
}

/// The id of the process to which this process or thread id belongs; `None` if there is no such
/// process or thread (proc_pid_status(5)).
fn process_of(tid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

pub(crate) const fn command<A: Observes>() -> Positionals<A> {
    Positionals {
        usage: "[-- COMMAND...]",
        help: "A program to run. Observes it and the processes that it starts, until it exits.",
        count: 0..=1000,
        kind: ValueKind::Text,
        set: |typed: &mut A, text| push(&mut typed.observing().command, values::any(text)),
    }
}

pub(crate) const fn pid<A: Observes>(help: &'static str) -> Opt<A> {
    Opt::value(&["--pid"], "PID", help, |typed: &mut A, text| {
        set(&mut typed.observing().pid, values::whole(text, 1..=u32::MAX))
    })
}

pub(crate) const fn name<A: Observes>(help: &'static str) -> Opt<A> {
    Opt::value(&["--name"], "NAME", help, |typed: &mut A, text| {
        set(&mut typed.observing().name, values::any(text))
    })
}

pub(crate) const fn duration<A: Observes>() -> Opt<A> {
    Opt::value(
        &["--duration"],
        "TIME",
        "How long to observe, such as 30s. Ctrl-C ends it earlier. With COMMAND the default is until it exits.",
        |typed: &mut A, text| set(&mut typed.observing().duration_ns, values::duration_ns(text)),
    )
    .default("10s")
}

pub(crate) const fn deadline<A: Observes>(help: &'static str, default: &'static str) -> Opt<A> {
    Opt::value(&["--deadline"], "TIME", help, |typed: &mut A, text| {
        set(&mut typed.observing().deadline_ns, values::duration_ns(text))
    })
    .default(default)
}

pub(crate) const fn limit<A: Observes>(help: &'static str) -> Opt<A> {
    Opt::value(&["--explain-limit"], "N", help, |typed: &mut A, text| {
        set(&mut typed.observing().limit, values::whole(text, 0..=1000))
    })
    .default("20")
}

pub(crate) const fn buffer<A: Observes>(default: &'static str) -> Opt<A> {
    Opt::value(
        &["--buffer"],
        "SIZE",
        "The size of each CPU's trace buffer. Roundtrip reads the buffers ten times a second. Events that do not fit are \
         lost; the report counts them.",
        |typed: &mut A, text| {
            set(&mut typed.observing().buffer_kilobytes, values::buffer_kilobytes(text))
        },
    )
    .default(default)
}
