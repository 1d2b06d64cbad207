//! Manual pages in `man(7)` macros, from the tables.

use super::help::paragraphs;
use super::{Command, Doc, Kind};

/// The page of one command.
pub(crate) fn command(doc: &Doc, version: &str) -> String {
    let mut out = title(&doc.invocation().replace(' ', "-"), version);
    section(&mut out, "NAME");
    line(&mut out, &format!("{} - {}", doc.invocation().replace(' ', "-"), doc.summary));
    section(&mut out, "SYNOPSIS");
    let options = if doc.options().next().is_some() { " [OPTION]..." } else { "" };
    let positionals = doc.positionals.as_ref().map(|rule| format!(" {}", rule.usage)).unwrap_or_default();
    out.push_str(&format!(".B {}\n", escape(&doc.invocation())));
    line(&mut out, format!("{options}{positionals}").trim_start());
    section(&mut out, "DESCRIPTION");
    for paragraph in paragraphs(doc.description) {
        out.push_str(".PP\n");
        line(&mut out, &paragraph);
    }
    if let Some(rule) = &doc.positionals {
        term(&mut out, rule.usage, &rule.words());
    }
    for (heading, options) in &doc.groups {
        section(&mut out, &heading.to_uppercase());
        for option in options {
            let default = match option.default {
                "" => String::new(),
                default => format!(" Default: {default}."),
            };
            term(&mut out, &option.synopsis(), &format!("{}{default}", option.words()));
        }
    }
    if !doc.examples.is_empty() {
        section(&mut out, "EXAMPLES");
        for (example, shows) in doc.examples {
            term(&mut out, example, shows);
        }
    }
    exit_status(&mut out);
    out
}

/// The page of the whole program.
pub(crate) fn program(version: &str, commands: &[&dyn Command], old_names: &[&dyn Command]) -> String {
    let mut out = title("roundtrip", version);
    section(&mut out, "NAME");
    line(&mut out, "roundtrip - shows where the time goes in Binder calls and synchronous writes");
    section(&mut out, "SYNOPSIS");
    out.push_str(".B roundtrip\n");
    line(&mut out, "COMMAND [OPTION]...");
    section(&mut out, "COMMANDS");
    list(&mut out, commands);
    if !old_names.is_empty() {
        section(&mut out, "OTHER NAMES");
        line(
            &mut out,
            "Called by one of these names, roundtrip takes that program's flags and prints its \
             format.",
        );
        list(&mut out, old_names);
    }
    exit_status(&mut out);
    out
}

/// The page of the commands with the same first words.
pub(crate) fn group(words: &str, version: &str, commands: &[&dyn Command]) -> String {
    let name = format!("roundtrip-{}", words.replace(' ', "-"));
    let mut out = title(&name, version);
    section(&mut out, "NAME");
    let rest =
        |doc: &Doc| doc.words().split(' ').skip(words.split(' ').count()).collect::<Vec<_>>().join(" ");
    let all: Vec<_> = commands.iter().map(|command| rest(&command.doc())).collect();
    line(&mut out, &format!("{name} - the commands {}", all.join(", ")));
    section(&mut out, "SYNOPSIS");
    out.push_str(&format!(".B roundtrip {}\n", escape(words)));
    line(&mut out, "COMMAND [OPTION]...");
    section(&mut out, "COMMANDS");
    list(&mut out, commands);
    section(&mut out, "SEE ALSO");
    let pages = commands.iter().map(|command| format!("{}(1)", command.doc().invocation().replace(' ', "-")));
    line(&mut out, &pages.collect::<Vec<_>>().join(", "));
    exit_status(&mut out);
    out
}

fn list(out: &mut String, commands: &[&dyn Command]) {
    for doc in commands.iter().map(|command| command.doc()).filter(|doc| doc.kind != Kind::Hidden) {
        term(out, &doc.words(), doc.summary);
    }
}

fn exit_status(out: &mut String) {
    section(out, "EXIT STATUS");
    term(out, "0", "The command succeeded.");
    term(out, "1", "It failed; the reason is on standard error.");
    term(out, "2", "Invalid usage.");
    term(out, "3", "The result is complete, but violates a gate or a requirement.");
    term(out, "130, 143", "Ctrl-C or SIGTERM ended it; what was measured until then is printed and stored.");
}

fn title(name: &str, version: &str) -> String {
    format!(".TH {} 1 \"\" \"roundtrip {version}\" \"User Commands\"\n", escape(&name.to_uppercase()))
}

fn section(out: &mut String, heading: &str) {
    out.push_str(&format!(".SH {heading}\n"));
}

fn term(out: &mut String, term: &str, words: &str) {
    out.push_str(&format!(".TP\n.B {}\n", escape(term)));
    line(out, words);
}

fn line(out: &mut String, text: &str) {
    out.push_str(&escape(text));
    out.push('\n');
}

/// Escapes characters that are special in roff: backslashes, dashes that must stay dashes, and a
/// control character at the start.
fn escape(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roff_sees_no_request_and_no_escape_in_plain_text() {
        assert_eq!(escape(".x \\n --y"), "\\&.x \\en \\-\\-y");
    }
}
