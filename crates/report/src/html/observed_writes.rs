//! Other programs' writes on the page: how long they took, the time in each layer, what delayed the
//! slow ones, and each of those as lanes.

use roundtrip_layers::storage::Layer;
use roundtrip_run::storage::observe::{ObserveWritesResult, WriteRow};

use super::page::Page;
use super::ranges::ranges;
use super::slow_writes::{self, Drawn};
use super::stacks::{Stack, Stacks};
use super::storage::segments;
use super::subject::Subject;
use super::{each, without};
use crate::explanation::summary;
use crate::storage::observed_writes::{self as writes, name};
use crate::storage::slow_writes as found;
use crate::text::quantity::duration;

/// The number of rows that are drawn: those with the most time. The tables have all rows.
const DRAWN: usize = 30;

/// The number of slow writes that are drawn.
const SLOW: usize = 40;

/// Adds other programs' writes of all runs.
pub(crate) fn section(page: &mut Page, subjects: &[Subject<'_>]) {
    each(page, subjects, |page, subject| {
        of_run(page, subject, subject.analysed.run.results.observed_writes.as_ref()?);
        Some(())
    });
}

fn of_run(page: &mut Page, subject: &Subject<'_>, result: &ObserveWritesResult) {
    let shown = result.rows.iter().take(DRAWN);
    let shown: Vec<_> = shown.map(|row| (name(row), &row.latency)).collect();
    let title = "Writes by process, call and file: median, 99th percentile, worst";
    page.ranges(&ranges(title, &shown, Vec::new()));
    page.stacks(&by_layer(result));
    let parts = writes::parts(result, writes::MOST_ROWS);
    page.folded("All observed writes", &parts.calls);
    page.folded("Where their time went, as a table", &parts.layers);
    let causes = found::causes_of(subject.analysed);
    if causes.operations() > 0 {
        page.element("h3", &[], "What delayed the slow writes");
        page.table("What delayed the slow writes", &summary::table_of(&causes, "writes"));
        without::section(page, &found::without(subject.analysed, &causes), "writes");
    }
    let slow = found::of(subject.analysed);
    let drawn = slow.iter().filter(|_| subject.analysed.run.results.storage.is_none()).take(SLOW);
    let drawn: Vec<Drawn<'_>> = drawn
        .map(|slow| Drawn {
            heading: found::heading(slow),
            // The first is the sentence.
            lines: found::lines(slow).into_iter().skip(1).collect(),
            write: slow.write,
            layers: &slow.layers,
        })
        .collect();
    slow_writes::draw(page, "The slow writes, the slowest first", &drawn);
    parts.notes.iter().for_each(|note| page.paragraphs("note", note));
}

/// The mean write of each row, divided into layers.
fn by_layer(result: &ObserveWritesResult) -> Stacks {
    let row = |row: &WriteRow| {
        let divided = row.divided.as_ref().filter(|divided| divided.calls > 0)?;
        let mean_ns = |layer: Layer| {
            let sum_ns = divided.layers.get(layer.name()).map_or(0, |time| time.sum_ns);
            sum_ns as f64 / divided.calls as f64
        };
        let whole_ns = divided.sum_ns as f64 / divided.calls as f64;
        let parts = Layer::ALL.into_iter().flat_map(|layer| {
            let behind_ns = divided.layers.get(layer.name()).map_or(0, |time| time.behind_ns);
            let behind_ns = behind_ns as f64 / divided.calls as f64;
            segments(layer, mean_ns(layer), behind_ns, mean_ns(layer) / whole_ns.max(1.0))
        });
        Some(Stack { label: name(row), text: duration(whole_ns), parts: parts.collect() })
    };
    Stacks {
        title: "Where their time went".into(),
        about: "The mean write of each row; all bars have the same scale.".into(),
        rows: result.rows.iter().take(DRAWN).filter_map(row).collect(),
    }
}
