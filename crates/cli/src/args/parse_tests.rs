//! Tests of the parser with a table that uses every feature.

use super::*;
use crate::args::{Command as _, Entry, Group, Opt, Positionals};
use crate::terminal::Exit;

#[derive(Debug, Default, PartialEq, Eq)]
struct Typed {
    pairs: u32,
    verbose: bool,
    format: String,
    dry: Option<bool>,
    words: Vec<String>,
}

static ENTRY: Entry<Typed> = Entry {
    path: &["ipc", "test"],
    kind: Kind::Command,
    summary: "tests the parser",
    description: "",
    positionals: Some(Positionals {
        usage: "WORD...",
        help: "Words.",
        count: 1..=2,
        kind: ValueKind::Text,
        set: |typed, word| {
            typed.words.push(word.to_owned());
            Ok(())
        },
    }),
    groups: &[Group {
        heading: "Options",
        options: &[
            Opt::value(&["-p", "--pairs", "-pair"], "N", "How many pairs.", |typed, text| {
                typed.pairs = text.parse().map_err(|_| "not a whole number".to_owned())?;
                Ok(())
            }),
            Opt::flag(&["-v", "--verbose"], "Says more.", |typed| typed.verbose = true),
            Opt::one_of(&["--format"], "FORMAT", &["json", "csv"], "The format.", |typed, text| {
                typed.format = text.to_owned();
                Ok(())
            }),
            Opt::switch(&["--dry_run"], "Runs dry.", |typed: &mut Typed, text| {
                typed.dry = Some(crate::args::values::boolean(text)?);
                Ok(())
            })
            .or_environment(),
        ],
    }],
    examples: &[],
    run: |_, _| Ok(Exit::OK),
};

/// What was typed; `None` if help was requested.
fn parse_with(
    args: Vec<OsString>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Typed>, Usage> {
    let mut typed = ENTRY.nothing_typed();
    let parsed = parse(&ENTRY.doc(), &mut typed, args, environment)?;
    Ok((parsed == Parsed::Run).then_some(typed.values))
}

fn parsed(line: &str) -> Result<Option<Typed>, String> {
    let args = line.split_whitespace().map(OsString::from).collect();
    parse_with(args, &|_| None).map_err(|usage| usage.0)
}

fn run(line: &str) -> Typed {
    match parsed(line) {
        Ok(Some(typed)) => typed,
        other => panic!("{line}: {other:?}"),
    }
}

fn refusal(line: &str) -> String {
    parsed(line).expect_err("the line makes no sense")
}

#[test]
fn every_spelling_of_an_option_means_the_same() {
    for line in ["w -pair 4", "-p4 w", "-p 4 w", "--pairs 4 w", "--pairs=4 w", "-vp4 w", "-p=4 w"] {
        assert_eq!(run(line).pairs, 4, "{line}");
    }
    assert!(run("-vp4 w").verbose);
}

#[test]
fn the_last_of_several_counts() {
    assert_eq!(run("-p 1 w -pair 2").pairs, 2);
}

#[test]
fn a_switch_needs_no_value_and_takes_none_from_the_next_argument() {
    assert_eq!(run("--dry_run w"), Typed { dry: Some(true), words: vec!["w".into()], ..Typed::default() });
    assert_eq!(run("--dry_run=false w").dry, Some(false));
    assert_eq!(refusal("--dry_run=perhaps w"), "--dry_run=perhaps: expected true or false");
}

#[test]
fn the_environment_gives_a_default_that_the_command_line_overrides() {
    let with = |args: &[&str], value: &str| {
        let value = value.to_owned();
        let args = args.iter().map(OsString::from).collect();
        parse_with(args, &move |name| (name == "DRY_RUN").then(|| value.clone()))
    };
    let dry = |parsed: Result<Option<Typed>, Usage>| match parsed {
        Ok(Some(typed)) => typed.dry,
        other => panic!("{other:?}"),
    };
    assert_eq!(dry(with(&["w"], "true")), Some(true));
    assert_eq!(dry(with(&["w", "--dry_run=false"], "true")), Some(false));
    assert_eq!(
        with(&["w"], "x"),
        Err(Usage("environment variable DRY_RUN=x: expected true or false".into()))
    );
}

#[test]
fn an_unknown_flag_is_named_as_typed_with_the_nearest_one() {
    assert_eq!(refusal("--pair 4"), "unknown flag --pair for 'ipc test' (did you mean --pairs?)");
    assert_eq!(refusal("-pairs 4"), "unknown flag -pairs for 'ipc test' (did you mean --pairs?)");
    assert_eq!(refusal("-x"), "unknown flag -x for 'ipc test'");
    assert_eq!(refusal("--zzz=1"), "unknown flag --zzz for 'ipc test'");
}

#[test]
fn a_missing_or_wrong_value_says_what_was_expected() {
    assert_eq!(refusal("w -pair"), "-pair needs a value: -pair N");
    assert_eq!(refusal("w --pairs"), "--pairs needs a value: --pairs N");
    assert_eq!(refusal("w -p x"), "-p x: not a whole number");
    assert_eq!(refusal("w -pair -v"), "-pair -v: not a whole number");
    assert_eq!(refusal("w --format xml"), "--format xml: expected json, csv");
    assert_eq!(refusal("w --verbose=1"), "--verbose takes no value, but was given '1'");
}

#[test]
fn positional_arguments_are_counted() {
    assert_eq!(refusal(""), "WORD... is missing");
    assert_eq!(run("a b").words, ["a", "b"]);
    assert_eq!(refusal("a b c"), "unexpected argument 'c'");
    assert_eq!(run("-- -v").words, ["-v"]);
}

#[test]
fn help_is_known_to_every_command() {
    assert_eq!(parsed("--help"), Ok(None));
    assert_eq!(parsed("-h"), Ok(None));
}

#[test]
fn an_argument_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStringExt as _;
    let args = vec![OsString::from_vec(vec![b'a', 0xff])];
    let refusal = parse_with(args, &|_| None).expect_err("not UTF-8");
    assert!(refusal.0.ends_with("is not valid UTF-8"), "{refusal}");
}
