//! What a package installs, as a folder: the program, the names of Android's programs as links to
//! it, manual pages and completions.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::{Machine, version};
use crate::shell::{output, root, static_binary, target_dir};

pub(super) struct Tree {
    pub(super) machine: Machine,
    pub(super) version: String,
    /// Everything below it is installed below `/`.
    pub(super) folder: PathBuf,
}

impl Tree {
    /// Lays out the folder. This machine's own static binary prints the pages and completions.
    pub(super) fn new(machine: Machine, program: &Path) -> Result<Self> {
        let version = version()?;
        let folder = target_dir().join("packages").join(format!("tree-{}", machine.arch));
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        }
        let tree = Self { machine, version, folder };
        tree.fill(program)?;
        Ok(tree)
    }

    fn fill(&self, program: &Path) -> Result<()> {
        let bytes = fs::read(program).with_context(|| format!("read {}", program.display()))?;
        let installed = self.file("usr/bin/roundtrip", &bytes)?;
        fs::set_permissions(&installed, fs::Permissions::from_mode(0o755)).context("make it executable")?;
        let help = said(&["--help"])?;
        for name in listed(&help, "Called by one of these names") {
            symlink("roundtrip", self.folder.join("usr/bin").join(name)).context("link an old name")?;
        }
        self.file("usr/share/man/man1/roundtrip.1", said(&["man"])?.as_bytes())?;
        for command in listed(&help, "Commands:") {
            let words: Vec<&str> = std::iter::once("man").chain(command.split(' ')).collect();
            let name = format!("usr/share/man/man1/roundtrip-{}.1", command.replace(' ', "-"));
            self.file(&name, said(&words)?.as_bytes())?;
        }
        for (shell, path) in [
            ("bash", "usr/share/bash-completion/completions/roundtrip"),
            ("zsh", "usr/share/zsh/vendor-completions/_roundtrip"),
            ("fish", "usr/share/fish/vendor_completions.d/roundtrip.fish"),
        ] {
            self.file(path, said(&["completions", shell])?.as_bytes())?;
        }
        for (from, to) in
            [("LICENSE", "copyright"), ("README.md", "README.md"), ("CHANGELOG.md", "CHANGELOG.md")]
        {
            let text = fs::read(root().join(from)).with_context(|| format!("read {from}"))?;
            self.file(&format!("usr/share/doc/roundtrip/{to}"), &text)?;
        }
        Ok(())
    }

    fn file(&self, path: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.join(path);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}

/// What this machine's static binary prints.
fn said(arguments: &[&str]) -> Result<String> {
    let program = static_binary(std::env::consts::ARCH);
    output(&program.to_string_lossy(), arguments)
        .with_context(|| format!("{} {} failed", program.display(), arguments.join(" ")))
}

/// The names in a section of the program's help: indented by two blanks, and followed by more.
fn listed<'a>(help: &'a str, section: &str) -> Vec<&'a str> {
    let lines = help.lines().skip_while(|line| !line.starts_with(section)).skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    // What an earlier line says goes on further to the right.
    let names = lines.filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.trim_start().split("  ").next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_old_names_are_read_from_the_programs_help() {
        let help = "Commands:\n  show                prints stored runs, of which\n                      there are many\n  \
                    trace stop          stops\n\nCalled by one of these names, roundtrip does:\n  atrace   records\n\nend\n";
        assert_eq!(listed(help, "Commands:"), ["show", "trace stop"]);
        assert_eq!(listed(help, "Called by one"), ["atrace"]);
        assert!(listed(help, "Nothing").is_empty());
    }
}
