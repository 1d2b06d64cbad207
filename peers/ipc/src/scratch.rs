//! The directory for the peers' sockets and files, and the prefix of their names in /dev/shm. The
//! harness removes both when it exits; the next harness removes what a killed one left.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

/// The prefix of all names, before the harness's process id and a count.
const PREFIX: &str = "ipc-peers";

pub(crate) struct Scratch {
    folder: PathBuf,
    name: String,
}

impl Scratch {
    pub(crate) fn create() -> Result<Scratch> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        for place in places() {
            remove(&place, |name| {
                owner(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
            });
        }
        let name = format!("{PREFIX}_{}_{}_", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
        Ok(Scratch { folder, name })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The prefix for the names of a server's files. The working directory must be that of the harness.
pub(crate) fn prefix() -> Result<String> {
    let folder = std::env::current_dir().context("the working directory")?;
    let name =
        folder.file_name().and_then(|name| name.to_str()).context("the working directory has a name")?;
    Ok(format!("{name}{}_", std::process::id()))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        places().iter().for_each(|place| remove(place, |name| name.starts_with(&self.name)));
    }
}

fn places() -> [PathBuf; 2] {
    [std::env::temp_dir(), "/dev/shm".into()]
}

/// The process id in a name with the prefix.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.strip_prefix('_')?.split('_').next()?.parse().ok()
}

fn remove(place: &Path, is_ours: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(&is_ours) {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_dead_harness_are_removed_and_those_of_a_running_one_stay() {
        let mine = Scratch::create().expect("a folder");
        // No process has this id: it is above the highest limit that a kernel accepts.
        let dead = std::env::temp_dir().join(format!("{PREFIX}_99999999_0_"));
        fs::create_dir_all(&dead).expect("a folder");
        let other = Scratch::create().expect("another folder");
        assert!(!dead.exists() && mine.folder().exists());
        let gone = other.folder().to_owned();
        drop(other);
        assert!(!gone.exists() && mine.folder().exists());
    }
}
