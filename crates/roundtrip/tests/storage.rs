//! `roundtrip storage layers` as a process: real writes, on a journalled file system of its own where this may be mounted.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn layers(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(["storage", "layers"]).current_dir(directory).stdin(Stdio::null());
    command.args([
        "--sizes",
        "4k,16k",
        "--calls",
        "12",
        "--rounds",
        "2",
        "--warm-up",
        "1",
        "--file-size",
        "1M",
    ]);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn without_the_kernels_events_response_times_are_told_and_the_file_is_gone() {
    let directory = folder("times");
    let output =
        succeed(layers(&directory).args(["--no-recorder", "--writers", "native", "--format", "csv"]));
    let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[1].starts_with("native,dsync,overwrite,4096,response,12,"), "{lines:?}");
    assert_eq!(names(&directory), Vec::<String>::new());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn wrong_targets_are_one_line_each_and_nothing_is_touched() {
    let directory = folder("wrong");
    let mine = directory.join("mine");
    std::fs::write(&mine, "precious").unwrap();
    for (arguments, said, code) in [
        (vec!["--file", "mine"], "an existing file is never written to", 1),
        (vec!["--file", "."], "that is a directory", 1),
        (vec!["--file", "no/such/file"], "its directory does not exist", 1),
        (vec!["--writers", "java-file", "--java", "/no/java"], "there is no Java here", 1),
        (vec!["--durability", "hope"], "unknown durability 'hope'", 2),
        (vec!["--sizes", "2M"], "--file-size", 2),
    ] {
        let output = layers(&directory).args(&arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{arguments:?}: {stderr}");
    }
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "precious");
    assert_eq!(names(&directory), ["mine"]);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// An ext4 file system with a journal in a file, mounted for as long as this value lives.
struct Journalled {
    directory: PathBuf,
}

impl Journalled {
    /// Needs root and a loop device; tells which is missing.
    fn mount(name: &str) -> Result<Journalled, String> {
        let directory = folder(name);
        let this = Journalled { directory };
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).current_dir(&this.directory).output();
            let output = output.map_err(|error| format!("{program}: {error}"))?;
            if output.status.success() { Ok(()) } else { Err(format!("{program}: {}", text(&output.stderr))) }
        };
        std::fs::create_dir(this.directory.join("mnt")).unwrap();
        let image = std::fs::File::create(this.directory.join("image")).unwrap();
        image.set_len(64 << 20).unwrap();
        run("mkfs.ext4", &["-q", "-J", "size=4", "image"])?;
        run("mount", &["-o", "loop", "image", "mnt"])?;
        Ok(this)
    }
}

impl Drop for Journalled {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.directory.join("mnt")).stderr(Stdio::null()).status();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn writes_through_a_journal_and_a_loop_device_are_followed_to_the_device_and_add_up() {
    let file_system = match Journalled::mount("journalled") {
        Ok(file_system) => file_system,
        Err(reason) if rustix::process::geteuid().is_root() => panic!("{reason}"),
        // Mounting is root's.
        Err(_) => return,
    };
    let mount = file_system.directory.join("mnt");
    let run = file_system.directory.join("run");
    let mut command = layers(&mount);
    command.args([
        "--writers",
        "native,java-channel-direct",
        "--durability",
        "fsync",
        "--position",
        "append",
    ]);
    let output = succeed(command.args(["--format", "csv", "--out"]).arg(&run));
    let csv = text(&output.stdout);
    let rows: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    // A row for the whole and one for each of eleven layers, of two writers and two sizes.
    assert_eq!(rows.len(), 2 * 2 * 12, "{csv}");
    for of_one in rows.chunks(12) {
        let shares: Vec<f64> = of_one.iter().map(|row| row[11].parse().unwrap()).collect();
        let sum: f64 = shares[1..].iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{of_one:?}");
        let share =
            |layer: &str| of_one.iter().position(|row| row[4] == layer).map(|index| shares[index]).unwrap();
        // Appending makes the journal write, and through the loop device that reaches a real one.
        assert!(share("device") > 0.0 && share("fs") > 0.0 && share("platform") > 0.0, "{of_one:?}");
    }
    let shown = Command::new(env!("CARGO_BIN_EXE_roundtrip")).arg("show").arg(&run).output().unwrap();
    let shown = text(&shown.stdout);
    for part in ["ext4 on ", "(loop)", "host share", "a write: ", "slow: 4 KiB in "] {
        assert!(shown.contains(part), "no '{part}' in {shown}");
    }
    assert_eq!(names(&mount), ["lost+found"]);
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing() {
    let Ok(file_system) = Journalled::mount("full") else { return };
    let mount = file_system.directory.join("mnt");
    let output = layers(&mount).args(["--file-size", "200M", "--writers", "native"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("no room for 209715200 bytes") && stderr.contains("--file-size"), "{stderr}");
    assert_eq!(names(&mount), ["lost+found"]);
}
