//! The drivers' state after a step, from the kernel's `binder/state` in debugfs and the emulated
//! driver's text in the same format. Addresses, and numbers that the system assigns, are left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Names for the numbers in a driver's text, the same in every replay of a sequence.
#[derive(Default)]
pub(super) struct Names {
    /// By process number.
    pub(super) processes: BTreeMap<String, usize>,
    /// By thread id.
    pub(super) threads: BTreeMap<String, usize>,
}

impl Names {
    fn process(&self, number: &str) -> String {
        match self.processes.get(number) {
            Some(index) => format!("p{index}"),
            None if number == "0" => "none".into(),
            None => "gone".into(),
        }
    }

    fn thread(&self, tid: &str) -> String {
        self.threads.get(tid).map_or_else(|| "none".into(), |index| format!("t{index}"))
    }

    /// `PROCESS:THREAD`.
    fn both(&self, pair: &str) -> String {
        let (process, thread) = pair.split_once(':').unwrap_or((pair, "0"));
        format!("{}:{}", self.process(process), self.thread(thread))
    }
}

/// The part of the state that belongs to the sequence, with `names` for numbers.
///
/// Reading the state of a node that only a buffer refers to queues work for the node's owner, but
/// that work returns nothing. A sleeping thread of the owner may take it before the owner's own
/// state is read. The result therefore omits this work for the processes in `sleep`.
pub(super) fn of_sequence(text: &str, names: &Names, sleep: &[usize]) -> String {
    let mut parts: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("proc ") {
            current = names.processes.get(number).copied();
        } else if !line.starts_with(' ') && !line.starts_with("context ") {
            // Dead nodes belong to no process.
            current = None;
        } else if let Some(current) = current.filter(|_| line.starts_with(' ')) {
            if line.starts_with("  node work ") && sleep.contains(&current) {
                continue;
            }
            parts.entry(current).or_default().push(line);
        }
    }
    let mut nodes = Nodes::default();
    let mut state = String::new();
    for (index, lines) in parts {
        let _ = writeln!(state, "p{index}");
        for line in lines {
            // The completion of a oneway transaction that looks like spam. Some drivers have no
            // name for it in their log.
            let line = line.replace("unknown work: type 3", "transaction complete");
            let line = describe_line(&line, names, &mut nodes);
            // The thread that opened the device does nothing else.
            if !line.starts_with("  thread none ") {
                state.push_str(&line);
                state.push('\n');
            }
        }
    }
    state
}

/// Numbers nodes in the order in which the text first mentions them.
#[derive(Default)]
struct Nodes(BTreeMap<String, usize>);

impl Nodes {
    fn name(&mut self, id: &str) -> String {
        let next = self.0.len();
        format!("n{}", self.0.entry(id.to_owned()).or_insert(next))
    }
}

fn describe_line(line: &str, names: &Names, nodes: &mut Nodes) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let indent = line.len() - line.trim_start().len();
    let mut described = " ".repeat(indent);
    let mut holders = false;
    for (at, &word) in words.iter().enumerate() {
        let before = if at == 0 { "" } else { words[at - 1] };
        let id = word.trim_end_matches(':');
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        let text = match before {
            _ if word == "data" => continue,
            "d" => if is_nothing(word) { "0" } else { "1" }.into(),
            _ if is_address(word) => continue,
            "transaction" | "buffer" | "ref" if is_id => continue,
            "node" | "work" if is_id => nodes.name(id),
            "thread" if is_id => names.thread(id),
            // Drivers do not always show the target thread before it has taken the transaction. The
            // queue that contains the transaction shows its target.
            "to" if words[0] != "incoming" => names.process(word.split(':').next().unwrap_or_default()),
            "from" | "to" => names.both(word),
            // A temporary reference.
            "tr" => continue,
            _ if word == "tr" => continue,
            // No thread inherits the priority of a transaction that needs no reply, so drivers may
            // show any value.
            _ if word == "pri" && words.get(at + 2) == Some(&"r0") => continue,
            "pri" if words.get(at + 1) == Some(&"r0") => continue,
            _ if holders => names.process(word),
            _ => word.to_owned(),
        };
        holders |= word == "proc";
        described.push_str(&text);
        described.push(' ');
    }
    described.trim_end().to_owned()
}

/// Whether a word is an address, hidden or not, as the kernel prints it.
fn is_address(word: &str) -> bool {
    word == "(____ptrval____)" || (word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_nothing(word: &str) -> bool {
    word.bytes().all(|byte| byte == b'0') || word == "(null)"
}
