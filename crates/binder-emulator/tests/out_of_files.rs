//! A keeper or a joiner that can open no more files: joining fails with one line that names the limit, and does not wait
//! for ever. A program of its own, since the limit is the whole process's.

use std::fs::File;

use binder_driver::Profile;
use binder_emulator::{Context, Emulated};

/// Opens files until this process can open no more.
fn open_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn joining_without_descriptors_ends_with_a_line_that_names_the_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).expect("a lower limit");
    let context = Context::create(Profile::Ack).expect("a context");
    let mut told_by_the_keeper = false;
    for free in 0..16 {
        let mut files = open_all();
        files.truncate(files.len().saturating_sub(free));
        let Err(error) = Emulated::join(context.address(), 4096) else { continue };
        drop(files);
        let text = error.to_string();
        assert!(text.contains("ulimit -n"), "with {free} free: {text}");
        told_by_the_keeper |= text.contains("the process that keeps it");
    }
    assert!(told_by_the_keeper, "its own descriptors never ran out");
    drop(Emulated::join(context.address(), 4096).expect("a keeper that goes on"));
}
