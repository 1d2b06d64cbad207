//! The figures of runs, one per line: CSV for programs and spreadsheets, Markdown for people. The
//! form is the same for every kind of run. Pure.

use std::fmt::Write as _;

use roundtrip_analysis::Analysed;
use roundtrip_analysis::figures::{self, Figure, Unit};
use roundtrip_run::TESTS;
use roundtrip_run::environment::Environment;

use crate::environment;
use crate::ipc::traits;
use crate::text::csv::Line;
use crate::text::inert;
use crate::text::markdown::cell;
use crate::text::quantity::{byte_rate, duration, three_digits};
use crate::text::table::{Column, Table};

/// The labels of all tests' figures, one column each.
fn labels() -> Vec<&'static str> {
    let mut all = vec!["test"];
    for label in TESTS.iter().flat_map(|test| test.labels) {
        if !all.contains(label) {
            all.push(label);
        }
    }
    all
}

/// The header of the CSV.
#[must_use]
pub fn csv_header() -> String {
    let mut out = String::new();
    let line = Line::of(&mut out).fields(["run", "date", "emulated", "labels"]).fields(labels());
    line.fields(["metric", "unit", "value", "low", "high", "samples"]).end();
    out
}

/// The lines of a run, without the header. `name` is the path that it was read from.
#[must_use]
pub fn csv(name: &str, Analysed { run, layers, beside, .. }: &Analysed<'_>) -> String {
    let mut out = String::new();
    let own = run.labels.iter().map(|(key, value)| format!("{}={}", inert::line(key), inert::line(value)));
    let own = own.collect::<Vec<_>>().join(";");
    let (labels, emulated) = (labels(), run.results.is_emulated());
    for figure in figures::of(&run.results, layers, beside) {
        Line::of(&mut out)
            .field(inert::name(name))
            .field(inert::line(&run.environment.date))
            .known(emulated)
            .field(&own)
            .fields(labels.iter().map(|key| inert::line(figure.label(key).unwrap_or_default()).into_owned()))
            .field(&figure.name)
            .field(unit(figure.unit))
            .known(figure.value)
            .known(figure.bounds.map(|bounds| bounds.low))
            .known(figure.bounds.map(|bounds| bounds.high))
            .field(figure.samples)
            .end();
    }
    out
}

/// The CSV of a single run.
#[must_use]
pub fn whole_csv(name: &str, analysed: &Analysed<'_>) -> String {
    csv_header() + &csv(name, analysed)
}

/// A run as a heading and a table.
#[must_use]
pub fn markdown(name: &str, Analysed { run, layers, beside, .. }: &Analysed<'_>) -> String {
    let mut out = format!("## {}\n\n", cell(name));
    let driver = match run.results.is_emulated() {
        Some(true) => ", emulated driver",
        Some(false) => ", the kernel's driver",
        None => "",
    };
    let Environment { date, cpus, kernel, .. } = &run.environment;
    let model = cpus.model.as_deref().unwrap_or("CPU not known");
    let _ = writeln!(out, "{}{driver}; {}; Linux {}\n", cell(date), cell(model), cell(&kernel.release));
    let partial = run.partial.as_ref().map(environment::partial);
    if let Some(line) = &partial {
        let _ = writeln!(out, "- **{}**", cell(line));
    }
    for warning in &run.warnings {
        let _ = writeln!(out, "- **warning**: {}", cell(warning));
    }
    if partial.is_some() || !run.warnings.is_empty() {
        out.push('\n');
    }
    let figures = figures::of(&run.results, layers, beside);
    if !figures.is_empty() {
        out.push_str(&table(&figures).markdown());
    }
    if let Some(result) = &run.results.traits {
        let (table, notes) = traits::parts(result);
        let _ = write!(
            out,
            "\n{}\n{}",
            table.markdown(),
            notes.lines().fold(String::new(), |out, line| out + "- " + &cell(line) + "\n")
        );
    }
    out
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new([
        Column::text("of"),
        Column::text("figure"),
        Column::number("value", ""),
        Column::number("95% interval", ""),
        Column::number("samples", ""),
    ]);
    for figure in figures {
        let interval = figure.bounds.map_or_else(
            || "-".to_owned(),
            |bounds| format!("{} to {}", value(bounds.low, figure.unit), value(bounds.high, figure.unit)),
        );
        table.row([
            of(figure),
            figure.name.clone(),
            figure.value.map_or_else(|| "-".to_owned(), |known| value(known, figure.unit)),
            interval,
            figure.samples.to_string(),
        ]);
    }
    table
}

fn of(figure: &Figure) -> String {
    let values: Vec<&str> = figure.of.iter().map(|(_, value)| value.as_str()).collect();
    values.join(", ")
}

/// A figure's value as text.
pub(crate) fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => duration(value),
        Unit::BytesPerSecond => byte_rate(value),
        Unit::PerSecond => format!("{}/s", three_digits(value)),
        Unit::Percent => format!("{}%", three_digits(value)),
        Unit::Count if value.fract() == 0.0 => format!("{value:.0}"),
        Unit::Count | Unit::Ratio => three_digits(value),
    }
}

/// A unit's name in JSON and CSV.
#[must_use]
pub fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Count => "count",
        Unit::Percent => "percent",
        Unit::PerSecond => "per_s",
        Unit::BytesPerSecond => "bytes_per_s",
        Unit::Ratio => "ratio",
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_run::Run;

    use super::*;

    #[test]
    fn a_stored_run_has_a_line_for_each_figure_and_the_same_values() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/runs/x86_64-6.1-binder");
        let mut run = Run::read(path.as_ref()).unwrap();
        run.labels.add("note=a,b").unwrap();
        run.warnings = vec!["<b>|\u{1b}[31m".to_owned()];
        let bare = Analysed::bare(&run);
        let figures = figures::of(&run.results, &[], &[]);
        let (csv, markdown) = (csv("monday, late", &bare), markdown("monday", &bare));
        assert_eq!(csv.lines().count(), figures.len());
        for (line, figure) in csv.lines().zip(&figures) {
            assert!(line.starts_with("\"monday, late\",2026-"), "{line}");
            assert!(line.contains(",\"note=a,b\",latency,"), "{line}");
            let value = figure.value.map(|value| value.to_string()).unwrap_or_default();
            let own = format!(",{},{},{value},", figure.name, unit(figure.unit));
            assert!(line.contains(&own) && line.ends_with(&format!(",{}", figure.samples)), "{line}");
        }
        let columns = csv_header().trim_end().split(',').count();
        assert_eq!(columns, 4 + labels().len() + 6);
        assert_eq!(markdown.matches("\n| ").count(), figures.len() + 1);
        assert!(markdown.contains("- **warning**: \\<b>\\|\\\\u001b\\[31m"), "{markdown}");
    }
}
