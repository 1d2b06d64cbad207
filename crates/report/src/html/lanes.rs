//! A slow call or write over time, as lanes, one below the other. Those of a call are its client,
//! its server and their CPUs, with the names of the threads that have them. The parts and words are
//! the same as on a terminal.

use std::collections::BTreeSet;

use roundtrip_layers::{Explanation, Owner, Part, State, Thread};
use roundtrip_sorting::SmallSort as _;
use serde_json::{Value, json};

use super::chart::{round_ticks, short_duration};
use super::colours::{self, Colour, LEGEND};
use super::page::Page;
use crate::explanation::words::{comm, interrupt};

/// A stretch of a lane: its start and end in nanoseconds since the start of the call, its colour
/// and text.
pub(super) struct Stretch {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) class: Colour,
    pub(super) words: String,
    /// A name that it bears; empty if it needs none.
    pub(super) name: String,
}

/// A lane.
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) stretches: Vec<Stretch>,
}

impl Stretch {
    fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }

    /// The stretch's text.
    fn text(&self) -> String {
        format!("{}: {}", short_duration((self.end_ns - self.begin_ns) as f64), self.words)
    }
}

impl Lane {
    /// The lanes' data.
    fn json(&self) -> Value {
        let stretch = |one: &Stretch| json!({ "begin_ns": one.begin_ns, "end_ns": one.end_ns, "kind": one.class, "name": one.name, "text": one.text() });
        json!({ "name": self.name, "stretches": self.stretches.iter().map(stretch).collect::<Vec<_>>() })
    }
}

/// Parts shorter than this fraction of a call are not drawn, because they would be invisible. The
/// call's table lists them.
const NARROWEST: u64 = 5000;

/// Consecutive parts shorter than this fraction of a call are drawn as one. Screens have no room
/// for each of them, and thousands of parts would make the page large.
const TOGETHER: u64 = 500;

/// A name is shown if its stretch has at least this share of the width, in percent.
const NAMED_PERCENT: f64 = 3.0;

/// Combines consecutive stretches that are shorter than `least_ns`. The result has the colour of
/// the longest of them.
pub(super) fn merged(all: Vec<Stretch>, least_ns: u64) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::new();
    let mut together: Vec<Stretch> = Vec::new();
    for one in all {
        let short = one.length_ns() < least_ns;
        let goes_on = together.first().is_some_and(|first| one.begin_ns < first.begin_ns + least_ns);
        if !(short && goes_on) {
            out.extend(as_one(std::mem::take(&mut together)));
        }
        if short {
            together.push(one);
        } else {
            out.push(one);
        }
    }
    out.extend(as_one(together));
    out
}

/// Combines several stretches into one.
fn as_one(together: Vec<Stretch>) -> Option<Stretch> {
    let (begin_ns, count) = (together.first()?.begin_ns, together.len());
    let end_ns = together.last()?.end_ns;
    let longest = together.into_iter().max_by_key(Stretch::length_ns)?;
    let words = match count {
        1 => longest.words,
        _ => format!("{count} short parts, the longest: {}", longest.words),
    };
    Some(Stretch { begin_ns, end_ns, class: longest.class, words, name: longest.name })
}

/// Lanes without parts that would be invisible, for an operation of `length_ns`.
pub(super) fn drawable(lanes: Vec<Lane>, length_ns: u64) -> Vec<Lane> {
    let draw = |Lane { name, mut stretches }: Lane| {
        stretches.retain(|one| one.length_ns() >= length_ns / NARROWEST);
        Lane { name, stretches: merged(stretches, length_ns / TOGETHER) }
    };
    lanes.into_iter().map(draw).filter(|lane| !lane.stretches.is_empty()).collect()
}

/// Who has the CPU of a part; empty if nobody or unknown.
fn occupant(part: &Part) -> String {
    let of = |thread: &Thread| match thread {
        Thread { tid: 0, .. } => "idle".to_owned(),
        thread => comm(thread),
    };
    match &part.state {
        State::Behind { thread } | State::Preempted { thread } | State::HandOver { thread } => of(thread),
        State::Stolen { interrupt: by } => interrupt(by),
        State::IdleExit { .. } | State::RunnableOnIdle => "idle".to_owned(),
        State::User | State::Running | State::SystemCall { .. } | State::Spinning => {
            part.thread.as_ref().map_or_else(String::new, of)
        }
        _ => String::new(),
    }
}

/// The lanes of a call.
pub(super) fn of_call(explanation: &Explanation, words: impl Fn(&State) -> String) -> Vec<Lane> {
    let stretch = |part: &Part| Stretch {
        begin_ns: part.begin_ns.saturating_sub(explanation.start_ns),
        end_ns: part.end_ns.saturating_sub(explanation.start_ns),
        class: colours::of_state(&part.state),
        words: words(&part.state),
        name: String::new(),
    };
    let on_cpu = |part: &Part| {
        let (name, words) = (occupant(part), words(&part.state));
        let words = if name.is_empty() { words } else { format!("{name}; {words}") };
        Stretch { name, words, ..stretch(part) }
    };
    let parts = || explanation.parts.iter();
    let lane = |name: &str, stretches: Vec<Stretch>| Lane { name: name.into(), stretches };
    let of = |owner: Owner| parts().filter(move |part| part.owner == owner).map(stretch).collect();
    let mut lanes = vec![lane("client", of(Owner::Client)), lane("server", of(Owner::Server))];
    // What the awaited threads did.
    let because = || parts().flat_map(|part| &part.because);
    lanes.push(lane("waited for", because().map(stretch).collect()));
    let all = || parts().chain(because());
    let cpus: BTreeSet<u32> = all().filter_map(|part| part.cpu).collect();
    for cpu in cpus {
        let mut of_cpu: Vec<Stretch> = all().filter(|part| part.cpu == Some(cpu)).map(on_cpu).collect();
        of_cpu.small_sort_by_key(|one| one.begin_ns);
        lanes.push(lane(&format!("CPU {cpu}"), of_cpu));
    }
    drawable(lanes, explanation.duration_ns())
}

impl Page {
    /// The legend of the lanes of calls.
    pub(super) fn lanes_legend(&mut self) {
        self.swatches(LEGEND.into_iter());
    }

    /// A legend: colours with their meanings.
    pub(super) fn swatches<'a>(&mut self, of: impl Iterator<Item = (Colour, &'a str)>) {
        self.within("ul", &[("class", "legend")], |page| {
            for (class, meaning) in of {
                page.within("li", &[], |page| {
                    page.within("svg", &[("class", "swatch"), ("aria-hidden", "true")], |page| {
                        page.empty("rect", &[("class", class), ("width", "12"), ("height", "12")]);
                    });
                    page.text(meaning);
                });
            }
        });
    }

    /// Draws the lanes of a call of `length_ns`.
    pub(super) fn lanes(&mut self, label: &str, length_ns: u64, lanes: &[Lane]) {
        let ticks = round_ticks(0.0, length_ns.max(1) as f64, short_duration);
        let ticks: Vec<_> = ticks.iter().filter(|tick| tick.2 == 0).collect();
        let data = json!({
            "kind": "lanes",
            "title": label,
            "length_ns": length_ns,
            "lanes": lanes.iter().map(Lane::json).collect::<Vec<_>>(),
            "ticks": ticks,
        });
        self.picture(data, |page| page.draw_lanes(label, length_ns, lanes, &ticks));
    }

    fn draw_lanes(&mut self, label: &str, length_ns: u64, lanes: &[Lane], ticks: &[&(f64, String, u8)]) {
        let length = length_ns.max(1) as f64;
        let percent = |ns: u64| ns.min(length_ns) as f64 / length * 100.0;
        self.within("div", &[("class", "lanes"), ("role", "img"), ("aria-label", label)], |page| {
            for lane in lanes {
                page.within("div", &[("class", "lane")], |page| {
                    page.element("span", &[("class", "label")], &lane.name);
                    page.within("svg", &[("class", "row")], |page| {
                        for one in &lane.stretches {
                            let [from, to] = [one.begin_ns, one.end_ns].map(percent);
                            let [x, width] = [from, to - from].map(super::bars::at);
                            let attributes = [
                                ("class", one.class),
                                ("x", &x),
                                ("width", &width),
                                ("y", "0"),
                                ("height", "100%"),
                            ];
                            page.within("rect", &attributes, |page| {
                                page.element("title", &[], &one.text());
                            });
                            if !one.name.is_empty() && to - from >= NAMED_PERCENT {
                                page.name(&x, &width, &one.name);
                            }
                        }
                    });
                });
            }
            page.within("div", &[("class", "lane axis"), ("aria-hidden", "true")], |page| {
                page.element("span", &[("class", "label")], "");
                page.within("svg", &[("class", "labels")], |page| {
                    for (value, text, _) in super::bars::thinned(ticks) {
                        page.label(value / length * 100.0, "12", "tick", text);
                    }
                });
            });
        });
    }
}

impl Page {
    /// A name within a stretch, cut where that ends.
    fn name(&mut self, x: &str, width: &str, name: &str) {
        let attributes = [("class", "name"), ("x", x), ("width", width), ("height", "100%")];
        self.within("svg", &attributes, |page| {
            page.element("text", &[("x", "4"), ("y", "50%")], name);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_short_parts_are_drawn_together_and_long_ones_alone() {
        let stretch = |begin_ns: u64, end_ns: u64, class| Stretch {
            begin_ns,
            end_ns,
            class,
            words: class.to_owned(),
            name: String::new(),
        };
        let short = (0..5000).map(|at| match at % 2 {
            0 => stretch(at * 100, at * 100 + 90, "behind"),
            _ => stretch(at * 100, at * 100 + 10, "running"),
        });
        let long = stretch(500_000, 1_000_000, "blocked");
        let merged = merged(short.chain([long]).collect(), 1_000_000 / TOGETHER);
        assert_eq!(merged.len(), 251, "250 for half of the call, and the long one");
        assert_eq!(merged[0].text(), "1.91 us: 20 short parts, the longest: behind");
        assert_eq!((merged[1].begin_ns, merged[250].words.as_str()), (2000, "blocked"));
    }
}
