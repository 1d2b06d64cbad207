//! Writes beside another writer with a known effect: it commits to the same journal. Runs alone, so
//! that no other test causes load. Needs root, and is skipped without it.

use std::process::Command;

use roundtrip_skips::{Need, Quiet, skip};

use crate::support::storage::Journalled;

#[test]
fn commits_of_another_process_lengthen_durable_writes_and_the_page_shows_it() {
    let Some(file_system) = Journalled::mount_as_root("commits") else { return };
    let roundtrip = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        let output =
            command.args(line.split_whitespace()).current_dir(&file_system.directory).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    // Other load on this machine may hide it once, but not always.
    let (mut answers, quiet) = (Vec::new(), Quiet::watch());
    for _ in 0..5 {
        roundtrip(
            "storage interference --conditions fsync --durability fsync --position append --rounds 12 \
             --duration 12s --file mnt/written --out run --force",
        );
        roundtrip("report run -o page.html --force");
        let page = std::fs::read_to_string(file_system.directory.join("page.html")).unwrap();
        let answer = page.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap().0.to_owned();
        let says = answer
            .contains("With another process that makes its writes durable (fsync), a write takes")
            && answer.contains("it spends more time");
        answers.push(answer);
        if says {
            return;
        }
    }
    if let Some(why) = quiet.disturbance() {
        return skip(Need::Quiet, why);
    }
    panic!("{answers:#?}");
}
