//! Google Benchmark's CSV format: the context on standard error, one header, one line per row.

use std::io::{self, Write};

use super::console::basic_context;
use super::format::Format;
use super::{BYTES_PER_SECOND, Context, Row, TimeUnit, general};
use crate::text::csv::Line;

/// The state of the CSV format.
pub struct Csv {
    unit: TimeUnit,
    /// The counters that have a column at the end. The first rows determine them; `None` before
    /// that.
    counters: Option<Vec<String>>,
}

impl Csv {
    /// Prints times in this unit.
    #[must_use]
    pub fn new(unit: TimeUnit) -> Self {
        Self { unit, counters: None }
    }

    fn header(rows: &[Row]) -> (String, Vec<String>) {
        let mut counters: Vec<String> = rows
            .iter()
            .flat_map(|row| row.counters.keys())
            .filter(|name| *name != BYTES_PER_SECOND)
            .cloned()
            .collect();
        counters.sort();
        counters.dedup();
        let mut header = String::new();
        let names = [
            "name",
            "iterations",
            "real_time",
            "cpu_time",
            "time_unit",
            "bytes_per_second",
            "items_per_second",
            "label",
            "error_occurred",
            "error_message",
        ];
        let line = Line::of(&mut header).fields(names);
        counters.iter().fold(line, |line, name| line.quoted(name)).end();
        (header, counters)
    }

    fn line(&self, row: &Row, counters: &[String]) -> String {
        let mut text = String::new();
        let line = Line::of(&mut text).quoted(&row.name());
        if let Some(error) = &row.error {
            let line = line.fields([""; 7]).field(true).quoted(error);
            line.fields(counters.iter().map(|_| "")).end();
            return text;
        }
        let (real, cpu) = row.times(self.unit);
        let value =
            |name: &str| row.counters.get(name).map(|counter| general(counter.value)).unwrap_or_default();
        let line = line.field(row.iterations).field(general(real)).field(general(cpu));
        let line = line.field(self.unit.name()).field(value(BYTES_PER_SECOND)).field("");
        let line = if row.label.is_empty() { line.field("") } else { line.quoted(&row.label) };
        line.fields(["", ""]).fields(counters.iter().map(|name| value(name))).end();
        text
    }
}

impl Format for Csv {
    fn begin(&mut self, context: &Context, _: &mut dyn Write, err: &mut dyn Write) -> io::Result<()> {
        basic_context(context, err)
    }

    fn rows(&mut self, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
        let counters = match self.counters.take() {
            Some(counters) => counters,
            None => {
                let (header, counters) = Self::header(rows);
                out.write_all(header.as_bytes())?;
                counters
            }
        };
        for row in rows {
            out.write_all(self.line(row, &counters).as_bytes())?;
        }
        self.counters = Some(counters);
        out.flush()
    }
}
