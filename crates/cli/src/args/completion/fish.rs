//! The completion script for fish, which shows options with their meaning.

use std::fmt::Write as _;

use super::super::table::OptDoc;
use super::super::{Command, Doc, ValueKind};
use super::{Behind, all_words, behind, docs, next_words, prefixes};

/// The script. Load it with `roundtrip completions fish | source`.
pub(crate) fn script(commands: &[&dyn Command], old_names: &[&dyn Command]) -> String {
    let commands = docs(commands);
    let mut out = String::from(
        r#"# fish completion for roundtrip and the names that it answers to
function __roundtrip_typed
    set -l typed (commandline -opc)
    string join -- ' ' $typed[2..] ''
end
function __roundtrip_at
    test (__roundtrip_typed) = (string join -- ' ' $argv '')
end
function __roundtrip_in
    string match -q -- "$argv *" (__roundtrip_typed)
end
function __roundtrip_list
    set -l before (string match -r '.*,' -- (commandline -ct))
    for word in $argv; echo "$before$word"; end
end
complete -c roundtrip -f
"#,
    );
    for prefix in prefixes(&commands) {
        let prefix = prefix.trim_end();
        for word in next_words(&commands, prefix) {
            let path = format!("{prefix} {word}");
            let of = |doc: &&Doc| doc.words() == path.trim_start();
            let summary = commands.iter().find(of).map_or("", |doc| doc.summary);
            let _ = writeln!(
                out,
                "complete -c roundtrip -n '__roundtrip_at {prefix}' -a {word}{}",
                described(summary)
            );
        }
    }
    for doc in &commands {
        options(&mut out, "roundtrip", &format!(" -n '__roundtrip_in {}'", doc.words()), doc, &commands);
    }
    for doc in docs(old_names) {
        let _ = writeln!(out, "complete -c {} -f", doc.words());
        options(&mut out, &doc.words(), "", &doc, &commands);
    }
    out
}

/// The options and arguments of one command.
fn options(out: &mut String, program: &str, condition: &str, doc: &Doc, commands: &[Doc]) {
    let mut complete = |what: String| {
        let _ = writeln!(out, "complete -c {program}{condition}{what}");
    };
    for option in doc.options() {
        let value = match behind(option) {
            Behind::Nothing => String::new(),
            Behind::Word(words) => format!(" -x -a '{}'", words.join(" ")),
            Behind::List(words) => format!(" -x -a '(__roundtrip_list {})'", words.join(" ")),
            Behind::File => " -r -F".to_owned(),
            Behind::Any => " -x".to_owned(),
        };
        complete(format!("{}{value}{}", names(option), described(first_sentence(option.help))));
    }
    complete(" -l help -d 'explains the command'".to_owned());
    match doc.positionals.as_ref().map(|rule| rule.kind) {
        Some(ValueKind::Path) => complete(" -F".to_owned()),
        Some(ValueKind::OneOf(words) | ValueKind::ListOf(words)) => {
            complete(format!(" -a '{}'", words.join(" ")));
        }
        Some(ValueKind::Text | ValueKind::Number) => complete(format!(" -a '{}'", all_words(commands))),
        None => {}
    }
}

/// An option's names in fish's terms: short, long, or long with one dash.
fn names(option: &OptDoc) -> String {
    let name = |name: &&'static str| match (name.strip_prefix("--"), &name[1..]) {
        (Some(long), _) => format!(" -l {long}"),
        (None, short) if short.chars().count() == 1 => format!(" -s {short}"),
        (None, old_style) => format!(" -o {old_style}"),
    };
    option.names.iter().map(name).collect()
}

fn described(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!(" -d '{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn first_sentence(help: &str) -> &str {
    help.split_once(". ").map_or(help, |(first, _)| first).trim_end_matches('.')
}
