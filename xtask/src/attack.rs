//! Long attacks on the program: those in `crates/roundtrip/tests/program/attack` with the requested
//! number of rounds, and those that kill `trace start` and `trace stop` before each system call.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::shell;

const HELP: &str = "\
Usage: cargo xtask attack [ROUNDS] [ATTACK]
       cargo xtask attack --seed SEED ATTACK

Attacks the program as a whole: damaged run directories, signals at random moments, resource limits, refused
system calls, and a kill before each system call of `trace start` and `trace stop`. Most of it needs root.

  ROUNDS       rounds of each attack, each with a seed of its own (default 500)
  ATTACK       only attacks with this in their name: mutations, signals, limits, denied, trace
  --seed SEED  repeats the round that a finding names";

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    variable: (&'static str, u64),
    attack: String,
}

pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let asked = match shell::asked("attack", HELP, arguments, parse) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    let mut cargo = shell::cargo_command();
    cargo.args([
        "test",
        "--package",
        "roundtrip",
        "--test",
        "program",
        "--",
        "--nocapture",
        "--test-threads",
        "1",
    ]);
    match asked.attack.as_str() {
        "" => cargo.args(["attack::", "trace_killed::"]),
        attack => cargo.arg(attack),
    };
    cargo.env(asked.variable.0, asked.variable.1.to_string());
    match shell::run(&mut cargo) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            shell::say(&format!("attack: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let number = |text: &str| text.parse::<u64>().with_context(|| format!("'{text}' is not a whole number"));
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (variable, attack) = match words[..] {
        ["--seed", seed, attack] => (("ROUNDTRIP_ATTACK_SEED", number(seed)?), attack),
        ["--seed", ..] => bail!("--seed takes a seed and the attack that it belongs to"),
        [] => (("ROUNDTRIP_ATTACK_ROUNDS", 500), ""),
        [rounds] if rounds.starts_with(|first: char| first.is_ascii_digit()) => {
            (("ROUNDTRIP_ATTACK_ROUNDS", number(rounds)?), "")
        }
        [attack] => (("ROUNDTRIP_ATTACK_ROUNDS", 500), attack),
        [rounds, attack] => (("ROUNDTRIP_ATTACK_ROUNDS", number(rounds)?), attack),
        _ => bail!("too many arguments"),
    };
    if attack.starts_with('-') {
        bail!("unknown option '{attack}'");
    }
    Ok(Asked { variable, attack: attack.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Asked> {
        parse(&shell::split(words))
    }

    #[test]
    fn rounds_an_attack_and_a_seed_can_be_chosen() {
        let asked = |name, number, attack: &str| Asked { variable: (name, number), attack: attack.into() };
        assert_eq!(parsed("").unwrap(), asked("ROUNDTRIP_ATTACK_ROUNDS", 500, ""));
        assert_eq!(parsed("20").unwrap(), asked("ROUNDTRIP_ATTACK_ROUNDS", 20, ""));
        assert_eq!(parsed("20 limits").unwrap(), asked("ROUNDTRIP_ATTACK_ROUNDS", 20, "limits"));
        assert_eq!(parsed("signals").unwrap(), asked("ROUNDTRIP_ATTACK_ROUNDS", 500, "signals"));
        assert_eq!(parsed("--seed 7 denied").unwrap(), asked("ROUNDTRIP_ATTACK_SEED", 7, "denied"));
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for words in ["--seed", "--seed 7", "--seed x limits", "1x", "20 --long", "--long", "1 2 3"] {
            assert!(parsed(words).is_err(), "{words}");
        }
    }
}
