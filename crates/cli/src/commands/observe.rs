//! `roundtrip ipc observe`: other programs' binder calls, over the kernel's driver.

use std::path::Path;

use bench::observe;
use latency::Deadline;
use report::csv::with_labels;
use report::run::Divided;
use run::Results;
use run::ipc::observe::{ObservePlan, Subject};

use super::finish::{explanations, finish};
use super::gates::{self, Gated, Gates};
use super::output::{self, RunOutput};
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Positionals, Usage, ValueKind, values};
use crate::terminal::{Exit, Terminal};

/// What was typed.
#[derive(Default)]
pub(crate) struct Typed {
    pid: Option<u32>,
    name: Option<String>,
    command: Vec<String>,
    duration_ns: Option<u64>,
    deadline_ns: Option<u64>,
    limit: Option<u32>,
    buffer_kilobytes: Option<u64>,
    output: RunOutput,
    gates: Gates,
}

impl AsMut<RunOutput> for Typed {
    fn as_mut(&mut self) -> &mut RunOutput {
        &mut self.output
    }
}

impl Gated for Typed {
    const TESTS: &'static [&'static str] = &["observed"];

    fn gates(&mut self) -> &mut Gates {
        &mut self.gates
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["ipc", "observe"],
    kind: Kind::Command,
    summary: "shows other programs' binder calls, and what delayed the slow ones",
    description: "Watches the kernel's binder driver and shows each round trip between any two processes: a table by \
                  client, server, node and method, with rates, percentiles, the three legs and the time for which no \
                  thread of the server was ready. Keeps the slowest calls that miss the deadline, with what the kernel \
                  recorded around them.\n\n\
                  The programs are not stopped and not changed. It needs root and the kernel's driver: the emulated one \
                  leaves no events.",
    positionals: Some(Positionals {
        usage: "[-- COMMAND...]",
        help: "A program to start and to observe until it ends, with what it starts.",
        count: 0..=1000,
        kind: ValueKind::Text,
        set: |typed: &mut Typed, text| {
            typed.command.push(text.to_owned());
            Ok(())
        },
    }),
    groups: &[
        Group {
            heading: "What to observe",
            options: &[
                Opt::value(&["--pid"], "PID", "Only calls that this process makes or serves.", |typed: &mut Typed, text| {
                    set(&mut typed.pid, values::whole(text, 1..=u32::MAX))
                }),
                Opt::value(
                    &["--name"],
                    "NAME",
                    "Only calls that processes of this name make or serve: a program's name without its folder, or an Android \
                     package's.",
                    |typed: &mut Typed, text| {
                        typed.name = Some(text.to_owned());
                        Ok(())
                    },
                ),
                Opt::value(
                    &["--duration"],
                    "TIME",
                    "For how long, as in 30s; Ctrl-C ends it earlier. With COMMAND: until it ends.",
                    |typed: &mut Typed, text| set(&mut typed.duration_ns, values::duration_ns(text)),
                )
                .default("10s"),
                Opt::value(
                    &["--deadline"],
                    "TIME",
                    "A call that takes longer is slow, as in 2.5ms.",
                    |typed: &mut Typed, text| set(&mut typed.deadline_ns, values::duration_ns(text)),
                )
                .default("2.5ms"),
                Opt::value(
                    &["--explain-limit"],
                    "N",
                    "How many slow calls are kept, the slowest; the rest is counted.",
                    |typed: &mut Typed, text| set(&mut typed.limit, values::whole(text, 0..=1000)),
                )
                .default("20"),
                Opt::value(
                    &["--buffer"],
                    "SIZE",
                    "The trace buffer of each CPU. It is emptied ten times a second; what does not fit is lost, and counted.",
                    |typed: &mut Typed, text| {
                        set(&mut typed.buffer_kilobytes, values::buffer_kilobytes(text))
                    },
                )
                .default("4M"),
            ],
        },
        gates::group(),
        Group {
            heading: "Output",
            options: &[
                output::format(output::FORMATS, output::FORMATS_HELP),
                output::out("Also writes the run, with what was recorded of slow calls, into this directory."),
                output::force(),
                output::label(),
                output::histogram(),
                output::quiet(),
            ],
        },
    ],
    examples: &[
        ("roundtrip ipc observe --duration 30s", "Shows who calls whom, and how long it takes."),
        (
            "roundtrip ipc observe --name system_server --deadline 5ms --out monday",
            "Keeps the slow calls of one process, to explain them later.",
        ),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<ObservePlan, Usage> {
    let default = ObservePlan::default();
    let subject = subject(typed.pid, typed.name.as_ref(), &typed.command)?;
    let until_it_ends = matches!(subject, Subject::Command(_));
    Ok(ObservePlan {
        subject,
        duration_ns: typed.duration_ns.or(if until_it_ends { None } else { default.duration_ns }),
        deadline: typed.deadline_ns.map_or(default.deadline, |ns| Deadline { ns }),
        limit: typed.limit.unwrap_or(default.limit),
        kilobytes: typed.buffer_kilobytes.unwrap_or(default.kilobytes),
        ..default
    })
}

/// Whom the options name.
pub(super) fn subject(pid: Option<u32>, name: Option<&String>, command: &[String]) -> Result<Subject, Usage> {
    let asked = [pid.is_some(), name.is_some(), !command.is_empty()];
    if asked.into_iter().filter(|asked| *asked).count() > 1 {
        return Err(Usage("--pid, --name and COMMAND exclude each other".into()));
    }
    match (pid, name) {
        (Some(pid), _) if !Path::new(&format!("/proc/{pid}")).exists() => {
            Err(Usage(format!("--pid {pid}: there is no such process")))
        }
        (Some(pid), _) => Ok(Subject::Process(pid)),
        (_, Some(name)) => Ok(Subject::Name(name.clone())),
        _ if !command.is_empty() => Ok(Subject::Command(command.to_vec())),
        _ => Ok(Subject::Everyone),
    }
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut plan = plan(&typed)?;
    let directory = typed.output.directory()?;
    plan.directory = directory.path().join(run::RECORDING);
    let run = {
        let mut line = typed.output.progress(terminal.err);
        typed.output.record(|_| {
            let result = observe::run(&plan, &mut |progress| line.show(progress))?;
            Ok::<_, bench::Error>(Results::from(result))
        })?
    };
    let shown = report::inert::measured(&run, typed.output.format.as_deref() == Some("json"))?;
    let Some(result) = &shown.results.observed_calls else { return Ok(Exit::FAILED) };
    let (text, missing) = match typed.output.format.as_deref() {
        Some("json") => (shown.to_json()?, None),
        Some("csv") => (with_labels(report::observed_calls::csv(result), &run.labels), None),
        Some("markdown") => (report::figures::markdown("ipc observe", &shown, Divided::default()), None),
        _ => {
            let tables = report::observed_calls::tables(result, terminal.look);
            let page = match tables.as_str() {
                "" => report::run::first_page(&shown, Divided::default(), terminal.look),
                tables => report::run::page(&shown, Divided::default(), tables, terminal.look),
            };
            let page = page + &typed.output.histograms(&shown, terminal.look);
            // A recording that cannot be read any more costs the explanations, not the table.
            match explanations(&shown, Some(directory.path())) {
                Ok(explained) => (page + &terminal.look.fit(explained), None),
                Err(error) => (page, Some(error)),
            }
        }
    };
    let exit = finish(&run, directory.asked(), &typed.output, terminal, |terminal| {
        Ok(terminal.out.write_all(text.as_bytes())?)
    })?;
    let exit = typed.gates.judge(&run, Divided::default(), exit, terminal);
    missing.map_or(Ok(exit), Err)
}
