//! The text of `--help`, from the table. Writes plain text of at most [`WIDTH`] columns.

use super::table::PositionalsDoc;
use super::{Command, Doc, Kind};

/// Columns that help fits into.
const WIDTH: usize = 96;
/// Where an option's words begin.
const INDENT: usize = 28;

/// Help on one command.
pub(crate) fn command(doc: &Doc) -> String {
    let mut out = format!("{}: {}\n\nUsage: {}", doc.invocation(), doc.summary, doc.invocation());
    if doc.options().next().is_some() {
        out.push_str(" [OPTION]...");
    }
    if let Some(PositionalsDoc { usage, .. }) = &doc.positionals {
        out.push_str(&format!(" {usage}"));
    }
    out.push_str("\n\n");
    for paragraph in paragraphs(doc.description) {
        out.push_str(&wrap(&paragraph, 0, WIDTH));
        out.push('\n');
    }
    if let Some(PositionalsDoc { usage, help, .. }) = &doc.positionals {
        out.push_str("Arguments:\n");
        entry(&mut out, usage, help);
        out.push('\n');
    }
    for (heading, options) in &doc.groups {
        out.push_str(&format!("{heading}:\n"));
        for option in options {
            let default = match option.default {
                "" => String::new(),
                default => format!(" [default: {default}]"),
            };
            entry(&mut out, &option.synopsis(), &format!("{}{default}", option.help));
        }
        out.push('\n');
    }
    if !doc.examples.is_empty() {
        out.push_str("Examples:\n");
        for (line, shows) in doc.examples {
            out.push_str(&format!("  {line}\n{}", wrap(shows, 6, WIDTH)));
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Help on the whole program.
pub(crate) fn program(version: &str, commands: &[&dyn Command], old_names: &[&dyn Command]) -> String {
    let mut out = format!(
        "roundtrip {version}: shows where the time goes in Binder calls and synchronous writes\n\n\
         Usage: roundtrip COMMAND [OPTION]...\n\nCommands:\n"
    );
    list(&mut out, commands);
    if !old_names.is_empty() {
        out.push_str(
            "\nCalled by one of these names, roundtrip takes that program's flags and prints its \
             format:\n",
        );
        list(&mut out, old_names);
    }
    out.push_str(
        "\n'roundtrip COMMAND --help' explains one command; 'roundtrip --version' prints \
                  the version.\n",
    );
    out
}

/// Help on the commands that share their first words.
pub(crate) fn group(words: &str, commands: &[&dyn Command]) -> String {
    let mut out = format!("Usage: roundtrip {words} COMMAND [OPTION]...\n\nCommands:\n");
    list(&mut out, commands);
    out.push_str(&format!("\n'roundtrip {words} COMMAND --help' explains one command.\n"));
    out
}

fn list(out: &mut String, commands: &[&dyn Command]) {
    for doc in commands.iter().map(|command| command.doc()).filter(|doc| doc.kind != Kind::Hidden) {
        entry(out, &doc.words(), doc.summary);
    }
}

/// A term on the left and its words on the right, below it where the term is too long.
fn entry(out: &mut String, term: &str, words: &str) {
    let body = wrap(words, INDENT, WIDTH);
    if term.len() + 4 > INDENT {
        out.push_str(&format!("  {term}\n{body}"));
    } else {
        out.push_str(&format!("  {term:<width$}{}", &body[INDENT..], width = INDENT - 2));
    }
}

/// Paragraphs of a text whose line breaks mean nothing.
pub(super) fn paragraphs(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|paragraph| !paragraph.is_empty())
}

fn wrap(text: &str, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            column = 0;
        }
        if column == 0 {
            out.push_str(&" ".repeat(indent));
            column = indent + length;
        } else {
            out.push(' ');
            column += 1 + length;
        }
        out.push_str(word);
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_wrap_at_the_width_and_never_break() {
        assert_eq!(wrap("aa bb cc", 2, 7), "  aa bb\n  cc\n");
        assert_eq!(wrap("aaaaaaaaaa b", 0, 4), "aaaaaaaaaa\nb\n");
    }

    #[test]
    fn a_long_term_stands_on_its_own_line() {
        let mut out = String::new();
        entry(&mut out, "--short", "Words.");
        entry(&mut out, "--an-option-that-is-rather-long N", "Words.");
        assert_eq!(
            out,
            "  --short                   Words.\n  --an-option-that-is-rather-long N\n                            Words.\n"
        );
    }
}
