//! `roundtrip report`: a page is complete or absent, files are overwritten only on request, and the
//! page of a damaged run shows the damage and the remaining results.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/runs/x86_64-6.1-binder");

/// A temporary folder of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-report-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn report(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        command.arg("report").args(args).current_dir(&self.0).output().unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_page_is_written_and_replaced_only_with_force() {
    let folder = Folder::new("force");
    let output = folder.report(&[RUN, "-o", "page.html"]);
    assert!(output.status.success(), "{}", said(&output));
    let page = folder.read("page.html");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("the server slept for 40.1 of 40.9 ms"), "the answer is there");
    std::fs::write(folder.0.join("page.html"), "mine").unwrap();
    let output = folder.report(&[RUN, "-o", "page.html"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot write page.html: it already exists"), "{}", said(&output));
    assert_eq!(folder.read("page.html"), "mine");
    assert!(folder.report(&[RUN, "-o", "page.html", "--force"]).status.success());
    assert_eq!(folder.read("page.html"), page);
    let names = std::fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(names, 1, "nothing else is left");
}

#[test]
fn several_runs_are_shown_side_by_side_with_their_names() {
    let folder = Folder::new("several");
    let other = RUN.replace("binder", "ufs");
    let output = folder.report(&[RUN, &other, "-o", "both.html"]);
    assert!(output.status.success(), "{}", said(&output));
    let page = folder.read("both.html");
    assert!(page.contains("x86_64-6.1-binder") && page.contains("x86_64-6.1-ufs"));
    // The first is that of their comparison.
    assert_eq!(page.matches("<h1>").count(), 3);
}

#[test]
fn without_a_run_or_a_destination_nothing_is_written() {
    let folder = Folder::new("nothing");
    let output = folder.report(&[RUN]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("-o FILE"), "{}", said(&output));
    let output = folder.report(&["nowhere", "-o", "page.html"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("nowhere"), "{}", said(&output));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn a_damaged_recording_is_reported_and_the_rest_is_shown() {
    let folder = Folder::new("damaged");
    let run = folder.0.join("run");
    copy(Path::new(RUN), &run);
    std::fs::write(run.join("recording/recording.json"), "{").unwrap();
    let output = folder.report(&["run", "-o", "page.html"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("slow calls are not explained"), "{}", said(&output));
    let page = folder.read("page.html");
    assert!(
        page.contains("slow calls are not explained") && page.contains("57.3 ms"),
        "both are on the page"
    );
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}
