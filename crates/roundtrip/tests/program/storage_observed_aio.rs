//! `storage observe` of programs that write without a system call of their own for each write:
//! Linux AIO, and calls that copy between files.

use std::process::Command;

use serde_json::Value;

use crate::support::observed::{adds_up, counted, has, number, observe, rows};
use crate::support::storage::Journalled;
use roundtrip_skips::{Need, skip};

/// Submits operations of Linux AIO on a file and waits for them: `aio.py FILE FLAGS OPERATIONS
/// TIMES`. The operations, all submitted at once, are those of `include/uapi/linux/aio_abi.h`: 0
/// reads, 1 writes, 3 makes the data durable.
const AIO: &str = r#"
import ctypes, mmap, os, platform, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
setup, submit, getevents = (206, 209, 208) if platform.machine() == "x86_64" else (0, 2, 4)
path, flags, operations, times = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
page = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
context = ctypes.c_ulong(0)
def call(*arguments):
    result = libc.syscall(*[ctypes.c_long(argument) for argument in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), arguments)
    return result
call(setup, 64, ctypes.addressof(context))
for at in range(times):
    blocks = []
    for place, operation in enumerate(map(int, operations)):
        moves = (address, 4096, (at * len(operations) + place) * 4096) if operation < 2 else (0, 0, 0)
        blocks.append(ctypes.create_string_buffer(struct.pack("=QIIHhIQQqQII", 0, 0, 0, operation, 0, fd, *moves, 0, 0, 0), 64))
    pointers = (ctypes.c_void_p * len(blocks))(*map(ctypes.addressof, blocks))
    assert call(submit, context.value, len(blocks), ctypes.addressof(pointers)) == len(blocks)
    done = ctypes.create_string_buffer(32 * len(blocks))
    left = len(blocks)
    while left:
        left -= call(getevents, context.value, left, left, ctypes.addressof(done), 0)
    for event in range(len(blocks)):
        assert struct.unpack_from("=q", done, 32 * event + 16)[0] >= 0
# A file's name can be looked up only while it is open.
time.sleep(2)
"#;

/// Each row's call, and what asked for durability.
fn durable(observed: &Value) -> Vec<(&str, &str)> {
    rows(observed)
        .iter()
        .map(|row| (row["call"].as_str().unwrap(), row["durable"].as_str().unwrap()))
        .collect()
}

#[test]
fn each_durable_operation_of_linux_aio_is_observed_until_its_completion() {
    if !has(&["python3"]) {
        return;
    }
    let tracefs = roundtrip_tracefs::Tracefs::open().unwrap();
    if !tracefs.has_event("iomap/iomap_dio_rw_begin") {
        return skip(Need::Machine, "this kernel does not show direct writes (Linux 6.6)");
    }
    let Some(journalled) = Journalled::mount_as_root("observed-aio") else { return };
    std::fs::write(journalled.mount.join("aio.py"), AIO).unwrap();
    // For its first direct write that somebody else completes, a file system starts a thread.
    let flags = (libc::O_DIRECT | libc::O_DSYNC).to_string();
    for _ in 0..2 {
        let mut first = Command::new("python3");
        let first = first.args(["aio.py", "first", &flags, "1", "2"]).current_dir(&journalled.mount);
        assert!(first.status().unwrap().success());
    }
    let of = |file: &str, flags: i32, operations: &str| {
        let shell = format!("python3 aio.py {file} {flags} {operations} 40");
        observe(&journalled.mount, &[], &shell)
    };
    // The first writes extend the file, so io_submit itself waits for them. The second ones do not.
    for _ in 0..2 {
        let observed = of("file", libc::O_DIRECT | libc::O_DSYNC, "1");
        adds_up(&observed);
        assert_eq!(durable(&observed), [("aio write", "flag")], "{observed}");
        let row = &rows(&observed)[0];
        assert_eq!((number(&row["latency"]["count"]), number(&row["bytes"])), (40, 40 * 4096));
        assert!(row["file"].as_str().unwrap().ends_with("/mnt/file"), "{row}");
        // A commit of the journal may flush for some of them.
        assert!(number(&row["divided"]["flushes"]) >= 20, "{row}");
    }
    // Neither reads nor writes without the flag are durable.
    let observed = of("file", libc::O_DIRECT, "01");
    assert_eq!(durable(&observed), []);
    // Four operations at a time.
    let observed = of("file", libc::O_DIRECT | libc::O_DSYNC, "1011");
    assert_eq!(counted(&observed)["aio write"], 120, "{observed}");
    // A worker of the kernel makes the data durable.
    let observed = of("file", libc::O_DIRECT, "3");
    adds_up(&observed);
    assert_eq!(durable(&observed), [("aio fsync", "call")], "{observed}");
    assert_eq!(counted(&observed)["aio fsync"], 40);
    // io_submit performs what is not direct.
    let observed = of("buffered", libc::O_DSYNC, "1");
    adds_up(&observed);
    assert_eq!(durable(&observed), [("io_submit", "flag")], "{observed}");
    assert_eq!((counted(&observed)["io_submit"], number(&rows(&observed)[0]["bytes"])), (40, 0));
}

#[test]
fn copies_to_a_durable_file_are_observed() {
    if !has(&["python3"]) {
        return;
    }
    let Some(journalled) = Journalled::mount_as_root("observed-copies") else { return };
    let script = "import os, time\n\
        a = os.open('from', os.O_RDWR | os.O_CREAT, 0o600)\n\
        b = os.open('to', os.O_RDWR | os.O_CREAT | os.O_DSYNC, 0o600)\n\
        os.write(a, b'x' * 8192)\n\
        r, w = os.pipe()\n\
        for i in range(20):\n \
            os.copy_file_range(a, b, 4096, 0, 0)\n \
            os.sendfile(b, a, 0, 4096)\n \
            os.write(w, b'x' * 4096); os.splice(r, b, 4096)\n\
        time.sleep(2)\n";
    std::fs::write(journalled.mount.join("copy.py"), script).unwrap();
    let observed = observe(&journalled.mount, &[], "python3 copy.py");
    adds_up(&observed);
    let counts = counted(&observed);
    for call in ["copy_file_range", "sendfile", "splice"] {
        assert_eq!(counts.get(call), Some(&20), "{counts:?}");
    }
    assert!(
        rows(&observed).iter().all(|row| row["file"].as_str().unwrap().ends_with("/mnt/to")),
        "{observed}"
    );
}

#[test]
fn what_a_file_system_makes_durable_for_any_other_call_is_observed() {
    if !has(&["python3"]) {
        return;
    }
    let Some(journalled) = Journalled::mount_as_root("observed-others") else { return };
    // Opening a file of overlayfs to write copies it, and makes the copy durable.
    let script = "mkdir lower upper work merged && echo text > lower/file && \
                  mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged && \
                  echo more >> merged/file; umount merged";
    let observed = observe(&journalled.mount, &[], script);
    let others = rows(&observed).iter().filter(|row| row["call"] == "sync in the file system");
    assert!(others.map(|row| number(&row["latency"]["count"])).sum::<u64>() >= 1, "{observed}");
}
