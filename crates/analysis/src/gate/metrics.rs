//! The names that a gate may use: every figure of every test, with its unit, and the labels that
//! select among figures with the same name. A test compares this list with the figures themselves.

use layers::storage::Layer;

use crate::figures::Unit;

/// The tests that have figures.
pub const TESTS: &[&str] = &[
    "baseline",
    "throughput",
    "latency",
    "workers",
    "observed",
    "observed-writes",
    "storage",
    "interference",
];

/// The figures that exist for every group of times.
pub(super) const TIMES: &[&str] = &["mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"];

/// The figures of one test.
pub(super) struct Metrics {
    /// The test's name.
    pub(super) test: &'static str,
    /// Possible prefixes of the names in [`TIMES`]; an empty text for none.
    pub(super) times: &'static [&'static str],
    /// The other figures.
    pub(super) others: &'static [(&'static str, Unit)],
    /// The labels of the test's figures other than `test`.
    pub(super) labels: &'static [&'static str],
}

const METRICS: &[Metrics] = &[
    Metrics {
        test: "baseline",
        times: &[""],
        others: &[("time", Unit::Nanoseconds), ("futex.ratio", Unit::Ratio)],
        labels: &["transport", "size_bytes", "placement"],
    },
    Metrics {
        test: "throughput",
        times: &[""],
        others: &[("time", Unit::Nanoseconds), ("cpu", Unit::Nanoseconds), ("rate", Unit::BytesPerSecond)],
        labels: &["stack", "size_bytes", "placement"],
    },
    Metrics {
        test: "latency",
        times: &["", "response.", "request.", "handling.", "reply."],
        others: &[
            ("missed", Unit::Count),
            ("missed.share", Unit::Percent),
            ("response.missed", Unit::Count),
            ("response.missed.share", Unit::Percent),
        ],
        labels: &["stack", "inheritance", "caller"],
    },
    Metrics {
        test: "workers",
        times: &[""],
        others: &[("rate", Unit::PerSecond)],
        labels: &["stack", "workers", "size_bytes"],
    },
    Metrics {
        test: "observed",
        times: &["", "request.", "handling.", "reply.", "oneway."],
        others: &[
            ("rate", Unit::PerSecond),
            ("missed", Unit::Count),
            ("missed.share", Unit::Percent),
            ("failed", Unit::Count),
        ],
        labels: &["client", "server", "code"],
    },
    Metrics {
        test: "observed-writes",
        times: &[""],
        others: &[
            ("rate", Unit::PerSecond),
            ("missed", Unit::Count),
            ("missed.share", Unit::Percent),
            ("failed", Unit::Count),
        ],
        labels: &["process", "call", "file"],
    },
    Metrics {
        test: "storage",
        times: &[""],
        others: &[("host.share", Unit::Percent)],
        labels: &["writer", "durability", "size_bytes"],
    },
    Metrics {
        test: "interference",
        times: &[],
        others: &[("response.ratio", Unit::Ratio), ("device.ratio", Unit::Ratio)],
        labels: &["beside", "writer", "size_bytes"],
    },
];

/// The figures of these tests.
pub(super) fn of(tests: &[&str]) -> impl Iterator<Item = &'static Metrics> {
    METRICS.iter().filter(move |metrics| tests.contains(&metrics.test))
}

/// The labels of each test's figures, without the test itself.
pub fn labels() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    METRICS.iter().map(|metrics| (metrics.test, metrics.labels))
}

impl Metrics {
    /// The prefixes of the layers that the test divides writes into.
    fn layers(&self) -> &'static [&'static str] {
        match self.test {
            "storage" | "observed-writes" => &[""],
            "interference" => &["", "alone."],
            _ => &[],
        }
    }

    /// A figure's unit; `None` if the test has no figure of that name.
    pub(super) fn unit(&self, name: &str) -> Option<Unit> {
        let time = self
            .times
            .iter()
            .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| TIMES.contains(&rest)));
        let layer = || {
            let layer = name.strip_suffix(".mean");
            let known = |name: &str| Layer::ALL.iter().any(|known| known.name() == name);
            let mut prefixes = self.layers().iter();
            prefixes.any(|prefix| layer.and_then(|name| name.strip_prefix(prefix)).is_some_and(known))
        };
        if time || layer() {
            return Some(Unit::Nanoseconds);
        }
        self.others.iter().find(|(other, _)| *other == name).map(|(_, unit)| *unit)
    }
}

/// The names of all figures of these tests, for an error message. Names of the same form are
/// combined.
pub(super) fn names(tests: &[&str]) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for metrics in of(tests) {
        for prefix in metrics.times {
            match *prefix {
                "" => TIMES.iter().for_each(|name| add((*name).to_owned())),
                prefix => add(format!("{prefix}{} to {prefix}max", TIMES[0])),
            }
        }
        metrics.others.iter().for_each(|(name, _)| add((*name).to_owned()));
        for prefix in metrics.layers() {
            Layer::ALL.iter().for_each(|layer| add(format!("{prefix}{}.mean", layer.name())));
        }
    }
    names.join(", ")
}
