//! Completion scripts for bash and zsh, which differ in how a function gets the typed words and
//! returns its answer.

use std::fmt::Write as _;

use roundtrip_sorting::SmallSort as _;

use super::super::{Command, Doc, ValueKind};
use super::{Behind, all_words, behind, docs, next_words, prefixes};

/// What differs between the shells.
struct Shell {
    /// The start of the script: functions that return words, words of a list, and files.
    answers: &'static str,
    /// The start of each function. It sets `typed` to the words before the cursor with a space
    /// after each, `previous` to the last of these, and `current` to the word at the cursor.
    typed: &'static str,
    /// The command that registers a function for a program.
    register: &'static str,
}

/// The script for bash. Load it with `source <(roundtrip completions bash)`.
pub(crate) fn bash(commands: &[&dyn Command], old_names: &[&dyn Command]) -> String {
    let shell = Shell {
        answers: r#"# bash completion for roundtrip and the names that it answers to
_roundtrip_words() { COMPREPLY=($(compgen -W "$1" -- "$current")); }
_roundtrip_list() {
  local before=""
  case $current in *,*) before=${current%,*}, ;; esac
  compopt -o nospace 2>/dev/null
  COMPREPLY=($(compgen -P "$before" -W "$1" -- "${current##*,}"))
}
_roundtrip_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")); }
"#,
        typed: r#"  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} typed="" i
  for ((i = 1; i < COMP_CWORD; i++)); do typed+="${COMP_WORDS[i]} "; done
  COMPREPLY=()
"#,
        register: "complete -F",
    };
    script(&shell, commands, old_names)
}

/// The script for zsh, after `compinit`. Load it with `source <(roundtrip completions zsh)`.
pub(crate) fn zsh(commands: &[&dyn Command], old_names: &[&dyn Command]) -> String {
    let shell = Shell {
        answers: r#"# zsh completion for roundtrip and the names that it answers to
_roundtrip_words() { compadd -- ${=1}; }
_roundtrip_list() { compset -P '*,'; compadd -S '' -- ${=1}; }
_roundtrip_files() { _files; }
"#,
        typed: r#"  local current=$PREFIX previous=${words[CURRENT-1]} typed="" i
  for ((i = 2; i < CURRENT; i++)); do typed+="${words[i]} "; done
"#,
        register: "compdef",
    };
    script(&shell, commands, old_names)
}

fn script(shell: &Shell, commands: &[&dyn Command], old_names: &[&dyn Command]) -> String {
    let commands = docs(commands);
    let mut out = format!("{}_roundtrip() {{\n{}  case $typed in\n", shell.answers, shell.typed);
    // Longest first, so that no path is hidden by its own prefix.
    let mut by_length: Vec<&Doc> = commands.iter().collect();
    by_length.small_sort_by_key(|doc| std::cmp::Reverse(doc.path.len()));
    for doc in by_length {
        let _ = writeln!(out, "  '{} '*)", doc.words());
        body(&mut out, doc, &commands);
        out.push_str("    ;;\n");
    }
    for group in prefixes(&commands) {
        let mut words = next_words(&commands, &group);
        words.insert("--help");
        if group.is_empty() {
            words.insert("--version");
        }
        let words: Vec<&str> = words.into_iter().collect();
        let _ = writeln!(out, "  '{group}') _roundtrip_words '{}' ;;", words.join(" "));
    }
    let _ = write!(out, "  esac\n}}\n{} _roundtrip roundtrip\n", shell.register);
    for doc in docs(old_names) {
        let function = format!("_roundtrip_{}", doc.words().replace('-', "_"));
        let _ = write!(out, "{function}() {{\n{}", shell.typed);
        body(&mut out, &doc, &commands);
        let _ = writeln!(out, "}}\n{} {function} {}", shell.register, doc.words());
    }
    out
}

/// Completes within a command: the value of the flag before the cursor, else a flag or an argument.
fn body(out: &mut String, doc: &Doc, commands: &[Doc]) {
    out.push_str("    case $previous in\n");
    for option in doc.options() {
        let names: Vec<String> = option.names.iter().map(|name| format!("'{name}'")).collect();
        let names = names.join("|");
        let action = match behind(option) {
            Behind::Nothing => continue,
            Behind::Word(words) => format!("_roundtrip_words '{}'", words.join(" ")),
            Behind::List(words) => format!("_roundtrip_list '{}'", words.join(" ")),
            Behind::File => "_roundtrip_files".to_owned(),
            Behind::Any => ":".to_owned(),
        };
        let _ = writeln!(out, "    {names}) {action}; return ;;");
    }
    let flags: Vec<&str> = doc.options().flat_map(|option| option.names).copied().chain(["--help"]).collect();
    let flags = flags.join(" ");
    out.push_str("    esac\n");
    let _ = match doc.positionals.as_ref().map(|rule| rule.kind) {
        Some(ValueKind::Path) => {
            writeln!(
                out,
                "    case $current in -*) _roundtrip_words '{flags}' ;; *) _roundtrip_files ;; esac"
            )
        }
        Some(ValueKind::OneOf(words) | ValueKind::ListOf(words)) => {
            writeln!(out, "    _roundtrip_words '{} {flags}'", words.join(" "))
        }
        // Commands with free text arguments take the names of commands.
        Some(ValueKind::Text | ValueKind::Number) => {
            writeln!(out, "    _roundtrip_words '{} {flags}'", all_words(commands))
        }
        None => writeln!(out, "    _roundtrip_words '{flags}'"),
    };
}
