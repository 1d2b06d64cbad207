//! Tables for a terminal: units in the header, numbers right-aligned. Must not know any data: every
//! cell is already text.

use anstyle::Style;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment};

use textwrap::core::display_width;

use crate::terms;
use crate::text::csv::Line;
use crate::text::look::{Look, NARROWEST};
use crate::text::style::styled;
use crate::text::{inert, markdown};

/// The spaces after each column.
const GAP: usize = 2;

/// A column's header and alignment.
#[derive(Debug)]
pub struct Column {
    header: String,
    alignment: CellAlignment,
}

impl Column {
    /// Text, left-aligned.
    #[must_use]
    pub fn text(header: &str) -> Self {
        Self { header: header.to_owned(), alignment: CellAlignment::Left }
    }

    /// Numbers, right-aligned, with their unit in the header; an empty unit is omitted.
    #[must_use]
    pub fn number(header: &str, unit: &str) -> Self {
        let header = if unit.is_empty() { header.to_owned() } else { format!("{header} ({unit})") };
        Self { header, alignment: CellAlignment::Right }
    }
}

impl Column {
    /// Numbers with a long name. Its last word and the unit are on a second line, which keeps the
    /// column narrow.
    #[must_use]
    pub fn narrow(name: &str, unit: &str) -> Self {
        let (first, second) = name.rsplit_once(' ').unwrap_or((name, ""));
        let unit = if unit.is_empty() { String::new() } else { format!("({unit})") };
        let header = format!("{first}\n{second} {unit}");
        Self { header: header.trim_end().replace("\n ", "\n"), alignment: CellAlignment::Right }
    }
}

impl Column {
    /// The header without the unit.
    fn name(&self) -> String {
        let words = self.header.replace('\n', " ");
        words.split_once(" (").map_or(words.as_str(), |(name, _)| name).to_owned()
    }
}

/// A table under construction.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// The columns' names with units, and whether they contain numbers.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (String, bool)> + '_ {
        let number = |column: &Column| column.alignment == CellAlignment::Right;
        self.columns.iter().map(move |column| (column.header.replace('\n', " "), number(column)))
    }

    /// The cells, row by row.
    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Adds a row with one cell per column.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<String> =
            cells.into_iter().map(|cell| inert::line(&cell.into()).into_owned()).collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(cells);
    }

    /// The table as lines without trailing spaces. The header has one or two lines, in bold if
    /// colours are wanted. A table that is too wide is split into several, one below the other.
    /// Each of them repeats the text columns at the start of the rows, or the first column if that
    /// contains numbers.
    #[must_use]
    pub fn render(&self, look: Look) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width(column)).collect();
        let parts = look.width.map_or_else(
            || vec![(0..widths.len()).collect()],
            |most| parts(&widths, self.keys(), most.max(NARROWEST)),
        );
        let parts: Vec<String> = parts.iter().map(|columns| self.part(columns, look)).collect();
        parts.join("\n")
    }

    /// The table in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::table(self.columns(), &self.rows)
    }

    /// The table as CSV, with the same header as on a terminal.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::new();
        Line::of(&mut out).fields(self.columns().map(|(header, _)| header)).end();
        self.rows.iter().for_each(|row| Line::of(&mut out).fields(row).end());
        out
    }

    /// How many columns at the start identify a row.
    fn keys(&self) -> usize {
        let text = |column: &&Column| column.alignment == CellAlignment::Left;
        // If all columns are text, only the first one identifies a row.
        let keys = self.columns.iter().take_while(text).count();
        if keys == self.columns.len() { 1 } else { keys.max(1) }
    }

    /// The width of a column with the gap after it.
    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| display_width(cell));
        let header = self.columns.get(column).into_iter().flat_map(|column| column.header.lines());
        cells.chain(header.map(display_width)).max().unwrap_or(0) + GAP
    }

    /// The table with only these columns.
    fn part(&self, columns: &[usize], look: Look) -> String {
        let unknown = || self.columns.iter().find(|column| !terms::explain(&column.name()));
        debug_assert!(unknown().is_none(), "a header is not a term: {:?}", unknown());
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING);
        let ours = || columns.iter().filter_map(|&column| self.columns.get(column));
        table.set_header(ours().map(|column| Cell::new(&column.header)).collect::<Vec<_>>());
        let cells = |row: &Vec<String>| -> Vec<Cell> {
            columns.iter().filter_map(|&column| row.get(column)).map(Cell::new).collect()
        };
        table.add_rows(self.rows.iter().map(cells));
        for (column, ours) in table.column_iter_mut().zip(ours()) {
            column.set_cell_alignment(ours.alignment);
            column.set_padding((0, GAP as u16));
        }
        let header_lines = ours().map(|column| column.header.lines().count()).max().unwrap_or(0);
        let mut out = String::new();
        for (index, line) in table.lines().enumerate() {
            let line = line.trim_end();
            out.push_str(&if index < header_lines {
                styled(line, Style::new().bold(), look.colour)
            } else {
                line.to_owned()
            });
            out.push('\n');
        }
        out
    }
}

/// Splits the columns into groups that fit into `most` characters. Each group starts with the first
/// `keys` columns.
fn parts(widths: &[usize], keys: usize, most: usize) -> Vec<Vec<usize>> {
    let keys = 0..keys.min(widths.len());
    let of_keys: usize = widths.iter().take(keys.end).sum();
    let mut parts = Vec::new();
    let mut part: Vec<usize> = keys.clone().collect();
    let mut used = of_keys;
    for (column, width) in widths.iter().enumerate().skip(keys.end) {
        // The gap after the last column of a part is not shown.
        if used + width > most + GAP && part.len() > keys.end {
            parts.push(std::mem::replace(&mut part, keys.clone().collect()));
            used = of_keys;
        }
        part.push(column);
        used += width;
    }
    parts.push(part);
    parts
}

/// Tables with their headings, followed by notes.
pub(crate) fn under_headings((tables, notes): (Vec<(String, Table)>, String), look: Look) -> String {
    let sections = tables.iter().map(|(heading, table)| format!("{heading}\n{}\n", table.render(look)));
    sections.chain([notes]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new([Column::text("stack"), Column::number("p50", "us"), Column::number("calls", "")]);
        table.row(["binder", "2.31", "10"]);
        table.row(["hwbinder", "12.50", "1000"]);
        table
    }

    #[test]
    fn numbers_are_right_aligned_below_their_unit() {
        assert_eq!(
            table().render(Look::PLAIN),
            "stack     p50 (us)  calls\nbinder        2.31     10\nhwbinder     12.50   1000\n"
        );
    }

    #[test]
    fn a_narrow_columns_header_takes_two_lines() {
        let mut table = Table::new([
            Column::text("legs"),
            Column::narrow("request p50", "us"),
            Column::narrow("max", "us"),
            Column::narrow("calls", ""),
        ]);
        table.row(["other", "2.31", "1.00", "7"]);
        assert_eq!(
            table.render(Look::PLAIN),
            "legs    request   max  calls\n       p50 (us)  (us)\nother      2.31  1.00      7\n"
        );
    }

    #[test]
    fn only_the_header_is_coloured() {
        let coloured = table().render(Look { colour: true, width: None, is_terminal: false });
        assert!(
            coloured.starts_with("\u{1b}[1mstack") && coloured.matches('\u{1b}').count() == 2,
            "{coloured}"
        );
    }

    #[test]
    fn a_table_that_is_too_wide_repeats_the_columns_that_identify_rows() {
        let columns = (1..=6).map(|n| Column::number(&format!("figure {n}"), "us"));
        let mut table = Table::new([Column::text("pair"), Column::text("caller")].into_iter().chain(columns));
        table.row(["P0", "fifo:99", "1.5", "2", "3", "4", "5", "6"]);
        let look = Look { colour: false, width: Some(48), is_terminal: false };
        let text = table.render(look);
        assert_eq!(
            text,
            "pair  caller   figure 1 (us)  figure 2 (us)\nP0    fifo:99            1.5              2\n\n\
             pair  caller   figure 3 (us)  figure 4 (us)\nP0    fifo:99              3              4\n\n\
             pair  caller   figure 5 (us)  figure 6 (us)\nP0    fifo:99              5              6\n"
        );
        assert_eq!(table.render(Look { width: Some(200), ..look }), table.render(Look::PLAIN));
        let one_too_narrow = Look { width: Some(42), ..look };
        assert_eq!(table.render(Look { width: Some(43), ..look }), text, "the last gap needs no room");
        assert!(table.render(one_too_narrow).lines().all(|line| line.len() <= 42));
    }
}
