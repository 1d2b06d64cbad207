//! Text and tables in Markdown, with foreign text escaped. Must not know what the data means.

use std::fmt::Write as _;

use crate::text::inert;

/// Text in a table cell or in a sentence.
pub(crate) fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in inert::line(text).chars() {
        if matches!(c, '|' | '\\' | '`' | '*' | '_' | '<' | '&' | '[' | ']' | '@' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A command in a cell, which users can copy. In a code span, only the characters that end the cell
/// or the span are special.
pub(crate) fn code(command: &str) -> String {
    let command = inert::line(command).replace('|', "\\|");
    if command.contains('`') { format!("`` {command} ``") } else { format!("`{command}`") }
}

/// A table. Each column has a header and a flag that says whether it contains numbers. The rows
/// contain inert text.
pub(crate) fn table<'a>(
    columns: impl Iterator<Item = (String, bool)>,
    rows: impl IntoIterator<Item = &'a Vec<String>>,
) -> String {
    let (mut head, mut sides) = (String::from("|"), String::from("|"));
    for (header, number) in columns {
        let _ = write!(head, " {} |", cell(header.trim()));
        sides.push_str(if number { "--:|" } else { "---|" });
    }
    let mut out = format!("{head}\n{sides}\n");
    for row in rows {
        let cells: Vec<String> = row.iter().map(|text| cell(text.trim())).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_escaped_in_markdown() {
        assert_eq!(cell("a|b <i> *c* [d](e) \u{1b}[2J"), "a\\|b \\<i> \\*c\\* \\[d\\](e) \\\\u001b\\[2J");
        assert_eq!(code("echo a | tee `b`"), "`` echo a \\| tee `b` ``");
        assert_eq!(code("sysctl -w a=1"), "`sysctl -w a=1`");
    }

    #[test]
    fn numbers_are_right_aligned() {
        let columns = [("name", false), ("p50 (us)", true)].map(|(name, number)| (name.to_owned(), number));
        let rows = [vec!["a|b".to_owned(), "1.5".to_owned()]];
        assert_eq!(table(columns.into_iter(), &rows), "| name | p50 (us) |\n|---|--:|\n| a\\|b | 1.5 |\n");
    }
}
