//! Other programs' calls during observation: as a picture for a terminal ([`draw`]) and as plain
//! lines ([`interval`]). Pure: a session in, cells or text out. Must not know the terminal.

use std::fmt::Write as _;

use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::terminal::Frame;
use roundtrip_analysis::live_calls::{Point, Session};
use roundtrip_run::ipc::observe::Flow;

use crate::ipc::observed_calls::{count, name};
use crate::live::view::{View, put, take, title};
use crate::text::quantity::{duration, duration_or_dash, three_digits};

/// The minimum width, in columns, at which a row's figures and its name fit in one line.
const ONE_LINE: u16 = 140;

/// The maximum number of rows that are printed for an interval if there is no terminal.
const MOST_LINES: usize = 10;

/// What has been observed so far.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The calls.
    pub session: &'a Session,
    /// The client, server, pool and method of each of the session's rows.
    pub flows: &'a [Flow],
    /// Events that the kernel has dropped so far.
    pub lost_events: u64,
}

/// Draws the view.
pub fn draw(frame: &mut Frame<'_>, seen: Seen<'_>, view: &View<'_>) {
    let session = seen.session;
    let mut room = frame.area();
    title(frame, &mut room, view);
    let first = match session.intervals {
        0 => "The first interval is being measured.".to_owned(),
        _ => all(seen, view),
    };
    put(frame, take(&mut room, 1), first, Style::new());
    if room.height > 2 {
        let bottom = Rect { y: room.bottom() - 1, height: 1, ..room };
        room.height -= 1;
        let keys = if view.keys { "q: end" } else { "Ctrl-C: end" };
        put(frame, bottom, keys.to_owned(), Style::new().add_modifier(Modifier::DIM));
    }
    if session.last.is_empty() {
        return;
    }
    let one_line = room.width >= ONE_LINE;
    let head = figures(["calls/s", "p50", "p99", "max", "missed", "behind pool", "oneway/s", "failed"]);
    let head = if one_line { format!("{head}  calls") } else { head };
    put(frame, take(&mut room, 1), head, Style::new().add_modifier(Modifier::UNDERLINED));
    for point in &session.last {
        let Some(flow) = seen.flows.get(point.flow) else { continue };
        let numbers = row(point, view.interval_ns);
        let style = if point.missed + point.failed > 0 { view.style(Color::Red) } else { Style::new() };
        if one_line {
            put(frame, take(&mut room, 1), format!("{numbers}  {}", name(flow)), style);
        } else if room.height > 1 {
            put(frame, take(&mut room, 1), name(flow), Style::new());
            put(frame, take(&mut room, 1), numbers, style);
        }
    }
}

/// "Last 1.00 s: 1200 calls, 3 missed, 40 oneway; 7 events lost so far".
fn all(seen: Seen<'_>, view: &View<'_>) -> String {
    let sum = |of: fn(&Point) -> u64| seen.session.last.iter().map(of).sum::<u64>();
    let mut out = format!(
        "Last {}: {}, {} missed",
        duration(view.interval_ns as f64),
        count(sum(|point| point.calls), "call"),
        sum(|point| point.missed)
    );
    for (count, what) in [
        (sum(|point| point.oneway), "oneway"),
        (sum(|point| point.failed), "failed"),
        (seen.lost_events, "events lost so far"),
    ] {
        if count > 0 {
            let _ = write!(out, ", {count} {what}");
        }
    }
    out
}

fn figures([rate, p50, p99, max, missed, behind, oneway, failed]: [&str; 8]) -> String {
    format!("{rate:>8} {p50:>8} {p99:>8} {max:>8} {missed:>7} {behind:>11} {oneway:>8} {failed:>6}")
}

fn row(point: &Point, interval_ns: u64) -> String {
    let seconds = interval_ns.max(1) as f64 / 1e9;
    let rate = |count: u64| match count {
        0 => "0".to_owned(),
        count => three_digits(count as f64 / seconds),
    };
    let time = duration_or_dash;
    figures([
        &rate(point.calls),
        &time(point.p50_ns),
        &time(point.p99_ns),
        &time(point.max_ns),
        &point.missed.to_string(),
        &time(point.behind_pool_ns),
        &rate(point.oneway),
        &point.failed.to_string(),
    ])
}

/// The last interval as plain lines: the rows with the most total time.
#[must_use]
pub fn interval(seen: Seen<'_>, view: &View<'_>) -> String {
    let Seen { session, flows, .. } = seen;
    let at = format!("{:>8.1} s", view.elapsed_ns as f64 / 1e9);
    let mut out = format!("{at}  {}\n", all(seen, view));
    let shown = session.last.iter().filter_map(|point| Some((point, flows.get(point.flow)?)));
    for (point, flow) in shown.take(MOST_LINES) {
        let _ = write!(out, "{at}  {}: ", name(flow));
        if point.max_ns.is_some() {
            let [p50, p99, max] = [point.p50_ns, point.p99_ns, point.max_ns].map(duration_or_dash);
            let _ =
                write!(out, "p50 {p50}, p99 {p99}, max {max}, missed {} of {}", point.missed, point.calls);
        } else {
            out.push_str("no round trip");
        }
        if let Some(behind_ns) = point.behind_pool_ns {
            let _ = write!(out, ", behind pool {}", duration(behind_ns as f64));
        }
        for (count, what) in [(point.oneway, "oneway"), (point.failed, "failed")] {
            if count > 0 {
                let _ = write!(out, ", {count} {what}");
            }
        }
        out.push('\n');
    }
    if let Some(more) = session.last.len().checked_sub(MOST_LINES).filter(|&more| more > 0) {
        let _ = writeln!(out, "{at}  {more} more rows");
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ratatui_core::backend::TestBackend;
    use ratatui_core::terminal::Terminal;
    use roundtrip_latency::Deadline;

    use super::*;

    fn flows() -> Vec<Flow> {
        let run = roundtrip_run::Run::read(Path::new("../../fixtures/runs/x86_64-6.1-observed")).unwrap();
        let mut flows = run.results.observed_calls.unwrap().flows;
        flows[0].pool = Some("Binder:#_#".into());
        flows[1].client.name = "evil\u{1b}[2J".into();
        flows
    }

    fn session() -> Session {
        let mut session = Session::new(Deadline { ns: 2_500_000 });
        session.end_interval();
        let point = |flow, calls, us: u64| Point {
            flow,
            calls,
            missed: calls / 100,
            p50_ns: Some(us * 1000),
            p99_ns: Some(us * 3000),
            max_ns: Some(us * 10_000),
            behind_pool_ns: (flow != 1).then_some(us * 100),
            oneway: 0,
            failed: 0,
        };
        let oneway = Point {
            p50_ns: None,
            p99_ns: None,
            max_ns: None,
            behind_pool_ns: None,
            oneway: 12,
            failed: 1,
            ..point(2, 0, 1)
        };
        session.last = vec![point(0, 1200, 400), point(1, 90, 12), oneway];
        session.last.extend((3..20).map(|flow| point(flow, 1, 9)));
        session
    }

    fn view() -> View<'static> {
        View {
            title: "calls of all processes, deadline 2.50 ms",
            colour: true,
            keys: true,
            elapsed_ns: 12_300_000_000,
            interval_ns: 1_000_000_000,
        }
    }

    fn seen<'a>(session: &'a Session, flows: &'a [Flow]) -> Seen<'a> {
        Seen { session, flows, lost_events: 7 }
    }

    fn drawn(session: &Session, (width, height): (u16, u16), view: &View<'_>) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let flows = flows();
        terminal.draw(|frame| draw(frame, seen(session, &flows), view)).unwrap();
        terminal
    }

    #[test]
    fn a_wide_terminal_has_a_line_for_each_row_and_a_narrow_one_two() {
        insta::assert_snapshot!(drawn(&session(), (144, 10), &view()).backend());
        insta::assert_snapshot!(drawn(&session(), (80, 12), &view()).backend());
    }

    #[test]
    fn any_size_and_an_empty_session_can_be_drawn() {
        let none = Session::new(Deadline { ns: 1 });
        for width in [1, 2, 20, 80, 139, 140, 300] {
            for height in 1..30 {
                drawn(&session(), (width, height), &view());
                drawn(&none, (width, height), &view());
            }
        }
        let first = drawn(&none, (60, 10), &View { keys: false, ..view() }).backend().to_string();
        assert!(
            first.contains("The first interval is being measured.") && first.contains("Ctrl-C: end"),
            "{first}"
        );
    }

    #[test]
    fn colours_are_used_only_if_wanted() {
        let colours = |colour| {
            let terminal = drawn(&session(), (130, 12), &View { colour, ..view() });
            terminal.backend().buffer().content().iter().filter(|cell| cell.fg != Color::Reset).count()
        };
        assert!(colours(true) > 0);
        assert_eq!(colours(false), 0);
    }

    #[test]
    fn plain_lines_have_the_figures_of_each_interval() {
        let text = interval(seen(&session(), &flows()), &view());
        insta::assert_snapshot!(text);
        assert!(!text.contains('\u{1b}'));
    }
}
