//! Google Benchmark's CSV format: context on standard error, one header, one line per row.

use std::io::{self, Write};

use super::console::basic_context;
use super::format::Format;
use super::{BYTES_PER_SECOND, Context, Row, TimeUnit, general};

/// The CSV format under way.
pub struct Csv {
    unit: TimeUnit,
    /// The counters that have a column at the end, fixed by the first rows; `None` before them.
    counters: Option<Vec<String>>,
}

impl Csv {
    /// Times are printed in this unit.
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
        let mut header = String::from(
            "name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,\
             error_occurred,error_message",
        );
        for name in &counters {
            header.push(',');
            header.push_str(&quoted(name));
        }
        header.push('\n');
        (header, counters)
    }

    fn line(&self, row: &Row, counters: &[String]) -> String {
        let name = quoted(&row.name());
        if let Some(error) = &row.error {
            return format!("{name},,,,,,,,true,{}{}\n", quoted(error), ",".repeat(counters.len()));
        }
        let (real, cpu) = row.times(self.unit);
        let value =
            |name: &str| row.counters.get(name).map(|counter| general(counter.value)).unwrap_or_default();
        let label = if row.label.is_empty() { String::new() } else { quoted(&row.label) };
        let mut line = format!(
            "{name},{},{},{},{},{},,{label},,",
            row.iterations,
            general(real),
            general(cpu),
            self.unit.name(),
            value(BYTES_PER_SECOND)
        );
        for name in counters {
            line.push(',');
            line.push_str(&value(name));
        }
        line.push('\n');
        line
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

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
