//! The picture of a session: lines over time, the last interval as a table and a histogram, and
//! what has changed since the mark. If there is not enough room, the least important items are left
//! out.

use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::symbols::Marker;
use ratatui_core::terminal::Frame;
use ratatui_core::text;
use ratatui_widgets::chart::{Axis, Chart, Dataset, GraphType};
use ratatui_widgets::paragraph::Paragraph;
use roundtrip_analysis::compare;
use roundtrip_analysis::live::{Line, Point, Session};
use roundtrip_run::figures::Limit;

use super::{changes, name};
use crate::histogram;
use crate::live::view::{View, put, take, title};
use crate::text::look::Look;
use crate::text::quantity::{duration, duration_or_dash};

/// The minimum number of rows of a useful chart.
const LEAST_CHART: u16 = 6;

/// The minimum number of rows of a useful histogram, and the maximum that it uses.
const HISTOGRAM: (u16, u16) = (8, 14);

/// The columns to the left of a chart: the longest label and the axis.
const LEFT_OF_CHART: u16 = 10;

/// The minimum number of intervals that a chart has room for. Otherwise, the first intervals would
/// fill the chart.
const LEAST_INTERVALS: usize = 40;

/// What the picture shows of a session.
#[derive(Debug, Clone, Copy)]
pub struct Chosen {
    /// The line that the chart and the histogram show.
    pub selected: usize,
    /// The deadline, in nanoseconds.
    pub deadline_ns: u64,
}

/// Draws the picture.
pub fn draw(frame: &mut Frame<'_>, session: &Session, view: &View<'_>, chosen: Chosen) {
    let mut room = frame.area();
    title(frame, &mut room, view);
    if session.intervals == 0 {
        put(frame, take(&mut room, 1), "The first interval is being measured.".to_owned(), Style::new());
    }
    table(frame, &mut room, (session, chosen.selected), view);
    if room.height > 1 {
        let bottom = Rect { y: room.bottom() - 1, height: 1, ..room };
        room.height -= 1;
        let keys = if view.keys { "m: mark a change   Tab: next line   q: end" } else { "Ctrl-C: end" };
        put(frame, bottom, keys.to_owned(), Style::new().add_modifier(Modifier::DIM));
    }
    for (verdict, line) in changes(session) {
        let style = match verdict {
            Some(compare::Verdict::Worse) => view.style(Color::Red),
            Some(compare::Verdict::Better) => view.style(Color::Green),
            _ => Style::new(),
        };
        put(frame, take(&mut room, 1), line, style);
    }
    let Some(line) = session.lines.get(chosen.selected).filter(|_| session.intervals > 0) else { return };
    let drawn = (room.height / 2).min(HISTOGRAM.1);
    let below = if drawn >= HISTOGRAM.0 { drawn } else { 0 };
    let above = Rect { height: room.height - below, ..room };
    if above.height >= LEAST_CHART && above.width > 2 * LEFT_OF_CHART {
        chart(frame, above, (session, line), view);
    }
    let limit = Limit { name: "deadline", ns: chosen.deadline_ns, beyond: line.last_missed };
    let look = Look { colour: false, width: Some(usize::from(room.width)), is_terminal: false };
    let rows = usize::from(below.saturating_sub(2));
    let title = format!("{}, last interval", name(line, session));
    let text = histogram::text(&title, &line.last, Some(limit), (look, rows));
    let at = Rect { y: above.bottom(), height: below, ..room };
    frame.render_widget(Paragraph::new(text), at);
}

/// The last interval of each line.
fn table(frame: &mut Frame<'_>, room: &mut Rect, (session, selected): (&Session, usize), view: &View<'_>) {
    let names: Vec<String> = session.lines.iter().map(|line| name(line, session)).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(8);
    let row = |mark: &str, name: &str, [p50, p99, max, missed, calls]: [&str; 5]| {
        format!("{mark} {name:<width$} {p50:>9} {p99:>9} {max:>9} {missed:>7} {calls:>9}")
    };
    if room.height > session.lines.len() as u16 {
        let head = row(" ", "caller", ["p50", "p99", "max", "missed", "calls"]);
        put(frame, take(room, 1), head, Style::new().add_modifier(Modifier::UNDERLINED));
    }
    for (at, (line, name)) in session.lines.iter().zip(&names).enumerate() {
        let mark = if at == selected && session.lines.len() > 1 { ">" } else { " " };
        let (text, style) = match line.points.back().copied().flatten() {
            Some(Point { calls, missed, p50_ns, p99_ns, max_ns }) => {
                let [p50, p99, max] = [p50_ns, p99_ns, Some(max_ns)].map(duration_or_dash);
                let style = if missed > 0 { view.style(Color::Red) } else { Style::new() };
                (row(mark, name, [&p50, &p99, &max, &missed.to_string(), &calls.to_string()]), style)
            }
            None => (row(mark, name, ["-", "-", "-", "-", "0"]), Style::new()),
        };
        put(frame, take(room, 1), text, style);
    }
}

/// The percentiles of a line over time, on a logarithmic scale, below a legend.
fn chart(frame: &mut Frame<'_>, at: Rect, (session, line): (&Session, &Line), view: &View<'_>) {
    // A terminal cell is two dots wide.
    let most = usize::from(at.width - LEFT_OF_CHART) * 2;
    let skipped = line.points.len().saturating_sub(most);
    let window = (line.points.len() - skipped).max(LEAST_INTERVALS);
    let points: Vec<(f64, Point)> = line
        .points
        .iter()
        .enumerate()
        .skip(skipped)
        .filter_map(|(at, point)| Some((at as f64, (*point)?)))
        .collect();
    let curve = |of: fn(&Point) -> Option<u64>| -> Vec<(f64, f64)> {
        let known = points.iter().filter_map(|(at, point)| Some((*at, of(point)?)));
        known.map(|(at, ns)| (at, (ns.max(1) as f64).log10())).collect()
    };
    let curves =
        [curve(|point| Some(point.max_ns)), curve(|point| point.p99_ns), curve(|point| point.p50_ns)];
    let all = || curves.iter().flatten().map(|&(_, y)| y);
    let (Some(low), Some(high)) = (all().min_by(f64::total_cmp), all().max_by(f64::total_cmp)) else {
        return;
    };
    let (low, high) = (low - 0.1, high + 0.1);
    let mut room = at;
    let interval = duration(view.interval_ns as f64);
    let caption = format!("max, p99, p50 of each {interval}: {}", name(line, session));
    put(frame, take(&mut room, 1), caption, Style::new());
    let dropped = session.intervals - line.points.len();
    // A terminal cell is four dots high.
    let dots = 4 * usize::from(room.height);
    let upright =
        |x: f64| (0..dots).map(|dot| (x, low + (high - low) * dot as f64 / dots as f64)).collect::<Vec<_>>();
    let marks: Vec<Vec<(f64, f64)>> = session
        .marks
        .iter()
        .filter_map(|mark| mark.checked_sub(dropped).filter(|&mark| mark >= skipped))
        .map(|mark| upright(mark as f64 - 0.5))
        .collect();
    let mut sets = Vec::new();
    let mut add = |data, kind, colour| {
        let set = Dataset::default().data(data).marker(Marker::Braille);
        sets.push(set.graph_type(kind).style(view.style(colour)));
    };
    marks.iter().for_each(|mark| add(mark, GraphType::Scatter, Color::Yellow));
    let colours = [Color::Red, Color::Cyan, Color::Green];
    curves.iter().zip(colours).for_each(|(curve, colour)| add(curve, GraphType::Line, colour));
    let label = |y: f64| text::Line::from(format!("{:>8}", duration(10_f64.powf(y).round())));
    let ago = duration((window as u64 * view.interval_ns) as f64);
    let x = Axis::default().bounds([skipped as f64, (skipped + window) as f64]).labels([
        text::Line::from(format!("{} ago", if skipped > 0 { ago } else { elapsed(line, view) })),
        "".into(),
    ]);
    let y = Axis::default().bounds([low, high]).labels([label(low), label((low + high) / 2.0), label(high)]);
    frame.render_widget(Chart::new(sets).x_axis(x).y_axis(y).legend_position(None), room);
}

fn elapsed(line: &Line, view: &View<'_>) -> String {
    duration((line.points.len() as u64 * view.interval_ns) as f64)
}
