//! Attacks on the program as a whole: damaged run directories, signals at random moments, limits on
//! what it may use, and system calls that are refused. Whatever is done to it, it ends in time,
//! says what is wrong in words, and leaves nothing behind.
//!
//! Each attack is short here. `cargo xtask attack` makes it long, and repeats one by the seed that
//! a failure names.

mod denied;
mod limits;
mod mutations;
mod signals;
mod victim;

use std::path::{Path, PathBuf};

/// How many rounds each attack takes, with a new seed for each. Unset, an attack takes its few
/// usual rounds with the same seeds every time, so that a change is judged by what it does and not
/// by luck.
const ROUNDS: &str = "ROUNDTRIP_ATTACK_ROUNDS";
/// The seed of one round to repeat, and nothing else.
const SEED: &str = "ROUNDTRIP_ATTACK_SEED";

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, not '{text}'")))
}

/// Runs an attack as often as is asked for, each time with a random source of its own. A round that
/// finds something fails with the seed that repeats it.
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

/// What is attacked works: else what a command says of its own fault would pass for a good end.
#[test]
fn every_command_succeeds_where_nobody_attacks_it() {
    let all = [denied::COMMANDS, limits::COMMANDS, signals::COMMANDS].concat();
    // Where nothing runs, there is nothing to list, which is a failure of its own.
    for args in all.into_iter().filter(|args| *args != "service list") {
        let end = victim::Victim::start(victim::roundtrip(args), Folder::new("free")).end();
        let succeeded = end.and_then(|end| match end.status.success() {
            true => end.is_sound(&[]),
            false => Err(end.finding("it failed")),
        });
        succeeded.unwrap_or_else(|finding| panic!("{finding}"));
    }
}

/// A folder of an attack's own, removed with all that is in it.
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
