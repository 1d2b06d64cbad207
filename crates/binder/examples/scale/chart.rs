//! Draws each axis as SVG charts: calls per second, call time and memory, each against the count.

use std::fmt::Write as _;

use crate::report::{Axis, Sample};

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 180.0;
const MARGIN: f64 = 60.0;

/// A panel's title and figure.
type Panel = (&'static str, fn(&Sample) -> f64);

const PANELS: [Panel; 3] = [
    ("thousand calls per second", |sample| sample.calls_per_s / 1e3),
    ("median call [µs]", |sample| sample.median_ns / 1e3),
    ("memory of all processes [MB]", |sample| sample.memory_kb as f64 * 1024.0 / 1e6),
];

/// Draws one row per axis and one panel per figure. Counts have a logarithmic scale, and figures a
/// linear scale from 0.
pub(crate) fn svg(axes: &[Axis]) -> String {
    let (width, height) =
        (PANELS.len() as f64 * (WIDTH + MARGIN) + MARGIN, axes.len() as f64 * (HEIGHT + MARGIN) + MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (row, axis) in (0_u32..).zip(axes) {
        for (column, panel) in (0_u32..).zip(PANELS) {
            let left = MARGIN + f64::from(column) * (WIDTH + MARGIN);
            let top = MARGIN / 2.0 + f64::from(row) * (HEIGHT + MARGIN);
            draw(&mut out, axis, panel, left, top);
        }
    }
    out + "</svg>\n"
}

fn draw(out: &mut String, axis: &Axis, (title, figure): Panel, left: f64, top: f64) {
    let values: Vec<f64> = axis.points.iter().map(|point| point.median(figure)).collect();
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let last = axis.points.last().map_or(1, |point| point.count.max(2));
    let across = |count: u32| left + f64::from(count).ln() / f64::from(last).ln() * WIDTH;
    let up = |value: f64| top + HEIGHT - value / most * (HEIGHT - 10.0);
    let bottom = top + HEIGHT;
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{title}</text>", top - 6.0);
    let _ =
        writeln!(out, "<path d=\"M{left} {top}V{bottom}H{}\" fill=\"none\" stroke=\"black\"/>", left + WIDTH);
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{most:.1}</text>",
        left - 4.0,
        up(most) + 4.0
    );
    let _ = writeln!(out, "<text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">0</text>", left - 4.0);
    for point in &axis.points {
        let x = across(point.count);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 14.0,
            point.count
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        left + WIDTH / 2.0,
        bottom + 28.0,
        axis.name
    );
    let line: Vec<String> = axis
        .points
        .iter()
        .zip(&values)
        .map(|(point, value)| format!("{:.1},{:.1}", across(point.count), up(*value)))
        .collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"2\"/>",
        line.join(" ")
    );
    for at in line {
        let (x, y) = at.split_once(',').unwrap_or_default();
        let _ = writeln!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"#1f77b4\"/>");
    }
}
