//! Charts without a script: ranges on one axis, stacked bars, and lanes over time. They are SVG
//! with positions in percent of the width, so that text keeps its size on every screen. Must not
//! know any run.

use serde_json::{Value, json};

use super::page::Page;

/// The scale of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    Linear,
    Log,
}

/// A row: its label, its figures as text, and the positions of its marks.
#[derive(Debug, Default)]
pub(super) struct Range {
    pub(super) label: String,
    pub(super) text: String,
    /// The ends of the thin line.
    pub(super) whole: Option<(f64, f64)>,
    /// The ends of the thick line.
    pub(super) most: Option<(f64, f64)>,
    /// Points, each with its text.
    pub(super) points: Vec<(f64, String)>,
}

/// Rows on one axis.
#[derive(Debug)]
pub(super) struct Ranges {
    /// What the chart shows, for screen readers.
    pub(super) title: String,
    pub(super) scale: Scale,
    pub(super) rows: Vec<Range>,
    /// Values to compare every row with, each with its name.
    pub(super) marks: Vec<(f64, String)>,
    /// The range that chance explains.
    pub(super) chance: Option<(f64, f64)>,
    /// The axis: values with their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Ranges {
    /// The chart's data.
    fn json(&self) -> Value {
        let row = |row: &Range| {
            json!({
                "label": row.label, "text": row.text, "whole": row.whole, "most": row.most, "points": row.points,
            })
        };
        json!({
            "kind": "ranges",
            "title": self.title,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "marks": self.marks,
            "chance": self.chance,
            "ticks": self.ticks,
        })
    }
}

/// The distance of the extreme values from the edge, in percent of the width.
const EDGE: f64 = 3.0;

/// The smallest and largest value shown, and the scale from values to positions in percent.
struct Place {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Place {
    fn of(ranges: &Ranges) -> Self {
        let ends = |(low, high): (f64, f64)| [low, high];
        let rows = ranges.rows.iter().flat_map(|row| {
            let pairs = row.whole.into_iter().chain(row.most).flat_map(ends);
            pairs.chain(row.points.iter().map(|point| point.0)).collect::<Vec<_>>()
        });
        let marks = ranges.marks.iter().map(|mark| mark.0);
        let all = rows.chain(marks).chain(ranges.chance.into_iter().flat_map(ends));
        let shown = |value: &f64| value.is_finite() && (ranges.scale == Scale::Linear || *value > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in all.filter(shown) {
            low = low.min(value);
            high = high.max(value);
        }
        Self { scale: ranges.scale, low, high }
    }

    fn laid_out(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        }
    }

    /// The position of a mark in a row. Values that a logarithmic scale cannot show are at the
    /// edge.
    fn inside(&self, value: f64) -> f64 {
        self.percent(value).max(0.0)
    }

    /// The position of a value, in percent of the width.
    fn percent(&self, value: f64) -> f64 {
        let (low, high) = (self.laid_out(self.low), self.laid_out(self.high));
        if high > low {
            EDGE + (self.laid_out(value) - low) / (high - low) * (100.0 - 2.0 * EDGE)
        } else {
            50.0
        }
    }

    fn shows(&self, value: f64) -> bool {
        (0.0..=100.0).contains(&self.percent(value))
    }
}

/// A position as the value of an attribute.
pub(super) fn at(percent: f64) -> String {
    format!("{percent:.3}%")
}

impl Page {
    /// Draws ranges, one per row; nothing if there are none.
    pub(super) fn ranges(&mut self, ranges: &Ranges) {
        let place = Place::of(ranges);
        if ranges.rows.is_empty() || !place.low.is_finite() {
            return;
        }
        self.picture(ranges.json(), |page| page.draw(ranges, &place));
    }

    fn draw(&mut self, ranges: &Ranges, place: &Place) {
        self.within("figure", &[("class", "ranges")], |page| {
            page.element("h3", &[], &ranges.title);
            if !ranges.marks.is_empty() {
                page.within("div", &[("class", "range head"), ("aria-hidden", "true")], |page| {
                    page.within("svg", &[("class", "labels")], |page| {
                        ranges
                            .marks
                            .iter()
                            .for_each(|(value, name)| page.label(place.percent(*value), "12", "mark", name));
                    });
                });
            }
            for row in &ranges.rows {
                page.within("div", &[("class", "range")], |page| {
                    page.element("span", &[("class", "label")], &row.label);
                    page.row(ranges, place, row);
                    page.element("span", &[("class", "value")], &row.text);
                });
            }
            page.within("div", &[("class", "range axis"), ("aria-hidden", "true")], |page| {
                page.within("svg", &[("class", "labels")], |page| {
                    let shown: Vec<_> = ranges.ticks.iter().filter(|tick| place.shows(tick.0)).collect();
                    for (value, text) in thinned(&shown) {
                        page.label(place.percent(*value), "12", "tick", text);
                    }
                });
            });
        });
    }

    fn row(&mut self, ranges: &Ranges, place: &Place, row: &Range) {
        let said = format!("{}: {}", row.label, row.text);
        self.within("svg", &[("class", "row"), ("role", "img"), ("aria-label", &said)], |page| {
            if let Some((low, high)) = ranges.chance {
                page.bar("chance", place.inside(low), place.inside(high), "0", "100%");
            }
            for (value, _) in &ranges.marks {
                let x = at(place.inside(*value));
                page.empty("line", &[("class", "mark"), ("x1", &x), ("x2", &x), ("y1", "0"), ("y2", "100%")]);
            }
            for (class, span) in [("whole", row.whole), ("most", row.most)] {
                if let Some((low, high)) = span {
                    let [x1, x2] = [low, high].map(|value| at(place.inside(value)));
                    page.empty(
                        "line",
                        &[("class", class), ("x1", &x1), ("x2", &x2), ("y1", "50%"), ("y2", "50%")],
                    );
                }
            }
            for (index, (value, text)) in row.points.iter().enumerate() {
                let class = if index == 0 { "point first" } else { "point" };
                let attributes =
                    [("class", class), ("cx", &at(place.inside(*value))), ("cy", "50%"), ("r", "4")];
                page.within("circle", &attributes, |page| page.element("title", &[], text));
            }
        });
    }

    /// Draws a rectangle between two positions in percent.
    pub(super) fn bar(&mut self, class: &str, from: f64, to: f64, y: &str, height: &str) {
        let (x, width) = (at(from), at((to - from).max(0.0)));
        self.empty("rect", &[("class", class), ("x", &x), ("width", &width), ("y", y), ("height", height)]);
    }

    /// Writes text at a position in percent. At the edges, the text stays inside.
    pub(super) fn label(&mut self, percent: f64, y: &str, class: &str, text: &str) {
        let anchor = match percent {
            ..4.0 => "start",
            96.0.. => "end",
            _ => "middle",
        };
        self.element(
            "text",
            &[("class", class), ("x", &at(percent)), ("y", y), ("text-anchor", anchor)],
            text,
        );
    }
}

/// At most five of the ticks.
pub(super) fn thinned<T: Copy>(ticks: &[T]) -> impl Iterator<Item = T> {
    ticks.iter().step_by(ticks.len().div_ceil(5).max(1)).copied()
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn everything_is_drawn_within_the_width_and_in_order() {
        let ranges = Ranges {
            title: "times".into(),
            scale: Scale::Log,
            rows: vec![Range {
                label: "a".into(),
                points: vec![(1000.0, "1 us".into()), (1e6, "1 ms".into())],
                ..Range::default()
            }],
            marks: vec![(31_622.776, "deadline".into())],
            chance: None,
            ticks: vec![(1e3, "1 us".into()), (1e9, "1 s".into())],
        };
        let mut page = Page::default();
        page.ranges(&ranges);
        let (html, _) = page.finish(Map::new()).unwrap();
        assert!(
            html.contains("cx=\"3.000%\"")
                && html.contains("cx=\"97.000%\"")
                && html.contains("x1=\"50.000%\""),
            "{html}"
        );
        assert!(
            html.contains(">1 us</text>") && !html.contains(">1 s</text>"),
            "values outside the range have no mark: {html}"
        );
    }
}
