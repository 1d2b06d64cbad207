//! Writes whose layers are known: requests of a journal's thread, which the block layer also
//! counts, and writes held by a control group's limit. Both need root, and are skipped without it.
#![allow(clippy::print_stderr)] // The tests report on standard error what they could not try.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;

use crate::support::storage::{Finally, Journalled, read};
use crate::support::writes::{Recorder, Writing, devices, path_of, writes};
use roundtrip_bench::clock::now_ns;
use roundtrip_bench::sched;
use roundtrip_layers::storage::{Layer, Request, Write, Writes};
use roundtrip_run::Scheduling;
use roundtrip_run::storage::Call;
use roundtrip_run::storage::WriteEvents;
use roundtrip_skips::{Need, skip};

/// Writes and flushes completed by a disk (Documentation/block/stat.rst).
fn completed(disk: &str) -> u64 {
    let stat = read(format!("/sys/block/{disk}/stat"));
    let fields: Vec<u64> = stat.split_whitespace().map(|field| field.parse().unwrap()).collect();
    fields[4] + fields[15]
}

#[test]
fn requests_of_the_journal_thread_are_attributed_to_their_writes() {
    let Some(file_system) = Journalled::mount_as_root("attributed") else { return };
    let file = file_system.mount.join("file");
    let mut open = std::fs::File::create(&file).unwrap();
    open.sync_all().unwrap();
    let path = path_of(&file);
    let disk = path.device.clone().unwrap();
    let tid = sched::gettid();
    let recorder = Recorder::start(&[tid], WriteEvents::Usual);
    let before = completed(&disk.name);
    let calls = write_and_flush(&mut open, 200);
    let counted = completed(&disk.name) - before;
    let trace = recorder.stop();
    let recorded = Writes::new(&trace, devices(&path));
    assert_eq!(recorded.doubts(), []);
    let found = Attributed::of(&recorded, &writes(&calls, tid), tid, disk.dev);
    let Attributed { requests, by_others, unexplained_ns, for_switches_ns, badly_explained } = found;
    let whole_ns: u64 = calls.iter().map(|call| call.latency_ns()).sum();
    let percent = |ns: u64| ns as f64 / whole_ns as f64 * 100.0;
    eprintln!(
        "{requests} of {counted} requests attributed, {by_others} of them queued by another thread than the writer; \
         {:.4}% unexplained, {:.4}% more for {} switches that the kernel did not record",
        percent(unexplained_ns),
        percent(for_switches_ns),
        recorded.unrecorded_switches()
    );
    assert!(counted >= 600, "each call writes data, a journal record and a flush: {counted}");
    assert!(by_others >= 200, "the journal's thread writes for each call: {by_others}");
    assert!(requests * 100 >= counted * 99, "{requests} of {counted}");
    // No request was invented or taken from another writer.
    assert!(requests <= counted, "{requests} of {counted}");
    assert!(unexplained_ns * 1000 <= whole_ns, "{unexplained_ns} ns of {whole_ns}");
    assert!(badly_explained * 100 <= calls.len(), "{badly_explained} calls have more than 1% unexplained");
}

/// Writes and flushes `count` times.
fn write_and_flush(file: &mut std::fs::File, count: usize) -> Vec<Call> {
    let data = vec![7_u8; 16 << 10];
    let call = |_| {
        let start_ns = now_ns();
        file.write_all(&data).unwrap();
        file.sync_all().unwrap();
        Call { start_ns, end_ns: now_ns() }
    };
    (0..count).map(call).collect()
}

/// What the recorded events say about all writes of a thread.
#[derive(Default)]
struct Attributed {
    /// The number of different requests to the disk.
    requests: u64,
    /// Of these, the requests that another thread queued.
    by_others: usize,
    unexplained_ns: u64,
    /// Unexplained because the kernel did not record switches: some virtual machines' kernels omit
    /// them, anywhere between two events of their CPU.
    for_switches_ns: u64,
    /// The number of writes with more than 1% unexplained.
    badly_explained: usize,
}

impl Attributed {
    fn of(recorded: &Writes, writes: &[Write], tid: u32, disk: u32) -> Self {
        let name = |request: &Request| (request.issued_ns, request.sector, request.flush);
        let mut requests = BTreeSet::new();
        let mut found = Self::default();
        for &write in writes {
            let layers = recorded.layers(write);
            assert!(layers.missing.is_none(), "the buffers are too small for this test");
            found.for_switches_ns += layers.unexplained_for_switches_ns;
            let unexplained = layers.total_ns(Layer::Unexplained) - layers.unexplained_for_switches_ns;
            found.unexplained_ns += unexplained;
            if unexplained * 100 > write.end_ns - write.start_ns {
                found.badly_explained += 1;
                eprintln!("unexplained in {write:?}: {:?}", layers.pieces);
            }
            for request in layers.requests.iter().filter(|request| request.dev == disk && request.write) {
                let helped = request.queued.iter().any(|&(_, by)| by != tid);
                found.by_others += usize::from(requests.insert(name(request)) && helped);
            }
        }
        found.requests = requests.len() as u64;
        found
    }
}

/// A control group with a limit on writes per second to a device, containing one process, until it
/// is dropped.
fn throttle(pid: u32, dev: u32, writes_per_second: u32) -> Result<Finally, String> {
    let device = format!("{}:{}", dev >> 20, dev & 0xf_ffff);
    let name = format!("roundtrip-test-{}", std::process::id());
    let first = PathBuf::from("/sys/fs/cgroup/blkio");
    let (above, file, limit) = if first.join("blkio.throttle.write_iops_device").exists() {
        (first, "blkio.throttle.write_iops_device", format!("{device} {writes_per_second}"))
    } else {
        let unified = PathBuf::from("/sys/fs/cgroup");
        let has = std::fs::read_to_string(unified.join("cgroup.subtree_control")).unwrap_or_default();
        if !has.split_whitespace().any(|controller| controller == "io") {
            return Err("no control group here limits I/O: neither blkio nor a delegated 'io'".into());
        }
        (unified, "io.max", format!("{device} wiops={writes_per_second}"))
    };
    let group = above.join(name);
    let failed = |path: &PathBuf, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir(&group).map_err(|error| failed(&group, error))?;
    // A group can be removed when it is empty.
    let clean = format!(
        "for i in 1 2 3 4 5 6 7 8 9; do for p in $(cat '{0}/cgroup.procs'); do echo $p > '{1}/cgroup.procs'; done; rmdir '{0}' \
         && exit; sleep 0.2; done",
        group.display(),
        above.display()
    );
    let finally = Finally::run(&clean);
    let put = |file: &str, text: &str| {
        let path = group.join(file);
        std::fs::write(&path, text).map_err(|error| failed(&path, error))
    };
    put(file, &limit)?;
    put("cgroup.procs", &pid.to_string())?;
    Ok(finally)
}

#[test]
fn a_throttled_write_is_held() {
    let Some(file_system) = Journalled::mount_as_root("held") else { return };
    let real_time = Some(Scheduling::fifo(50));
    let mut writing = Writing::start(&file_system.mount.join("file"), real_time, None);
    let path = writing.path();
    let tid = writing.tid();
    // The held time, the other time without waiting for a CPU, and all layers as text.
    let held = |writing: &mut Writing, calls: u32| {
        let recorder = Recorder::start(&[tid], WriteEvents::Usual);
        let calls = writing.write(calls);
        let trace = recorder.stop();
        let recorded = Writes::new(&trace, devices(&path));
        let whole_ns: u64 = calls.iter().map(|call| call.latency_ns()).sum();
        let layers: Vec<_> = writes(&calls, tid).iter().map(|&write| recorded.layers(write)).collect();
        let total_ns = |layer: Layer| layers.iter().map(|one| one.total_ns(layer)).sum::<u64>();
        let share = |layer: Layer| total_ns(layer) as f64 / whole_ns as f64;
        let shares: Vec<_> =
            Layer::ALL.iter().map(|&layer| format!("{} {:.3}", layer.name(), share(layer))).collect();
        let lost = layers.iter().filter(|one| one.missing.is_some()).count();
        let others_ns: u64 = [Layer::Wake, Layer::Stolen, Layer::Preempted].map(total_ns).iter().sum();
        let text = format!("{}; {lost} calls lost events", shares.join(", "));
        (total_ns(Layer::Held), whole_ns - others_ns, text)
    };
    // Other work may delay the loop device's worker even without a limit, but not every time.
    let free: Vec<_> = (0..4).map(|_| held(&mut writing, 20)).collect();
    let limit = throttle(writing.writer.opened.pid, path.device.as_ref().unwrap().dev, 50);
    let _limit = match limit {
        Ok(limit) => limit,
        Err(reason) => {
            return skip(Need::Machine, reason);
        }
    };
    assert!(free.iter().any(|(held_ns, rest_ns, _)| held_ns * 10 < *rest_ns), "without a limit: {free:?}");
    for _ in 0..4 {
        let (held_ns, rest_ns, layers) = held(&mut writing, 20);
        eprintln!("with a limit of 50 writes a second: {layers}");
        // The worker that releases a write must also wait for a CPU. On a busy machine, that and
        // everything else take longer.
        assert!(held_ns * 2 > rest_ns, "{layers}");
    }
}
