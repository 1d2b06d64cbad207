//! Checks that prose in Markdown files and in Rust comments has at most 100 columns. Tables, code
//! blocks, images and link targets may be wider, because they cannot be wrapped.

use anyhow::{Context as _, Result, bail};

use super::{files, listed, outside_fences};
use crate::outcome::Outcome;
use crate::shell::root;

/// The maximum width of a line of prose.
const WIDTH: usize = 100;

/// Checks all Markdown files of the project, and the comments of all Rust files.
pub(crate) fn check() -> Result<Outcome> {
    let mut wide = Vec::new();
    let mut note = |file: &str, prose: fn(&str) -> String| {
        let text =
            std::fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))?;
        let prose = prose(&text);
        wide.extend(too_wide(&prose).map(|(line, columns)| format!("{file}:{line}: {columns} columns")));
        anyhow::Ok(())
    };
    for file in files()? {
        note(&file, str::to_owned)?;
    }
    for file in listed("*.rs")? {
        note(&file, comments)?;
    }
    if !wide.is_empty() {
        bail!("{} lines of prose are wider than {WIDTH} columns:\n{}", wide.len(), wide.join("\n"));
    }
    Ok(Outcome::Passed)
}

/// The comments of a Rust file, with each line in its place and as wide: the comment marks are
/// replaced by spaces, so that tables and code blocks are recognised.
fn comments(text: &str) -> String {
    let comment = |line: &str| {
        let text = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']);
        let width = line.chars().count() - text.chars().count();
        Some(" ".repeat(width) + text)
    };
    text.lines().map(|line| comment(line).unwrap_or_default() + "\n").collect()
}

/// The lines of prose that are too wide, with their columns.
fn too_wide(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let prose = outside_fences(text)
        .filter(|(_, line)| !["|", "![", "<"].iter().any(|it| line.trim_start().starts_with(it)));
    prose
        .map(|(at, line)| (at, without_targets(line).chars().count()))
        .filter(|(_, columns)| *columns > WIDTH)
}

/// A line without link targets.
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
    fn only_prose_that_can_be_wrapped_is_checked() {
        let wide = "x ".repeat(60);
        let text = format!("| {wide}\n```sh\n{wide}\n```\n[a]({wide}) b\n{wide}\nshort");
        assert_eq!(too_wide(&text).collect::<Vec<_>>(), [(6, 120)]);
    }

    #[test]
    fn only_the_comments_of_a_rust_file_are_checked() {
        let wide = "x ".repeat(60);
        let text = format!("let a = \"{wide}\";\n    /// {wide}\n//! ```\n//! {wide}\n//! ```\n/// | {wide}");
        assert_eq!(too_wide(&comments(&text)).collect::<Vec<_>>(), [(2, 128)]);
    }
}
