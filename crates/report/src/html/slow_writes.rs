//! Slow writes on the page: each with its sentence and as lanes. A row is a layer, and a colour is
//! why the write did not move there.

use roundtrip_layers::storage::{Layer, Layers, Write};

use super::colours;
use super::lanes::{self, Lane, Stretch};
use super::page::Page;
use crate::storage::why;
use crate::text::inert;
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

/// The layers of each lane.
const LANES: [(&str, &[Layer]); 5] = [
    ("application", &[Layer::Platform, Layer::Fs, Layer::Preempted]),
    ("helper", &[Layer::Helper, Layer::Stolen]),
    ("block layer", &[Layer::Held, Layer::Block, Layer::Irq, Layer::Wake]),
    ("device", &[Layer::Device]),
    ("unexplained", &[Layer::Unexplained]),
];

/// A slow write to draw.
pub(super) struct Drawn<'a> {
    /// What it is, and how long it took.
    pub(super) heading: String,
    /// Circumstances, one line each.
    pub(super) lines: Vec<String>,
    pub(super) write: Write,
    pub(super) layers: &'a Layers,
}

/// Draws writes, of which the first is expanded.
pub(super) fn draw(page: &mut Page, title: &str, writes: &[Drawn<'_>]) {
    if writes.is_empty() {
        return;
    }
    page.element("h3", &[], title);
    page.lanes_legend();
    for (index, drawn) in writes.iter().enumerate() {
        let attributes: &[(&str, &str)] =
            if index == 0 { &[("class", "call"), ("open", "")] } else { &[("class", "call")] };
        page.within("details", attributes, |page| one(page, drawn));
    }
}

fn one(page: &mut Page, Drawn { heading, lines, write, layers }: &Drawn<'_>) {
    let length_ns = write.end_ns - write.start_ns;
    page.within("summary", &[], |page| {
        page.element("span", &[], heading);
        page.element("span", &[("class", "verdict")], &why::sentence(layers));
    });
    lines.iter().for_each(|line| page.paragraphs("about", line));
    let lane = |(name, of): (&str, &[Layer])| {
        let ours = layers.reasons.iter().filter(|stretch| {
            let place = why::place(&stretch.why);
            of.iter().any(|layer| layer.name() == place)
        });
        let stretches = ours.map(|stretch| Stretch {
            begin_ns: stretch.begin_ns - write.start_ns,
            end_ns: stretch.end_ns - write.start_ns,
            class: colours::of_reason(stretch.why.reason.kind()),
            words: format!("{}: {}", why::place(&stretch.why), why::of_stretch(&stretch.why)),
            name: stretch.why.process.as_ref().map_or_else(String::new, |by| inert::name(&by.name)),
        });
        Lane { name: name.to_owned(), stretches: stretches.collect() }
    };
    page.lanes(heading, length_ns, &lanes::drawable(LANES.into_iter().map(lane).collect(), length_ns));
    page.folded(&format!("Its course: {heading}"), &course(*write, layers));
}

/// Each stretch of a write: where it was, and why it did not move.
fn course(write: Write, layers: &Layers) -> Table {
    let mut table = Table::new([
        Column::number("at", ""),
        Column::number("for", ""),
        Column::text("layer"),
        Column::text("why"),
    ]);
    for stretch in &layers.reasons {
        let at = duration((stretch.begin_ns - write.start_ns) as f64);
        let took = duration(stretch.duration_ns() as f64);
        table.row([at, took, why::place(&stretch.why).to_owned(), why::of_stretch(&stretch.why)]);
    }
    table
}
