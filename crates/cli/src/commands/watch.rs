//! `roundtrip watch`: the latency test, shown while it runs. `ipc latency` defines what is
//! measured, and `report` draws the picture.

use std::io::Write;
use std::ops::ControlFlow;
use std::time::Instant;

use roundtrip_analysis::live::Session;
use roundtrip_bench::ipc::latency;
use roundtrip_bench::worker::Spawner;
use roundtrip_report::live::view::View;
use roundtrip_report::live::{self, Chosen};
use roundtrip_report::text::quantity::{duration, length};
use roundtrip_run::ipc::latency::{LatencyPlan, Series};
use roundtrip_run::{Results, Run};

use super::latency_options::Typed;
use super::{driver, gates, latency_options, output};
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::screen::{self, Key, Screen};
use crate::terminal::{Exit, Terminal};

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["watch"],
    kind: Kind::Command,
    summary: "shows live latency while you change a setting",
    description: "Measures round trips as 'ipc latency' does, until you press q or Ctrl-C, and shows them: \
                  p50, p99 and the longest call of each interval over time, and the last interval as a \
                  histogram.\n\n\
                  Press m, then change something on the machine: a governor, a cpuset, other load. From then \
                  on, watch compares the time before and after the mark: how much each figure changed, its \
                  95% interval, and whether it is better or worse. Press m again to compare with the time \
                  since the last mark. The two halves are measured one after the other, so drift can look \
                  like a change. To be certain, measure both settings alternately with 'roundtrip ab'.\n\n\
                  It draws between two turns of at most 0.1 s (with --rate, of an interval), while no calls \
                  are made. Drawing takes less than 1 ms of CPU time for each interval.\n\n\
                  If standard output is not a terminal, or TERM is dumb, it prints a line for each caller and \
                  interval, which suits 'adb shell' and pipes. Either way it prints the figures of all calls \
                  at the end. With --format json, csv or markdown it prints only those figures.",
    positionals: None,
    groups: &[
        Group { heading: "What to measure", options: latency_options::WHAT },
        Group { heading: "How long", options: HOW_LONG },
        Group { heading: "Callers", options: latency_options::CALLERS },
        Group { heading: "Where it runs", options: latency_options::WHERE },
        driver::group(),
        Group { heading: "Gates", options: GATES },
        Group { heading: "Output", options: OUTPUT },
    ],
    examples: &[
        ("roundtrip watch", "Shows both stacks with a real-time and an ordinary caller."),
        (
            "roundtrip watch --stack hwbinder --callers other --rate 1000/s --deadline 1ms",
            "Makes a thousand calls a second over hwbinder, against a deadline of 1 ms.",
        ),
        ("roundtrip watch --duration 10s --out monday", "Ends after 10 s and stores the run."),
    ],
    run,
};

/// The longest turn, in nanoseconds. Keys are read between turns.
const LONGEST_TURN_NS: u64 = 100_000_000;

/// The minimum number of calls of each caller in an interval.
const LEAST_CALLS: f64 = 10.0;

const DEFAULT_INTERVAL_NS: u64 = 1_000_000_000;

const HOW_LONG: &[Opt<Typed>] = &[
    Opt::value(
        &["--interval"],
        "TIME",
        "The length of an interval, from 200ms to 1m.",
        |typed: &mut Typed, text| values::set(&mut typed.interval_ns, values::interval_ns(text)),
    )
    .default("1s"),
    Opt::value(&["--duration"], "TIME", "End after this time, as in 30s.", |typed: &mut Typed, text| {
        values::set(&mut typed.duration_ns, values::duration_ns(text))
    })
    .default("until q"),
];

/// This command records no kernel events, so they cannot be required.
const GATES: &[Opt<Typed>] = &[gates::fail_on(), gates::require(&["realtime"])];

const OUTPUT: &[Opt<Typed>] = &[
    output::format(output::FORMATS, output::FORMATS_HELP),
    output::histogram(),
    output::out("Also writes the run into this directory, as 'ipc latency' does."),
    output::force(),
    output::label(),
    output::quiet(),
];

/// The duration of a turn of one series.
fn turn_ns(plan: &LatencyPlan, interval_ns: u64) -> Result<u64, Usage> {
    let share = interval_ns / plan.series().len().max(1) as u64;
    let Some(rate) = plan.rate_per_s else { return Ok(share.min(LONGEST_TURN_NS)) };
    if rate * (share as f64 / 1e9) < LEAST_CALLS {
        let least = LEAST_CALLS / (share as f64 / 1e9);
        return Err(Usage(format!(
            "--rate is too low for intervals of {}: take at least {least:.0}/s, or a longer --interval",
            duration(interval_ns as f64)
        )));
    }
    Ok(share)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let plan = super::latency::plan(&typed)?;
    super::latency::check_machine(&typed, &plan)?;
    let interval_ns = typed.interval_ns.unwrap_or(DEFAULT_INTERVAL_NS);
    let turn_ns = turn_ns(&plan, interval_ns)?;
    let output = &typed.common.output;
    let place = output.place()?;
    // The other formats are for programs, so only the result is printed.
    let is_table = output.is_table();
    let mut watch = Watch {
        session: Session::default(),
        title: title(&plan),
        series: plan.series().len(),
        turns: 0,
        selected: 0,
        colour: terminal.look.colour,
        deadline_ns: plan.deadline.ns,
        interval_ns,
        duration_ns: typed.duration_ns,
        began: Instant::now(),
        interval: Instant::now(),
        screen: (is_table && screen::can_draw()).then(|| Screen::open(terminal.look.colour)).transpose()?,
        has_lines: is_table && !output.quiet,
        failed: None,
    };
    let measured: roundtrip_bench::Result<Run> = output.record(|environment| {
        watch.restart();
        let each = &mut |series: &Series| watch.turn(series, terminal.out);
        let result = latency::watch(&plan, &Spawner::default(), turn_ns, each)?;
        environment.driver = Some(super::latency::driver_of(&result));
        Ok(Results::from(result))
    });
    // Restore the terminal before anything is printed.
    drop(watch.screen.take());
    let run = measured?;
    if let Some(error) = watch.failed {
        return Err(error.into());
    }
    typed.common.end("watch", &run, place, terminal, |analysed, terminal| {
        if is_table {
            let look = terminal.look;
            let text = roundtrip_report::run::page(analysed, look)
                + &output.histograms(analysed.run, look)
                + &look.fit(live::summary(&watch.session, interval_ns));
            terminal.out.write_all(text.as_bytes())?;
        }
        Ok(is_table)
    })
}

/// The title of the view, for example "ipc latency, 16 B, deadline 2.50 ms".
fn title(plan: &LatencyPlan) -> String {
    let rate = plan.rate_per_s.map(|rate| format!(", {rate}/s")).unwrap_or_default();
    format!(
        "ipc latency, {}{rate}, deadline {}",
        length(plan.payload_bytes),
        duration(plan.deadline.ns as f64)
    )
}

/// The state of the command.
struct Watch {
    session: Session,
    title: String,
    /// The number of turns in a round.
    series: usize,
    turns: usize,
    selected: usize,
    colour: bool,
    deadline_ns: u64,
    interval_ns: u64,
    duration_ns: Option<u64>,
    began: Instant,
    /// When the current interval began.
    interval: Instant,
    /// `None` if lines are printed instead.
    screen: Option<Screen>,
    /// Whether to print lines if there is no screen.
    has_lines: bool,
    /// The error that stopped the view; `None` while it works.
    failed: Option<std::io::Error>,
}

impl Watch {
    /// Starts the clocks of the run and of the interval. Called when the workers start.
    fn restart(&mut self) {
        (self.began, self.interval) = (Instant::now(), Instant::now());
        if let Err(error) = self.draw() {
            self.failed = Some(error);
        }
    }

    /// Adds a turn's measurements. Called between turns.
    fn turn(&mut self, series: &Series, out: &mut dyn Write) -> ControlFlow<()> {
        self.session.add(series);
        self.turns += 1;
        // An interval ends only after a full round, so that every series has the same share of it.
        let is_round = self.turns.is_multiple_of(self.series);
        let shown = self.show(is_round, out);
        let is_over = self.duration_ns.is_some_and(|ns| self.began.elapsed().as_nanos() >= u128::from(ns));
        match shown {
            Ok(Wish::GoOn) if is_over && is_round => ControlFlow::Break(()),
            Ok(Wish::GoOn) => ControlFlow::Continue(()),
            Ok(Wish::End) => ControlFlow::Break(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Updates the view, and reads the keys.
    fn show(&mut self, is_round: bool, out: &mut dyn Write) -> std::io::Result<Wish> {
        let is_interval = is_round && self.interval.elapsed().as_nanos() >= u128::from(self.interval_ns);
        if is_interval {
            self.session.end_interval();
            self.interval = Instant::now();
        }
        let Some(screen) = &self.screen else {
            if is_interval && self.has_lines {
                out.write_all(live::interval(&self.session, self.elapsed_ns()).as_bytes())?;
                out.flush()?;
            }
            return Ok(Wish::GoOn);
        };
        let pressed = screen.pressed();
        let is_resized = screen.is_resized();
        for key in &pressed {
            match key {
                Key::End => return Ok(Wish::End),
                Key::Mark => {
                    self.session.mark();
                    self.interval = Instant::now();
                }
                Key::Next => self.selected = (self.selected + 1) % self.session.lines.len().max(1),
            }
        }
        if is_interval || is_resized || !pressed.is_empty() {
            self.draw()?;
        }
        Ok(Wish::GoOn)
    }

    fn draw(&mut self) -> std::io::Result<()> {
        let elapsed_ns = self.elapsed_ns();
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let view = View {
            title: &self.title,
            colour: self.colour,
            keys: screen.keys,
            elapsed_ns,
            interval_ns: self.interval_ns,
        };
        let chosen = Chosen { selected: self.selected, deadline_ns: self.deadline_ns };
        let session = &self.session;
        screen.draw(|frame| live::draw(frame, session, &view, chosen))
    }

    fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What the user wants.
enum Wish {
    GoOn,
    End,
}

#[cfg(test)]
mod tests {
    use roundtrip_run::ipc::Stack;

    use super::*;

    #[test]
    fn turns_are_short_enough_for_keys_and_long_enough_for_a_rate() {
        let plan =
            |rate_per_s| LatencyPlan { stacks: Stack::ALL.into(), rate_per_s, ..LatencyPlan::default() };
        assert_eq!(turn_ns(&plan(None), 1_000_000_000).unwrap(), 100_000_000);
        assert_eq!(turn_ns(&plan(None), 200_000_000).unwrap(), 100_000_000);
        assert_eq!(turn_ns(&plan(Some(100.0)), 1_000_000_000).unwrap(), 500_000_000);
        let refused = turn_ns(&plan(Some(10.0)), 1_000_000_000).unwrap_err().to_string();
        assert!(refused.contains("at least 20/s"), "{refused}");
    }
}
