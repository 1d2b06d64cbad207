//! `ipc observe --live`: shows the calls of each interval while observing. `report` renders them.

use std::io::Write;
use std::ops::ControlFlow;

use roundtrip_analysis::live_calls::Session;
use roundtrip_bench::observe::Round;
use roundtrip_report::live::calls::{self, Seen};
use roundtrip_report::live::view::View;
use roundtrip_report::text::quantity::duration;
use roundtrip_run::ipc::observe::{ObservePlan, Subject};

use crate::screen::{self, Key, Screen};
use crate::terminal::Terminal;

const DEFAULT_INTERVAL_NS: u64 = 1_000_000_000;

/// The live view of one run.
pub(super) struct Live {
    session: Session,
    title: String,
    colour: bool,
    interval_ns: u64,
    /// When the current interval began, in nanoseconds since observing began.
    began_ns: u64,
    /// The length of the last complete interval, in nanoseconds.
    last_ns: u64,
    /// `None` if the view prints lines.
    screen: Option<Screen>,
    /// The error that stopped the view; `None` while it works.
    failed: Option<std::io::Error>,
}

impl Live {
    /// Opens the view without drawing. It prints lines if COMMAND is observed, because COMMAND uses
    /// the same terminal.
    ///
    /// # Errors
    /// If the terminal cannot be set up.
    pub(super) fn open(
        plan: &ObservePlan,
        interval_ns: Option<u64>,
        terminal: &Terminal<'_>,
    ) -> std::io::Result<Self> {
        let colour = terminal.look.colour;
        let draws = screen::can_draw() && !matches!(plan.subject, Subject::Command(_));
        let of = roundtrip_report::ipc::observed_calls::subject(&plan.subject);
        Ok(Self {
            session: Session::new(plan.deadline),
            title: format!("calls of {of}, deadline {}", duration(plan.deadline.ns as f64)),
            colour,
            interval_ns: interval_ns.unwrap_or(DEFAULT_INTERVAL_NS),
            began_ns: 0,
            last_ns: 0,
            screen: draws.then(|| Screen::open(colour)).transpose()?,
            failed: None,
        })
    }

    /// Adds a round. If an interval has ended, updates the view.
    pub(super) fn round(&mut self, round: &Round<'_>, out: &mut dyn Write) -> ControlFlow<()> {
        if !round.moved.is_empty() {
            self.session.moved(round.moved);
        }
        self.session.add(round.ended);
        match self.update(round, out) {
            Ok(going_on) => going_on,
            Err(error) => {
                self.failed.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }

    fn update(&mut self, round: &Round<'_>, out: &mut dyn Write) -> std::io::Result<ControlFlow<()>> {
        let so_far_ns = round.elapsed_ns.saturating_sub(self.began_ns);
        let is_interval = so_far_ns >= self.interval_ns;
        if is_interval {
            self.session.end_interval();
            (self.began_ns, self.last_ns) = (round.elapsed_ns, so_far_ns);
        }
        let view = View {
            title: &self.title,
            colour: self.colour,
            keys: self.screen.as_ref().is_some_and(|screen| screen.keys),
            elapsed_ns: round.elapsed_ns,
            interval_ns: self.last_ns,
        };
        let seen = Seen { session: &self.session, flows: round.flows, lost_events: round.lost_events };
        let Some(screen) = &mut self.screen else {
            if is_interval {
                out.write_all(calls::interval(seen, &view).as_bytes())?;
                out.flush()?;
            }
            return Ok(ControlFlow::Continue(()));
        };
        if screen.pressed().contains(&Key::End) {
            return Ok(ControlFlow::Break(()));
        }
        if is_interval || screen.is_resized() {
            screen.draw(|frame| calls::draw(frame, seen, &view))?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Restores the terminal.
    ///
    /// # Errors
    /// The first error that stopped the view.
    pub(super) fn close(self) -> std::io::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}
