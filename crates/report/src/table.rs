//! Tables for a terminal: units in the header, numbers to the right. Knows no data; every cell is text already.

use anstyle::Style;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment};

use crate::inert;
use crate::style::styled;

/// A column's header and side.
pub struct Column {
    header: String,
    alignment: CellAlignment,
}

impl Column {
    /// Words, to the left.
    pub fn text(header: &str) -> Self {
        Self { header: header.to_owned(), alignment: CellAlignment::Left }
    }

    /// Numbers, to the right, with their unit in the header; an empty unit is left out.
    pub fn number(header: &str, unit: &str) -> Self {
        let header = if unit.is_empty() { header.to_owned() } else { format!("{header} ({unit})") };
        Self { header, alignment: CellAlignment::Right }
    }
}

impl Column {
    /// Numbers with a long name: its last word and the unit stand in a second line, which keeps the column narrow.
    pub fn narrow(name: &str, unit: &str) -> Self {
        let (first, second) = name.rsplit_once(' ').unwrap_or((name, ""));
        let unit = if unit.is_empty() { String::new() } else { format!("({unit})") };
        let header = format!("{first}\n{second} {unit}");
        Self { header: header.trim_end().replace("\n ", "\n"), alignment: CellAlignment::Right }
    }
}

/// A table under construction.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row; it has one cell per column.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<String> =
            cells.into_iter().map(|cell| inert::line(&cell.into()).into_owned()).collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(cells);
    }

    /// The table as lines without trailing blanks, the header, one line or two, in bold where colour is wanted.
    pub fn render(&self, colour: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING);
        let header = self.columns.iter().map(|column| Cell::new(&column.header));
        table.set_header(header.collect::<Vec<_>>());
        table.add_rows(self.rows.iter().map(|row| row.iter().map(Cell::new).collect::<Vec<_>>()));
        for (column, ours) in table.column_iter_mut().zip(&self.columns) {
            column.set_cell_alignment(ours.alignment);
            column.set_padding((0, 2));
        }
        let header_lines = self.columns.iter().map(|column| column.header.lines().count()).max().unwrap_or(0);
        let mut out = String::new();
        for (index, line) in table.lines().enumerate() {
            let line = line.trim_end();
            out.push_str(&if index < header_lines {
                styled(line, Style::new().bold(), colour)
            } else {
                line.to_owned()
            });
            out.push('\n');
        }
        out
    }
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
    fn numbers_stand_to_the_right_under_their_unit() {
        assert_eq!(
            table().render(false),
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
            table.render(false),
            "legs    request   max  calls\n       p50 (us)  (us)\nother      2.31  1.00      7\n"
        );
    }

    #[test]
    fn only_the_header_is_coloured() {
        let coloured = table().render(true);
        assert!(
            coloured.starts_with("\u{1b}[1mstack") && coloured.matches('\u{1b}').count() == 2,
            "{coloured}"
        );
    }
}
