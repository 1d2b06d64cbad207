//! Checks documents: the code's documentation builds without warnings, every link in Markdown files
//! leads somewhere, prose is not too wide, and commands and their output are as shown.

pub(crate) mod commands;
pub(crate) mod width;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::outcome::Outcome;
use crate::shell::{cargo_command, output, root, run};

/// Builds the documentation of all crates with warnings denied.
pub(crate) fn rustdoc() -> Result<Outcome> {
    let mut cargo = cargo_command();
    run(cargo.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))
}

/// Checks the links in all Markdown files of the project. Links to other hosts are not followed.
pub(crate) fn links() -> Result<Outcome> {
    let mut broken = Vec::new();
    for file in files()? {
        let path = root().join(&file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
        for (line, target) in targets(&text) {
            if let Err(reason) = follow(&path, target) {
                broken.push(format!("{file}:{line}: {target}: {reason}"));
            }
        }
    }
    if !broken.is_empty() {
        bail!("{} links are broken:\n{}", broken.len(), broken.join("\n"));
    }
    Ok(Outcome::Passed)
}

/// The Markdown files of the project.
fn files() -> Result<Vec<String>> {
    listed("*.md")
}

/// The project's files of this kind.
fn listed(pattern: &str) -> Result<Vec<String>> {
    let files =
        output("git", &["ls-files", pattern]).context("git does not list the files of this project")?;
    // Files that were moved or removed, but not committed, are still listed.
    Ok(files.lines().filter(|file| root().join(file).exists()).map(str::to_owned).collect())
}

/// The lines of a text outside code blocks, with their numbers.
fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((at + 1, line))
    })
}

/// The targets of a text's links, with their lines. Code blocks have no links.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    for (at, line) in outside_fences(text) {
        all.extend(line.split("](").skip(1).filter_map(|rest| Some((at, rest.split_once(')')?.0))));
    }
    all
}

/// Whether a link in `from` leads to a file of the project, and to an existing heading if it names
/// one.
fn follow(from: &Path, target: &str) -> Result<(), String> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return Ok(());
    }
    let (file, heading) =
        target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let path: PathBuf = match file {
        "" => from.to_owned(),
        _ => from.parent().unwrap_or(Path::new(".")).join(file),
    };
    if !path.exists() {
        return Err("no such file".into());
    }
    let Some(heading) = heading else { return Ok(()) };
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let headings = text.lines().filter(|line| line.starts_with('#')).map(anchor);
    if headings.into_iter().any(|one| one == heading) { Ok(()) } else { Err("no such heading".into()) }
}

/// The anchor of a heading: its words in lower case, joined by dashes, without punctuation.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|one| one.is_alphanumeric() || " -_".contains(*one));
    kept.map(|one| if one == ' ' { '-' } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_fences() {
        let text = "See [one](a.md) and [`two`](b.md#c).\n```\n[not](this.md)\n```\n[three](https://x)";
        assert_eq!(targets(text), [(1, "a.md"), (1, "b.md#c"), (5, "https://x")]);
    }

    #[test]
    fn an_anchor_is_made_of_the_words_of_its_heading() {
        assert_eq!(anchor("## What it costs: `read(2)`, twice"), "what-it-costs-read2-twice");
    }

    #[test]
    fn a_link_to_a_missing_file_or_heading_is_reported() {
        let readme = root().join("README.md");
        assert_eq!(follow(&readme, "LICENSE"), Ok(()));
        assert_eq!(follow(&readme, "CONTRIBUTING.md#recipes"), Ok(()));
        assert_eq!(follow(&readme, "no-such-file.md"), Err("no such file".into()));
        assert_eq!(follow(&readme, "CONTRIBUTING.md#no-such-heading"), Err("no such heading".into()));
    }
}
