//! `cargo xtask sequences`: thousands of random command sequences on a real kernel's binder driver
//! and on the emulated one, in guests. Knows how many fit into one boot; the conformance suite
//! knows the sequences and expected results.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use roundtrip_guest::{Arch, Clock, End, Job, Packaged, Source};

use crate::boot::{first_process, prepare};
use crate::guests::build;
use crate::shell::{asked, root, say, target_dir};

const HELP: &str = "\
Usage: cargo xtask sequences [OPTIONS]

Replays random sequences of commands on a real kernel's binder driver and on the emulated one, in QEMU, and fails if
the two behave differently. The tests do the same with a few fixed sequences.

Options:
  --count N   how many (2000)
  --seed N    the seed of the first boot (2); one boot runs up to 500 sequences, and the next boot uses the next seed
  --rt        on Debian's kernel with PREEMPT_RT
  --ubuntu    on Ubuntu's kernel, which is newer
  --arm64     on Debian's kernel for arm64
  --record    records the answers of Debian's kernel (with --ubuntu, of Ubuntu's) in fixtures/binder, with which the tests
              compare the emulated driver; can be combined only with --ubuntu";

/// The test in the conformance suite.
const TEST: &str = "random_sequences_have_equal_results_on_the_kernel_and_the_emulated_driver";
/// The test that defines what is recorded, and records it.
const RECORDED_TEST: &str = "the_kernel_driver_matches_its_recording";
/// The variable that makes it record.
const RECORD: &str = "RECORD_SEQUENCES_TO";
/// Sequences per boot: few enough that a difference is seen within minutes.
const BATCH: u32 = 500;
/// Longer than any emulated machine needs for a batch.
const LIMIT: Duration = Duration::from_secs(3600);

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    count: u32,
    seed: u32,
    arch: Arch,
    which: Packaged,
    record: bool,
}

/// Runs the command with these arguments.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let asked = match asked("sequences", HELP, arguments, parse) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    match carry_out(&asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("sequences: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn carry_out(asked: &Asked) -> Result<()> {
    let kernel = prepare(asked.arch, &Source::Packaged(asked.which))?;
    let (init, program) =
        (first_process(asked.arch)?, build("roundtrip-binder-conformance", "conformance", asked.arch)?);
    let boot = |test: &str, environment: Vec<(String, String)>, out: Option<PathBuf>| {
        let arguments = ["--ignored", "--exact", test, "--nocapture"].map(str::to_owned).into();
        let job = Job {
            earlier: Vec::new(),
            program: program.clone(),
            arguments,
            environment,
            files: Vec::new(),
            out,
            limit: LIMIT,
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let end = roundtrip_guest::run(&kernel, &init, &job, Clock::Wall, &mut out, &mut err);
        let said = String::from_utf8_lossy(&[out, err].concat()).into_owned();
        match end.with_context(|| format!("boot for {test}:\n{said}"))? {
            End::Exit(0) if said.contains("test result: ok. 1 passed") => Ok(()),
            end => bail!("the test {end} on {}:\n{said}", kernel.name),
        }
    };
    if asked.record {
        let recorded = if asked.which == Packaged::Ubuntu { "linux-7.0.json" } else { "linux-6.1.json" };
        let out = target_dir().join("recorded");
        boot(RECORDED_TEST, vec![(RECORD.into(), format!("/out/{recorded}"))], Some(out.clone()))?;
        let fixture = root().join("fixtures/binder").join(recorded);
        let (from, to) = (out.join(recorded), fixture.display());
        std::fs::copy(&from, &fixture).with_context(|| format!("copy {} to {to}", from.display()))?;
        say(&format!("{to}: what {} answers", kernel.name));
        return Ok(());
    }
    for (seed, count) in batches(asked.seed, asked.count) {
        let start = Instant::now();
        let environment = vec![
            ("PROPTEST_CASES".into(), count.to_string()),
            ("PROPTEST_RNG_SEED".into(), seed.to_string()),
        ];
        boot(TEST, environment, None).with_context(|| format!("{count} sequences from seed {seed}"))?;
        say(&format!(
            "{}: {count} sequences from seed {seed} have the same effect on both ({:.0} s)",
            kernel.name,
            start.elapsed().as_secs_f64()
        ));
    }
    Ok(())
}

/// Seeds, each with its number of sequences.
fn batches(seed: u32, count: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..count.div_ceil(BATCH)).map(move |at| (seed.wrapping_add(at), (count - at * BATCH).min(BATCH)))
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let mut asked =
        Asked { count: 2000, seed: 2, arch: Arch::X86_64, which: Packaged::Debian, record: false };
    let mut kernels = Vec::new();
    let mut left = arguments.iter();
    while let Some(word) = left.next() {
        let mut number = || {
            let value = left.next().with_context(|| format!("{word} needs a number"))?;
            value.parse::<u32>().with_context(|| format!("{word} needs a number, not '{value}'"))
        };
        match word.as_str() {
            "--count" => asked.count = number()?,
            "--seed" => asked.seed = number()?,
            "--rt" => asked.which = Packaged::DebianRealtime,
            "--ubuntu" => asked.which = Packaged::Ubuntu,
            "--record"
                if arguments.iter().all(|other| ["--record", "--ubuntu"].contains(&other.as_str())) =>
            {
                asked.record = true;
            }
            "--record" => bail!("--record can be combined only with --ubuntu"),
            "--arm64" => asked.arch = Arch::Aarch64,
            other => bail!("unknown option {other}"),
        }
        kernels.extend(["--rt", "--ubuntu", "--arm64"].contains(&word.as_str()).then_some(word));
    }
    match kernels[..] {
        [one, other, ..] => bail!("{one} and {other} each name a kernel; choose one"),
        _ if asked.count == 0 => bail!("--count needs at least 1"),
        _ => Ok(asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::split;

    #[test]
    fn sequences_are_divided_among_boots_with_different_seeds() {
        assert_eq!(batches(7, 1200).collect::<Vec<_>>(), [(7, 500), (8, 500), (9, 200)]);
        assert_eq!(batches(u32::MAX, 501).collect::<Vec<_>>(), [(u32::MAX, 500), (0, 1)]);
    }

    #[test]
    fn a_kernel_a_count_and_a_seed_can_be_chosen() {
        let asked = parse(&split("--count 10 --rt --seed 3")).expect("a good command");
        let expected =
            Asked { count: 10, seed: 3, arch: Arch::X86_64, which: Packaged::DebianRealtime, record: false };
        assert_eq!(asked, expected);
    }

    #[test]
    fn each_kernel_with_a_recording_can_be_recorded_again() {
        for (line, which) in [
            ("--record", Packaged::Debian),
            ("--record --ubuntu", Packaged::Ubuntu),
            ("--ubuntu --record", Packaged::Ubuntu),
        ] {
            let asked = parse(&split(line)).expect("a good command");
            assert!(asked.record && asked.which == which, "{line}");
        }
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for line in [
            "--count",
            "--count x",
            "--count 0",
            "--count -1",
            "--rt --arm64",
            "--ubuntu --rt",
            "--record --rt",
            "x",
        ] {
            assert!(parse(&split(line)).is_err(), "{line}");
        }
    }
}
