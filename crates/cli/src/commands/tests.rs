//! Checks that every table must pass, whoever wrote it, and the documents that come from the tables.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command as Process, Stdio};

use super::*;
use crate::args;
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
        for name in doc.options().flat_map(|option| option.names.iter().chain(option.old_names)) {
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
fn earlier_names_still_work_and_help_shows_only_the_new_ones() {
    let named =
        |words: &[&str]| ALL.iter().find(|command| command.doc().path == words).expect("is registered");
    for (words, line) in [
        (&["ipc", "floor"][..], "--sizes 4"),
        (&["ipc", "throughput"], "--lending pi-futex"),
        (&["storage", "interference"], "--neighbours hog-same"),
    ] {
        let line = line.split(' ').map(Into::into).collect();
        assert!(named(words).check(line).is_ok(), "{words:?}");
    }
    let program = args::program_help("0", ALL, old_names::ALL, 96);
    assert!(program.contains("ipc baseline") && !program.contains("ipc floor"), "{program}");
    let throughput = args::command_help(&named(&["ipc", "throughput"]).doc(), 96);
    assert!(throughput.contains("--inherit-by HOW") && !throughput.contains("--lending"), "{throughput}");
    let script = args::bash_completion(ALL, old_names::ALL);
    for old in ["floor", "--lending", "--neighbours"] {
        assert!(!script.contains(old), "completion offers {old}");
    }
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
fn bash_accepts_the_script_and_completes_with_it() {
    let script = args::bash_completion(ALL, old_names::ALL);
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let program = format!(
            "{script}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_roundtrip\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1
        );
        let mut bash = Process::new("bash")
            .args(["--norc", "-s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash runs: it is what the script is for");
        bash.stdin.take().expect("piped").write_all(program.as_bytes()).expect("bash reads");
        let output = bash.wait_with_output().expect("bash ends");
        assert!(output.status.success(), "{line}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(complete("roundtrip compl"), "completions\n");
    assert_eq!(complete("roundtrip completions b"), "bash\n");
    assert_eq!(complete("roundtrip man --h"), "--help\n");
    assert!(complete("roundtrip ").contains("help\n"));
}
