//! A page under construction: HTML whose elements are always closed and whose text is always
//! escaped, and the page's data as JSON. Every table, figure and chart is added to both. Must not
//! know any run.

use serde_json::{Map, Number, Value, json};

use super::chart::Chart;
use crate::text::inert;
use crate::text::table::Table;

/// Attributes. The names are ours. The values may be foreign text.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a str)];

/// The page so far.
#[derive(Debug, Default)]
pub(crate) struct Page {
    html: String,
    figures: Vec<Value>,
    texts: Vec<Value>,
    tables: Vec<Value>,
    charts: Vec<Value>,
    pictures: Vec<Value>,
    /// How deeply the current position is nested in items whose data is added in one piece; 0
    /// outside such items.
    whole: u32,
}

impl Page {
    /// The length of its HTML, in bytes.
    pub(super) fn length(&self) -> usize {
        self.html.len()
    }

    /// An element with content from `fill`.
    pub(super) fn within(&mut self, tag: &str, attributes: Attributes<'_>, fill: impl FnOnce(&mut Self)) {
        self.begin(tag, attributes);
        self.html.push('>');
        fill(self);
        self.html.push_str(&format!("</{tag}>"));
    }

    /// An element with text.
    pub(super) fn element(&mut self, tag: &str, attributes: Attributes<'_>, text: &str) {
        self.tell(text);
        self.within(tag, attributes, |inside| inside.text(text));
    }

    /// Adds a text to the data, unless the text belongs to an item that is added as a whole.
    fn tell(&mut self, text: &str) {
        if self.whole == 0 && !text.is_empty() {
            self.texts.push(text.into());
        }
    }

    /// Adds an item whose data is added as a whole. Its texts are not added one by one.
    fn wholly(&mut self, fill: impl FnOnce(&mut Self)) {
        self.whole += 1;
        fill(self);
        self.whole -= 1;
    }

    /// A chart whose data is added as a whole.
    pub(super) fn picture(&mut self, data: Value, fill: impl FnOnce(&mut Self)) {
        self.pictures.push(data);
        self.wholly(fill);
    }

    /// An SVG element without content. SVG requires an end tag, HTML does not.
    pub(super) fn empty(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.begin(tag, attributes);
        self.html.push_str("/>");
    }

    fn begin(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.html.push('<');
        self.html.push_str(tag);
        for (name, value) in attributes {
            self.html.push_str(&format!(" {name}=\"{}\"", inert::html(value)));
        }
    }

    /// Any text, escaped.
    pub(super) fn text(&mut self, text: &str) {
        self.html.push_str(&inert::html(text));
    }

    /// A paragraph for each line; nothing for empty text.
    pub(super) fn paragraphs(&mut self, class: &str, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.element("p", &[("class", class)], line);
        }
    }

    /// Notes below tables: one paragraph for each note. A line that continues the sentence of the
    /// line before belongs to the same note.
    pub(super) fn notes(&mut self, text: &str) {
        let mut all: Vec<String> = Vec::new();
        for line in text.lines().map(str::trim) {
            let goes_on = |last: &&mut String| {
                last.ends_with(|c: char| c.is_alphanumeric() || c == ',')
                    && line.starts_with(|c: char| c.is_lowercase())
            };
            match all.last_mut().filter(goes_on) {
                Some(last) => *last = format!("{last} {line}"),
                None => all.push(line.to_owned()),
            }
        }
        all.iter().for_each(|line| self.paragraphs("note", line));
    }

    /// Preformatted text; nothing for empty text.
    pub(super) fn block(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.tell(text);
        self.within("pre", &[("class", "scroll"), ("tabindex", "0")], |page| {
            for line in text.lines() {
                page.text(line);
                page.html.push('\n');
            }
        });
    }

    /// A single figure: its name, its text, its value and the value's unit.
    pub(super) fn figure(&mut self, of: &str, name: &str, text: &str, value: f64, unit: &str) {
        self.wholly(|page| {
            page.within("div", &[("class", "figure")], |page| {
                page.element("b", &[], text);
                page.element("span", &[], name);
            });
        });
        self.figures.push(json!({ "run": of, "name": name, "text": text, "value": value, "unit": unit }));
    }

    /// Collapsed notes; nothing if there are none.
    pub(super) fn folded_notes(&mut self, title: &str, text: &str) {
        if !text.trim().is_empty() {
            self.within("details", &[], |page| {
                page.element("summary", &[], title);
                page.paragraphs("note", text);
            });
        }
    }

    /// A collapsed table.
    pub(super) fn folded(&mut self, title: &str, table: &Table) {
        self.within("details", &[], |page| {
            page.element("summary", &[], title);
            page.table(title, table);
        });
    }

    /// A table; nothing if it has no rows.
    pub(super) fn table(&mut self, title: &str, table: &Table) {
        if table.rows().is_empty() {
            return;
        }
        let columns: Vec<(String, bool)> = table.columns().collect();
        self.wholly(|page| page.rows(title, table, &columns));
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let rows: Vec<Vec<Value>> =
            table.rows().iter().map(|row| row.iter().map(|cell| data(cell)).collect()).collect();
        self.tables.push(json!({ "title": title, "columns": names, "rows": rows }));
    }

    fn rows(&mut self, title: &str, table: &Table, columns: &[(String, bool)]) {
        self.within("div", &[("class", "scroll"), ("tabindex", "0")], |page| {
            page.within("table", &[("aria-label", title)], |page| {
                page.within("thead", &[], |page| {
                    page.within("tr", &[], |page| {
                        for (name, number) in columns {
                            page.element("th", side("col", *number), name);
                        }
                    });
                });
                page.within("tbody", &[], |page| {
                    for row in table.rows() {
                        page.within("tr", &[], |page| cells(page, row, columns));
                    }
                });
            });
        });
    }

    /// A chart that the page's script draws, with its table.
    pub(super) fn chart(&mut self, chart: &Chart) {
        let number = self.charts.len().to_string();
        self.wholly(|page| page.frame(chart, &number));
        self.charts.push(chart.json());
        self.folded("Show as a table", &chart.table);
    }

    fn frame(&mut self, chart: &Chart, number: &str) {
        self.within("figure", &[("class", "chart"), ("data-chart", number)], |page| {
            page.element("h3", &[], &chart.title);
            page.paragraphs("about", &chart.about);
            page.legend(chart);
            let label = format!("{}; the arrow keys read its points", chart.title);
            page.within(
                "div",
                &[("class", "plot"), ("tabindex", "0"), ("role", "application"), ("aria-label", &label)],
                |_| {},
            );
            page.element("p", &[("class", "readout"), ("aria-live", "polite")], "");
        });
    }

    fn legend(&mut self, chart: &Chart) {
        self.within("ul", &[("class", "legend")], |page| {
            for (index, line) in chart.lines.iter().enumerate() {
                page.within("li", &[], |page| {
                    page.within("svg", &[("class", "swatch"), ("aria-hidden", "true")], |page| {
                        let class = line.class(index);
                        match line.apart {
                            true => page
                                .empty("circle", &[("class", &class), ("cx", "6"), ("cy", "6"), ("r", "4")]),
                            false => page.empty(
                                "line",
                                &[("class", &class), ("x1", "0"), ("x2", "20"), ("y1", "6"), ("y2", "6")],
                            ),
                        }
                    });
                    page.text(&line.label);
                });
            }
        });
    }

    /// The HTML, and the data as JSON text that is safe within a script element.
    ///
    /// # Errors
    /// None in practice, because all of it is text, numbers and lists.
    pub(super) fn finish(self, facts: Map<String, Value>) -> Result<(String, String), crate::Error> {
        let Self { html, figures, texts, tables, charts, pictures, whole: _ } = self;
        let mut data = facts;
        data.insert("figures".into(), figures.into());
        data.insert("texts".into(), texts.into());
        data.insert("pictures".into(), pictures.into());
        data.insert("tables".into(), tables.into());
        data.insert("charts".into(), charts.into());
        Ok((html, inert::script(&roundtrip_stored::to_text(&data)?)))
    }
}

fn side(scope: &str, number: bool) -> Attributes<'_> {
    match (scope, number) {
        ("col", true) => &[("scope", "col"), ("class", "number")],
        ("col", false) => &[("scope", "col")],
        (_, true) => &[("class", "number")],
        _ => &[],
    }
}

/// The cells of a row. The first cell is a row header if it is text.
fn cells(page: &mut Page, row: &[String], columns: &[(String, bool)]) {
    for (index, (cell, (_, number))) in row.iter().zip(columns).enumerate() {
        match (index, number) {
            (0, false) => page.element("th", &[("scope", "row")], cell),
            _ => page.element("td", side("", *number), cell),
        }
    }
}

/// A cell as data: text or a number.
fn data(cell: &str) -> Value {
    let number = |text: &str| {
        let plain = text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
            && text.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '-');
        let whole = || text.parse::<u64>().ok().map(Number::from);
        plain.then(|| whole().or_else(|| Number::from_f64(text.parse().ok()?))).flatten()
    };
    number(cell).map_or_else(|| cell.into(), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::table::Column;

    #[test]
    fn elements_are_closed_and_text_is_inert() {
        let mut page = Page::default();
        page.within("p", &[("title", "a\"b")], |inside| inside.element("b", &[], "<i>"));
        assert_eq!(page.html, "<p title=\"a&quot;b\"><b>&lt;i&gt;</b></p>");
    }

    #[test]
    fn a_table_is_in_the_page_and_in_its_data() {
        let mut table = Table::new([Column::text("pair"), Column::number("p50", "us"), Column::text("as")]);
        table.row(["P<0>", "2.30", "fifo:99"]);
        table.row(["1", "17", "1.5-2.5"]);
        let mut page = Page::default();
        page.table("times", &table);
        let (html, data) = page.finish(Map::new()).unwrap();
        assert!(html.contains("<th scope=\"row\">P&lt;0&gt;</th><td class=\"number\">2.30</td>"), "{html}");
        let data: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(
            data["tables"][0],
            json!({
                "title": "times",
                "columns": ["pair", "p50 (us)", "as"],
                "rows": [["P<0>", 2.3, "fifo:99"], [1, 17, "1.5-2.5"]],
            })
        );
    }
}
