//! All terms in reports, with their meanings. `roundtrip help terms` shows this list, and the
//! documents' glossary is generated from it. Must not know which report prints a term.

use std::fmt::Write as _;

/// Terms that have the same meaning or explain each other, and their meaning. Both may contain
/// Markdown.
type Term = (&'static str, &'static str);

/// All terms, in groups.
static TERMS: &[(&str, &[Term])] = &[
    (
        "Binder",
        &[
            ("round trip, call", "a synchronous transaction with its reply, from the client's point of view"),
            (
                "transaction",
                "one message through the driver: a request, a reply, or a oneway request, which has no reply",
            ),
            ("parcel", "the container that binder's arguments are written into one after the other"),
            (
                "scatter-gather",
                "hwbinder's way to pass arguments: the driver copies them from the caller's memory, without a \
                 parcel",
            ),
            ("node", "an object that a process serves, as the driver knows it"),
            ("handle", "the number by which another process names a node; 0 is the context manager"),
            ("client, server", "the process that makes a call, and the one that serves it"),
            ("code", "the number of the method that is called"),
            (
                "pool",
                "the threads of a server that took the calls, by their names with each number replaced by `#`: `Binder:#_#` are the threads that libbinder starts; a name without `#` usually belongs to a single thread",
            ),
            ("threads", "how many threads of the pool, or of the server, served"),
            (
                "behind pool",
                "how long no thread of the server was ready to take a request, as a mean over all calls",
            ),
            ("oneway", "transactions without a reply, timed from sending until a thread takes them"),
            ("failed", "calls that ended with an error of the driver or of the system call"),
            (
                "context manager, service manager",
                "the process that owns handle 0 and hands out handles to services by name",
            ),
            (
                "context",
                "the processes that can reach each other through one binder device or one emulated driver",
            ),
            ("service", "an object that the service manager hands out by name"),
            ("interface", "the descriptor that names a service's methods, such as `roundtrip.IBenchmark`"),
            ("looper", "a thread that serves transactions"),
            ("passthrough", "hwbinder's call of a service in the client's own process, without the driver"),
            (
                "driver, kernel driver",
                "what carries transactions: the binder driver of the running kernel, or the emulated one",
            ),
            (
                "emulated driver",
                "Roundtrip's own driver in user space, which implements the same protocol between processes \
                 of one user",
            ),
            (
                "profile",
                "which kernel's priority rules the emulated driver follows: `ack` is Android's common kernel, `mainline` is Linux's",
            ),
            (
                "stack, binder, hwbinder",
                "Android's two stacks over the driver: `binder` passes parcels, `hwbinder` scattered data",
            ),
        ],
    ),
    (
        "Latency and scheduling",
        &[
            (
                "legs",
                "the parts of a round trip: *request* until the server's handler starts, *handling* within it, *reply* until the client runs again",
            ),
            ("deadline, miss, missed", "the longest time that a call may take, and a call that took longer"),
            (
                "p50, p90, p95, p99, p99.9, p99.99",
                "percentiles, within 0.1%: this percentage of the calls took at most that long",
            ),
            ("wakeup", "the moment when the kernel makes a sleeping thread runnable"),
            ("runnable", "ready to run, but another thread has the CPU"),
            ("preempted", "was running, and lost its CPU while still runnable"),
            ("synchronous wakeup", "a wakeup on the waker's own CPU, because the waker is about to sleep"),
            (
                "seccomp user notification",
                "the kernel mechanism by which the emulated driver makes wakeups synchronous",
            ),
            ("softirq", "work that an interrupt handler defers until just after the interrupt"),
            ("stolen", "CPU time of a thread that an interrupt, a softirq or the hypervisor used"),
            ("real-time", "scheduled with `SCHED_FIFO` or `SCHED_RR`, at a priority from 1 to 99"),
            (
                "priority inversion",
                "a real-time thread waits for a thread that lower-priority threads keep off the CPU",
            ),
            ("priority inheritance", "during a call, the server runs with its caller's policy and priority"),
            ("PI futex", "a futex-based lock whose owner inherits the priority of its waiters"),
            (
                "background load",
                "processes that use a resource during a measurement; a *hog* keeps a CPU busy all the time",
            ),
            ("placement", "which CPUs client and server may use: `free`, `same`, `split`"),
            ("baseline", "a round trip over another transport, such as a futex, for comparison"),
            ("open loop", "calls begin at a fixed rate, whether or not the last one has returned"),
            ("request, handling, reply", "the legs of a round trip"),
            (
                "response",
                "the time from a call's scheduled start to its reply, including the wait behind slow calls; \
                 for a write, the whole call",
            ),
            ("caller", "a thread that calls, named by its scheduling policy: `fifo:99`, `other`"),
            ("pair", "a client process and its own server process"),
            ("met", "the share of calls that met the deadline, in percent"),
            ("served as", "how the server's thread was scheduled in most calls"),
            ("inherited", "the share of calls that were served with the caller's policy and priority"),
            ("same CPU", "the share of calls that were served on the caller's CPU"),
            ("CPU changes", "how often a caller began a call on another CPU than its previous one"),
            ("migrations", "how often the scheduler moved a thread to another CPU"),
            ("run delay", "how long a thread was runnable without a CPU"),
            ("voluntary switches", "how often a thread gave up its CPU to wait"),
            ("involuntary", "how often a thread was preempted"),
            ("legs of, threads of", "the caller that a row belongs to"),
            ("off, on", "without and with what is compared: real-time inheritance, or the flight recorder"),
            ("transport", "a way to make a round trip between two processes"),
            (
                "futex",
                "the system call to wait on a word in shared memory; the shortest round trip of the baseline",
            ),
            ("one way", "payload bytes in one direction per second"),
            ("calls/s", "calls per second"),
            ("aspect", "a row of Android's comparison of its two stacks"),
        ],
    ),
    (
        "Storage",
        &[
            (
                "synchronous write",
                "a write that returns only when the data is on the device: with `O_DSYNC` or `O_SYNC`, or \
                 followed by `fsync`",
            ),
            (
                "layer",
                "the component that a part of a write's time belongs to; [Where a write spends its \
                 time](storage.md) defines each",
            ),
            (
                "platform",
                "the runtime between the application and its system calls, such as a Java virtual machine",
            ),
            ("kernel", "in the study's division, the time of a write in the file system and the block layer"),
            ("contention", "waits for a CPU that other threads have; then in no other part of a write"),
            ("host share", "the share of a write's time that is not the device's"),
            ("flush", "a request that makes a device's volatile cache durable"),
            (
                "held",
                "a write that is held back before its request is queued, for example by a control group's \
                 limit or by too many dirty pages",
            ),
            ("process, thread", "the process and the thread that make an observed write"),
            ("file", "the file that is written, or made durable"),
            ("requests, flushes, reads", "the requests to a device on behalf of a write"),
            (
                "buffered",
                "a write that does not ask for durability but waits for the device all the same, because too \
                 many pages are dirty or because it has to read first",
            ),
            (
                "another's commit",
                "a journal commit that another thread had begun; a flush waits for it before its own commit",
            ),
            ("writer", "how the application writes: by system calls, Java, io_uring"),
            ("durability", "how a write is made durable: `O_SYNC`, `O_DSYNC`, `fsync`, `fdatasync`"),
            ("fs", "the application's own work within the system call"),
            ("helper", "a thread that works for a write: the journal's, or a worker"),
            ("block", "the request is queued, but the controller does not have it yet"),
            ("device", "from the moment when the controller gets the request to its interrupt"),
            ("irq", "from the interrupt to the wakeup of the waiting thread; in *irqs/write* an interrupt"),
            ("wake", "from the wakeup until the thread runs"),
            ("application", "the whole write as the application sees it"),
            ("system calls", "the time within system calls, without the platform"),
            ("under strace, by strace", "measured while strace(1) traces, and reported by strace itself"),
            (
                "application less strace",
                "the application's time minus the time of the system calls by strace; the study calls it the \
                 platform",
            ),
            ("alone, beside", "without the background load or setting that is compared, and with it"),
            ("CPU frequency", "of the writer's first CPU, at the end of a block"),
            ("interrupt's CPU", "the CPUs that handled the device's interrupts"),
            (
                "irqs/write, IPIs, IPIs /write",
                "interrupts for each write; IPIs are interrupts that CPUs send each other",
            ),
            (
                "completed elsewhere",
                "the share of requests completed on another CPU than the one that handled the interrupt",
            ),
            ("others' CPU/write", "the CPU time that other tasks used on the writer's CPU, for each write"),
            ("writes disturbed", "the share of writes that other tasks delayed"),
            ("waited for CPU/write", "how long the writer was runnable without a CPU, for each write"),
            ("load's CPU", "the CPU time of the background load, in percent of one CPU"),
            ("load did", "how much the background load did, in its own unit"),
        ],
    ),
    (
        "Results",
        &[
            ("run", "a stored measurement: the directory that `--out` creates, and its contents"),
            ("recording", "the kernel's events of a run, as raw trace buffers"),
            ("explanation", "a slow call in parts that add up to it, each with its owner and state"),
            ("unexplained", "the time that no event accounts for; always shown"),
            ("loss", "events that the kernel overwrote before they were read; always counted"),
            (
                "cannot tell",
                "the measurement does not answer the question: two causes look alike, or the noise is larger \
                 than the difference",
            ),
            ("calls", "how many calls or writes a row is made of"),
            ("seconds", "the time of all calls of a row, in seconds"),
            ("usecs/call", "the mean time of a call, in whole microseconds"),
            ("errors", "calls that returned an error"),
            ("syscall", "the name of a system call"),
            ("size", "the payload of a call, each way, or the bytes of a write"),
            ("min, mean, max", "the shortest, the average and the longest"),
            ("stdev", "the standard deviation"),
            ("time", "of a round trip, median over the batches"),
            ("CPU", "the CPU time of a call in a table of times; elsewhere the number of a processor"),
            ("all", "all rows above, or everything together"),
            ("+-%", "half the interquartile range, in percent of the median"),
            ("ratio", "of two times; above 1 the second is longer"),
            ("on/off", "the ratio of the time with the flight recorder to that without"),
            ("/futex", "the ratio to the futex in the same round"),
            (
                "95% interval, 99% interval",
                "an interval that contains the true value in 95, or 99, of 100 cases",
            ),
            ("flight recorder", "the recorder that keeps the latest kernel events, to explain slow calls"),
            (
                "at, for",
                "when a part of a slow call begins, from the start of the call, and how long it lasts",
            ),
            ("of, what", "whose time it was, and what happened"),
            ("figure, value", "a number of a run by its name, such as p99, and what it is, with its unit"),
            ("samples", "how many calls or rounds a figure rests on"),
            ("number", "a slow call's rank: 1 is the slowest"),
            ("took, usually", "how long a slow call took, and the median of the calls of its kind"),
            ("cause", "what delayed a slow call, in a few words"),
            ("time lost", "how long all slow calls together waited for a cause"),
            ("worst", "the most that one call or write lost to a cause"),
            (
                "reason, why",
                "why a slow call or write did not move at an instant, wherever it was: it waited for a CPU, for a \
                 device, for another thread",
            ),
            ("write, layers", "a slow write, and the layers with most of its time"),
            ("share", "of all time of the rows, in percent"),
            ("main reason of", "how many of the writes this reason cost most time"),
            ("most in one", "the most time that one write lost to this reason"),
            ("without", "the cause that the other figures of the row assume to be mended"),
            ("base, new", "the runs to compare with, and the runs that are judged"),
            ("verdict", "better, worse, the same, or cannot tell"),
            ("runs needed", "about how many runs of each side would be enough for a verdict"),
            ("events", "records of what the kernel did"),
            ("overwritten", "events that newer ones replaced in a trace buffer before they were read"),
            ("lost", "events that could not be recorded"),
            ("label", "a key and a value that `--label` stores with a run, to tell runs apart"),
            ("partial", "a run that Ctrl-C or SIGTERM ended before it was complete"),
        ],
    ),
];

/// The single terms of an entry.
fn each(terms: &'static str) -> impl Iterator<Item = &'static str> {
    terms.split(", ")
}

/// Text without Markdown: links are replaced by their text, and emphasis is removed.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        out.push_str(before);
        let (words, behind) = link.split_once(']').unwrap_or((link, ""));
        out.push_str(words);
        rest = behind.strip_prefix('(').and_then(|target| Some(target.split_once(')')?.1)).unwrap_or(behind);
    }
    out.push_str(rest);
    out.replace(['`', '*'], "")
}

/// The terms as text, or only the `wanted` ones; `None` if there is no such term. `entry` writes a
/// term and its meaning.
pub fn text(wanted: &[String], mut entry: impl FnMut(&mut String, &str, &str)) -> Option<String> {
    let is_wanted = |terms: &'static str| {
        wanted.is_empty() || each(terms).any(|term| wanted.iter().any(|word| word.eq_ignore_ascii_case(term)))
    };
    let mut out = String::new();
    for (group, terms) in TERMS {
        let mut terms = terms.iter().filter(|(terms, _)| is_wanted(terms)).peekable();
        if terms.peek().is_some() && wanted.is_empty() {
            let gap = if out.is_empty() {
                ""
            } else {
                "
"
            };
            let _ = writeln!(out, "{gap}{group}:");
        }
        terms.for_each(|(terms, meaning)| entry(&mut out, terms, &format!("{}.", plain(meaning))));
    }
    (!out.is_empty()).then_some(out)
}

/// The glossary for the documents.
#[must_use]
pub fn markdown() -> String {
    let mut out = "# Glossary\n\n`roundtrip help terms` prints this.\n".to_owned();
    for (group, terms) in TERMS {
        let _ = write!(out, "\n## {group}\n\n| term | meaning |\n|---|---|\n");
        for (terms, meaning) in *terms {
            let _ = writeln!(out, "| {terms} | {meaning} |");
        }
    }
    out
}

/// Whether the words of a table's header are a sequence of terms. Figures, such as sizes, need no
/// term.
#[must_use]
pub fn explain(header: &str) -> bool {
    let header = header.trim_start_matches([' ', ':']);
    if header.is_empty() {
        return true;
    }
    let interval = ["95%", "99%"].iter().any(|one| header.starts_with(&format!("{one} interval")));
    if header.starts_with(|c: char| c.is_ascii_digit()) && !interval {
        return header.split_once(' ').is_none_or(|(_, unit)| ["B", "KiB", "MiB"].contains(&unit));
    }
    let all = TERMS.iter().flat_map(|(_, terms)| *terms).flat_map(|(terms, _)| each(terms));
    let mut rests = all
        .filter_map(|term| header.strip_prefix(term))
        .filter(|rest| rest.is_empty() || rest.starts_with([' ', ':', '/', '+']));
    rests.any(|rest| explain(rest.strip_prefix(['+', '/']).filter(|rest| !rest.is_empty()).unwrap_or(rest)))
}

#[cfg(test)]
mod tests;
