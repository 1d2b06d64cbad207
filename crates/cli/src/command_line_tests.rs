//! Whole command lines, from arguments to output and exit status.

use super::*;
use roundtrip_report::text::look::Look;

/// Standard output of a successful command line.
fn output(line: &str) -> String {
    let (result, out) = call(line);
    assert_eq!(result, Ok(Exit::OK), "{line}");
    out
}

/// The result of a command line, and its standard output.
fn call(line: &str) -> (Result<Exit, Failure>, String) {
    let mut words = line.split(' ').map(str::to_owned);
    let executable = words.next().unwrap_or_default();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal { out: &mut out, err: &mut err, look: Look::PLAIN, executable };
    let result = run(words.map(OsString::from).collect(), &mut terminal);
    (result, String::from_utf8(out).expect("UTF-8"))
}

#[test]
fn every_way_to_ask_for_help_gives_it_and_succeeds() {
    let help = output("roundtrip --help");
    assert!(help.contains("Commands:"), "{help}");
    for line in ["roundtrip -h", "roundtrip help", "/usr/bin/roundtrip help"] {
        assert_eq!(output(line), help, "{line}");
    }
    assert_eq!(output("roundtrip man --help"), output("roundtrip help man"));
}

#[test]
fn without_arguments_the_program_names_the_commands_that_one_begins_with() {
    let first = output("roundtrip");
    // A long summary continues on further lines.
    let is_first_line = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let commands: Vec<&str> = first.lines().filter(is_first_line).collect();
    assert_eq!(commands.len(), 5, "{first}");
    let all = output("roundtrip help");
    assert!(commands.iter().all(|command| all.contains(command)), "{first}");
}

#[test]
fn the_version_is_the_packages() {
    assert!(output("roundtrip --version").starts_with(&format!("roundtrip {VERSION} (")));
}

#[test]
fn a_line_that_makes_no_sense_is_refused_in_one_line_with_exit_code_2() {
    for (line, message) in [
        ("roundtrip hlep", "roundtrip: unknown command 'hlep' (did you mean help?); see 'roundtrip --help'"),
        ("roundtrip --foo", "roundtrip: unknown flag --foo before the command; see 'roundtrip --help'"),
        ("roundtrip man --foo", "roundtrip: unknown flag --foo for 'man'; see 'roundtrip man --help'"),
        ("roundtrip completions", "roundtrip: SHELL is missing; see 'roundtrip completions --help'"),
        (
            "roundtrip help no such",
            "roundtrip: no command, and no term: 'no such'; see 'roundtrip help --help'",
        ),
        (
            "roundtrip completions tcsh",
            "roundtrip: SHELL tcsh: expected bash, zsh, fish; see 'roundtrip completions --help'",
        ),
    ] {
        let failure = Failure { line: message.to_owned(), exit: Exit::USAGE, nobody_reads: false };
        assert_eq!(call(line), (Err(failure), String::new()), "{line}");
    }
}

#[test]
fn a_write_error_is_a_runtime_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut terminal = Terminal {
        out: &mut Full,
        err: &mut Vec::new(),
        look: Look::PLAIN,
        executable: "roundtrip".to_owned(),
    };
    let failure = run(vec!["version".into()], &mut terminal).expect_err("nothing can be written");
    let line = "roundtrip: no storage space; free some space there, or choose another directory";
    assert_eq!((failure.line.as_str(), failure.exit), (line, Exit::FAILED));
}

/// The commands in a shell's command line, each as its words. Quoted text is one word, and
/// redirections are removed.
fn commands_of(line: &str) -> Vec<Vec<String>> {
    let mut quote = None;
    let mut commands = vec![vec![String::new()]];
    for c in line.chars() {
        let words = commands.last_mut().expect("one at least");
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '&' | ';' | '|') => commands.push(vec![String::new()]),
            (None, c) if c.is_whitespace() => words.push(String::new()),
            _ => words.last_mut().expect("one at least").push(c),
        }
    }
    for words in &mut commands {
        words.retain(|word| !word.is_empty());
        words.truncate(words.iter().position(|word| word == ">").unwrap_or(words.len()));
    }
    commands.retain(|words| !words.is_empty());
    commands
}

#[test]
fn every_example_of_the_help_and_of_the_documents_can_be_typed() {
    let documents = [
        include_str!("../../../README.md"),
        include_str!("../../../docs/storage.md"),
        include_str!("../../../docs/traces.md"),
    ];
    let all = commands::ALL.iter().chain(old_names::ALL).map(|command| command.doc());
    let examples = all.flat_map(|doc| doc.examples).map(|(example, _)| *example);
    let mut tried = 0;
    for example in examples.chain(documents.into_iter().flat_map(str::lines)) {
        let bare = example.replace("source <(", "").replace(')', "");
        let lines = commands_of(&bare);
        for words in lines.into_iter().filter(|words| words[0] == "roundtrip") {
            let line = words.join(" ");
            let (command, rest) =
                select("roundtrip", words.into_iter().skip(1).map(OsString::from).collect());
            let read = command.map(|command| command.check(rest));
            assert!(matches!(read, Ok(Ok(()))), "{line}: {read:?}");
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried}");
}
