//! `cargo xtask ipc-peers`: builds the program in `peers/ipc`, which measures the emulated driver
//! and other kinds of IPC. Passes its options on; that program knows what is measured and required.
//!
//! Not a step of `cargo xtask test`: its 150 packages take minutes to build, and its figures need
//! an idle machine.

use std::process::{Command, ExitCode};

use anyhow::Context as _;

use crate::shell::{cargo_command, root, run, say, target_dir};

/// Builds and runs it. The report goes to standard output, everything else to standard error.
pub(crate) fn command(options: &[String]) -> ExitCode {
    let (subcommand, options): (&[&str], _) = match options {
        [first] if first == "--check" => (&["check"], &[][..]),
        options => (&["compare"], options),
    };
    let folder = target_dir().join("ipc-peers");
    let mut build = cargo_command();
    build.args(["build", "--release", "--locked", "--package", "ipc-peers", "--manifest-path"]);
    build.arg(root().join("peers/Cargo.toml")).arg("--target-dir").arg(&folder);
    let mut program = Command::new(folder.join("release/ipc-peers"));
    let built =
        run(&mut build).context("it downloads packages; iceoryx2 needs libclang (Debian: libclang-dev)");
    match built.and_then(|_| run(program.args(subcommand).args(options))) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::shell::root;

    /// A section of a manifest as keys and values.
    fn section(manifest: &str, name: &str) -> BTreeMap<String, String> {
        let text = std::fs::read_to_string(root().join(manifest)).unwrap();
        let lines = text.lines().skip_while(|line| *line != format!("[{name}]")).skip(1);
        let own = lines.take_while(|line| !line.starts_with('['));
        let pairs = own.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
        pairs.map(|(key, value)| (key.trim().to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn the_driver_is_compiled_as_in_the_device_binary() {
        let (ours, theirs) = ("Cargo.toml", "peers/Cargo.toml");
        let profile = section(ours, "profile.release");
        assert!(profile.contains_key("opt-level") && profile.contains_key("lto"), "{profile:?}");
        assert_eq!(section(theirs, "profile.release"), profile);
        // Other packages have the profile's own level. The device binary lists all foreign packages
        // except rustix.
        let by_package = |manifest| section(manifest, "profile.release.package");
        let (shipped, compared) = (by_package(ours), by_package(theirs));
        for package in [
            "roundtrip-bench",
            "roundtrip-binder",
            "roundtrip-binder-driver",
            "roundtrip-binder-emulator",
            "roundtrip-echo",
            "roundtrip-latency",
        ] {
            assert_eq!(compared.get(package), shipped.get(package), "{package}");
        }
        assert_eq!(shipped.get("rustix").map(String::as_str), Some("{ opt-level = 3 }"));
        assert_eq!(compared.get("rustix"), None);
    }
}
