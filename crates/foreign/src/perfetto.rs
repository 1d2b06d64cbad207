//! Perfetto traces: the packets with ftrace events, and those needed to interpret them. All others
//! are skipped. Field numbers are those of Perfetto's public `.proto` files
//! (`protos/perfetto/trace`). Must not know what events mean.

mod bundle;
mod compact;
mod described;
mod packets;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{self, BufRead};

use roundtrip_files::Budget;
use roundtrip_perfetto::read::{Fields, Message, TRUNCATED, Value};

use crate::collect::{Collected, MOST_CPUS};
use crate::compressed::{Method, unpack};
use crate::error::{Error, Result};
use crate::opening::failure;
use crate::text::program;
use crate::threads::Threads;
use crate::{BYTES_EACH, Foreign, MAX_PART_BYTES, MOST_UNPACKED_BYTES, Tool};
use described::Described;
use packets::{Next, Packets};

const FORM: &str = "Perfetto's trace";

/// Clocks (`BuiltinClock`).
const MONOTONIC_RAW: u64 = 5;
const BOOTTIME: u64 = 6;

/// More kinds of events than a kernel has.
const MAX_EVENT_NAMES: usize = 10_000;

/// The path from a trace's configuration to the names of its kernel events: `data_sources`,
/// `config`, `ftrace_config`, `ftrace_events`.
const CONFIG: &[u32] = &[2, 1, 100, 1];

/// Whether the bytes are a Perfetto trace: a message that begins with field 1, a packet.
pub(crate) fn is(bytes: &[u8]) -> bool {
    let mut trace = Message::new(bytes);
    matches!(bytes.first(), Some(0x0a))
        && matches!(trace.next(), Some(Ok((1, Value::Bytes(packet)))) if Message::new(packet).all(|one| one.is_ok()))
}

/// Reads a Perfetto trace.
///
/// # Errors
/// Those of [`crate::read`].
pub(crate) fn read<'a>(open: &dyn Fn() -> Box<dyn BufRead + 'a>, budget: &Budget) -> Result<Foreign> {
    let mut reader = Reader::new(budget);
    let mut foreign = Foreign::new(Tool::Perfetto);
    let mut unreadable = None;
    // Events may refer to later packets.
    for pass in [Pass::Context, Pass::Events] {
        reader.pass = pass;
        if let Err(error) = reader.stream(Packets::new(open()), &mut foreign) {
            unreadable = Some(failure(&error)?);
        }
        if pass == Pass::Context {
            reader.unpacked_left = MOST_UNPACKED_BYTES;
        }
    }
    reader.collected.check(&foreign.trace.names)?;
    if reader.bundles == 0 {
        let what =
            "it has no kernel events (ftrace_events): record it with the data source linux.ftrace".to_owned();
        return Err(Error::Unsupported { form: FORM, what });
    }
    foreign.clock = Some(match reader.clock {
        None => "boot".to_owned(),
        Some(name) => name.to_owned(),
    });
    foreign.lost_events = reader.lost.values().map(|counts| counts.1.saturating_sub(counts.0)).sum();
    if reader.other_machines > 0 {
        foreign.notes.push("it also contains events of other machines, which were not read".to_owned());
    }
    if reader.without_thread > 0 {
        let events = reader.without_thread;
        foreign.notes.push(format!(
            "{events} wakings and switches come before the first full switch event, and were not \
             read"
        ));
    }
    let refused: HashSet<&str> =
        reader.refused.iter().filter_map(|refused| refused.rsplit(['/', ':']).next()).collect();
    let refused = |event: &&String| event.rsplit('/').next().is_some_and(|name| refused.contains(name));
    let asked: Vec<String> = reader.asked.iter().filter(|event| !refused(event)).cloned().collect();
    asked.iter().for_each(|event| reader.collected.has(event));
    reader.collected.finish(&mut foreign)?;
    // What comes first in the file is reported: the bytes end there.
    foreign.damage = unreadable.or(foreign.damage);
    foreign.trace.processes = reader.threads.processes;
    foreign.trace.comms = reader.threads.comms;
    foreign.trace.machine = reader.machine;
    Ok(foreign)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Context,
    Events,
}

/// The state while reading.
struct Reader<'b> {
    pass: Pass,
    budget: &'b Budget,
    /// How many bytes compressed packets may still expand to.
    unpacked_left: usize,
    collected: Collected<'b>,
    /// The events in the configuration, and those that could not be enabled.
    asked: BTreeSet<String>,
    refused: BTreeSet<String>,
    threads: Threads<'b>,
    machine: String,
    /// Whether the thread states are encoded as in kernels before Linux 4.14.
    old_states: bool,
    /// Names of kernel functions, by packet sequence and interning id.
    symbols: HashMap<(u64, u64), String>,
    /// Events that the trace itself describes, by field number.
    described: HashMap<u32, Described>,
    /// By CPU: how many events the kernel had lost at the start and at the end of the recording.
    lost: BTreeMap<u64, (u64, u64)>,
    /// The offset from another clock to boot time, and that clock's name.
    raw_to_boot: Option<i64>,
    clock: Option<&'static str>,
    /// The thread that runs on each CPU, if a switch showed it.
    running: BTreeMap<u32, roundtrip_tracefs::ThreadRef>,
    bundles: u64,
    other_machines: u64,
    without_thread: u64,
}

impl<'b> Reader<'b> {
    fn new(budget: &'b Budget) -> Self {
        Self {
            pass: Pass::Context,
            budget,
            unpacked_left: MOST_UNPACKED_BYTES,
            collected: Collected::new(budget),
            asked: BTreeSet::new(),
            refused: BTreeSet::new(),
            threads: Threads::new(budget),
            machine: String::new(),
            old_states: false,
            symbols: HashMap::new(),
            described: HashMap::new(),
            lost: BTreeMap::new(),
            raw_to_boot: None,
            clock: None,
            running: BTreeMap::new(),
            bundles: 0,
            other_machines: 0,
            without_thread: 0,
        }
    }

    /// Counts a message, whatever is in it.
    fn step(&mut self) -> Result<(), String> {
        self.budget.step().and_then(|()| self.budget.check()).map_err(|exceeded| exceeded.to_string())
    }

    /// A text to keep beside the events.
    fn keep(&mut self, text: &str) -> Result<String, String> {
        self.budget.memory(text.len() + BYTES_EACH).map_err(|exceeded| exceeded.to_string())?;
        Ok(text.to_owned())
    }

    /// Reads a trace, a packet at a time.
    fn stream(&mut self, mut packets: Packets<'_>, foreign: &mut Foreign) -> io::Result<()> {
        while self.collected.check(&foreign.trace.names).is_ok() {
            match packets.next()? {
                Next::End => break,
                Next::Packet { at, bytes } => {
                    if let Err(what) = self.packet(bytes, 0, foreign) {
                        foreign.damaged(format!("the packet at byte {at}: {what}"));
                    }
                }
                Next::Damaged { at } => {
                    foreign.damaged(format!("at byte {at}: {TRUNCATED}; what follows was not read"));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads the contents of a compressed packet. Compressed packets must not nest.
    fn packets(&mut self, bytes: &[u8], foreign: &mut Foreign) {
        let mut trace = Message::new(bytes);
        while self.collected.check(&foreign.trace.names).is_ok() {
            let at = trace.at();
            match trace.next() {
                None => return,
                Some(Ok((1, Value::Bytes(packet)))) => {
                    if let Err(what) = self.packet(packet, 1, foreign) {
                        foreign.damaged(format!("the packet at byte {at} of what is compressed: {what}"));
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(what)) => {
                    let at = format!("at byte {at} of what is compressed");
                    foreign.damaged(format!("{at}: {what}; what follows was not read"));
                    return;
                }
            }
        }
    }

    fn packet(&mut self, bytes: &[u8], depth: u32, foreign: &mut Foreign) -> Result<(), String> {
        self.step()?;
        let (mut sequence, mut machine) = (0, 0);
        for field in Message::new(bytes) {
            match field? {
                (10, Value::Number(number)) => sequence = number,
                (98, Value::Number(number)) => machine = number,
                _ => {}
            }
        }
        if machine != 0 {
            self.other_machines += 1;
            return Ok(());
        }
        for field in Message::new(bytes) {
            match (field?, self.pass) {
                ((50, Value::Bytes(packed)), _) => self.compressed(Method::Zlib, packed, depth, foreign)?,
                ((133, Value::Bytes(packed)), _) => self.compressed(Method::Zstd, packed, depth, foreign)?,
                ((1, Value::Bytes(bundle)), Pass::Events) => self.bundle(bundle, sequence, foreign)?,
                ((1, Value::Bytes(bundle)), Pass::Context) => self.descriptions(bundle)?,
                ((2, Value::Bytes(tree)), Pass::Context) => self.process_tree(tree)?,
                ((6, Value::Bytes(snapshot)), Pass::Context) => self.clocks(snapshot)?,
                ((12, Value::Bytes(data)), Pass::Context) => self.interned(data, sequence)?,
                ((33, Value::Bytes(config)), Pass::Context) => self.asked(config, CONFIG)?,
                ((34, Value::Bytes(stats)), Pass::Context) => self.stats(stats)?,
                ((45, Value::Bytes(info)), Pass::Context) => self.system(info, foreign)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn compressed(
        &mut self,
        method: Method,
        packed: &[u8],
        depth: u32,
        foreign: &mut Foreign,
    ) -> Result<(), String> {
        if depth > 0 {
            return Err("nested compressed packets".to_owned());
        }
        let most = self.unpacked_left.min(MAX_PART_BYTES);
        let mut left = most;
        let unpacked = unpack(method, packed, &mut left)?;
        self.unpacked_left -= most - left;
        self.packets(&unpacked, foreign);
        Ok(())
    }

    /// Collects the events in the configuration. The kernel may lack some of them. `path` leads
    /// through the configuration to their names.
    fn asked(&mut self, message: &[u8], path: &[u32]) -> Result<(), String> {
        let [wanted, rest @ ..] = path else {
            let event = String::from_utf8_lossy(message);
            let new = event.contains('/') && !event.contains('*') && !self.asked.contains(&*event);
            if new && self.asked.len() < MAX_EVENT_NAMES {
                let event = self.keep(&event)?;
                self.asked.insert(event);
            }
            return Ok(());
        };
        for field in Message::new(message) {
            self.step()?;
            match field? {
                (number, Value::Bytes(inner)) if number == *wanted => self.asked(inner, rest)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn process_tree(&mut self, tree: &[u8]) -> Result<(), String> {
        for field in Message::new(tree) {
            self.step()?;
            match field? {
                (1, Value::Bytes(process)) => {
                    let process = Fields::read(process)?;
                    let Some(pid) = process.u32(1) else { continue };
                    self.threads.set_process(pid, pid);
                    if let Some(line) = process.text(3) {
                        // `cmdline_is_comm`, `is_kthread`, and a child of `kthreadd`.
                        let of_kernel = [8, 9].iter().any(|&field| process.number(field) == Some(1))
                            || process.u32(2) == Some(2);
                        let first = line.split(' ').next().unwrap_or(line);
                        let name = if of_kernel { line } else { program(first) };
                        self.threads.add_name(pid, name);
                    }
                }
                (2, Value::Bytes(thread)) => {
                    let thread = Fields::read(thread)?;
                    let (Some(tid), Some(pid)) = (thread.u32(1), thread.u32(3)) else { continue };
                    self.threads.set_process(tid, pid);
                    if let Some(name) = thread.text(2).filter(|name| !name.is_empty()) {
                        self.threads.add_name(tid, name);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a snapshot of the clocks. Only the first snapshot is used.
    fn clocks(&mut self, snapshot: &[u8]) -> Result<(), String> {
        let mut now = HashMap::new();
        for field in Message::new(snapshot) {
            self.step()?;
            if let (1, Value::Bytes(clock)) = field? {
                let clock = Fields::read(clock)?;
                if let (Some(id @ (BOOTTIME | MONOTONIC_RAW)), Some(time)) =
                    (clock.number(1), clock.number(2))
                {
                    now.insert(id, time);
                }
            }
        }
        if let (Some(&boot), Some(&raw)) = (now.get(&BOOTTIME), now.get(&MONOTONIC_RAW)) {
            self.raw_to_boot.get_or_insert(boot.wrapping_sub(raw).cast_signed());
        }
        Ok(())
    }

    fn interned(&mut self, data: &[u8], sequence: u64) -> Result<(), String> {
        for field in Message::new(data) {
            self.step()?;
            if let (26, Value::Bytes(symbol)) = field? {
                let symbol = Fields::read(symbol)?;
                if let (Some(id), Some(name)) = (symbol.number(1), symbol.text(2)) {
                    let kept = self.symbols.get(&(sequence, id)).is_some_and(|known| known == name);
                    if !kept {
                        let name = self.keep(name)?;
                        self.symbols.insert((sequence, id), name);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the kernel's counters at the recording's start (phase 1) and end (phase 2).
    fn stats(&mut self, stats: &[u8]) -> Result<(), String> {
        for field in Message::new(stats) {
            self.step()?;
            if let (6 | 7, Value::Bytes(event)) = field? {
                let event = String::from_utf8_lossy(event);
                if self.refused.len() < MAX_EVENT_NAMES && !self.refused.contains(&*event) {
                    let event = self.keep(&event)?;
                    self.refused.insert(event);
                }
            }
        }
        let end = Fields::read(stats)?.number(1) == Some(2);
        for field in Message::new(stats) {
            self.step()?;
            if let (2, Value::Bytes(cpu)) = field? {
                let cpu = Fields::read(cpu)?;
                let sum =
                    [3, 4, 8].iter().filter_map(|&number| cpu.number(number)).fold(0, u64::saturating_add);
                let cpu = cpu.number(1).unwrap_or(0);
                if cpu < u64::from(MOST_CPUS) {
                    let counts = self.lost.entry(cpu).or_default();
                    if end { counts.1 = sum } else { counts.0 = sum }
                }
            }
        }
        Ok(())
    }

    fn system(&mut self, info: &[u8], foreign: &mut Foreign) -> Result<(), String> {
        for field in Message::new(info) {
            if let (1, Value::Bytes(name)) = field? {
                let name = Fields::read(name)?;
                foreign.release = name.text(3).unwrap_or_default().to_owned();
                self.machine = name.text(4).unwrap_or_default().to_owned();
                let mut numbers = foreign.release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
                if let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) {
                    self.old_states = (major, minor) < (4, 14);
                }
            }
        }
        Ok(())
    }
}
