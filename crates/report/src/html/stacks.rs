//! Stacked bars: each row consists of consecutive parts, and all rows have one scale. Must not know
//! any run.

use roundtrip_sorting::SmallSort as _;
use serde_json::{Value, json};

use super::colours::{self, Colour};
use super::page::Page;

/// A part of a row.
pub(super) struct Segment {
    pub(super) name: &'static str,
    pub(super) colour: Colour,
    pub(super) size: f64,
    pub(super) text: String,
}

/// A row: its label, its figure as text, and its parts.
pub(super) struct Stack {
    pub(super) label: String,
    pub(super) text: String,
    pub(super) parts: Vec<Segment>,
}

/// Rows on one scale.
pub(super) struct Stacks {
    pub(super) title: String,
    pub(super) about: String,
    pub(super) rows: Vec<Stack>,
}

impl Stacks {
    /// The chart's data.
    fn json(&self) -> Value {
        let part = |part: &Segment| json!([part.name, part.size, part.text]);
        let row = |row: &Stack| json!({ "label": row.label, "text": row.text, "parts": row.parts.iter().map(part).collect::<Vec<_>>() });
        json!({
            "kind": "stacks",
            "title": self.title,
            "about": self.about,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

impl Stack {
    /// Its parts that have a size, those of one colour beside each other.
    fn drawn(&self) -> Vec<&Segment> {
        let mut parts: Vec<&Segment> = self.parts.iter().filter(|part| part.size > 0.0).collect();
        parts.small_sort_by_key(|part| colours::rank(part.colour));
        parts
    }
}

/// The colours that occur, each with the names of its parts in the order of the rows.
fn legend(rows: &[Stack]) -> Vec<(Colour, String)> {
    let mut out: Vec<(Colour, Vec<&str>)> = Vec::new();
    for part in rows.iter().flat_map(Stack::drawn) {
        match out.iter_mut().find(|(colour, _)| *colour == part.colour) {
            Some((_, names)) if names.contains(&part.name) => {}
            Some((_, names)) => names.push(part.name),
            None => out.push((part.colour, vec![part.name])),
        }
    }
    out.small_sort_by_key(|(colour, _)| colours::rank(colour));
    out.into_iter().map(|(colour, names)| (colour, names.join(", "))).collect()
}

impl Page {
    /// Draws stacked bars.
    pub(super) fn stacks(&mut self, stacks: &Stacks) {
        let whole = |row: &Stack| row.parts.iter().map(|part| part.size).sum::<f64>();
        let most = stacks.rows.iter().map(whole).fold(0.0_f64, f64::max);
        if most <= 0.0 {
            return;
        }
        self.picture(stacks.json(), |page| page.draw_stacks(stacks, most));
    }

    fn draw_stacks(&mut self, stacks: &Stacks, most: f64) {
        self.within("figure", &[("class", "ranges stacks")], |page| {
            page.element("h3", &[], &stacks.title);
            page.paragraphs("about", &stacks.about);
            let legend = legend(&stacks.rows);
            page.swatches(legend.iter().map(|(colour, names)| (*colour, names.as_str())));
            for row in &stacks.rows {
                page.within("div", &[("class", "range")], |page| {
                    page.element("span", &[("class", "label")], &row.label);
                    let said = format!("{}: {}", row.label, row.text);
                    page.within("svg", &[("class", "row"), ("role", "img"), ("aria-label", &said)], |page| {
                        let mut from = 0.0;
                        for part in row.drawn() {
                            let width = part.size / most * 100.0;
                            let [x, wide] = [from, width].map(super::bars::at);
                            let attributes = [
                                ("class", part.colour),
                                ("data-part", part.name),
                                ("x", &x),
                                ("width", &wide),
                                ("y", "0"),
                                ("height", "100%"),
                            ];
                            page.within("rect", &attributes, |page| page.element("title", &[], &part.text));
                            from += width;
                        }
                    });
                    page.element("span", &[("class", "value")], &row.text);
                });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn parts_follow_each_other_and_the_longest_row_fills_the_width() {
        let part = |name, colour, size| Segment { name, colour, size, text: "a".into() };
        let row = |sizes: [f64; 2]| Stack {
            label: "4 KiB".into(),
            text: "mean".into(),
            parts: vec![part("device", "blocked", sizes[1]), part("fs", "running", sizes[0])],
        };
        let stacks =
            Stacks { title: "t".into(), about: String::new(), rows: vec![row([1.0, 3.0]), row([1.0, 1.0])] };
        let mut page = Page::default();
        page.stacks(&stacks);
        let (html, _) = page.finish(Map::new()).unwrap();
        for bar in [
            "class=\"running\" data-part=\"fs\" x=\"0.000%\" width=\"25.000%\"",
            "class=\"blocked\" data-part=\"device\" x=\"25.000%\" width=\"75.000%\"",
            "class=\"blocked\" data-part=\"device\" x=\"25.000%\" width=\"25.000%\"",
        ] {
            assert!(html.contains(bar), "{bar} in {html}");
        }
    }
}
