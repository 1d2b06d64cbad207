//! Counts how often the sequences reached each kind of result. The test prints the counts, and
//! fails if the generator no longer reaches one of the expected kinds.

use std::collections::BTreeMap;
use std::fmt;

use super::orders::MARK_BYTES;
use super::stage::{ASLEEP, StepResult};
use super::steps::{Act, Object, Order, Send, Step};
use crate::LaterFeatures;

/// Counts by name.
#[derive(Default)]
pub(super) struct Reached(BTreeMap<String, u64>);

impl Reached {
    /// Counts the results of a sequence.
    pub(super) fn note(&mut self, steps: &[Step], results: &[StepResult]) {
        for (step, result) in steps.iter().zip(results) {
            self.note_step(step, result);
        }
    }

    fn note_step(&mut self, step: &Step, result: &StepResult) {
        self.note_words(result);
        self.note_wakeups(result);
        let own = result.text.split_once(" | ").map_or(&*result.text, |(own, _)| own);
        self.note_act(&step.act, result, own);
        if let Act::Exchange { orders, .. } = &step.act
            && let Some(Order::Send(send)) = orders.last()
        {
            self.note_send(send, own);
        }
    }

    /// Counts returns, parts of the state, and errors.
    fn note_words(&mut self, result: &StepResult) {
        for word in RETURNS.iter().filter(|word| result.text.contains(**word)) {
            self.count(format!("return {word}"));
        }
        for part in STATES.iter().filter(|part| result.state.contains(**part)) {
            self.count(format!("state {part}"));
        }
        if let Some((_, error)) = result.text.split_once("Err(errno ") {
            self.count(format!("errno {}", error.split(')').next().unwrap_or_default()));
        }
        if result.text.contains("; 0 of ") && !result.text.contains("0 of 0 descriptors") {
            self.count("descriptors of an array closed".into());
        }
        let nested = ["outgoing", "incoming"].map(|way| format!("{way} transaction"));
        if result.state.lines().zip(result.state.lines().skip(1)).any(|(one, next)| {
            nested.iter().any(|way| one.contains(way)) && nested.iter().any(|way| next.contains(way))
        }) {
            self.count("state nested calls".into());
        }
        if result.text.contains("nice ") && !result.text.contains("nice 0;") {
            self.count("an inherited nice value".into());
        }
    }

    /// Counts the threads that a step woke.
    fn note_wakeups(&mut self, result: &StepResult) {
        let others = result.text.split_once(" | ").map_or("", |(_, others)| others);
        for what in ["woke", "interrupted"].iter().filter(|what| others.contains(**what)) {
            self.count(format!("a thread that slept {what}"));
        }
        for (text, what) in [("is_frozen: 1", "frozen"), ("is_frozen: 0", "not frozen")] {
            if result.text.contains(text) {
                self.count(format!("return FrozenBinder {what}"));
            }
        }
        if others.contains("woke") && others.contains("FrozenBinder") {
            self.count("a thread that watches woke".into());
        }
        if result.undetermined {
            self.count("undetermined: two threads of a process woke at once".into());
        }
    }

    /// Counts the result of an act. `own` is the result without what the step woke.
    fn note_act(&mut self, act: &Act, result: &StepResult, own: &str) {
        match act {
            Act::NodeCounts(_) if result.text.starts_with("Ok") => self.count("node counts".into()),
            Act::Poll => self.count(own.to_owned()),
            Act::ListNodes if result.text != "[]" => self.count("a list of nodes".into()),
            Act::Freeze { frozen: true, .. } => self.count(format!("freeze {own}")),
            Act::ExtendedError if !own.contains("BR_OK") => self.count("an extended error".into()),
            Act::FrozenInfo(_) if own.contains("recv: 1") || own.contains("recv: 3") => {
                self.count("something came for a frozen process".into());
            }
            _ => {}
        }
        if own.contains(" policy ") {
            self.count("a thread under another policy".into());
        }
    }

    /// Counts whether the driver accepted what an exchange sent last.
    fn note_send(&mut self, send: &Send, own: &str) {
        let left = |bytes: usize| own.contains(&format!(" {bytes} bytes left"));
        let outcome = match () {
            // A thread whose call was refused does not sleep.
            () if left(0) || own.ends_with(ASLEEP) => "taken",
            () if left(MARK_BYTES) => "refused",
            // An earlier refusal must be read first.
            () => "left",
        };
        self.count(format!("{outcome} {}", label(send)));
    }

    fn count(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }

    /// The expected results for these features that no sequence reached. States count only if the
    /// states were compared (`looks`).
    pub(super) fn missing(&self, features: LaterFeatures, looks: bool) -> Vec<&'static str> {
        let later = [
            (features.freeze, WITH_FREEZE),
            (features.oneway_spam_detection, WITH_SPAM_DETECTION),
            (features.extended_error, "an extended error"),
            (features.freeze_notification, WITH_FREEZE_NOTIFICATION),
        ];
        let later = later.into_iter().filter_map(|(there, expected)| there.then_some(expected));
        std::iter::once(EXPECTED)
            .chain(later)
            .flat_map(str::lines)
            .map(str::trim)
            .filter(|what| !what.is_empty() && (looks || !what.starts_with("state ")))
            .filter(|what| !self.0.contains_key(*what))
            .collect()
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, count)| writeln!(f, "{count:8} {what}"))
    }
}

/// A label for what is sent.
fn label(send: &Send) -> String {
    let way = match (send.reply, send.flags & 1) {
        (true, _) => "reply",
        (false, 1) => "oneway",
        (false, _) => "call",
    };
    if let Some(flaw) = send.payload.flaw {
        return format!("{flaw:?}");
    }
    let kind = match send.payload.objects.first() {
        None => "plain",
        Some(Object::Node { weak: false, .. }) => "node",
        Some(Object::Node { weak: true, .. }) => "weak node",
        Some(Object::Handle { weak: false, .. }) => "handle",
        Some(Object::Handle { weak: true, .. }) => "weak handle",
        Some(Object::Buffer { .. }) => "buffers",
        Some(Object::Fd { open: true }) => "file descriptor",
        Some(Object::Fd { open: false }) => "closed file descriptor",
        Some(Object::Numbers { .. } | Object::FdArray { .. }) => "array of file descriptors",
        Some(Object::Garbage) => "garbage",
    };
    format!("{way} {kind}")
}

const WITH_FREEZE: &str = "
    freeze Err(errno 11)
    freeze Ok(())
    return FrozenReply
    something came for a frozen process
";

const WITH_FREEZE_NOTIFICATION: &str = "
    return FrozenBinder frozen
    return FrozenBinder not frozen
    return ClearFreezeNotificationDone
    a thread that watches woke
";

const WITH_SPAM_DETECTION: &str = "
    return OnewaySpamSuspect
";

/// What a few hundred sequences certainly reach, if the generator works.
const EXPECTED: &str = "
    a list of nodes
    a thread that slept interrupted
    a thread that slept woke
    descriptors of an array closed
    errno 1
    errno 11
    errno 16
    errno 22
    node counts
    poll Ok(false)
    poll Ok(true)
    refused HugeBuffer
    refused HugeOffset
    refused HugeSize
    refused LittleRoom
    refused NoBuffer
    refused NoData
    refused NoOffsets
    refused OddOffset
    refused OddOffsets
    refused OddRoom
    refused OffsetOutside
    refused call buffers
    refused call closed file descriptor
    refused call file descriptor
    refused call garbage
    refused call handle
    refused call node
    refused call plain
    refused oneway plain
    refused reply buffers
    refused reply plain
    return ->
    return Acquire
    return ClearDeathNotificationDone
    return DeadBinder
    return DeadReply
    return Decrefs
    return FailedReply
    return Increfs
    return Release
    return Reply to
    return SpawnLooper
    return Transaction to
    return TransactionComplete
    return buffer at
    state dead node
    state has cleared death notification
    state has dead binder
    state has delivered dead binder
    state incoming transaction
    state nested calls
    state node work
    state outgoing transaction
    state pending async transaction
    taken MuchRoom
    taken call array of file descriptors
    taken call buffers
    taken call file descriptor
    taken call handle
    taken call node
    taken call plain
    taken call weak node
    taken oneway array of file descriptors
    taken oneway plain
    taken reply array of file descriptors
    taken reply handle
    taken reply plain
";

const RETURNS: [&str; 18] = [
    "Transaction to",
    "Reply to",
    "TransactionComplete",
    "Increfs",
    "Acquire",
    "Release",
    "Decrefs",
    "SpawnLooper",
    "DeadBinder",
    "ClearDeathNotificationDone",
    "ClearFreezeNotificationDone",
    "DeadReply",
    "FailedReply",
    "FrozenReply",
    "OnewaySpamSuspect",
    "TransactionPendingFrozen",
    "buffer at",
    "->",
];

const STATES: [&str; 10] = [
    "pending async transaction",
    "has dead binder",
    "has cleared dead binder",
    "has cleared death notification",
    "has delivered dead binder",
    "dead node",
    "buffer free",
    "node work",
    "outgoing transaction",
    "incoming transaction",
];
