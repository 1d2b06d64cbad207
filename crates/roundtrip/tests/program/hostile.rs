//! Run directories of unknown origin: damage is reported, and special files and too long files are
//! rejected.

use std::process::{Command, Stdio};

use crate::support::stored_run::Run;

/// Reproducible random bytes.
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
fn special_files_and_long_files_are_rejected() {
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
fn sparse_pages_use_no_memory_and_count_as_damaged() {
    let run = Run::new("sparse");
    let pages = run.file(&run.pages()[0]);
    std::fs::File::create(&pages).unwrap().set_len(1 << 40).unwrap();
    run.refused("explain .", "at most");
    std::fs::File::create(&pages).unwrap().set_len(3 << 30).unwrap();
    let output = run.roundtrip("trace convert . --snapshot 1 -o out.txt");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(["damaged", "memory", "at most"].iter().any(|hint| said.contains(hint)), "{said}");
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

/// Damages the recording of a run in several ways. Each is reported in one line, and the figures
/// that need no recording are shown. `lost` is the text that cannot be shown.
fn is_shown_without_its_recording(whole: &Run, run: impl Fn(&str) -> Run, lost: &str) {
    let whole = String::from_utf8(whole.roundtrip("show .").stdout).unwrap();
    assert!(whole.contains(lost), "its recording is used: {whole}");
    for kind in ["noise", "header", "removed"] {
        let run = run(kind);
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
        // The figures that need no recording are shown.
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() > 5 && text.lines().next() == whole.lines().next(), "{kind}: {text}");
        assert!(!text.contains("events were lost") && !said.contains("lost"), "{kind}: {text}{said}");
        assert!(!text.contains(lost), "{kind}: of a recording that cannot be read: {text}");
    }
}

#[test]
fn a_storage_run_with_a_damaged_recording_is_shown_with_the_damage() {
    let of = |name: &str| Run::of("x86_64-6.1-ufs", name);
    is_shown_without_its_recording(&of("whole"), of, "unexplained");
}

#[test]
fn an_interference_run_with_a_damaged_recording_is_shown_with_the_damage() {
    let of = |name: &str| Run::interference(&format!("beside-{name}"));
    is_shown_without_its_recording(&of("whole"), of, "completions alone: irq > softirq");
}

#[test]
fn damage_is_reported_even_if_the_output_is_closed() {
    let run = Run::of("x86_64-6.1-ufs", "unread");
    run.change(&run.pages()[0], |bytes| *bytes = noise(bytes.len()));
    let (reader, unread) = std::io::pipe().unwrap();
    drop(reader);
    // Of the two runs, the damaged one comes after the output is closed.
    let whole = Run::of("x86_64-6.1-ufs", "unread-whole");
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.arg("show").args([&whole.0, &run.0]).stdin(Stdio::null()).stdout(unread);
    let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.lines().count() == 1 && said.contains("snapshot 1 is damaged"), "{said}");
}
