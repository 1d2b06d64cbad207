//! Tests of the picture on terminals of several sizes.

use ratatui_core::backend::TestBackend;
use ratatui_core::style::Color;
use ratatui_core::terminal::Terminal;
use roundtrip_latency::Deadline;
use roundtrip_run::Scheduling;
use roundtrip_run::ipc::Stack;
use roundtrip_run::ipc::latency::{CallerResult, Inheritance, PairResult, Series, Verdict};

use super::*;
use crate::live::view::View;

fn turn(stack: Stack, times_ns: impl IntoIterator<Item = u64>) -> Series {
    let deadline = Deadline { ns: 2_500_000 };
    let mut caller = CallerResult::new(Scheduling::other(0), deadline, false, 0);
    for ns in times_ns {
        caller.latency.record(ns);
        caller.deadline.count += 1;
        caller.deadline.missed += u64::from(deadline.missed(ns));
    }
    let pairs = vec![PairResult { callers: vec![caller], server: None }];
    Series { stack, inheritance: Inheritance::Stack, pairs, verdict: Verdict::Pass }
}

/// Several intervals of both stacks, then binder at twice its time.
fn session(before: u64, after: u64) -> Session {
    let mut session = Session::default();
    for interval in 0..before + after {
        if interval == before && after > 0 {
            session.mark();
        }
        let ns = if interval < before { 12_000 } else { 24_000 };
        let slow = if interval % 8 == 3 { 3_000_000 } else { 150_000 };
        session
            .add(&turn(Stack::Binder, (0..500).map(|n| ns + n * n / 20 + interval * 37 % 400).chain([slow])));
        session.add(&turn(Stack::Hwbinder, (0..500).map(|n| 15_000 + n * 3 + interval * 41 % 300)));
        session.end_interval();
    }
    session
}

fn view(colour: bool) -> View<'static> {
    View {
        title: "ipc latency, emulated driver, 16 B, deadline 2.50 ms",
        colour,
        keys: true,
        elapsed_ns: 24_000_000_000,
        interval_ns: 1_000_000_000,
    }
}

fn drawn(session: &Session, size: (u16, u16), view: &View<'_>) -> Terminal<TestBackend> {
    drawn_with(0, session, size, view)
}

/// Draws a session, with the selected line in the chart and the histogram.
fn drawn_with(
    selected: usize,
    session: &Session,
    (width, height): (u16, u16),
    view: &View<'_>,
) -> Terminal<TestBackend> {
    let chosen = Chosen { selected, deadline_ns: 2_500_000 };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, session, view, chosen)).unwrap();
    terminal
}

#[test]
fn a_usual_terminal_shows_all_of_it() {
    insta::assert_snapshot!(drawn(&session(12, 12), (80, 24), &view(true)).backend());
}

#[test]
fn a_wall_has_room_for_more() {
    insta::assert_snapshot!(drawn_with(1, &session(40, 0), (110, 40), &view(true)).backend());
}

#[test]
fn a_small_terminal_shows_the_most_important_parts() {
    insta::assert_snapshot!(drawn(&session(12, 0), (40, 12), &view(true)).backend());
}

#[test]
fn any_size_and_an_empty_session_can_be_drawn() {
    let (all, none) = (session(6, 6), Session::default());
    for width in [1, 2, 5, 19, 20, 21, 40, 80, 300] {
        for height in 1..40 {
            drawn(&all, (width, height), &view(true));
            drawn(&none, (width, height), &view(true));
        }
    }
    let first = drawn(&none, (60, 10), &view(true));
    assert!(first.backend().to_string().contains("The first interval is being measured."));
}

#[test]
fn colours_are_used_only_if_wanted() {
    let session = session(12, 12);
    let colours = |colour| {
        let terminal = drawn(&session, (80, 40), &view(colour));
        let cells = terminal.backend().buffer().content();
        cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert!(colours(true) > 0);
    assert_eq!(colours(false), 0);
    let text = |colour| drawn(&session, (80, 40), &view(colour)).backend().to_string();
    assert_eq!(text(true), text(false));
}

#[test]
fn plain_lines_and_the_summary_contain_the_results() {
    let session = session(12, 12);
    insta::assert_snapshot!(format!(
        "{}{}",
        interval(&session, 24_000_000_000),
        summary(&session, 1_000_000_000)
    ));
    assert!(!summary(&Session::default(), 1_000_000_000).contains("mark"));
}
