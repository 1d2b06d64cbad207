//! Runs the commands in README.md and docs/, and compares their output with the one shown.
//!
//! - A block of commands is fenced as `sh`. Each line runs in a folder for the document, so that a
//!   command finds what an earlier one stored. Commands in the tables of some documents run, too;
//!   other tables only mention commands.
//! - A comment `<!-- not run: WHY -->` before a block skips it, and `<!-- needs root: WHY -->`
//!   skips it without root. Skipped commands are counted and listed. Before a table, a comment
//!   contains the start of the command that it skips: `<!-- not run: COMMAND: WHY -->`.
//! - A comment `<!-- output of: COMMAND -->` before a block of output runs that command, and
//!   compares the two line by line: the program must print every line shown. Figures, and what
//!   describes the machine, may differ.
//!
//! A script that stands in for the program appends options to keep runs short.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::files;
use crate::outcome::Outcome;
use crate::passed::{self, Inputs};
use crate::shell::{cargo, is_root, root, say, target_dir};

/// Stands in for `roundtrip`: runs the same command, but shorter. If an option is given twice, the
/// last one applies.
const SHORT: &str = r#"#!/bin/bash
# An older command of the same line may have set a deadline or a length that takes too long here.
case "${0##*/}" in lib*_benchmark) set -- "$@" --benchmark_min_time=0.002 ;; esac
case "$1 $2" in
"survey "*) set -- "$@" --duration 3s ;;
"watch "*) set -- "$@" --duration 2s ;;
"ipc latency")
    case " $* " in
    *" --iterations "*) set -- "$@" --iterations 100 ;;
    *) set -- "$@" --duration 300ms ;;
    esac
    # So that there is a slow call to explain.
    case " $* " in *" --explain "*) set -- "$@" --deadline 20us --explain-limit 3 ;; esac ;;
"ipc throughput") set -- "$@" --min-time 2ms ;;
"ipc baseline") set -- "$@" --duration 500ms ;;
"ipc workers") set -- "$@" --iterations 100 ;;
"ipc traits") set -- "$@" --iterations 100 ;;
"storage layers") set -- "$@" --calls 4 --rounds 2 ;;
"storage study") set -- "$@" --duration 1s --rounds 1 --sizes 4k,16k --file-size 1M ;;
"storage interference") set -- "$@" --duration 1s --rounds 1 --file-size 1M ;;
esac
# A link to this script has the name of an old program.
exec -a "$0" "$ROUNDTRIP" "$@"
"#;

/// The documents whose tables' commands run.
const TABLES_RUN: [&str; 2] = ["README.md", "docs/published-claims.md"];

/// Something to run in a document.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    /// A command line.
    Run(String),
    /// The output that a command must have.
    Output { command: String, shown: Vec<String> },
    /// Skipped on every machine, or without root: what, and why.
    LeftOut { what: String, why: String, root_helps: bool },
}

/// Runs the commands of all documents.
pub(crate) fn check() -> Result<Outcome> {
    // With the features that the tests use; built alone, the package would have different features
    // and be compiled again.
    let _ = cargo(&["test", "--quiet", "--workspace", "--test", "program", "--no-run"])?;
    let program = target_dir().join("debug/roundtrip");
    let root_is_here = is_root();
    let machine = Inputs::new()?.file(&program)?.project(&["fixtures"])?;
    let scratch = Scratch::new()?;
    let (mut ran, mut not_run, mut failed, mut outcomes) = (0, Vec::new(), Vec::new(), Vec::new());
    for file in files()?.into_iter().filter(|file| file == "README.md" || file.starts_with("docs/")) {
        let text =
            std::fs::read_to_string(root().join(&file)).with_context(|| format!("cannot read {file}"))?;
        let items =
            items(&text, root_is_here, TABLES_RUN.contains(&file.as_str())).with_context(|| file.clone())?;
        let mut skipped = Vec::new();
        for (line, item) in &items {
            if let Item::LeftOut { what, why, root_helps } = item {
                let list = if *root_helps { &mut skipped } else { &mut not_run };
                list.push(format!("{file}:{line}: {what}: {why}"));
            }
        }
        let name = format!("commands of {file}");
        let inputs = machine.clone().text(&text);
        if passed::before(&name, &inputs).is_some() {
            outcomes.push(Outcome::Unchanged { parts: 1, of: 1, skipped });
            continue;
        }
        let (count, mut errors) = scratch.run_all(&file, &program, &items)?;
        if !errors.is_empty() {
            // As failed tests are: on a busy machine, a run may have recorded no slow call.
            say(&format!("{file} failed, and is tried again:\n{}", errors.join("\n")));
            (_, errors) = scratch.run_all(&file, &program, &items)?;
        }
        ran += count;
        if errors.is_empty() {
            outcomes.push(Outcome::Skipped(skipped));
            passed::note(&name, &inputs, &Outcome::Passed)?;
        }
        failed.extend(errors);
    }
    say(&format!("{ran} commands of the documents ran; {} are marked as not run:", not_run.len()));
    not_run.iter().for_each(|one| say(&format!("  {one}")));
    if !failed.is_empty() {
        bail!("{} commands of the documents do not work as shown:\n{}", failed.len(), failed.join("\n"));
    }
    Ok(passed::together(&outcomes))
}

/// The items in a document, with their lines.
fn items(text: &str, root_is_here: bool, tables_run: bool) -> Result<Vec<(usize, Item)>> {
    let mut all = Vec::new();
    let mut comments: Vec<&str> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let at = at + 1;
        if let Some(comment) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            comments.push(comment);
            continue;
        }
        if let Some(language) = line.strip_prefix("```") {
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
            match language {
                "sh" => all.extend(commands(&block, &comments, root_is_here).map(|item| (at, item))),
                "" => bail!("line {at}: the block has no language: sh for commands, text for output"),
                _ => all.extend(output(&block, &comments, root_is_here).map(|item| (at, item))),
            }
        } else if line.starts_with('|') {
            all.extend(in_table(line, &comments, root_is_here).filter(|_| tables_run).map(|item| (at, item)));
            // A comment applies to the whole table.
            continue;
        }
        if !line.trim().is_empty() {
            comments.clear();
        }
    }
    Ok(all)
}

/// Why a block is skipped, and whether root would run it.
fn left_out(comments: &[&str], root_is_here: bool) -> Option<(String, bool)> {
    comments.iter().find_map(|comment| match comment.split_once(": ")? {
        ("not run", why) => Some((why.to_owned(), false)),
        ("needs root", why) if !root_is_here => Some((why.to_owned(), true)),
        _ => None,
    })
}

fn commands<'b>(
    block: &'b [&'b str],
    comments: &[&str],
    root_is_here: bool,
) -> impl Iterator<Item = Item> + use<'b> {
    let left_out = left_out(comments, root_is_here);
    let lines = block.iter().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(move |line| match &left_out {
        Some((why, root_helps)) => {
            Item::LeftOut { what: (*line).to_owned(), why: why.clone(), root_helps: *root_helps }
        }
        None => Item::Run((*line).to_owned()),
    })
}

fn output(block: &[&str], comments: &[&str], root_is_here: bool) -> Option<Item> {
    let command = comments.iter().find_map(|comment| comment.strip_prefix("output of: "))?.to_owned();
    if let Some((why, root_helps)) = left_out(comments, root_is_here) {
        return Some(Item::LeftOut { what: format!("output of {command}"), why, root_helps });
    }
    Some(Item::Output { command, shown: block.iter().map(|line| (*line).to_owned()).collect() })
}

/// The commands in a table row: code that starts with `roundtrip`, or with a program in the current
/// folder, and has no placeholders.
fn in_table<'l>(
    row: &'l str,
    comments: &'l [&str],
    root_is_here: bool,
) -> impl Iterator<Item = Item> + use<'l> {
    let code = row
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| code.starts_with("roundtrip ") || code.starts_with("./"));
    let placeholder = |word: &str| word.len() > 1 && word.chars().all(|one| one.is_uppercase() || one == '…');
    code.filter(move |code| !code.split(' ').any(placeholder)).map(move |code| {
        let why = comments.iter().find_map(|comment| {
            let (kind, rest) = comment.split_once(": ")?;
            let root_helps = kind == "needs root";
            let applies = kind == "not run" || (root_helps && !root_is_here);
            let (command, why) = rest.rsplit_once(": ")?;
            (applies && code.starts_with(command)).then(|| (why.to_owned(), root_helps))
        });
        match why {
            Some((why, root_helps)) => Item::LeftOut { what: code.to_owned(), why, root_helps },
            None => Item::Run(code.to_owned()),
        }
    })
}

/// Checks that the program prints every line shown, in order, regardless of figures. The head of a
/// report, which describes the machine, and what `…` stands for are not compared.
fn same_shape(shown: &[String], printed: &str) -> Result<()> {
    let mut left = printed.lines().map(shape);
    for line in shown.iter().filter(|line| !line.is_empty() && line.trim() != "…") {
        let wanted = shape(line);
        if !left.any(|one| one == wanted) {
            bail!(
                "the program does not print '{}', or not at this point; it prints:\n{printed}",
                line.trim()
            );
        }
    }
    Ok(())
}

/// A line without its figures and its spacing.
fn shape(line: &str) -> String {
    let figure = |word: &str| {
        word.trim_start_matches(['(', '+', '-', '[']).starts_with(|one: char| one.is_ascii_digit())
    };
    let unit = |word: &str| {
        ["ns", "us", "ms", "s", "kB/s", "MB/s", "GB/s"].contains(&word.trim_end_matches([',', ';', ')']))
    };
    let mut words: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        let word = match word {
            _ if figure(word) => "0",
            "-" => "0",
            // The unit may change with the figure.
            _ if unit(word) && words.last() == Some(&"0") => continue,
            _ => word,
        };
        words.push(word);
    }
    words.join(" ")
}

/// A temporary folder with the stand-in program, and a folder for each document.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("roundtrip-documents-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("bin")).context("cannot create the scratch folder")?;
        let scratch = Self(folder);
        let script = scratch.0.join("bin/roundtrip");
        std::fs::write(&script, SHORT).context("cannot write the program's stand-in")?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
        Ok(scratch)
    }

    /// An empty folder for a document's commands.
    fn folder(&self, document: &str) -> Result<PathBuf> {
        let folder = self.0.join(document.replace('/', "-"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).context("cannot create a document's folder")?;
        Ok(folder)
    }

    /// Runs the commands of a document. Returns how many ran, and what does not work as shown.
    fn run_all(&self, file: &str, program: &Path, items: &[(usize, Item)]) -> Result<(usize, Vec<String>)> {
        let folder = self.folder(file)?;
        let (mut ran, mut failed) = (0, Vec::new());
        for (line, item) in items {
            let result = match item {
                Item::Run(command) => self.run(&folder, program, command).map(drop),
                Item::Output { command, shown } => {
                    self.run(&folder, program, command).and_then(|output| same_shape(shown, &output))
                }
                Item::LeftOut { .. } => continue,
            };
            ran += 1;
            if let Err(error) = result {
                failed.push(format!("{file}:{line}: {error:#}"));
            }
        }
        Ok((ran, failed))
    }

    /// Runs a command line, and returns its output.
    fn run(&self, folder: &Path, program: &Path, line: &str) -> Result<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths([self.0.join("bin")].into_iter().chain(std::env::split_paths(&path)))?;
        let output = Command::new("bash")
            .args(["-c", line])
            .current_dir(folder)
            .env("PATH", path)
            .env("ROUNDTRIP", program)
            .stdin(Stdio::null())
            .output()
            .context("cannot start bash")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("'{line}' ended with {}: {}", output.status, said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Item {
        Item::Run(line.to_owned())
    }

    fn left_out(what: &str, why: &str, root_helps: bool) -> Item {
        Item::LeftOut { what: what.to_owned(), why: why.to_owned(), root_helps }
    }

    #[test]
    fn commands_in_blocks_and_tables_run_unless_they_are_marked() {
        let text = "```sh\nroundtrip a\n# a remark\n```\n\n<!-- not run: no phone -->\n```sh\nadb b\n```\n\n\
                    <!-- needs root: it records -->\n\n```sh\nc\n```\n\n\
                    <!-- not run: roundtrip trace: it is the machine's -->\n<!-- needs root: roundtrip e: it records -->\n| w | `roundtrip e` |\n| x | `roundtrip d` |\n\
                    | y | `roundtrip trace start` |\n| z | `roundtrip show RUN…`, `./old -i 3` |\n\n```text\nno command\n```\n";
        let found: Vec<Item> = items(text, false, true).unwrap().into_iter().map(|(_, item)| item).collect();
        let expected = [
            run("roundtrip a"),
            left_out("adb b", "no phone", false),
            left_out("c", "it records", true),
            left_out("roundtrip e", "it records", true),
            run("roundtrip d"),
            left_out("roundtrip trace start", "it is the machine's", false),
            run("./old -i 3"),
        ];
        assert_eq!(found, expected);
        assert_eq!(items(text, true, true).unwrap()[2].1, run("c"), "root runs what needs root");
        assert_eq!(items(text, true, false).unwrap().len(), 3, "other documents' tables only name commands");
    }

    #[test]
    fn a_block_without_a_language_is_refused() {
        assert!(items("```\nroundtrip a\n```\n", true, true).is_err());
    }

    #[test]
    fn output_is_compared_except_for_figures() {
        let text = "<!-- output of: roundtrip a -->\n```text\nsize (B)  p50 (us)\n      4      8.1\n```\n";
        let (line, item) = items(text, true, true).unwrap().remove(0);
        let Item::Output { command, shown } = item else { panic!("{item:?}") };
        assert_eq!((line, command.as_str()), (2, "roundtrip a"));
        same_shape(&shown, "head\n\nsize (B) p50 (us)\n   64      120\n").unwrap();
        assert!(same_shape(&shown, "size (B) p99 (us)\n   64      120\n").is_err(), "another column");
        assert!(same_shape(&shown, "   64      120\nsize (B) p50 (us)\n").is_err(), "another order");
    }

    #[test]
    fn a_figure_may_take_another_unit() {
        assert_eq!(
            shape("p50 8.02 us, p99 1.2 ms; 369 kB/s one way"),
            shape("p50 8.02 ns, p99 12 us; 1 MB/s one way")
        );
    }

    #[test]
    fn the_error_output_of_a_failed_command_is_reported() {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.folder("a").unwrap();
        let error = scratch.run(&folder, Path::new("/bin/false"), "echo why >&2; roundtrip x").unwrap_err();
        assert!(error.to_string().ends_with("exit status: 1: why"), "{error}");
        assert_eq!(
            scratch.run(&folder, Path::new("/bin/echo"), "roundtrip ipc workers").unwrap(),
            "ipc workers --iterations 100\n"
        );
    }
}
