//! Charts that the page's script draws: lines of points with their texts, on axes whose labels are
//! already text. The script formats no numbers. Must not know any run.

use serde_json::{Value, json};

use super::colours::Colour;
use crate::text::quantity::duration;
use crate::text::table::Table;

/// The number of styles of lines. After that, they repeat.
pub(super) const STYLES: usize = 6;

/// A chart, and the table of its data.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    /// How to read it.
    pub(super) about: String,
    pub(super) kind: Kind,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    /// Lines do not connect points that are further apart than this on the x axis.
    pub(super) widest: Option<f64>,
    /// Vertical lines, each at a value of the x axis.
    pub(super) marks: Vec<(f64, String)>,
    /// Horizontal lines, each at a value of the y axis.
    pub(super) levels: Vec<(f64, String)>,
    pub(super) table: Table,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Each point is a step that extends to the next point.
    Steps,
    /// Points connected by lines.
    Lines,
}

/// The scale of an axis.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scale {
    Linear,
    Log,
    /// Shares from 0 to 1. Each further nine (0.9, 0.99, 0.999) takes as much room as the previous
    /// one.
    Nines,
}

#[derive(Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
    /// Possible ticks: value, label, and rank. If there is not enough room, ticks with higher ranks
    /// are dropped first.
    pub(super) ticks: Vec<(f64, String, u8)>,
}

/// A line, or a set of points.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) label: String,
    /// In ascending order: x, y, and the point's text.
    pub(super) points: Vec<(f64, f64, String)>,
    /// Whether its points are not connected, even if the chart has lines.
    pub(super) apart: bool,
    /// Its colour, if that has a meaning; else it has a style of its own.
    pub(super) colour: Option<Colour>,
}

impl Line {
    /// The class of its style: it is the line with this index.
    pub(super) fn class(&self, index: usize) -> String {
        self.colour.map_or_else(|| format!("s{}", index % STYLES), str::to_owned)
    }
}

impl Chart {
    /// The chart's data for the script.
    pub(super) fn json(&self) -> Value {
        let axis = |axis: &Axis| {
            let scale = match axis.scale {
                Scale::Linear => "linear",
                Scale::Log => "log",
                Scale::Nines => "nines",
            };
            json!({ "label": axis.label, "scale": scale, "ticks": axis.ticks })
        };
        let kind = match self.kind {
            Kind::Steps => "steps",
            Kind::Lines => "lines",
        };
        let line = |(index, line): (usize, &Line)| {
            let Line { label, points, apart, .. } = line;
            json!({ "label": label, "points": points, "apart": apart, "style": line.class(index) })
        };
        let lines: Vec<Value> = self.lines.iter().enumerate().map(line).collect();
        json!({
            "title": self.title,
            "about": self.about,
            "kind": kind,
            "x": axis(&self.x),
            "y": axis(&self.y),
            "lines": lines,
            "widest": self.widest,
            "marks": self.marks,
            "levels": self.levels,
        })
    }
}

/// The ticks of a logarithmic axis from `low` to `high`: 1 to 9 in every power of ten.
pub(super) fn log_ticks(low: f64, high: f64, text: impl Fn(f64) -> String) -> Vec<(f64, String, u8)> {
    if !(low > 0.0 && high.is_finite()) {
        return Vec::new();
    }
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let ticks = decades.flat_map(|decade| {
        (1..10).map(move |digit| {
            let rank = match digit {
                1 => 0,
                2 | 5 => 1,
                _ => 2,
            };
            (f64::from(digit) * 10_f64.powi(decade), rank)
        })
    });
    ticks.map(|(value, rank)| (value, text(value), rank)).collect()
}

/// An axis of durations in nanoseconds. It is logarithmic unless all durations are similar.
pub(super) fn durations(label: &str, low_ns: f64, high_ns: f64) -> Axis {
    if high_ns < low_ns * ALIKE {
        let ticks = round_ticks(low_ns, high_ns, short_duration);
        return Axis { label: label.to_owned(), scale: Scale::Linear, ticks };
    }
    let ticks = log_ticks(low_ns.max(1.0), high_ns.max(1.0), short_duration);
    Axis { label: label.to_owned(), scale: Scale::Log, ticks }
}

/// The largest ratio of durations that count as similar: a logarithmic axis would have too few
/// ticks.
const ALIKE: f64 = 4.0;

/// A round duration without unnecessary digits: `20 ms`.
pub(super) fn short_duration(ns: f64) -> String {
    let text = duration(ns);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// A few round values from `low` to `high`, and finer ones if there is more room.
pub(super) fn round_ticks(low: f64, high: f64, text: impl Fn(f64) -> String) -> Vec<(f64, String, u8)> {
    let span = high - low;
    if !(span > 0.0 && span.is_finite()) {
        return vec![(low, text(low), 0)];
    }
    let power = 10_f64.powf((span / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| span / step <= 5.0);
    let step = step.unwrap_or(10.0 * power);
    let fine = step / 10.0;
    let first = (low / fine).ceil() as i64;
    let last = (high / fine).floor() as i64;
    let rank = |at: i64| match () {
        () if at % 10 == 0 => 0,
        () if at % 5 == 0 => 1,
        () => 2,
    };
    (first..=last).map(|at| (at as f64 * fine, text(at as f64 * fine), rank(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_the_roundest_stay_longest() {
        let ticks = log_ticks(900.0, 20_000.0, short_duration);
        let kept: Vec<&str> = ticks.iter().filter(|tick| tick.2 == 0).map(|tick| tick.1.as_str()).collect();
        assert_eq!(kept, ["100 ns", "1 us", "10 us", "100 us"]);
        assert!(ticks.iter().any(|tick| tick.1 == "20 us" && tick.2 == 1));
        let ticks = round_ticks(0.0, 47.0, |value| value.to_string());
        let kept: Vec<&str> = ticks.iter().filter(|tick| tick.2 == 0).map(|tick| tick.1.as_str()).collect();
        assert_eq!(kept, ["0", "10", "20", "30", "40"]);
        assert_eq!(log_ticks(0.0, 1.0, |_| String::new()).len(), 0);
    }
}
