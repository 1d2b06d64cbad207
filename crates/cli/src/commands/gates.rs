//! `--fail-on` and `--require`: results that make a command fail. This file contains the options,
//! and their effect at the end of a command. `analysis` evaluates the gates.

use roundtrip_analysis::Analysed;
use roundtrip_analysis::figures;
use roundtrip_analysis::gate::{Gate, Requirement};
use roundtrip_run::Scheduling;

use crate::args::{Group, Opt, Usage};
use crate::available;
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Gates {
    gates: Vec<Gate>,
    requirements: Vec<Requirement>,
}

/// The help on gates.
pub(crate) const FIGURES: &str = "Exits with status 3 if the result is beyond a limit, as in 'p99>200us', or if the \
                                  run has warnings (GATE: warnings). An unknown name is refused, with a list of \
                                  the known ones. Repeatable.";

/// The help on gates for results of the latency test.
pub(crate) const LATENCY: &str = "Exits with status 3 if the result is beyond a limit, as in 'p99>200us' or \
                                  'missed>0', or 'p99[caller=other]>1ms' for some figures only. inheritance: if \
                                  real-time priorities were not inherited. rate: if calls \
                                  did not reach their --rate. warnings: if the run has warnings. An \
                                  unknown name is refused, with a list of the known ones. Repeatable.";

/// Typed arguments of a command that include gates.
pub(crate) trait Gated {
    /// The tests whose figures are in the command's result.
    const TESTS: &'static [&'static str];
    /// The possible values of `--require`.
    const REQUIRES: &'static [&'static str];
    /// The help on gates.
    const GATES: &'static str;

    fn gates(&mut self) -> &mut Gates;
}

impl Gates {
    /// The violated gates and requirements of a run, one line each.
    pub(crate) fn violations(&self, Analysed { run, layers, beside, .. }: &Analysed<'_>) -> Vec<String> {
        if self.gates.is_empty() && self.requirements.is_empty() {
            return Vec::new();
        }
        let figures = figures::of(&run.results, layers, beside);
        let missing = self.requirements.iter().filter_map(|&requirement| {
            Some(roundtrip_report::gate::requirement(requirement, &requirement.judge(run)?))
        });
        let violated = self
            .gates
            .iter()
            .filter_map(|gate| Some(roundtrip_report::gate::gate(gate, &gate.judge(run, &figures)?)));
        missing.chain(violated).collect()
    }

    /// Reports the violated gates and requirements. Returns the exit status of a command that would
    /// otherwise end with `exit`: a violation makes a successful command fail.
    pub(crate) fn judge(&self, analysed: &Analysed<'_>, exit: Exit, terminal: &mut Terminal<'_>) -> Exit {
        let violations = self.violations(analysed);
        for line in &violations {
            // If standard error is closed too, the error cannot be reported.
            let _ = writeln!(terminal.err, "roundtrip: failed: {line}");
        }
        if violations.is_empty() || exit != Exit::OK { exit } else { Exit::VIOLATED }
    }

    /// If real-time callers are required, rejects callers for which this process has no permission,
    /// before anything is measured.
    pub(crate) fn check_callers(&self, callers: &[Scheduling]) -> Result<(), Usage> {
        if !self.requirements.contains(&Requirement::Realtime) {
            return Ok(());
        }
        let mut realtime = callers.iter().filter(|caller| caller.policy.is_realtime()).peekable();
        if realtime.peek().is_none() {
            return Err(Usage("--require realtime: no caller has a real-time policy".to_owned()));
        }
        realtime.try_for_each(|caller| available::scheduling("--require realtime", caller))
    }
}

/// The table for commands whose result can have gates.
pub(crate) const fn group<A: Gated + 'static>() -> Group<A> {
    let options = if A::REQUIRES.is_empty() { Table::<A>::FAIL_ON } else { Table::<A>::BOTH };
    Group { heading: "Gates", options }
}

struct Table<A>(std::marker::PhantomData<A>);

impl<A: Gated + 'static> Table<A> {
    const FAIL_ON: &'static [Opt<A>] = &[fail_on()];
    const BOTH: &'static [Opt<A>] = &[fail_on(), require(A::REQUIRES)];
}

/// `--fail-on`.
pub(super) const fn fail_on<A: Gated>() -> Opt<A> {
    Opt::value(&["--fail-on"], "GATE", A::GATES, |typed: &mut A, text| {
        let gate = Gate::parse(text, A::TESTS)?;
        typed.gates().gates.push(gate);
        Ok(())
    })
}

/// `--require`, with one of these names.
pub(super) const fn require<A: Gated>(words: &'static [&'static str]) -> Opt<A> {
    Opt::one_of(
        &["--require"],
        "WHAT",
        words,
        "Exits with status 3 if the run lacks this. realtime: the real-time callers made calls. events: the \
         kernel's events were recorded to the end. kernel-driver: the emulated driver was not used. \
         Repeatable.",
        |typed: &mut A, text| {
            let named = Requirement::ALL.into_iter().find(|requirement| requirement.name() == text);
            typed.gates().requirements.push(named.ok_or("no such requirement")?);
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_that_must_be_realtime_are_looked_at_before_anything_is_measured() {
        let gates = |requirements| Gates { requirements, ..Gates::default() };
        let ordinary = [Scheduling::other(0)];
        gates(vec![]).check_callers(&ordinary).unwrap();
        let refusal = gates(vec![Requirement::Realtime]).check_callers(&ordinary).unwrap_err();
        assert_eq!(refusal.to_string(), "--require realtime: no caller has a real-time policy");
        let wanted = [Scheduling::fifo(1), Scheduling::other(0)];
        let allowed = roundtrip_bench::sched::realtime_permission().max_priority().is_some();
        assert_eq!(gates(vec![Requirement::Realtime]).check_callers(&wanted).is_ok(), allowed);
    }
}
