//! Attacks on the whole program: damaged run directories, signals at random moments, resource
//! limits, and failing system calls. Whatever happens, the program must end in time, report errors
//! as text, and leave nothing behind.
//!
//! Each attack is short here. `cargo xtask attack` runs it longer, and repeats a failure by its
//! seed.

mod denied;
mod limits;
mod mutations;
mod signals;
mod victim;

use std::path::{Path, PathBuf};

/// The number of rounds of each attack, with new seeds. If unset, an attack runs its default number
/// of rounds with fixed seeds, so that the result does not depend on chance.
const ROUNDS: &str = "ROUNDTRIP_ATTACK_ROUNDS";
/// The seed of a single round to repeat.
const SEED: &str = "ROUNDTRIP_ATTACK_SEED";

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, not '{text}'")))
}

/// Runs an attack for the requested number of rounds, each with its own random generator. A failing
/// round reports the seed that repeats it.
fn rounds(usual: u64, mut round: impl FnMut(&mut fastrand::Rng) -> Result<(), String>) {
    let seeds: Vec<u64> = match (variable(SEED), variable(ROUNDS)) {
        (Some(seed), _) => vec![seed],
        (None, Some(rounds)) => (0..rounds).map(|_| fastrand::u64(..)).collect(),
        (None, None) => (0..usual).collect(),
    };
    let mut found = Vec::new();
    for seed in seeds {
        if let Err(finding) = round(&mut fastrand::Rng::with_seed(seed)) {
            found.push(format!("{SEED}={seed}: {finding}"));
        }
    }
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n\n"));
}

/// The attacked commands work normally. Otherwise their own errors would look like a clean end.
#[test]
fn every_command_succeeds_without_an_attack() {
    let all = [denied::COMMANDS, limits::COMMANDS, signals::COMMANDS].concat();
    // `service list` fails if nothing runs, because there is nothing to list.
    for args in all.into_iter().filter(|args| *args != "service list") {
        let end = victim::Victim::start(victim::roundtrip(args), Folder::new("free")).end();
        let succeeded = end.and_then(|end| match end.status.success() {
            true => end.is_sound(&[]),
            false => Err(end.finding("it failed")),
        });
        succeeded.unwrap_or_else(|finding| panic!("{finding}"));
    }
}

/// A temporary folder of an attack.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let unique = fastrand::u64(..);
        let path = std::env::temp_dir().join(format!("attack-{name}-{}-{unique:x}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
