//! A completion script for bash, from the table: commands, flags, and the words that a flag's value can be.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Command, Doc, Kind, ValueKind};

/// The script for the program and its old names. Load it with `source <(roundtrip completions bash)`.
pub(crate) fn bash(commands: &[&dyn Command], old_names: &[&dyn Command]) -> String {
    let docs = |list: &[&dyn Command]| -> Vec<Doc> {
        list.iter().map(|command| command.doc()).filter(|doc| doc.kind != Kind::Hidden).collect()
    };
    let commands = docs(commands);
    let mut out = String::from(
        r#"# bash completion for roundtrip and the names that it answers to
_roundtrip_words() { COMPREPLY=($(compgen -W "$1" -- "${COMP_WORDS[COMP_CWORD]}")); }
_roundtrip_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")); }
_roundtrip() {
  local previous=${COMP_WORDS[COMP_CWORD-1]} words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do words+="${COMP_WORDS[i]} "; done
  COMPREPLY=()
  case $words in
"#,
    );
    // Longer paths first, so that none is hidden by its own beginning.
    let mut by_length: Vec<&Doc> = commands.iter().collect();
    by_length.sort_by_key(|doc| std::cmp::Reverse(doc.path.len()));
    for doc in by_length {
        let _ = writeln!(out, "  '{} '*)", doc.words());
        body(&mut out, doc, &commands);
        out.push_str("    ;;\n");
    }
    for group in prefixes(&commands) {
        let _ = writeln!(out, "  '{group}') _roundtrip_words '{}' ;;", next_words(&commands, &group));
    }
    out.push_str("  esac\n}\ncomplete -F _roundtrip roundtrip\n");
    for doc in docs(old_names) {
        let function = format!("_roundtrip_{}", doc.words().replace('-', "_"));
        let _ =
            writeln!(out, "{function}() {{\n  local previous=${{COMP_WORDS[COMP_CWORD-1]}}\n  COMPREPLY=()");
        body(&mut out, &doc, &commands);
        let _ = writeln!(out, "}}\ncomplete -F {function} {}", doc.words());
    }
    out
}

/// What completes inside a command: the value of the flag before the cursor, else a flag or an argument.
fn body(out: &mut String, doc: &Doc, commands: &[Doc]) {
    out.push_str("    case $previous in\n");
    for option in doc.options() {
        let names: Vec<String> = option.names.iter().map(|name| format!("'{name}'")).collect();
        let names = names.join("|");
        let action = match (option.value, option.kind) {
            (None, _) | (Some((_, false)), _) => continue,
            (_, ValueKind::OneOf(words)) => format!("_roundtrip_words '{}'", words.join(" ")),
            (_, ValueKind::Path) => "_roundtrip_files".to_owned(),
            (_, ValueKind::Text | ValueKind::Number) => ":".to_owned(),
        };
        let _ = writeln!(out, "    {names}) {action}; return ;;");
    }
    let flags: Vec<&str> = doc.options().flat_map(|option| option.names).copied().chain(["--help"]).collect();
    let flags = flags.join(" ");
    out.push_str("    esac\n");
    match doc.positionals.as_ref().map(|rule| rule.kind) {
        Some(ValueKind::Path) => {
            let _ = writeln!(
                out,
                "    case ${{COMP_WORDS[COMP_CWORD]}} in -*) _roundtrip_words '{flags}' ;; *) _roundtrip_files ;; esac"
            );
        }
        Some(ValueKind::OneOf(words)) => {
            let _ = writeln!(out, "    _roundtrip_words '{} {flags}'", words.join(" "));
        }
        // Commands that take free words are those about commands.
        Some(ValueKind::Text | ValueKind::Number) => {
            let words: BTreeSet<&str> = commands.iter().flat_map(|doc| doc.path).copied().collect();
            let words: Vec<&str> = words.into_iter().collect();
            let _ = writeln!(out, "    _roundtrip_words '{} {flags}'", words.join(" "));
        }
        None => {
            let _ = writeln!(out, "    _roundtrip_words '{flags}'");
        }
    }
}

/// All beginnings of commands, each with a space behind every word: "", "ipc ".
fn prefixes(commands: &[Doc]) -> BTreeSet<String> {
    let begin = |doc: &Doc, n: usize| doc.path[..n].iter().map(|word| format!("{word} ")).collect();
    commands.iter().flat_map(|doc| (0..doc.path.len()).map(move |n| begin(doc, n))).collect()
}

fn next_words(commands: &[Doc], prefix: &str) -> String {
    let n = prefix.split_whitespace().count();
    let words: BTreeSet<&str> = commands
        .iter()
        .filter(|doc| format!("{} ", doc.words()).starts_with(prefix))
        .filter_map(|doc| doc.path.get(n).copied())
        .chain((n == 0).then_some(["--help", "--version"]).into_iter().flatten())
        .collect();
    words.into_iter().collect::<Vec<_>>().join(" ")
}
