//! Runs the program as a user does. No test depends on a duration.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ipc-peers")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_peer_echoes_every_payload_in_every_condition() {
    let output = run(&["check"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert_eq!(said.lines().count(), said.matches("works").count(), "{said}");
    assert!(said.lines().count() >= 10, "{said}");
}

#[test]
fn a_short_comparison_has_figures_but_no_verdicts() {
    let output = run(&["compare", "--rounds", "1", "--seconds", "1", "--peers", "futex,binder-driver"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("emulated driver"), "{said}");
    assert!(!said.contains(" met") && !said.contains("MISSED"), "{said}");
    assert!(said.contains("not judged: not measured"), "{said}");
}

#[test]
fn invalid_arguments_are_rejected_with_the_valid_values() {
    for (arguments, expected) in [
        (&["compare", "--peers", "pigeon"][..], "there is no peer 'pigeon': choose from futex, pipe"),
        (&["compare", "--rounds", "0"], "choose from 1 to 1000"),
        (&["compare", "--rounds"], "--rounds needs a value"),
        (&["compare", "--seconds", "many"], "--seconds many: not a number"),
        (&["prove"], "use: ipc-peers compare"),
    ] {
        let output = run(arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{arguments:?}: {said}");
    }
}
