//! `cargo xtask peers`: the cost of a call over the kernel's binder driver through several
//! libraries, counted in instructions in one guest, and whether this project's stacks stay within
//! their limits. Knows the expected results; the program in `peers` makes the calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use roundtrip_guest::{Arch, Clock, End, Job, Kernel, Packaged};

use crate::boot::{once, with_kernel};
use crate::outcome::Outcome;
use crate::shell::{cargo_command, root, run, say, static_binary, target_dir};

const ARCH: Arch = Arch::X86_64;
const ROUNDS: &str = "3";
/// Calls in one batch.
const CALLS: &str = "300";
const SIZES: [u32; 2] = [4, 4096];
const LIMIT: Duration = Duration::from_secs(300);

/// The measured programs, by the names that `peers` uses, and what each is compared with.
const ROWS: [(&str, &str); 6] = [
    ("ioctl", "ioctl"),
    ("ioctl-message", "ioctl"),
    ("ioctl-gather", "ioctl"),
    ("binder", "ioctl-message"),
    ("hwbinder", "ioctl-gather"),
    ("rsbinder", "ioctl-message"),
];

/// The most that a stack may cost, relative to the bare call with the same bytes or objects. It was
/// 1.10 while received data was read through references, which was unsound: `docs/cost.md` has the
/// difference. hwbinder with 4 bytes is at 1.15.
const MOST: f64 = 1.16;

/// Builds, counts, prints and checks.
pub(crate) fn check() -> Result<Outcome> {
    with_kernel(ARCH, Packaged::Debian, |kernel| count(&kernel))
}

fn count(kernel: &Kernel) -> Result<Outcome> {
    let roundtrip = static_binary(ARCH.name());
    let name = roundtrip.file_name().unwrap_or_default().display().to_string();
    let job = Job {
        earlier: Vec::new(),
        program: build("peers")?,
        arguments: [
            "compare",
            &format!("./{name}"),
            ROUNDS,
            CALLS,
            &SIZES.map(|size| size.to_string()).join(","),
        ]
        .map(str::to_owned)
        .to_vec(),
        environment: Vec::new(),
        files: vec![roundtrip],
        out: None,
        limit: LIMIT,
    };
    once("peers", kernel, &job, Clock::Instructions, |init| compare(kernel, init, &job))
}

/// Runs the comparison, prints and judges.
fn compare(kernel: &Kernel, init: &Path, job: &Job) -> Result<Outcome> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let end = roundtrip_guest::run(kernel, init, job, Clock::Instructions, &mut out, &mut err)?;
    if end != End::Exit(0) {
        bail!("the comparison {end} on {}:\n{}", kernel.name, String::from_utf8_lossy(&[out, err].concat()));
    }
    let counts = parse(&String::from_utf8_lossy(&out))?;
    say(&format!("instructions for one round trip on {}, QEMU, one processor", kernel.name));
    table(&counts)?.iter().for_each(|line| say(line));
    let broken = judge(&counts)?;
    if !broken.is_empty() {
        bail!("{}", broken.join("; "));
    }
    Ok(Outcome::Passed)
}

/// Builds what runs in guests of the workspace in `peers`, all at once, because both programs share
/// most of their dependencies, and returns the path of one of them.
pub(crate) fn build(program: &str) -> Result<PathBuf> {
    run(cargo_command()
        .args(["build", "--release", "--locked", "--package", "peers", "--package", "interop"])
        .args(["--target", ARCH.target(), "--target-dir"])
        .arg(folder())
        .arg("--manifest-path")
        .arg(root().join("peers/Cargo.toml")))?;
    Ok(folder().join(ARCH.target()).join("release").join(program))
}

/// Where they are built.
pub(crate) fn folder() -> PathBuf {
    target_dir().join("peers")
}

/// The instructions of each batch, ascending, by program and payload.
type Counts = BTreeMap<(String, u32), Vec<f64>>;

fn parse(text: &str) -> Result<Counts> {
    let mut counts = Counts::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [who, size, count] = fields[..] else { bail!("the comparison printed '{line}'") };
        let context = || format!("the comparison printed '{line}'");
        let size = size.parse().with_context(context)?;
        let count = count.trim().parse().with_context(context)?;
        counts.entry((who.to_owned(), size)).or_default().push(count);
    }
    counts.values_mut().for_each(|counts| counts.sort_by(f64::total_cmp));
    Ok(counts)
}

/// All batches of one measurement.
fn all<'a>(counts: &'a Counts, who: &str, size: u32) -> Result<&'a [f64]> {
    let found = counts.get(&(who.to_owned(), size)).filter(|counts| !counts.is_empty());
    Ok(found.with_context(|| format!("the comparison has no result for {who} with {size} bytes"))?)
}

fn median(counts: &Counts, who: &str, size: u32) -> Result<f64> {
    let counts = all(counts, who, size)?;
    Ok(counts[counts.len() / 2])
}

fn table(counts: &Counts) -> Result<Vec<String>> {
    let mut lines = vec![
        "payload  by               median     middle half    of ioctl  of the same bytes bare".to_owned(),
    ];
    for size in SIZES {
        for (who, bare) in ROWS {
            let batches = all(counts, who, size)?;
            let [low, high] = [batches.len() / 4, batches.len() * 3 / 4].map(|index| batches[index]);
            let median_of = |who| median(counts, who, size);
            let (own, of_ioctl, of_bare) = (median_of(who)?, median_of("ioctl")?, median_of(bare)?);
            let ratio =
                if bare == "ioctl" { String::new() } else { format!("{:.3} ({bare})", own / of_bare) };
            let line = format!(
                "{size:>5} B  {who:<14} {own:>8.0}  {low:>6.0} to {high:>6.0}    {:>8.3}  {ratio}",
                own / of_ioctl
            );
            lines.push(line.trim_end().to_owned());
        }
    }
    Ok(lines)
}

/// Violations: each stack may cost at most [`MOST`], and must be cheaper than `rsbinder`.
fn judge(counts: &Counts) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for size in SIZES {
        for (who, bare) in ROWS.into_iter().filter(|(who, _)| ["binder", "hwbinder"].contains(who)) {
            let ratio = median(counts, who, size)? / median(counts, bare, size)?;
            if ratio > MOST {
                broken.push(format!(
                    "{who} with {size} bytes costs {ratio:.3} times {bare}, more than {MOST:.2} \
                     times"
                ));
            }
        }
        let (own, other) = (median(counts, "binder", size)?, median(counts, "rsbinder", size)?);
        if own >= other {
            broken.push(format!(
                "binder with {size} bytes costs {own:.0}, not less than rsbinder's {other:.0}"
            ));
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(binder: u32) -> Counts {
        let mut text = String::new();
        for size in SIZES {
            for (who, _) in ROWS {
                let count = match who {
                    "binder" => binder,
                    "rsbinder" => 1300,
                    _ => 1000,
                };
                for noise in [9000, 0, 10] {
                    text += &format!("{who} {size} {}\n", count + noise);
                }
            }
        }
        parse(&text).expect("what the program prints")
    }

    #[test]
    fn a_stack_within_its_bound_passes_and_one_above_is_named() {
        assert_eq!(judge(&counts(1130)).expect("all is there"), [] as [String; 0]);
        let broken = judge(&counts(1165)).expect("all is there").join("\n");
        assert!(broken.contains("binder with 4096 bytes costs 1.163 times ioctl-message"), "{broken}");
        let broken = judge(&counts(1300)).expect("all is there").join("\n");
        assert!(broken.contains("not less than rsbinder's 1310"), "{broken}");
    }

    #[test]
    fn the_table_has_a_line_for_each_and_ratios_of_medians() {
        let lines = table(&counts(1100)).expect("all is there");
        assert_eq!(lines.len(), 1 + SIZES.len() * ROWS.len());
        assert!(lines[4].contains("binder") && lines[4].contains("1.099 (ioctl-message)"), "{}", lines[4]);
    }

    #[test]
    fn what_is_missing_or_garbled_is_an_error() {
        assert!(parse("binder 4").is_err());
        assert!(parse("binder four 7").is_err());
        assert!(judge(&parse("binder 4 7\n").expect("a line")).is_err());
    }
}
