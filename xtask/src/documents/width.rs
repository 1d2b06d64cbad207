//! Checks that prose in the Markdown files is at most 100 columns wide. Tables, code blocks, images and the targets of
//! links may be wider: they cannot be wrapped.

use anyhow::{Context as _, Result, bail};

use super::{files, outside_fences};
use crate::outcome::Outcome;
use crate::shell::root;

/// Columns that a line of prose may have.
const WIDTH: usize = 100;

/// Checks every Markdown file of the project.
pub(crate) fn check() -> Result<Outcome> {
    let mut wide = Vec::new();
    for file in files()? {
        let text =
            std::fs::read_to_string(root().join(&file)).with_context(|| format!("cannot read {file}"))?;
        wide.extend(too_wide(&text).map(|(line, columns)| format!("{file}:{line}: {columns} columns")));
    }
    if !wide.is_empty() {
        bail!("{} lines of prose are wider than {WIDTH} columns:\n{}", wide.len(), wide.join("\n"));
    }
    Ok(Outcome::Passed)
}

/// The lines of prose that are too wide, with their columns.
fn too_wide(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let prose =
        outside_fences(text).filter(|(_, line)| !["|", "![", "<"].iter().any(|it| line.starts_with(it)));
    prose
        .map(|(at, line)| (at, without_targets(line).chars().count()))
        .filter(|(_, columns)| *columns > WIDTH)
}

/// A line without the targets of its links.
fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push(']');
        out.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_prose_that_can_be_wrapped_counts() {
        let wide = "x ".repeat(60);
        let text = format!("| {wide}\n```sh\n{wide}\n```\n[a]({wide}) b\n{wide}\nshort");
        assert_eq!(too_wide(&text).collect::<Vec<_>>(), [(6, 120)]);
    }
}
