//! `storage observe` of unusual programs: some end at once, are killed, or write to memory or to a
//! file system on top of another.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::observed::{
    APPENDER, appending, counted, has, number, observe, observed, roundtrip, rows, text,
};
use crate::support::storage::{Finally, folder};
use roundtrip_skips::{Need, skip};

#[test]
fn programs_that_end_at_once_fork_and_execute_others_are_observed() {
    if !has(&["dd"]) {
        return;
    }
    let directory = folder("observed-ends");
    for shell in ["true", "exit 7", "kill -9 $$", "exec false"] {
        assert!(rows(&observe(&directory, &[], shell)).is_empty(), "{shell}");
    }
    // A grandchild, and a program in the place of the first one.
    let dd = |file: &str, count: u32| {
        format!("dd if=/dev/zero of={file} bs=4k count={count} oflag=dsync 2>/dev/null")
    };
    let shell = format!("sh -c '{} & wait'; exec {}", dd("one", 7), dd("two", 5));
    let observed = observe(&directory, &[], &shell);
    assert_eq!(counted(&observed)["write"], 12, "{observed}");
    // Their names are known from their execve, though they end at once.
    assert!(rows(&observed).iter().all(|row| row["thread"] == "dd"), "{observed}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_program_that_is_killed_is_observed_until_then() {
    if !has(&["python3"]) {
        return;
    }
    let directory = folder("observed-victim");
    let mut program = appending(&directory);
    let mut observer = roundtrip(&directory);
    observer.args(["--pid", &program.id().to_string(), "--duration", "2s"]);
    let observed = std::thread::scope(|scope| {
        let observed = scope.spawn(|| observed(&mut observer));
        std::thread::sleep(Duration::from_secs(1));
        program.kill().unwrap();
        program.wait().unwrap();
        observed.join().unwrap()
    });
    assert!(counted(&observed)["fsync"] > 0, "{observed}");
    assert!(number(&observed["unseen"]["not_ended"]) <= 1, "{observed}");
    std::fs::remove_dir_all(&directory).unwrap();
}

/// A folder with something mounted on `mnt` in it.
fn mounted(directory: &Path, script: &str) -> Option<Finally> {
    let place = directory.display();
    let output = Command::new("sh").args(["-ec", script]).current_dir(directory).output().unwrap();
    if !output.status.success() {
        skip(Need::Machine, text(&output.stderr));
        std::fs::remove_dir_all(directory).unwrap();
        return None;
    }
    Some(Finally::run(&format!("umount '{place}/mnt'; rm -rf '{place}'")))
}

#[test]
fn writes_to_memory_are_counted_and_wait_for_no_device() {
    if !has(&["dd"]) {
        return;
    }
    let directory = folder("observed-memory");
    let Some(_mounted) = mounted(&directory, "mkdir mnt; mount -t tmpfs none mnt") else { return };
    let shell =
        "dd if=/dev/zero of=mnt/file bs=4k count=9 conv=fsync 2>/dev/null; echo 1 > /proc/self/oom_score_adj";
    let observed = observe(&directory, &[], shell);
    assert_eq!(counted(&observed).into_iter().collect::<Vec<_>>(), [("fsync".to_owned(), 1)]);
    assert_eq!(number(&rows(&observed)[0]["divided"]["requests"]), 0, "{observed}");
}

#[test]
fn a_file_on_overlayfs_is_known_by_its_own_path() {
    if !has(&["python3"]) {
        return;
    }
    let directory = folder("observed-overlay");
    let mount = "mkdir mnt low up work; mount -t overlay none -o lowerdir=low,upperdir=up,workdir=work mnt; \
                 touch mnt/file mnt/other";
    let Some(_mounted) = mounted(&directory, mount) else { return };
    std::fs::write(directory.join("append.py"), APPENDER.to_owned() + "import time; time.sleep(3)\n")
        .unwrap();
    let path = directory.join("mnt/file");
    let shell = "python3 append.py mnt/file 20 & python3 append.py mnt/other 10; wait";
    for (arguments, count) in [(&[][..], 30), (&["--file", path.to_str().unwrap()], 20)] {
        let observed = observe(&directory, arguments, shell);
        assert_eq!(counted(&observed)["fsync"], count, "{observed}");
        let named = rows(&observed).iter().filter(|row| Path::new(row["file"].as_str().unwrap()) == path);
        assert_eq!(named.map(|row| number(&row["latency"]["count"])).sum::<u64>(), 20, "{observed}");
    }
}

#[test]
fn a_kernel_thread_and_a_directory_can_be_observed() {
    if !has(&["python3"]) {
        return;
    }
    let directory = folder("observed-directory");
    assert!(rows(&observed(roundtrip(&directory).args(["--pid", "2", "--duration", "200ms"]))).is_empty());
    let shell = "python3 -c \"import os,time; f=os.open('.', os.O_RDONLY)\nfor i in range(6): \
                 open('file%d' % i, 'w').close(); os.fsync(f)\ntime.sleep(1)\"";
    let observed = observe(&directory, &["--file", "."], shell);
    assert_eq!(counted(&observed)["fsync"], 6, "{observed}");
    std::fs::remove_dir_all(&directory).unwrap();
}
