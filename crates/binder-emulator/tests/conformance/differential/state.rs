//! The drivers' state after a step, from their texts (the kernel's `binder/state` in debugfs, and
//! what the emulated one says in that form), without what differs by nature: addresses, and numbers
//! that the system gives out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What the numbers in a driver's text are called in a sequence.
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

/// The part of the state that is the sequence's, told in its names.
///
/// Whoever looks at a node that only a buffer holds makes work for its owner, which then has
/// nothing to tell. A thread of the owner that sleeps may take it before it is looked at in its
/// turn: not told for processes that `sleep`.
pub(super) fn of_sequence(text: &str, names: &Names, sleep: &[usize]) -> String {
    let mut parts: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("proc ") {
            current = names.processes.get(number).copied();
        } else if !line.starts_with(' ') && !line.starts_with("context ") {
            // Dead nodes: no process's.
            current = None;
        } else if let Some(current) = current.filter(|_| line.starts_with(' ')) {
            if line.starts_with("  node work ") && sleep.contains(&current) {
                continue;
            }
            parts.entry(current).or_default().push(line);
        }
    }
    let mut nodes = Nodes::default();
    let mut told = String::new();
    for (index, lines) in parts {
        let _ = writeln!(told, "p{index}");
        for line in lines {
            // The completion of a oneway transaction that looks like spam, to a driver whose log
            // does not know that.
            let line = line.replace("unknown work: type 3", "transaction complete");
            let line = tell_line(&line, names, &mut nodes);
            // Whoever opened the device is a thread that does nothing more.
            if !line.starts_with("  thread none ") {
                told.push_str(&line);
                told.push('\n');
            }
        }
    }
    told
}

/// Nodes are called by the order in which they are first mentioned.
#[derive(Default)]
struct Nodes(BTreeMap<String, usize>);

impl Nodes {
    fn name(&mut self, id: &str) -> String {
        let next = self.0.len();
        format!("n{}", self.0.entry(id.to_owned()).or_insert(next))
    }
}

fn tell_line(line: &str, names: &Names, nodes: &mut Nodes) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let indent = line.len() - line.trim_start().len();
    let mut told = " ".repeat(indent);
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
            // A thread that has not taken it yet is not always noted; the queue that it lies in
            // says whom it is for.
            "to" if words[0] != "incoming" => names.process(word.split(':').next().unwrap_or_default()),
            "from" | "to" => names.both(word),
            // What holds a record for a moment.
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
        told.push_str(&text);
        told.push(' ');
    }
    told.trim_end().to_owned()
}

/// As the kernel prints its addresses, hidden or not.
fn is_address(word: &str) -> bool {
    word == "(____ptrval____)" || (word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_nothing(word: &str) -> bool {
    word.bytes().all(|byte| byte == b'0') || word == "(null)"
}
