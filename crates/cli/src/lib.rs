//! The command line of `roundtrip`: selects the command, runs it, and converts an error to one line
//! on standard error and an exit status. The commands are in `commands` and `old_names`. This file
//! must not know any of them.

mod args;
mod atrace;
mod available;
mod commands;
#[cfg(feature = "foreign")]
mod foreign_file;
mod google_benchmark;
mod old_names;
mod progress;
mod screen;
mod terminal;
mod trace_file;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use args::{Command, Doc, Kind, Usage, usage};
use roundtrip_report::text::inert::{self, Guard};
use rustix::io::Errno;
use terminal::{Exit, Stdout, Terminal};

/// The version that `--version` and every recorded run report.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs the process's command line, and returns its exit status.
#[must_use]
pub fn main() -> ExitCode {
    roundtrip_bench::worker::ignore_file_size_signal();
    roundtrip_bench::worker::set_cleaning_up_line(
        "roundtrip: cleaning up; another signal after three seconds or more stops this and may leave files \
         and settings behind\n",
    );
    let mut args = std::env::args_os();
    let executable = args.next().unwrap_or_default().to_string_lossy().into_owned();
    let look = terminal::look();
    let mut out = Guard::new(Stdout::new(roundtrip_bench::worker::stdout_was_closed()));
    let result = run(
        args.collect(),
        &mut Terminal { out: &mut out, err: &mut Guard::new(std::io::stderr()), look, executable },
    );
    let exit = match result {
        Ok(exit) => exit,
        // The reader of the output is gone. This ends the command without an error message. Other
        // errors are reported.
        Err(Failure { nobody_reads: true, .. }) if out.get_ref().reader_gone => Exit::OK,
        Err(Failure { line, exit, .. }) => {
            // If standard error is closed too, the error cannot be reported.
            let _ = writeln!(std::io::stderr(), "{}", inert::line(&line));
            exit
        }
    };
    ExitCode::from(exit.0)
}

/// Why a command line failed: one line for standard error, and the exit status.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    line: String,
    exit: Exit,
    /// Whether the failure is only that the reader of the output is gone.
    nobody_reads: bool,
}

/// Runs one command line.
fn run(args: Vec<OsString>, terminal: &mut Terminal<'_>) -> Result<Exit, Failure> {
    let (command, rest) = select(&terminal.executable, args);
    let doc = command.as_ref().ok().map(|command| command.doc());
    // Scripts that use an old program name do not expect a partial run.
    if doc.as_ref().is_some_and(|doc| doc.kind == Kind::Command) {
        roundtrip_bench::worker::keep_what_was_measured();
    }
    let result = command.and_then(|command| command.run(rest, terminal)).and_then(|exit| {
        match terminal.out.flush().map_err(anyhow::Error::from) {
            // The failure has already been reported.
            Err(error) if exit != Exit::OK && terminal::nobody_reads(&error) => Ok(exit),
            flushed => flushed.map(|()| exit),
        }
    });
    result.map_err(|error| {
        let (program, help) = names(doc.as_ref());
        let nobody_reads = terminal::nobody_reads(&error);
        match error.downcast_ref::<Usage>() {
            Some(usage) => Failure {
                line: format!("{program}: {usage}; see '{help} --help'"),
                exit: Exit::USAGE,
                nobody_reads,
            },
            None => {
                let ended =
                    error.downcast_ref::<roundtrip_bench::Error>().map(|error| Exit(error.exit_status()));
                let said = format!("{error:#}");
                let remedy = match remedy(&error) {
                    "" => remedy_by_text(&said),
                    remedy => remedy,
                };
                let line = format!("{program}: {said}{remedy}");
                Failure { line, exit: ended.unwrap_or(Exit::FAILED), nobody_reads }
            }
        }
    })
}

/// A remedy for an error that any operation may meet, also a child's, of which only the text is
/// known.
fn remedy_by_text(said: &str) -> &'static str {
    let is = |errno: Errno| said.ends_with(&format!("(os error {})", errno.raw_os_error()));
    if is(Errno::MFILE) {
        "; allow more open files (ulimit -n)"
    } else if is(Errno::IO) {
        "; the disk or its file system failed: the kernel's log (dmesg) says how"
    } else {
        ""
    }
}

/// A remedy for a failed file operation, as the end of a sentence; empty if none is known.
fn remedy(error: &anyhow::Error) -> &'static str {
    if let Some(error) = error.downcast_ref::<roundtrip_bench::Error>() {
        return match error {
            roundtrip_bench::Error::File { operation, cause, .. } => remedy_of(operation, cause.kind()),
            roundtrip_bench::Error::Trace(error) => of_trace(error),
            roundtrip_bench::Error::Run(error) => of_run(error),
            _ => "",
        };
    }
    if let Some(error) = error.downcast_ref::<roundtrip_analysis::Error>() {
        return match error {
            roundtrip_analysis::Error::Recording(error) => of_trace(error),
            roundtrip_analysis::Error::Run(error) => of_run(error),
            _ => "",
        };
    }
    if let Some(error) = error.downcast_ref::<roundtrip_run::Error>() {
        return of_run(error);
    }
    if let Some(error) = error.downcast_ref::<roundtrip_tracefs::Error>() {
        return of_trace(error);
    }
    error.downcast_ref::<std::io::Error>().map_or("", |cause| remedy_of("write", cause.kind()))
}

fn of_run(error: &roundtrip_run::Error) -> &'static str {
    match error {
        roundtrip_run::Error::File { operation, cause, .. } => remedy_of(operation, cause.kind()),
        _ => "",
    }
}

fn of_trace(error: &roundtrip_tracefs::Error) -> &'static str {
    match error {
        roundtrip_tracefs::Error::File { operation, cause, .. } => remedy_of(operation, cause.kind()),
        _ => "",
    }
}

/// A remedy for this failure of a file operation; empty if none is known.
fn remedy_of(operation: &str, kind: ErrorKind) -> &'static str {
    match (operation, kind) {
        ("read" | "open", ErrorKind::NotFound) => "; check the path",
        ("create", ErrorKind::NotFound) => "; files cannot be created there: choose another directory",
        (_, ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            "; free some space there, or choose another directory"
        }
        (_, ErrorKind::FileTooLarge) => "; raise the limit on the size of files (ulimit -f)",
        (_, ErrorKind::PermissionDenied) => "; choose another directory, or run as a user who may",
        (_, ErrorKind::ReadOnlyFilesystem) => "; name a place on another file system",
        ("write" | "write to", ErrorKind::AlreadyExists) => "; name another, or replace it with --force",
        (_, ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => "; name a directory",
        _ => "",
    }
}

/// The program's name, and the command whose `--help` has more information.
fn names(doc: Option<&Doc>) -> (String, String) {
    match doc {
        None => ("roundtrip".to_owned(), "roundtrip".to_owned()),
        Some(doc) => {
            let invocation = doc.invocation();
            (invocation.split(' ').next().unwrap_or_default().to_owned(), invocation)
        }
    }
}

/// Finds the command, and the arguments that follow its words.
fn select(
    executable: &str,
    mut args: Vec<OsString>,
) -> (anyhow::Result<&'static dyn Command>, Vec<OsString>) {
    let name = Path::new(executable).file_name().unwrap_or_default();
    if let Some(old) = name.to_str().and_then(old_names::called) {
        return (Ok(old), args);
    }
    match args.first().and_then(|first| first.to_str()) {
        None if args.is_empty() => return (Ok(&commands::begin::COMMAND), args),
        Some("--help" | "-h") => return (Ok(&commands::help::COMMAND), args.split_off(1)),
        Some("--version" | "-V") => return (Ok(&commands::version::COMMAND), args.split_off(1)),
        _ => {}
    }
    let words: Vec<&str> =
        args.iter().map_while(|arg| arg.to_str()).take_while(|arg| !arg.starts_with('-')).collect();
    let longest = commands::ALL
        .iter()
        .filter(|command| words.starts_with(command.doc().path))
        .max_by_key(|command| command.doc().path.len());
    if let Some(command) = longest {
        return (Ok(*command), args.split_off(command.doc().path.len()));
    }
    let shared = (1..=words.len()).rev().find(|&n| !commands::beginning_with(&words[..n]).is_empty());
    match shared {
        // `roundtrip ipc --help`: the words are not a command, but the start of several.
        Some(n) if args.get(n).is_some_and(|arg| arg == "--help" || arg == "-h") => {
            args.truncate(n);
            (Ok(&commands::help::COMMAND), args)
        }
        _ => (Err(not_a_command(&args, &words, shared.unwrap_or(0))), Vec::new()),
    }
}

/// Explains why the words are not a command. The first `shared` words are the start of at least one
/// command.
fn not_a_command(args: &[OsString], words: &[&str], shared: usize) -> anyhow::Error {
    let next = commands::words_behind(&words[..shared]);
    let typed = match args.get(shared) {
        None => return usage!("'{}' needs a command after it: {}", words.join(" "), next.join(", ")),
        Some(arg) => arg.to_string_lossy(),
    };
    if typed.starts_with('-') {
        return usage!("unknown flag {typed} before the command");
    }
    let near = args::nearest(&typed, next.iter().copied());
    let hint = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
    let command = [&words[..shared], &[&typed]].concat().join(" ");
    usage!("unknown command '{command}'{hint}")
}

#[cfg(test)]
#[path = "command_line_tests.rs"]
mod tests;
