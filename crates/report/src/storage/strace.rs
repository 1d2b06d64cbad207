//! strace's figures for the same writes, compared with ours: its overhead, and the time that it
//! attributes to the platform. Pure: results in, text out.

use std::fmt::Write as _;

use roundtrip_layers::storage::Layer;

use crate::storage::rows::Straced;
use crate::text::look::Look;
use crate::text::quantity::{length, three_digits};
use crate::text::table::{Column, Table};
use roundtrip_analysis::storage::SeriesLayers;

/// A table, if strace was used.
pub(crate) fn strace(out: &mut String, ours: &[&SeriesLayers<'_>], look: Look) {
    let mut table = Table::new([
        Column::number("size", ""),
        Column::number("calls", ""),
        Column::narrow("response p50", "us"),
        Column::narrow("under strace", "us"),
        Column::narrow("ratio", ""),
        Column::narrow("system calls mean", "us"),
        Column::narrow("by strace", "us"),
        Column::narrow("platform mean", "us"),
        Column::narrow("application less strace", "us"),
    ]);
    let mut any = false;
    let mut without = 0;
    for SeriesLayers { series, breakdown } in ours {
        let Some(straced) = Straced::of(series) else { continue };
        any = true;
        without += straced.without;
        let us = |ns: Option<f64>| ns.map(|ns| three_digits(ns / 1000.0)).unwrap_or_default();
        let p50 = |times: &roundtrip_latency::Histogram| times.percentile_ns(50.0).map(|ns| ns as f64);
        let (alone, under) = (p50(&series.latency), p50(&straced.response));
        let ratio = alone.zip(under).map(|(alone, under)| format!("{:.2}", under / alone));
        let platform_ns = breakdown.mean_ns(Layer::Platform);
        let mean_ns = breakdown.sum_ns as f64 / breakdown.calls.max(1) as f64;
        table.row([
            length(series.size_bytes as usize),
            straced.response.count().to_string(),
            us(alone),
            us(under),
            ratio.unwrap_or_default(),
            us(Some(mean_ns - platform_ns)),
            us(straced.system.mean_ns()),
            us(Some(platform_ns)),
            us(straced.platform.mean_ns()),
        ]);
    }
    if !any {
        return;
    }
    out.push_str(
        "The study's method: strace -f -T on the writer, in separate blocks. The overhead of strace \
         is included in these figures.\n",
    );
    out.push_str(&table.render(look));
    if without > 0 {
        let _ = writeln!(
            out,
            "strace shows no system call for {without} of its calls; neither mean includes them."
        );
    }
    out.push('\n');
}
