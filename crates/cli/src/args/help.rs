//! The text of a command's `--help`, from its table: plain text of a given width, at most [`WIDTH`]
//! columns.

use roundtrip_report::text::look::{Look, NARROWEST};

use super::table::{Doc, PositionalsDoc};

/// The preferred width of help.
pub(crate) const WIDTH: usize = 96;
/// The column where an option's description starts.
const INDENT: usize = 28;

/// The width of help on a terminal.
pub(crate) fn width(look: Look) -> usize {
    look.width.map_or(WIDTH, |width| width.clamp(NARROWEST, WIDTH))
}

/// Help on one command, `width` columns wide.
pub(crate) fn command(doc: &Doc, width: usize) -> String {
    let mut out = format!("{}: {}\n\nUsage: {}", doc.invocation(), doc.summary, doc.invocation());
    if doc.options().next().is_some() {
        out.push_str(" [OPTION]...");
    }
    if let Some(PositionalsDoc { usage, .. }) = &doc.positionals {
        out.push_str(&format!(" {usage}"));
    }
    out.push_str("\n\n");
    for paragraph in paragraphs(doc.description) {
        out.push_str(&wrap(&paragraph, 0, width));
        out.push('\n');
    }
    if let Some(rule) = &doc.positionals {
        out.push_str("Arguments:\n");
        entry(&mut out, rule.usage, &rule.words(), width);
        out.push('\n');
    }
    for (heading, options) in &doc.groups {
        out.push_str(&format!("{heading}:\n"));
        for option in options {
            let default = match option.default {
                "" => String::new(),
                default => format!(" [default: {default}]"),
            };
            entry(&mut out, &option.synopsis(), &format!("{}{default}", option.words()), width);
        }
        out.push('\n');
    }
    if !doc.examples.is_empty() {
        out.push_str("Examples:\n");
        for (line, shows) in doc.examples {
            out.push_str(&format!("  {line}\n{}", wrap(shows, 6, width)));
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// A term on the left and its description on the right, or below if the term is too long.
pub(crate) fn entry(out: &mut String, term: &str, words: &str, width: usize) {
    let body = wrap(words, INDENT, width);
    if term.len() + 4 > INDENT {
        out.push_str(&format!("  {term}\n{body}"));
    } else {
        out.push_str(&format!("  {term:<width$}{}", &body[INDENT..], width = INDENT - 2));
    }
}

/// The paragraphs of a text, without its line breaks.
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
        entry(&mut out, "--short", "Words.", WIDTH);
        entry(&mut out, "--an-option-that-is-rather-long N", "Words.", WIDTH);
        assert_eq!(
            out,
            "  --short                   Words.\n  --an-option-that-is-rather-long N\n                            Words.\n"
        );
    }
}
