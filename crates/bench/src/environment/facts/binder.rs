//! What the kernel's binder driver is and has: its language, its locks, its features. Opens no
//! device. Must not judge any of it.

use roundtrip_run::environment::{Facts, Value};

use crate::kernel::root::{Root, TRACING};

pub(super) fn read(root: &Root, facts: &mut Facts) {
    let from = "/sys/kernel/tracing/events";
    let driver = Driver::find(root);
    facts.note("binder_driver", &format!("{from}, /sys/module"), driver.language());
    facts.note("binder_locking", &format!("{from}/binder"), driver.locking());
    facts.note("binder_sets_priority", &format!("{from}/binder"), driver.sets_priority());
    let features = root.names("dev/binderfs/features");
    let on = |name: &&String| root.read(format!("dev/binderfs/features/{name}")).as_deref() == Some("1");
    let features = match features.len() {
        0 => Err("not found: no binderfs, or an older one".to_owned()),
        _ => Ok(Value::Names(features.iter().filter(on).take(64).cloned().collect())),
    };
    facts.note("binder_features", "/dev/binderfs/features", features);
}

/// What shows which driver there is.
struct Driver {
    /// Whether the kernel's events are visible.
    visible: bool,
    /// The events of the driver in C.
    events: Vec<String>,
    in_c: bool,
    in_rust: bool,
}

impl Driver {
    fn find(root: &Root) -> Self {
        let below = |name: &str| TRACING.map(|place| format!("{place}/{name}"));
        let events = below("events/binder").iter().flat_map(|path| root.names(path)).collect::<Vec<_>>();
        let module = |name: &str| root.has(format!("sys/module/{name}"));
        // Android's kernels can have both, and choose at boot.
        let chosen = root.read("proc/cmdline").unwrap_or_default();
        let chosen =
            chosen.split_whitespace().filter_map(|word| word.strip_prefix("binder.impl=")).next_back();
        let has_c = !events.is_empty() || module("binder") || module("binder_linux");
        let has_rust = below("events/rust_binder").iter().any(|path| root.has(path)) || module("rust_binder");
        Self {
            visible: below("events").iter().any(|path| root.has(path)),
            events,
            in_c: has_c && (chosen != Some("rust") || !has_rust),
            in_rust: has_rust && (chosen == Some("rust") || !has_c),
        }
    }

    fn language(&self) -> Result<Value, String> {
        match (self.in_c, self.in_rust) {
            (_, true) => Ok(Value::Text("Rust".to_owned())),
            (true, false) => Ok(Value::Text("C".to_owned())),
            (false, false) => Err(self.unseen()),
        }
    }

    /// A driver with one lock for all processes has the event `binder_lock`. Later ones may still
    /// have it, though nothing emits it, but they also have events of the shrinker, which came with
    /// the finer locks.
    fn locking(&self) -> Result<Value, String> {
        let has = |start: &str| self.events.iter().any(|event| event.starts_with(start));
        let fine = self.in_rust || !has("binder_lock") || has("binder_alloc_lru");
        match self.in_rust || !self.events.is_empty() {
            true if fine => Ok(Value::Text("fine-grained".to_owned())),
            true => Ok(Value::Text("one lock".to_owned())),
            false => Err(self.unseen()),
        }
    }

    /// Only Android's driver in C has this event: it sets the server's priority to its caller's.
    fn sets_priority(&self) -> Result<Value, String> {
        if self.events.is_empty() || self.in_rust {
            return Err(self.unseen());
        }
        Ok(Value::Flag(self.events.iter().any(|event| event == "binder_set_priority")))
    }

    fn unseen(&self) -> String {
        let reason = match (self.visible, self.in_rust) {
            (_, true) => "the driver in Rust does not show it",
            (true, false) => "no binder driver is loaded",
            (false, false) => "no driver is visible: tracefs is not mounted, or not accessible to this user",
        };
        reason.to_owned()
    }
}
