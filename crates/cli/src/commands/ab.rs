//! `roundtrip ab`: two configurations, measured in turn and compared.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use roundtrip_analysis::compare::{self, Side};
use roundtrip_bench::directory::scratch::Scratch;
use roundtrip_bench::interleave::{Scan, Subject, interleave};
use roundtrip_bench::worker::Interrupts;
use roundtrip_report::comparison;

use super::compare::judging::{self, About, Judging, Names};
use crate::args::values::{push, set};
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage, values};
use crate::progress::ProgressLine;
use crate::terminal::{Exit, Terminal};

/// The default number of pairs. It is enough to detect a difference five times as large as the
/// machine's noise.
const PAIRS: u64 = 10;

/// The number of pairs after which the command says what all of them will find.
const OUTLOOK_AFTER: u64 = 4;

/// The most values of a scan.
const MOST_VALUES: usize = 100;

/// The maximum number of pairs.
const MOST_PAIRS: u64 = 1000;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    words: Vec<String>,
    pairs: Option<u64>,
    before: [Option<String>; 2],
    finally: Option<String>,
    scan: Option<Scan>,
    out: Option<PathBuf>,
    quiet: bool,
    judging: Judging,
}

impl AsMut<Judging> for Typed {
    fn as_mut(&mut self) -> &mut Judging {
        &mut self.judging
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["ab"],
    kind: Kind::Command,
    summary: "measures two configurations alternately and says whether B is better or worse than A",
    description: "Measures A and B alternately, in pairs of random order, and compares the results. Drift of \
                  the machine affects both sides alike, so this detects differences that one run after the \
                  other would miss. Ends with the answer as a sentence.\n\n\
                  A and B are measuring commands of this program, or commands that end in one: another build, \
                  or this one behind env or taskset. Roundtrip adds --out to each. Without B, it compares A \
                  with itself, which shows how small a difference this machine can resolve.",
    positionals: Some(Positionals {
        usage: "-- A... [-- B...]",
        help: "Two commands, as in '-- ipc latency --stack binder -- ipc latency --stack hwbinder'.",
        count: 1..=1000,
        kind: ValueKind::Text,
        set: |typed: &mut Typed, text| push(&mut typed.words, values::any(text)),
    }),
    groups: &[
        Group {
            heading: "Measurement",
            options: &[
                Opt::value(&["--pairs"], "N", "How many pairs of runs.", |typed: &mut Typed, text| {
                    set(&mut typed.pairs, values::whole(text, 1..=MOST_PAIRS))
                })
                .default("10"),
                Opt::value(
                    &["--scan"],
                    "OPTION=V,...",
                    "Measures both commands with each of these values of one of their options, as in \
                     sizes=4,4k,64k.",
                    |typed: &mut Typed, text| set(&mut typed.scan, scan(text)),
                ),
                Opt::value(
                    &["--before-a"],
                    "COMMAND",
                    "A shell command to run before each run of A, for example to change a setting.",
                    |typed: &mut Typed, text| set(&mut typed.before[0], values::any(text)),
                ),
                Opt::value(
                    &["--before-b"],
                    "COMMAND",
                    "A shell command to run before each run of B.",
                    |typed: &mut Typed, text| set(&mut typed.before[1], values::any(text)),
                ),
                Opt::value(
                    &["--finally"],
                    "COMMAND",
                    "A shell command to run at the end, even after an error or Ctrl-C.",
                    |typed: &mut Typed, text| set(&mut typed.finally, values::any(text)),
                ),
            ],
        },
        Group { heading: "Comparison", options: &[judging::figures(), judging::margin(), judging::noise()] },
        Group {
            heading: "Output",
            options: &[
                judging::fail_on(),
                judging::format(),
                judging::name(),
                Opt::path(
                    &["--out"],
                    "DIR",
                    "Keeps the runs in DIR/a and DIR/b. DIR must be empty or not exist.",
                    |typed: &mut Typed, text| set(&mut typed.out, values::path(text)),
                ),
                Opt::flag(
                    &["--quiet", "-q"],
                    "Prints the result and errors only: no progress.",
                    |typed: &mut Typed| typed.quiet = true,
                ),
            ],
        },
    ],
    examples: &[
        (
            "roundtrip ab -- ipc latency --stack binder -- ipc latency --stack hwbinder",
            "Compares two stacks.",
        ),
        (
            "roundtrip ab --pairs 20 -- ./old/roundtrip ipc throughput -- ./new/roundtrip ipc throughput",
            "Compares two builds.",
        ),
        (
            "roundtrip ab --before-a ./idle-on --before-b ./idle-off --finally ./idle-on -- ipc latency",
            "Compares two settings; the scripts switch between them.",
        ),
        (
            "roundtrip ab --scan clients=1,2,4 -- ipc workers --stack binder -- ipc workers --stack hwbinder",
            "Compares two stacks with 1, 2 and 4 clients.",
        ),
        ("roundtrip ab -- ipc latency", "Shows how much runs differ on this machine by noise alone."),
    ],
    run,
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let Typed { words, pairs, before, finally, scan, out, quiet, mut judging } = typed;
    let pairs = pairs.unwrap_or(PAIRS);
    let [a, b] = commands(words)?;
    let [before_a, before_b] = before;
    let commands = [&a, &b].map(|words| words.join(" "));
    let hints: Vec<String> = [&a, &b].iter().find_map(|words| hint(words)).into_iter().collect();
    let typed_names = std::mem::take(&mut judging.names);
    let names = Names::or(&typed_names, ["A", "B"])?;
    let subjects = [
        Subject { name: "a", command: command(a), before: before_a },
        Subject { name: "b", command: command(b), before: before_b },
    ];
    let interrupts = Interrupts::watch()?;
    let scratch = out.is_none().then(Scratch::new).transpose()?;
    let existed = out.as_ref().is_some_and(|out| out.exists());
    let directory = match (&out, &scratch) {
        (Some(out), _) => empty(out)?,
        (None, Some(scratch)) => scratch.path(),
        (None, None) => unreachable!("one of both is made"),
    };
    let mut line = if quiet { ProgressLine::hidden(terminal.err) } else { ProgressLine::new(terminal.err) };
    let (began, options) = (Instant::now(), judging.options());
    let runs = 2 * scan.as_ref().map_or(1, |scan| scan.values.len() as u64);
    let measured = interleave(&subjects, scan.as_ref(), pairs, directory, interrupts, &mut |step| {
        if pairs > OUTLOOK_AFTER && step.done == OUTLOOK_AFTER * runs {
            let pair_ns = began.elapsed().as_nanos() as u64 / OUTLOOK_AFTER;
            outlook(directory, pairs, pair_ns, &options).iter().for_each(|said| line.tell(said));
        }
        line.show(step);
    });
    let took_ns = began.elapsed().as_nanos() as u64;
    drop(line);
    remove_empty(directory, existed);
    // Run the command even after a signal: its purpose is to restore the machine.
    let restored = finally.map(|line| std::process::Command::new("sh").args(["-c", &line]).status());
    let done = measured?;
    if let Some(failed) = restored.map(|status| status.map(|status| status.success())) {
        anyhow::ensure!(failed?, "--finally: the command failed");
    }
    if done == 0 {
        interrupts.check()?;
    }
    let sides = [side(directory, "a", done)?, side(directory, "b", done)?];
    let differences = compare::differences(&sides[0], &sides[1]);
    let mut notes = vec![format!("A: {}", commands[0]), format!("B: {}", commands[1])];
    if done < pairs {
        notes.insert(0, format!("PARTIAL: a signal ended the measurement after {done} of {pairs} pairs."));
    }
    let pair_ns = took_ns.checked_div(done);
    let about = About { differences: &differences, notes: &notes, hints: &hints, pair_ns };
    let exit = judging.paired().tell(names, [&sides[0], &sides[1]], about, terminal)?;
    // Check for signals last, so that a signal determines the exit status.
    interrupts.check()?;
    Ok(exit)
}

/// What all pairs will find, by the first ones. `None` if they do not show it.
fn outlook(directory: &Path, pairs: u64, pair_ns: u64, options: &compare::Options) -> Option<String> {
    let side = |name| side(directory, name, OUTLOOK_AFTER).ok();
    let found = compare::outlook(&side("a")?, &side("b")?, pairs, options)?;
    Some(comparison::outlook(&found, OUTLOOK_AFTER, pairs, pair_ns))
}

/// Parses a scan: an option's name, and its values.
fn scan(text: &str) -> Result<Scan, String> {
    let wrong = || format!("'{text}': expected an option and its values, as in sizes=4,4k,64k");
    let (option, values) = text.split_once('=').ok_or_else(wrong)?;
    let option = option.trim_start_matches('-');
    let is_name = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    // The values are names of directories.
    let usable = is_name(option, "-")
        && values.iter().all(|value| is_name(value, ".:_%+-") && value != "." && value != "..");
    if !usable {
        return Err(wrong());
    }
    if values.len() > MOST_VALUES {
        return Err(format!("'{text}': at most {MOST_VALUES} values"));
    }
    let mut sorted: Vec<&String> = values.iter().collect();
    sorted.sort();
    if let Some(twice) = sorted.windows(2).find(|two| two[0] == two[1]) {
        return Err(format!("'{text}': the value {} is there twice", twice[0]));
    }
    if option == "out" {
        return Err(format!("'{text}': Roundtrip itself adds --out to each command"));
    }
    Ok(Scan { option: option.to_owned(), values })
}

/// Splits the arguments into the words of A and of B.
fn commands(words: Vec<String>) -> anyhow::Result<[Vec<String>; 2]> {
    let mut parts = words.split(|word| word == "--").map(<[String]>::to_vec);
    let a = parts.next().unwrap_or_default();
    let b = parts.next().unwrap_or_else(|| a.clone());
    if parts.next().is_some() {
        return Err(usage!("expected two commands, A and B, separated by one '--'"));
    }
    if a.is_empty() || b.is_empty() {
        return Err(usage!("a command is empty: write '-- A... -- B...'"));
    }
    Ok([a, b])
}

/// What makes the runs of a command of this program differ less.
fn hint(words: &[String]) -> Option<String> {
    let placed =
        matches!(words, [ipc, test, ..] if ipc == "ipc" && (test == "latency" || test == "throughput"));
    let chosen =
        words.iter().any(|word| word.starts_with("--placement") || word.starts_with("--client-cpus"));
    (placed && !chosen).then(|| {
        "Runs differ less if the kernel does not choose the CPUs: add --placement same to both commands."
            .to_owned()
    })
}

/// Prefixes a command of this program with the path of this executable.
fn command(words: Vec<String>) -> Vec<OsString> {
    let own = super::ALL.iter().any(|command| {
        let doc = command.doc();
        doc.kind != Kind::OldName && doc.path.first() == words.first().map(String::as_str).as_ref()
    });
    let own = own.then(|| OsString::from("/proc/self/exe"));
    own.into_iter().chain(words.into_iter().map(OsString::from)).collect()
}

/// Checks that a directory is empty. Creates it if it does not exist.
fn empty(path: &Path) -> anyhow::Result<&Path> {
    std::fs::create_dir_all(path)
        .and_then(|()| std::fs::read_dir(path))
        .map_err(|error| anyhow::anyhow!("cannot keep runs in {}: {error}", path.display()))
        .and_then(|mut entries| match entries.next() {
            None => Ok(path),
            Some(_) => Err(anyhow::anyhow!(
                "cannot keep runs in {}: it is not empty; choose another directory",
                path.display()
            )),
        })
}

/// Removes the directories that contain no run, except for one that existed before.
fn remove_empty(directory: &Path, existed: bool) {
    for name in ["a", "b"] {
        let _ = std::fs::remove_dir(directory.join(name));
    }
    if !existed {
        let _ = std::fs::remove_dir(directory);
    }
}

/// The runs of the completed pairs.
fn side(directory: &Path, name: &str, pairs: u64) -> anyhow::Result<Side> {
    let paths: Vec<PathBuf> =
        (1..=pairs).map(|pair| directory.join(name).join(format!("{pair:04}"))).collect();
    Ok(Side::read(&paths)?)
}
