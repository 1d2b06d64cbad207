//! Processes that only supervise a context.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use roundtrip_binder_driver::Profile;
use roundtrip_binder_emulator::Context;

use crate::stepping;

const SUPERVISOR: &str = "a supervisor";

/// Starts a supervisor and returns its context's address.
pub(crate) fn start() -> (Child, String) {
    let mut child = stepping::start(SUPERVISOR, "")
        .stderr(Stdio::piped())
        .spawn()
        .expect("this test can be started again");
    let mut address = String::new();
    let read = BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut address);
    read.expect("an address");
    (child, address.trim_end().to_owned())
}

/// In a supervisor: keeps a context until it is killed. Returns false if this process is not a
/// supervisor.
pub(crate) fn play(scenario: &str) -> bool {
    if scenario == SUPERVISOR {
        let context = Context::create_unlisted(Profile::Ack).expect("a context");
        std::io::stderr().write_all(format!("{}\n", context.address()).as_bytes()).expect("the parent");
        loop {
            std::thread::park();
        }
    }
    false
}
