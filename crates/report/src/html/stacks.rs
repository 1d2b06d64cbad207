//! Stacked bars: each row consists of consecutive parts, and all rows have one scale. Must not know
//! any run.

use serde_json::{Value, json};

use super::page::Page;

/// A row: its label, its figure as text, and its parts. Each part has a name that determines its
/// colour, a size, and a text.
pub(super) struct Stack {
    pub(super) label: String,
    pub(super) text: String,
    pub(super) parts: Vec<(&'static str, f64, String)>,
}

/// Rows on one scale.
pub(super) struct Stacks {
    pub(super) title: String,
    pub(super) about: String,
    /// The names of the parts that occur.
    pub(super) legend: Vec<&'static str>,
    pub(super) rows: Vec<Stack>,
}

impl Stacks {
    /// The chart's data.
    fn json(&self) -> Value {
        let row = |row: &Stack| json!({ "label": row.label, "text": row.text, "parts": row.parts });
        json!({
            "kind": "stacks",
            "title": self.title,
            "about": self.about,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

impl Page {
    /// Draws stacked bars.
    pub(super) fn stacks(&mut self, stacks: &Stacks) {
        let whole = |row: &Stack| row.parts.iter().map(|part| part.1).sum::<f64>();
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
            page.swatches(&stacks.legend.iter().map(|name| (*name, *name)).collect::<Vec<_>>());
            for row in &stacks.rows {
                page.within("div", &[("class", "range")], |page| {
                    page.element("span", &[("class", "label")], &row.label);
                    let said = format!("{}: {}", row.label, row.text);
                    page.within("svg", &[("class", "row"), ("role", "img"), ("aria-label", &said)], |page| {
                        let mut from = 0.0;
                        for (name, size, text) in row.parts.iter().filter(|part| part.1 > 0.0) {
                            let width = size / most * 100.0;
                            let [x, wide] = [from, width].map(super::bars::at);
                            let attributes = [
                                ("class", *name),
                                ("x", &x),
                                ("width", &wide),
                                ("y", "0"),
                                ("height", "100%"),
                            ];
                            page.within("rect", &attributes, |page| page.element("title", &[], text));
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
        let row = |sizes: [f64; 2]| Stack {
            label: "4 KiB".into(),
            text: "mean".into(),
            parts: vec![("fs", sizes[0], "a".into()), ("device", sizes[1], "b".into())],
        };
        let stacks = Stacks {
            title: "t".into(),
            about: String::new(),
            legend: vec!["fs"],
            rows: vec![row([1.0, 3.0]), row([1.0, 1.0])],
        };
        let mut page = Page::default();
        page.stacks(&stacks);
        let (html, _) = page.finish(Map::new()).unwrap();
        for bar in [
            "class=\"fs\" x=\"0.000%\" width=\"25.000%\"",
            "class=\"device\" x=\"25.000%\" width=\"75.000%\"",
            "class=\"device\" x=\"25.000%\" width=\"25.000%\"",
        ] {
            assert!(html.contains(bar), "{bar} in {html}");
        }
    }
}
