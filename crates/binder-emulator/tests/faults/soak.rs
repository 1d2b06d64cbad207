//! Millions of transactions among eight processes: the use of memory, records and descriptors must
//! not grow after the start.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use roundtrip_binder_driver::Profile;
use roundtrip_binder_emulator::{Context, Usage};

use crate::alone::alone;
use crate::peers::{Peer, REPORT_EVERY};

/// The manager is one of them.
const PROCESSES: usize = 8;
/// How often the use is measured during a run.
const LOOKS: u64 = 20;
/// This many measurements belong to the start.
const WARM_UP: usize = 5;
/// If nothing is sent for this long, a process hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the processes use at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    context: Usage,
    /// The largest private memory of a process, in kilobytes.
    private_kb: u64,
    /// The largest number of descriptors of a process.
    descriptors: u64,
}

impl Used {
    fn now(context: &Context, peers: &[Peer]) -> Self {
        let own = std::process::id();
        let processes = || peers.iter().map(|peer| peer.child.id()).chain([own]);
        Self {
            context: context.usage().expect("its size"),
            private_kb: processes().map(private_kb).max().unwrap_or(0),
            descriptors: processes().map(descriptors).max().unwrap_or(0),
        }
    }

    /// The larger value of each field.
    fn or_more(self, other: Self) -> Self {
        let (a, b) = (self.context, other.context);
        Self {
            context: Usage {
                processes: a.processes.max(b.processes),
                threads: a.threads.max(b.threads),
                nodes: a.nodes.max(b.nodes),
                references: a.references.max(b.references),
                transactions: a.transactions.max(b.transactions),
                buffers: a.buffers.max(b.buffers),
                work: a.work.max(b.work),
                memory_bytes: a.memory_bytes.max(b.memory_bytes),
            },
            private_kb: self.private_kb.max(other.private_kb),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }

    /// Whether it is not more than `before`, with some room for transactions in flight.
    fn has_not_outgrown(self, before: Self) -> bool {
        let (now, then) = (self.context, before.context);
        let about = |now: u32, then: u32| now <= then + then / 2 + 64;
        about(now.threads, then.threads)
            && about(now.nodes, then.nodes)
            && about(now.references, then.references)
            && about(now.transactions, then.transactions)
            && about(now.buffers, then.buffers)
            && about(now.work, then.work)
            && now.memory_bytes <= then.memory_bytes + then.memory_bytes / 4 + (1 << 20)
            && self.private_kb <= before.private_kb + 1024
            && self.descriptors <= before.descriptors + 64
    }
}

/// `RssAnon` (proc_pid_status(5)).
fn private_kb(process: u32) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status"));
    let status = status.expect("a living process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a kernel since 4.5");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn descriptors(process: u32) -> u64 {
    let open = std::fs::read_dir(Path::new("/proc").join(process.to_string()).join("fd"));
    open.expect("a living process").count() as u64
}

/// Runs the processes until they have sent `transactions` to each other, not counting replies.
/// Calls `report` with the use from time to time.
fn soak(profile: Profile, transactions: u64, mut report: impl FnMut(u64, Duration, Used)) {
    let context = Context::create_unlisted(profile).expect("a context");
    let before = Usage { memory_bytes: 0, ..context.usage().expect("its size") };
    let sent = Arc::new(AtomicU64::new(0));
    let mut peers: Vec<Peer> =
        (0..PROCESSES).map(|index| Peer::start(context.address(), index == 0)).collect();
    let counting: Vec<_> = peers
        .iter_mut()
        .map(|peer| {
            let (sent, lines) = (Arc::clone(&sent), peer.take_lines());
            std::thread::spawn(move || {
                for line in lines {
                    let line = line.expect("a pipe");
                    assert!(line.parse::<u64>().is_ok(), "a peer wrote {line:?}");
                    sent.fetch_add(REPORT_EVERY, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let begin = Instant::now();
    let mut looks: Vec<Used> = Vec::new();
    let mut last = (0, begin);
    while looks.len() < LOOKS as usize {
        std::thread::sleep(Duration::from_millis(10));
        let now = sent.load(Ordering::Relaxed);
        if now > last.0 {
            last = (now, Instant::now());
        }
        assert!(last.1.elapsed() < PATIENCE, "nothing is sent any more:\n{}", context.state());
        if now >= transactions * (looks.len() as u64 + 1) / LOOKS {
            looks.push(Used::now(&context, &peers));
            report(now, begin.elapsed(), looks[looks.len() - 1]);
        }
    }
    peers.iter_mut().for_each(Peer::kill);
    counting.into_iter().for_each(|counting| counting.join().expect("no peer has failed"));
    let begin = Instant::now();
    while (Usage { memory_bytes: 0, ..context.usage().expect("its size") }) != before {
        assert!(begin.elapsed() < PATIENCE, "left over: {:?}\n{}", context.usage(), context.state());
        std::thread::sleep(Duration::from_millis(1));
    }
    let (first, later) = looks.split_at(WARM_UP);
    let most = |looks: &[Used]| looks.iter().copied().fold(Used::default(), Used::or_more);
    let (first, later) = (most(first), most(later));
    assert!(later.has_not_outgrown(first), "{first:#?} at first, later {later:#?}");
}

#[test]
fn transactions_among_eight_processes_leak_nothing() {
    let _turn = alone();
    soak(Profile::Ack, 100_000, |_, _, _| {});
}

#[test]
#[ignore = "takes minutes: cargo xtask faults"]
fn ten_million_transactions_among_eight_processes_do_not_grow_memory() {
    let _turn = alone();
    let all = std::env::var("TRANSACTIONS").ok().and_then(|all| all.parse().ok()).unwrap_or(10_000_000);
    println!(
        "{:>12} {:>9} {:>10} {:>10} {:>11} | {:>6} {:>10} {:>12} {:>7} {:>5}",
        "transactions",
        "per s",
        "context KB",
        "private KB",
        "descriptors",
        "nodes",
        "references",
        "transactions",
        "buffers",
        "work"
    );
    soak(Profile::Ack, all, |sent, took, used| {
        let context = used.context;
        println!(
            "{sent:>12} {:>9.0} {:>10} {:>10} {:>11} | {:>6} {:>10} {:>12} {:>7} {:>5}",
            sent as f64 / took.as_secs_f64(),
            context.memory_bytes / 1024,
            used.private_kb,
            used.descriptors,
            context.nodes,
            context.references,
            context.transactions,
            context.buffers,
            context.work,
        );
    });
}
