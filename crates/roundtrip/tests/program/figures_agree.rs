//! All forms of one run: terminal tables, CSV, Markdown and JSON show the same figures, to the last
//! digit. `report_page.rs` checks the HTML page.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::csv;

/// A temporary folder with one run.
struct Stored(PathBuf);

impl Stored {
    fn measure(name: &str, command: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("roundtrip-agree-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let stored = Self(folder);
        stored.roundtrip(&format!("{command} --quiet --out run"));
        stored
    }

    fn roundtrip(&self, line: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        command.args(line.split(' ')).current_dir(&self.0).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn figures(&self) -> Vec<Figure> {
        csv::lines(&self.roundtrip("show --format csv run")).into_iter().map(Figure).collect()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.0.join("run/run.json")).unwrap()).unwrap()
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A line of the CSV, by column.
#[derive(Debug)]
struct Figure(csv::Line);

impl Figure {
    fn get(&self, column: &str) -> &str {
        &self.0[column]
    }

    fn number(&self, column: &str) -> Option<f64> {
        self.get(column).parse().ok()
    }
}

/// Whether a displayed number equals a value that is rounded to the displayed digits.
fn shows(shown: &str, value: f64) -> bool {
    let decimals = shown.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{value:.decimals$}") == shown
}

/// Whether a displayed number with a unit, such as "9.00 us", equals a value.
fn shows_with_unit(shown: &str, value: f64) -> bool {
    let (number, unit) = shown.split_once(' ').unwrap_or((shown, ""));
    let one = match unit {
        "us" | "kB/s" => 1e3,
        "ms" | "MB/s" => 1e6,
        "s" | "GB/s" => 1e9,
        _ => 1.0,
    };
    shows(number, value / one)
}

/// One row of a terminal table: its block's title, its first cell, and each cell with its column.
#[derive(Debug)]
struct Row {
    block: String,
    first: String,
    cells: Vec<(String, String)>,
}

/// The words that end at a column of a line, back to a gap of two spaces: a right-aligned header.
fn ending_at(line: &str, end: usize) -> String {
    let Some(part) = line.get(..end.min(line.len())) else { return String::new() };
    if part.len() < end || part.ends_with(' ') || line[end..].starts_with(|c: char| c != ' ') {
        return String::new();
    }
    part.rsplit("  ").next().unwrap_or_default().trim().to_owned()
}

/// All tables of a report: the block's title, a header of one or two lines that starts with one of
/// these words, and rows.
fn rows(report: &str, headers: &[&str]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut block = String::new();
    let mut header: Option<(String, String)> = None;
    let mut lines = report.lines().peekable();
    let mut after_a_gap = true;
    while let Some(line) = lines.next() {
        let is_first = std::mem::replace(&mut after_a_gap, line.is_empty());
        if line.is_empty() {
            header = None;
        } else if headers.iter().any(|word| line.trim_start().starts_with(word)) {
            // A second header line starts with spaces.
            let second = lines.next_if(|next| next.starts_with("   ") && next.contains('('));
            header = Some((line.to_owned(), second.unwrap_or_default().to_owned()));
        } else if let Some((first_line, second_line)) = &header {
            let mut cells = Vec::new();
            let mut end = 0;
            for word in line.split("  ").filter(|word| !word.trim().is_empty()) {
                let at = line[end..].find(word).unwrap() + end;
                end = at + word.len();
                let name = format!("{} {}", ending_at(first_line, end), ending_at(second_line, end));
                cells.push((name.trim().to_owned(), word.trim().to_owned()));
            }
            rows.push(Row { block: block.clone(), first: cells[0].1.clone(), cells });
        } else if is_first {
            block = line.to_owned();
        }
    }
    rows
}

/// Compares every table cell that has a figure with that figure, and counts them.
fn compare_cells(rows: &[Row], figure_of: impl Fn(&Row, &str) -> Option<f64>) -> usize {
    let mut compared = 0;
    for row in rows {
        for (column, cell) in &row.cells {
            let name = column.split(" (").next().unwrap_or_default();
            let Some(value) = figure_of(row, name) else { continue };
            let shown = cell.as_str();
            let value = if column.contains("(us)") { value / 1000.0 } else { value };
            assert!(
                if shown.contains(' ') { shows_with_unit(shown, value) } else { shows(shown, value) },
                "{column} of {} in {}: {shown} shown, {value} in CSV",
                row.first,
                row.block
            );
            compared += 1;
        }
    }
    compared
}

/// Every figure has the same value and interval in Markdown.
fn compare_markdown(stored: &Stored, figures: &[Figure]) {
    let markdown = stored.roundtrip("show --format markdown run");
    let rows: Vec<Vec<&str>> = markdown
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| of "))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), figures.len(), "{markdown}");
    for (row, figure) in rows.iter().zip(figures) {
        let [_, name, value, interval, samples] = row[..] else { panic!("{row:?}") };
        assert_eq!(
            (name.replace('\\', ""), samples),
            (figure.get("metric").to_owned(), figure.get("samples"))
        );
        let shown = |text: &str, value: f64| {
            shows_with_unit(text.trim_end_matches("/s").trim_end_matches('%'), value)
                || shows_with_unit(text, value)
        };
        match figure.number("value") {
            Some(known) => assert!(shown(value, known), "{row:?} {figure:?}"),
            None => assert_eq!(value, "-", "too few calls: {figure:?}"),
        }
        match (interval.split_once(" to "), figure.number("low"), figure.number("high")) {
            (Some((low, high)), Some(least), Some(most)) => {
                assert!(shown(low, least) && shown(high, most), "{row:?} {figure:?}");
            }
            (None, None, _) => {}
            other => panic!("{other:?}: {row:?} {figure:?}"),
        }
    }
}

/// All numbers of a document.
fn numbers(value: &Value, into: &mut Vec<f64>) {
    match value {
        Value::Number(number) => into.extend(number.as_f64()),
        Value::Array(values) => values.iter().for_each(|value| numbers(value, into)),
        Value::Object(fields) => fields.values().for_each(|value| numbers(value, into)),
        _ => {}
    }
}

/// The CSV's figures of single calls are in the JSON, digit by digit. Figures over batches and
/// layers are computed from it.
fn compare_json(stored: &Stored, figures: &[Figure]) -> usize {
    let mut known = Vec::new();
    numbers(&stored.json(), &mut known);
    let mut compared = 0;
    for figure in figures {
        let name = figure.get("metric");
        let is_percentile = name.strip_prefix('p').is_some_and(|rest| rest.parse::<f64>().is_ok());
        if is_percentile || ["mean", "max", "min"].contains(&name) {
            for column in ["value", "low", "high"] {
                let Some(value) = figure.number(column) else { continue };
                assert!(known.contains(&value), "{column} {value} of {figure:?} is not in JSON");
                compared += 1;
            }
        }
    }
    compared
}

fn value(figures: &[Figure], name: &str, of: &[(&str, &str)]) -> Option<f64> {
    let is = |figure: &&Figure| {
        figure.get("metric") == name && of.iter().all(|(column, wanted)| figure.get(column) == *wanted)
    };
    figures.iter().find(is).and_then(|figure| figure.number("value"))
}

#[test]
fn a_latency_run_has_the_same_figures_in_every_format() {
    let stored = Stored::measure(
        "latency",
        "ipc latency --driver emulated --callers other --iterations 300 --deadline 1ms",
    );
    let figures = stored.figures();
    let rows = rows(&stored.roundtrip("show run"), &["pair "]);
    let compared = compare_cells(&rows, |row, name| {
        let stack = row.block.split(',').next().unwrap();
        value(&figures, name, &[("stack", stack), ("caller", "other")])
    });
    // Two stacks: mean, four percentiles, maximum, and missed calls.
    assert!(compared >= 14, "{compared} of {rows:?}");
    compare_markdown(&stored, &figures);
    assert!(compare_json(&stored, &figures) > 20);
}

#[test]
fn a_throughput_run_has_the_same_figures_in_every_format() {
    let stored =
        Stored::measure("throughput", "ipc throughput --driver emulated --sizes 4,4k --iterations 500");
    let figures = stored.figures();
    let rows = rows(&stored.roundtrip("show run"), &["size "]);
    let compared = compare_cells(&rows, |row, name| {
        let stack = row.block.split(',').next().unwrap();
        let size = if row.first == "4k" { "4096" } else { "4" };
        let name = match name {
            "CPU" => "cpu",
            "one way" => "rate",
            name => name,
        };
        value(&figures, name, &[("stack", stack), ("size_bytes", size)])
    });
    // Two stacks and two sizes: time, CPU time, two percentiles and the rate.
    assert_eq!(compared, 20, "{rows:?}");
    compare_markdown(&stored, &figures);
    assert!(compare_json(&stored, &figures) > 20);
}

#[test]
fn a_storage_run_has_the_same_figures_in_every_format() {
    let stored =
        Stored::measure("writes", "storage layers --writers native --sizes 4k,16k --calls 20 --rounds 2");
    let figures = stored.figures();
    let rows = rows(&stored.roundtrip("show run"), &["size "]);
    let compared = compare_cells(&rows, |row, name| {
        let size = if row.first == "16 KiB" { "16384" } else { "4096" };
        let name = match name {
            "response p50" => "p50".to_owned(),
            "p99" | "mean" => name.to_owned(),
            name => name
                .split_once(' ')
                .map_or_else(|| name.to_owned(), |(layer, what)| format!("{layer}.{what}")),
        };
        value(&figures, &name, &[("size_bytes", size)])
    });
    // Two sizes: the response's median, 99th percentile and mean; and layers if kernel events could
    // be recorded.
    assert!(compared >= 6, "{compared} of {rows:?}");
    compare_markdown(&stored, &figures);
    assert!(compare_json(&stored, &figures) > 10);
}
