//! `cargo xtask stress`: runs tests many times beside busy loops, to find what fails only on a busy
//! machine. Knows nothing about the tests.

use std::io::Read as _;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, say};
use crate::suite;

const HELP: &str = "\
Usage: cargo xtask stress [--times N] [--loops N] TEST

Runs the tests whose name contains TEST 50 times, beside four busy loops, and counts the failures.
Needs cargo-nextest, which `cargo xtask setup` installs.";

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    times: u32,
    loops: u32,
    test: String,
}

pub(crate) fn command(arguments: &[String]) -> ExitCode {
    match shell::asked("stress", HELP, arguments, parse).map(|asked| run(&asked)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            say(&format!("stress: {error:#}"));
            ExitCode::FAILURE
        }
        Err(status) => status,
    }
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let mut asked = Asked { times: 50, loops: 4, test: String::new() };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || -> Result<u32> {
            let text = words.next().with_context(|| format!("{word} takes a number"))?;
            text.parse().with_context(|| format!("'{text}' is not a whole number"))
        };
        match word.as_str() {
            "--times" => asked.times = number()?,
            "--loops" => asked.loops = number()?,
            option if option.starts_with('-') => bail!("unknown option '{option}'"),
            test if asked.test.is_empty() => test.clone_into(&mut asked.test),
            _ => bail!("too many arguments"),
        }
    }
    if asked.test.is_empty() || asked.times == 0 {
        bail!("pass a part of a test's name, and a number of times above 0");
    }
    Ok(asked)
}

fn run(asked: &Asked) -> Result<()> {
    // First, because the loops would slow down the build.
    suite::build()?;
    let _loops: Vec<BusyLoop> = (0..asked.loops).map(|_| BusyLoop::start()).collect::<Result<_>>()?;
    let notes = suite::empty("stress-times")?;
    let mut tests = suite::nextest(&notes)?;
    tests.args(["--workspace", "--retries", "0", "--stress-count", &asked.times.to_string(), &asked.test]);
    suite::run(&mut tests, &notes).map(drop)
}

/// A process that computes until this value is dropped or this process ends.
struct BusyLoop(Child);

impl BusyLoop {
    fn start() -> Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("busy-loop").stdin(Stdio::piped());
        Ok(Self(command.spawn().context("start a busy loop")?))
    }
}

impl Drop for BusyLoop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Computes until standard input ends, which it does with the process that started this one.
pub(crate) fn busy_loop() -> ExitCode {
    std::thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_and_how_often_and_beside_what_it_runs_can_be_chosen() {
        let parsed = |words: &str| parse(&shell::split(words));
        let asked = |times, loops, test: &str| Asked { times, loops, test: test.into() };
        assert_eq!(parsed("a::b").unwrap(), asked(50, 4, "a::b"));
        assert_eq!(parsed("--times 3 x --loops 0").unwrap(), asked(3, 0, "x"));
        for words in ["", "--times", "--times x a", "--times 0 a", "--long a", "a b"] {
            assert!(parsed(words).is_err(), "{words}");
        }
    }
}
