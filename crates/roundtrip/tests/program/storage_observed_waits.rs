//! Causes of waits other than a plain flush: several threads at once, mappings, ranges, reads and
//! dirty limits. Each is produced on purpose, and `storage observe` must find it.

use std::collections::BTreeMap;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::support::observed::{adds_up, has, number, observe, rows};
use crate::support::storage::{Journalled, folder};
use roundtrip_skips::{Need, skip};
use serde_json::Value;

/// Observes a Python program, which writes to the disk of the build directory.
fn observe_python(directory: &Path, program: &str) -> Value {
    std::fs::write(directory.join("program.py"), program).unwrap();
    observe(directory, &[], "python3 program.py")
}

/// The rows of one call, with or without a request for durability.
fn of<'a>(observed: &'a Value, call: &str, durable: &str) -> Vec<&'a Value> {
    rows(observed).iter().filter(|row| row["call"] == call && row["durable"] == durable).collect()
}

fn calls(rows: &[&Value]) -> u64 {
    rows.iter().map(|row| number(&row["latency"]["count"])).sum()
}

/// The total time of a layer in some rows, in nanoseconds.
fn layer_ns(rows: &[&Value], layer: &str) -> u64 {
    rows.iter().filter_map(|row| row["divided"]["layers"][layer]["sum_ns"].as_u64()).sum()
}

#[test]
fn threads_that_wait_at_the_same_time_have_separate_rows() {
    if !has(&["python3"]) {
        return;
    }
    let directory = folder("observed-threads");
    let program = "import os,threading\n\
        def work(n):\n f=os.open('file%d'%n,os.O_RDWR|os.O_CREAT,0o600)\n \
        for i in range(40):\n  os.write(f,b'x'*4096); os.fdatasync(f)\n\
        ts=[threading.Thread(target=work,args=(n,)) for n in range(4)]\n\
        [t.start() for t in ts]; [t.join() for t in ts]\n";
    let observed = observe_python(&directory, program);
    adds_up(&observed);
    let syncs = of(&observed, "fdatasync", "call");
    let by_thread: BTreeMap<u64, u64> =
        syncs.iter().map(|row| (number(&row["tid"]), number(&row["latency"]["count"]))).collect();
    assert_eq!(by_thread.values().copied().collect::<Vec<_>>(), [40; 4], "{observed}");
    assert!(syncs.iter().all(|row| row["process"] == syncs[0]["process"]));
    // Each thread waits for its own requests, and its row contains no time of other threads.
    assert!(
        syncs
            .iter()
            .all(|row| number(&row["divided"]["flushes"]) + number(&row["divided"]["requests"]) >= 40)
    );
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn mappings_and_ranges_are_counted_and_wait_for_the_device() {
    if !has(&["python3"]) {
        return;
    }
    let directory = folder("observed-mapped");
    let program = "import os,mmap,ctypes\n\
        f=os.open('mapped',os.O_RDWR|os.O_CREAT,0o600); os.ftruncate(f,1<<20)\n\
        m=mmap.mmap(f,1<<20)\n\
        for i in range(30):\n m[i*4096]=i+1; m.flush()\n\
        libc=ctypes.CDLL(None); g=os.open('ranges',os.O_RDWR|os.O_CREAT,0o600)\n\
        for i in range(25):\n os.write(g,b'x'*4096)\n \
        libc.sync_file_range(g,ctypes.c_longlong(i*4096),ctypes.c_longlong(4096),ctypes.c_uint(7))\n";
    let observed = observe_python(&directory, program);
    adds_up(&observed);
    for (call, count) in [("msync", 30), ("sync_file_range", 25)] {
        let rows = of(&observed, call, "call");
        assert_eq!(calls(&rows), count, "{call}: {observed}");
        assert!(layer_ns(&rows, "device") > 0, "{call}: {rows:?}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_write_that_has_to_read_first_is_shown_with_its_reads() {
    if !has(&["python3"]) {
        return;
    }
    let directory = folder("observed-reads");
    // Writes half of each of 40 pages that are not in memory. The file's name can be looked up
    // while it is open.
    let program = "import os,time\n\
        f=os.open('file',os.O_RDWR|os.O_CREAT,0o600); os.write(f,b'x'*(8<<20)); os.fsync(f)\n\
        os.posix_fadvise(f,0,0,os.POSIX_FADV_DONTNEED); os.posix_fadvise(f,0,0,os.POSIX_FADV_RANDOM)\n\
        for i in range(40):\n os.pwrite(f,b'y'*2048,i*(200<<10)+1024)\n\
        time.sleep(2)\n";
    let observed = observe_python(&directory, program);
    adds_up(&observed);
    let written = of(&observed, "pwrite64", "no");
    assert_eq!(calls(&written), 40, "{observed}");
    let reads: u64 = written.iter().map(|row| number(&row["divided"]["reads"])).sum();
    assert!(reads >= 40 && layer_ns(&written, "device") > 0, "{written:?}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_write_that_dirty_limits_stall_is_held() {
    if !has(&["dd"]) {
        return;
    }
    let Some(journalled) = Journalled::mount_as_root("observed-dirty") else { return };
    // Changes the limits of this device only, because those of the machine affect all programs.
    let dev = std::fs::metadata(&journalled.mount).unwrap().st_dev();
    let bdi = PathBuf::from(format!("/sys/class/bdi/{}:{}", dev >> 8 & 0xfff, dev & 0xff));
    for (file, value) in [("max_bytes", "1048576"), ("strict_limit", "1")] {
        if let Err(error) = std::fs::write(bdi.join(file), value) {
            return skip(Need::Machine, format!("{}: {error}", bdi.join(file).display()));
        }
    }
    let shell = "dd if=/dev/zero of=file bs=64k count=640 2>/dev/null";
    let observed = observe(&journalled.mount, &[], shell);
    let stalled = of(&observed, "write", "no");
    let throttled: u64 = stalled.iter().map(|row| number(&row["throttled"])).sum();
    assert!(throttled >= 3, "{observed}");
    let (held_ns, all_ns) = (
        layer_ns(&stalled, "held"),
        stalled.iter().map(|row| number(&row["divided"]["sum_ns"])).sum::<u64>(),
    );
    assert!(held_ns * 2 > all_ns, "{held_ns} of {all_ns} ns are held: {stalled:?}");
}
