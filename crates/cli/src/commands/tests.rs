//! Checks all tables, and the documents generated from them.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command as Process, Stdio};

use roundtrip_skips::{Need, skip};

use super::*;
use crate::args::{self, ValueKind};
use crate::old_names;

fn documents() -> Vec<Doc> {
    ALL.iter().chain(old_names::ALL).map(|command| command.doc()).collect()
}

#[test]
fn no_two_commands_and_no_two_options_of_one_share_a_name() {
    let mut paths = BTreeSet::new();
    for doc in documents() {
        assert!(paths.insert(doc.path), "{} is registered twice", doc.words());
        let mut names = BTreeSet::new();
        for name in doc.options().flat_map(|option| option.names) {
            assert!(names.insert(name), "{}: {name} is there twice", doc.words());
            assert!(name.starts_with('-') && name.len() > 1, "{}: {name} has no dash", doc.words());
        }
    }
}

#[test]
fn every_option_says_what_it_does_in_sentences() {
    for doc in documents() {
        assert!(!doc.summary.ends_with('.') && !doc.summary.is_empty(), "{}: {}", doc.words(), doc.summary);
        assert!(doc.description.ends_with('.'), "{}", doc.words());
        for option in doc.options() {
            assert!(option.help.ends_with('.'), "{} {:?}: {}", doc.words(), option.names, option.help);
        }
    }
}

#[test]
fn every_command_that_has_formats_has_json_csv_and_markdown() {
    let mut commands = 0;
    for command in ALL {
        let doc = command.doc();
        let formats =
            doc.options().find(|option| option.names.contains(&"--format")).map(|option| option.kind);
        let Some(ValueKind::OneOf(words)) = formats else { continue };
        commands += 1;
        for word in ["json", "csv", "markdown"] {
            assert!(words.contains(&word), "{} does not print {word}", doc.words());
        }
    }
    assert!(commands >= 13, "{commands}");
}

#[test]
fn every_help_text_fits_a_terminal() {
    let texts = documents()
        .iter()
        .map(|doc| args::command_help(doc, 96))
        .chain([args::program_help("0", ALL, old_names::ALL, 96)])
        .collect::<Vec<_>>();
    for text in texts {
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn help_on_a_command_reads_like_this() {
    insta::assert_snapshot!(args::command_help(&super::man::COMMAND.doc(), 96));
}

#[test]
fn the_manual_page_of_a_command_reads_like_this() {
    insta::assert_snapshot!(args::command_man(&super::man::COMMAND.doc(), "1.2.3"));
}

#[test]
fn the_manual_page_of_a_group_reads_like_this() {
    insta::assert_snapshot!(args::group_man("service", "1.2.3", &beginning_with(&["service"])));
}

#[test]
fn help_and_manual_pages_name_every_word_that_an_option_takes() {
    let mut tried = 0;
    for doc in documents() {
        let (help, page) = (args::command_help(&doc, 96), args::command_man(&doc, "0").replace("\\-", "-"));
        for option in doc.options() {
            let (ValueKind::OneOf(words) | ValueKind::ListOf(words)) = option.kind else { continue };
            for word in words.iter().filter(|_| option.value.is_some_and(|(_, must)| must)) {
                let text = option.words();
                let named = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
                let is_named = text.split(named).any(|one| one.trim_end_matches('.') == *word);
                assert!(is_named, "{} {:?}: {word} is not in: {text}", doc.words(), option.names);
                let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(flat(&help).contains(&flat(&text)) && flat(&page).contains(&flat(&text)), "{text}");
                tried += 1;
            }
        }
    }
    assert!(tried > 60, "{tried}");
}

#[test]
fn every_word_that_an_option_is_said_to_take_is_taken() {
    for command in ALL.iter().chain(old_names::ALL) {
        let doc = command.doc();
        for option in doc.options().filter(|option| option.value.is_some_and(|(_, must)| must)) {
            let (ValueKind::OneOf(words) | ValueKind::ListOf(words)) = option.kind else { continue };
            for word in words {
                let refused = command.check(vec![option.names[0].into(), (*word).into()]).err();
                let of_word = refused.filter(|usage| usage.to_string().contains(word));
                assert_eq!(of_word, None, "{} {:?}", doc.words(), option.names);
            }
        }
    }
}

/// Runs a program with this standard input and returns its output. The program must succeed.
fn fed(program: &str, args: &[&str], script: &str) -> String {
    let mut child = Process::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it is installed");
    child.stdin.take().expect("piped").write_all(script.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{program}: {} {said}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Command lines, expected completions of the last word, and whether these are all completions.
const COMPLETED: [(&str, &[&str], bool); 9] = [
    ("roundtrip compl", &["completions"], true),
    ("roundtrip completions ", &["bash", "fish", "zsh"], false),
    ("roundtrip ipc ", &["baseline", "latency", "throughput", "traits", "workers"], false),
    ("roundtrip ipc latency --placement s", &["same", "split"], true),
    ("roundtrip ipc latency --ra", &["--rate", "--raw-samples"], true),
    ("roundtrip ipc baseline --placements same,sp", &["same,split"], true),
    ("roundtrip storage layers --durability ", &["sync", "dsync", "fsync", "fdatasync"], false),
    ("roundtrip man --h", &["--help"], true),
    ("roundtrip ", &["help", "survey", "storage"], false),
];

/// Asks a shell for completions of each line, and compares them with the expected ones.
fn completes(shell: &str, ask: impl Fn(&str) -> String) {
    for (line, expected, all) in COMPLETED {
        let answer = ask(line);
        let mut answers: Vec<&str> =
            answer.lines().map(|line| line.split('\t').next().unwrap_or_default().trim()).collect();
        answers.sort_unstable();
        assert!(expected.iter().all(|one| answers.contains(one)), "{shell}: {line}: {answers:?}");
        assert!(!all || answers.len() == expected.len(), "{shell}: {line}: {answers:?}");
    }
}

fn words_of(line: &str) -> String {
    line.split(' ').map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

#[test]
fn bash_accepts_the_script_and_completes_with_it() {
    let script = args::bash_completion(ALL, old_names::ALL);
    completes("bash", |line| {
        let program = format!(
            "{script}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_roundtrip\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            words_of(line),
            line.split(' ').count() - 1
        );
        fed("bash", &["--norc", "-s"], &program)
    });
    // The script registers a function for each name.
    let registered = fed("bash", &["--norc", "-s"], &format!("{script}\ncomplete -p roundtrip schd-dbg\n"));
    assert_eq!(registered, "complete -F _roundtrip roundtrip\ncomplete -F _roundtrip_schd_dbg schd-dbg\n");
}

#[test]
fn zsh_accepts_the_script_and_completes_with_it() {
    if !Need::Program("zsh").is_met() {
        return skip(Need::Program("zsh"), "its completions are not tried");
    }
    let script = args::zsh_completion(ALL, old_names::ALL);
    // zsh completes only in its line editor. These stubs print the completions instead.
    let stubs = r#"
compdef() { :; }
_files() { print -l FILES; }
compset() { before=${PREFIX%,*},; [[ $PREFIX == *,* ]] || before=""; PREFIX=${PREFIX##*,}; }
compadd() {
  while [[ $1 != -- ]]; do shift; done; shift
  for word in "$@"; do [[ $word == $PREFIX* ]] && print -r -- "$before$word"; done; true
}
"#;
    completes("zsh", |line| {
        let count = line.split(' ').count();
        let last = line.rsplit(' ').next().unwrap_or_default();
        let program = format!(
            "{stubs}{script}\nwords=({}) CURRENT={count} PREFIX='{last}' before=''\n_roundtrip\n",
            words_of(line)
        );
        fed("zsh", &["-f", "-s"], &program)
    });
}

#[test]
fn fish_accepts_the_script_and_completes_with_it() {
    if !Need::Program("fish").is_met() {
        return skip(Need::Program("fish"), "its completions are not tried");
    }
    let script = args::fish_completion(ALL, old_names::ALL);
    completes("fish", |line| fed("fish", &["--no-config"], &format!("{script}\ncomplete -C '{line}'\n")));
}
