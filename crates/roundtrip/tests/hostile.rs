//! Run directories of others: what is damaged is said to be, what is no regular file or too long is refused, and no text in them acts
//! on a terminal.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use skips::{Need, skip};

/// A copy of a recorded run, to be changed.
struct Run(PathBuf);

impl Run {
    fn new(name: &str) -> Run {
        Run::of("x86_64-6.1-binder", name)
    }

    fn of(fixture: &str, name: &str) -> Run {
        let path = std::env::temp_dir().join(format!("roundtrip-hostile-{}-{name}", std::process::id()));
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(fixture);
        copy(&from, &path);
        Run(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.file(name)).unwrap();
        change(&mut bytes);
        std::fs::write(self.file(name), bytes).unwrap();
    }

    /// The pages of all CPUs in the first snapshot.
    fn pages(&self) -> Vec<String> {
        let folder = "recording/snapshots/0001";
        let names = std::fs::read_dir(self.file(folder)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".pages")).map(|name| format!("{folder}/{name}")).collect()
    }

    /// What a command says of it. It may neither wait nor use much memory.
    fn roundtrip(&self, args: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 4000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_roundtrip")]);
        command.args(args.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // What it says is short enough for the pipes.
        let started = Instant::now();
        let hung = loop {
            if child.try_wait().unwrap().is_some() {
                break false;
            }
            if started.elapsed() > Duration::from_secs(60) {
                child.kill().unwrap();
                break true;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(!hung, "{args} hangs");
        child.wait_with_output().unwrap()
    }

    fn refused(&self, args: &str, hint: &str) {
        let output = self.roundtrip(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args}: {said}");
        assert!(said.lines().count() == 1 && said.contains(hint), "{args}: {said}");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Bytes without sense, the same each time.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let byte = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(byte).collect()
}

#[test]
fn special_files_are_refused_and_long_ones() {
    for name in ["run.json", "recording/recording.json", "recording/snapshots/0001/snapshot.json"] {
        let run = Run::new("special");
        let path = run.file(name);
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        run.refused("explain .", "a FIFO");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        run.refused("explain .", "a device");
        std::fs::remove_file(&path).unwrap();
        std::fs::File::create(&path).unwrap().set_len(3 << 30).unwrap();
        run.refused("explain .", "3221225472 bytes");
    }
}

#[test]
fn sparse_pages_take_no_memory_and_are_damaged() {
    let run = Run::new("sparse");
    let pages = run.file(&run.pages()[0]);
    std::fs::File::create(&pages).unwrap().set_len(1 << 40).unwrap();
    run.refused("explain .", "more than the");
    std::fs::File::create(&pages).unwrap().set_len(3 << 30).unwrap();
    let output = run.roundtrip("trace convert . --snapshot 1 -o out.txt");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(["damaged", "memory", "more than the"].iter().any(|hint| said.contains(hint)), "{said}");
}

#[test]
fn noise_in_a_recording_is_damage() {
    let run = Run::new("noise");
    for pages in run.pages() {
        run.change(&pages, |bytes| *bytes = noise(bytes.len()));
    }
    let output = run.roundtrip("trace convert . --snapshot 1 -o out.txt");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("damaged") && !said.contains("lost"), "{said}");
    let output = run.roundtrip("explain .");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("damaged"), "{output:?}");

    let run = Run::new("calls");
    run.change("recording/snapshots/0001/calls", |bytes| *bytes = noise(bytes.len()));
    run.refused("explain . --miss 1 -o out.perfetto-trace", "damaged");
}

#[test]
fn a_storage_run_with_a_damaged_recording_is_shown_and_its_damage_told() {
    let whole = Run::of("x86_64-6.1-ufs", "whole").roundtrip("show .");
    let whole = String::from_utf8(whole.stdout).unwrap();
    assert!(whole.contains("unexplained"), "its layers are shown: {whole}");
    for kind in ["noise", "header", "removed"] {
        let run = Run::of("x86_64-6.1-ufs", kind);
        match kind {
            "noise" => run.change(&run.pages()[0], |bytes| *bytes = noise(bytes.len())),
            "header" => run.change("recording/recording.json", |bytes| bytes.truncate(100)),
            _ => std::fs::remove_dir_all(run.file("recording")).unwrap(),
        }
        let output = run.roundtrip("show .");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{kind}: {said}");
        assert!(said.lines().count() == 1 && said.contains("recording"), "{kind}: {said}");
        assert!(kind != "noise" || said.contains("snapshot 1 is damaged"), "{said}");
        // What was timed without the recording is there.
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() > 5 && text.lines().next() == whole.lines().next(), "{kind}: {text}");
        assert!(!text.contains("lost") && !said.contains("lost"), "{kind}: {text}{said}");
        assert!(text != whole, "{kind}: layers of a recording that cannot be read");
    }
}

#[test]
fn damage_is_told_also_when_nobody_reads_the_output() {
    let run = Run::of("x86_64-6.1-ufs", "unread");
    run.change(&run.pages()[0], |bytes| *bytes = noise(bytes.len()));
    let (reader, unread) = std::io::pipe().unwrap();
    drop(reader);
    // Of the two, the damaged one comes after nobody reads any more.
    let whole = Run::of("x86_64-6.1-ufs", "unread-whole");
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.arg("show").args([&whole.0, &run.0]).stdin(Stdio::null()).stdout(unread);
    let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.lines().count() == 1 && said.contains("snapshot 1 is damaged"), "{said}");
}

#[test]
fn a_name_acts_on_no_terminal() {
    let run = Run::new("names");
    let name = b"\x1b]0;pwn\x07\n\0";
    let mut changed = 0;
    for pages in run.pages() {
        run.change(&pages, |bytes| {
            for at in 0..bytes.len() - name.len() {
                if bytes[at..].starts_with(b"client-1\0") {
                    bytes[at..at + name.len()].copy_from_slice(name);
                    changed += 1;
                }
            }
        });
    }
    assert!(changed > 0, "the fixture has the name");
    run.change("run.json", |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let (before, behind) = text.split_once("\"host_name\":\"").unwrap();
        let evil = "\\u001b]0;pwn\\u0007\\n\u{9b}2J\u{202e}";
        *bytes = format!("{before}\"host_name\":\"{evil}{behind}").into_bytes();
    });
    let acts = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    let shown = "\\u001b]0;pwn\\u0007\\u000a";
    for (args, names) in
        [("show .", true), ("explain .", false), ("trace convert . --snapshot 1 -o out.txt", false)]
    {
        let output = run.roundtrip(args);
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains(acts), "{args}: {said:?}");
        assert!(!names || said.contains(shown), "{args}: {said}");
    }
    let text = std::fs::read_to_string(run.file("out.txt")).unwrap();
    assert!(text.contains(shown) && !text.contains(acts));
    // JSON has the true text.
    let output = run.roundtrip("show --format json .");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        json["environment"]["host_name"].as_str().unwrap().starts_with("\x1b]0;pwn\x07\n\u{9b}2J\u{202e}")
    );
    // Nor does an error's text.
    run.change("run.json", |bytes| {
        *bytes = b"{\"schema\":\"roundtrip.run\",\"version\":\"\\u001b[2J\\u009b\\n\"}".to_vec();
    });
    let output = run.roundtrip("show .");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && !said.contains(acts) && said.lines().count() == 1, "{said:?}");
    let output = run.roundtrip("show no\u{1b}[2Jwhere\u{9b}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains(acts) && said.contains("\\u001b[2J"), "{said:?}");
}

/// The arguments of a program to run on a machine with a hostile name.
const HOSTILE: &str = "ROUNDTRIP_TEST_ARGUMENTS";

#[test]
#[ignore = "the other test runs it in a namespace where it may change the machine's name"]
fn with_a_hostile_host_name() {
    let Ok(args) = std::env::var(HOSTILE) else { return };
    rustix::system::sethostname(b"\x1b]0;pwn\x07\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    panic!("{}", std::os::unix::process::CommandExt::exec(command.args(args.split_whitespace())));
}

#[test]
fn a_machines_name_acts_on_no_terminal_in_a_new_run() {
    let directory = std::env::temp_dir().join(format!("roundtrip-hostile-{}-host", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let unshared = |args: &str| {
        let mut command = Command::new("unshare");
        command.arg("--uts").arg(std::env::current_exe().unwrap());
        command.args(["--exact", "with_a_hostile_host_name", "--ignored", "--nocapture"]);
        command.env(HOSTILE, args).current_dir(&directory).stdin(Stdio::null()).output()
    };
    match Command::new("unshare").args(["--uts", "true"]).output() {
        Ok(output) if output.status.success() => {}
        _ => return skip(Need::Root, "this user may not change a machine's name"),
    }
    for args in [
        "ipc latency --driver emulated --iterations 20",
        "ipc throughput --driver emulated --sizes 4 --min-time 20ms --repetitions 1",
        "ipc workers --driver emulated --workers 2 --iterations 20",
        "ipc floor --duration 50ms --sizes 4",
        "ipc traits --driver emulated --iterations 10",
        "storage layers --no-recorder --writers native --sizes 4k --calls 3 --rounds 1 --file-size 16K",
        "storage interference --no-recorder --neighbours alone --duration 300ms --rounds 1 --file-size 64K",
    ] {
        let output = unshared(args).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("\\u001b]0;pwn\\u0007\\u000a: "), "{args}: {text}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
