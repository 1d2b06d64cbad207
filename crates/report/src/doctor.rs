//! Which settings of a machine lengthen round trips, as text, Markdown and JSON. Pure: findings in,
//! text out.

use std::fmt::Write as _;

use anstyle::Style;
use roundtrip_analysis::doctor::{Finding, State};
use roundtrip_run::environment::Environment;
use serde::Serialize;

use crate::environment::header;
use crate::text::csv::Line;
use crate::text::inert;
use crate::text::look::Look;
use crate::text::markdown::{cell, code};
use crate::text::style::styled;

/// "3 settings lengthen round trips, 5 could not be determined, 20 are good."
#[must_use]
pub fn summary(findings: &[Finding]) -> String {
    let count = |state: State| findings.iter().filter(|finding| finding.state == state).count();
    let lengthens = match count(State::Lengthens) {
        0 => "No setting lengthens round trips".to_owned(),
        1 => "1 setting lengthens round trips".to_owned(),
        some => format!("{some} settings lengthen round trips"),
    };
    let good = count(State::Good);
    let verb = if good == 1 { "is" } else { "are" };
    format!("{lengthens}, {} could not be determined, {good} {verb} good.", count(State::CannotTell))
}

/// The machine, the summary, and the settings: first those that lengthen round trips, with what to
/// do, then unknown ones, then good ones.
#[must_use]
pub fn text(environment: &Environment, findings: &[Finding], look: Look) -> String {
    let head = look.fit(header(environment));
    let mut out = format!("{head}\n{}\n", summary(findings));
    let of = |state: State| findings.iter().filter(move |finding| finding.state == state);
    let heading = |out: &mut String, text: &str| {
        let _ = writeln!(out, "\n{}", styled(text, Style::new().bold(), look.colour));
    };
    if of(State::Lengthens).next().is_some() {
        heading(&mut out, "Lengthens round trips, the most important first");
    }
    for (number, finding) in (1..).zip(of(State::Lengthens)) {
        let _ = writeln!(out);
        let title = format!("{} ({})", finding.title, finding.check);
        line(&mut out, look, format!("{number:>2}. {title}: {}", inert::line(&finding.found)));
        line(&mut out, look, format!("    {} [{}]", finding.why, finding.source));
        remedy(&mut out, look, finding);
    }
    if of(State::CannotTell).next().is_some() {
        heading(&mut out, "Could not be determined");
        let _ = writeln!(out);
    }
    for finding in of(State::CannotTell) {
        let title = format!("{} ({})", finding.title, finding.check);
        line(&mut out, look, format!("  - {title}: {}", inert::line(&finding.found)));
        remedy(&mut out, look, finding);
    }
    if of(State::Good).next().is_some() {
        heading(&mut out, "Good");
        let _ = writeln!(out);
    }
    for finding in of(State::Good) {
        line(&mut out, look, format!("  - {}: {}", finding.title, inert::line(&finding.found)));
    }
    out
}

fn remedy(out: &mut String, look: Look, finding: &Finding) {
    if !finding.advice.is_empty() {
        line(out, look, format!("    What to do: {}", inert::line(&finding.advice)));
    }
    for command in &finding.commands {
        // Not wrapped, so that users can copy the command.
        let _ = writeln!(out, "      {}", inert::line(command));
    }
}

/// A line, wrapped if necessary.
fn line(out: &mut String, look: Look, text: String) {
    out.push_str(&look.fit(text + "\n"));
}

/// A table for an issue or a pull request.
#[must_use]
pub fn markdown(environment: &Environment, findings: &[Finding]) -> String {
    let mut out = String::new();
    let kernel = &environment.kernel;
    let machine = format!("{}, Linux {} {}", environment.host_name, kernel.release, kernel.machine);
    let _ = writeln!(out, "**{}**: {}\n", cell(&machine), summary(findings));
    let _ = writeln!(out, "| | setting | found | what to do |\n|---|---|---|---|");
    for finding in findings {
        let mut remedy = cell(&finding.advice);
        for command in &finding.commands {
            let _ = write!(remedy, " {}", code(command));
        }
        let state = finding.state.name();
        let _ =
            writeln!(out, "| {state} | {} | {} | {} |", finding.title, cell(&finding.found), remedy.trim());
    }
    out
}

/// The findings as CSV, one line each. Several commands of a finding share one field, separated by
/// line breaks.
#[must_use]
pub fn csv(findings: &[Finding]) -> String {
    let mut out = String::from("check,state,title,found,why,source,advice,commands\n");
    for finding in findings {
        let [found, advice] = [&finding.found, &finding.advice].map(|text| inert::line(text));
        let commands: Vec<_> = finding.commands.iter().map(|command| inert::line(command)).collect();
        Line::of(&mut out)
            .fields([finding.check, finding.state.name(), finding.title])
            .field(found)
            .fields([finding.why, finding.source])
            .field(advice)
            .field(commands.join("\n"))
            .end();
    }
    out
}

/// The findings and the settings that they are based on, for programs.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    environment: &'a Environment,
    findings: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    check: &'a str,
    title: &'a str,
    state: &'a str,
    found: &'a str,
    why: &'a str,
    source: &'a str,
    advice: &'a str,
    commands: &'a [String],
}

/// One line of JSON.
///
/// # Errors
/// If the environment cannot be represented as JSON.
pub fn json(environment: &Environment, findings: &[Finding]) -> Result<String, crate::Error> {
    let findings = findings.iter().map(|finding| Entry {
        check: finding.check,
        title: finding.title,
        state: finding.state.name(),
        found: &finding.found,
        why: finding.why,
        source: finding.source,
        advice: &finding.advice,
        commands: &finding.commands,
    });
    let schema = "roundtrip.doctor";
    let document = Document { schema, version: 1, environment, findings: findings.collect() };
    Ok(roundtrip_stored::to_text(&document)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(state: State, found: &str) -> Finding {
        Finding {
            check: "cpu-quota",
            title: "CPU quota",
            state,
            found: found.to_owned(),
            why: "The kernel pauses the group until the next period, which is usually 100 ms long, with all its threads.",
            source: "Documentation/scheduler/sched-bwc.rst",
            advice: "Lift it.".to_owned(),
            commands: vec!["echo max > /sys/fs/cgroup/GROUP/cpu.max".to_owned()],
        }
    }

    #[test]
    fn text_has_the_setting_reason_source_and_advice_within_80_columns() {
        let findings = [
            finding(State::Lengthens, "0.5 CPUs"),
            finding(State::CannotTell, "not there"),
            finding(State::Good, "none"),
        ];
        let text = text(
            &Environment::default(),
            &findings,
            Look { colour: false, width: Some(80), is_terminal: false },
        );
        assert!(
            text.contains("1 setting lengthens round trips, 1 could not be determined, 1 is good."),
            "{text}"
        );
        let order = [
            "1. CPU quota (cpu-quota): 0.5 CPUs",
            "sched-bwc.rst",
            "What to do: Lift it.",
            "\n      echo max",
        ];
        let at: Vec<_> = order.iter().map(|part| text.find(part).expect(part)).collect();
        assert!(at.is_sorted(), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        // Users can copy commands.
        assert!(text.contains("\n      echo max > /sys/fs/cgroup/GROUP/cpu.max\n"), "{text}");
    }

    #[test]
    fn foreign_text_is_escaped_for_terminals_and_tables() {
        let hostile = [finding(State::Lengthens, "\x1b[2J|<script>\n| x |")];
        let text = text(&Environment::default(), &hostile, Look::PLAIN);
        assert!(text.contains("\\u001b[2J") && !text.contains('\x1b'), "{text}");
        let markdown = markdown(&Environment::default(), &hostile);
        assert!(markdown.contains(r"\\u001b\[2J\|\<script>\\u000a\| x \|"), "{markdown}");
        let json = json(&Environment::default(), &hostile).unwrap();
        let read: serde_json::Value = roundtrip_stored::read_text(json.as_bytes()).unwrap();
        assert_eq!(read["findings"][0]["found"], "\x1b[2J|<script>\n| x |");
        assert_eq!(read["findings"][0]["state"], "lengthens");
    }
}
