//! A temporary folder, and what has to be stopped before it is removed. Both happen however this
//! process ends: a shell waits for the end of its standard input. Must not know what is in it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::shell::output;

/// The folder, as long as this value lives.
pub(crate) struct Scratch {
    path: PathBuf,
    shell: Child,
}

impl Scratch {
    pub(crate) fn create(above: &Path) -> Result<Self> {
        ensure!(!in_memory(above), "{} is in memory, not on a disk; see --dir", above.display());
        let path = above.join(format!("observe-cost-{}", std::process::id()));
        // What stops what runs in the folder is a script in it.
        let script = "trap '' INT TERM HUP; read -r _; [ ! -e \"$0/stop\" ] || sh \"$0/stop\"; rm -rf \"$0\"";
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).arg(&path).current_dir("/");
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let shell = shell.spawn().context("cannot start /bin/sh")?;
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path, shell })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Has this shell command run before the folder is removed.
    pub(crate) fn stop_by(&self, command: &str) -> Result<()> {
        let path = self.path.join("stop");
        std::fs::write(&path, command).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(mut orders) = self.shell.stdin.take() {
            let _ = orders.write_all(b"\n");
        }
        let _ = self.shell.wait();
    }
}

/// Whether a path is in memory only, where a flush costs nothing.
fn in_memory(directory: &Path) -> bool {
    let kind = output("stat", &["--file-system", "--format=%T", &directory.to_string_lossy()]);
    kind.is_some_and(|kind| matches!(kind.trim(), "tmpfs" | "ramfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_in_the_folder_is_stopped_before_the_folder_is_removed() {
        let above = crate::shell::target_dir().join("scratch-test");
        std::fs::create_dir_all(&above).unwrap();
        if in_memory(&above) {
            return;
        }
        let scratch = Scratch::create(&above).unwrap();
        let path = scratch.path().to_owned();
        std::fs::write(path.join("file"), "").unwrap();
        scratch.stop_by(&format!("cp '{}/file' '{}/stopped'", path.display(), above.display())).unwrap();
        drop(scratch);
        assert!(!path.exists());
        assert!(above.join("stopped").exists());
        std::fs::remove_dir_all(&above).unwrap();
    }
}
