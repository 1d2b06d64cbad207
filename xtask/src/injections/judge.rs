//! Compares sentences with what the injector did and when. Must not know how anything was measured.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::scenarios::Victim;

/// A slow call or write as the program explained it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// How long such operations usually take; 0 if unknown.
    pub(super) usual_ns: u64,
    /// When a call was with its server.
    pub(super) served: Option<(u64, u64)>,
    pub(super) sentence: String,
}

/// What the sentence of a disturbed operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It names the injected cause.
    Right,
    /// It says that most is unknown.
    CannotTell,
    /// It names something else.
    Wrong,
}

/// How many operations of a scenario were named how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) right: u64,
    pub(super) cannot_tell: u64,
    pub(super) wrong: u64,
    /// Slow operations that lost most of their delay to something else.
    pub(super) others: u64,
    /// Slow operations of which only the causes are kept, without a sentence.
    pub(super) without_sentence: u64,
}

impl Tally {
    /// The operations that were disturbed.
    pub(super) fn disturbed(&self) -> u64 {
        self.right + self.cannot_tell + self.wrong
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.right += other.right;
        self.cannot_tell += other.cannot_tell;
        self.wrong += other.wrong;
        self.others += other.others;
        self.without_sentence += other.without_sentence;
    }
}

/// The stretches in which the injector disturbed, from its log, in order and without overlaps.
pub(super) fn stretches(log: &str) -> Result<Vec<(u64, u64)>> {
    let stretch = |line: &str| {
        let mut numbers = line.split(',').skip(2).map(str::parse::<u64>);
        let mut next = || numbers.next().and_then(Result::ok).context("a line of the log is damaged");
        Ok((next()?, next()?))
    };
    let lines = log.lines().filter(|line| !line.starts_with("cause,"));
    let mut all: Vec<(u64, u64)> = lines.map(stretch).collect::<Result<_>>()?;
    all.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (begin_ns, end_ns) in all {
        match out.last_mut() {
            Some(last) if begin_ns <= last.1 => last.1 = last.1.max(end_ns),
            _ => out.push((begin_ns, end_ns)),
        }
    }
    Ok(out)
}

impl Operation {
    /// How long it was disturbed while it was with the victim.
    fn disturbed_ns(&self, stretches: &[(u64, u64)], victim: Victim) -> u64 {
        let within = |(from_ns, to_ns): (u64, u64)| -> u64 {
            stretches
                .iter()
                .map(|&(begin_ns, end_ns)| end_ns.min(to_ns).saturating_sub(begin_ns.max(from_ns)))
                .sum()
        };
        match (victim, self.served) {
            (Victim::Server, Some(served)) => within(served),
            (Victim::Client, Some((from_ns, to_ns))) => {
                within((self.start_ns, from_ns)) + within((to_ns, self.end_ns))
            }
            _ => within((self.start_ns, self.end_ns)),
        }
    }

    /// Whether its sentence is true; `None` if it lost less than half of its delay to the injector.
    pub(super) fn judge(&self, stretches: &[(u64, u64)], victim: Victim, words: &[&str]) -> Option<Verdict> {
        let delay_ns = (self.end_ns - self.start_ns).saturating_sub(self.usual_ns);
        if delay_ns == 0 || self.disturbed_ns(stretches, victim) * 2 < delay_ns {
            return None;
        }
        Some(if self.sentence.starts_with("cannot tell") {
            Verdict::CannotTell
        } else if words.iter().any(|word| self.sentence.contains(word)) {
            Verdict::Right
        } else {
            Verdict::Wrong
        })
    }
}

/// The slow operations in the JSON of `explain`, and how many of them have no sentence. Writes
/// that took less than `least_ns` are left out: they were not slow.
pub(super) fn operations(json: &Value, least_ns: u64) -> Result<(Vec<Operation>, u64)> {
    let text = |of: &Value| of["verdict"].as_str().map(str::to_owned).context("an operation has no sentence");
    let number = |of: &Value, name: &str| of[name].as_u64().with_context(|| format!("no {name}"));
    let mut out = Vec::new();
    for call in json["slow_calls"].as_array().into_iter().flatten() {
        let of = &call["explanation"];
        out.push(Operation {
            start_ns: number(of, "start_ns")?,
            end_ns: number(of, "end_ns")?,
            usual_ns: call["usual_ns"].as_u64().unwrap_or(0),
            served: Some((number(of, "request_ns")?, number(of, "reply_ns")?)),
            sentence: text(of)?,
        });
    }
    for write in json["writes"]["slow_writes"].as_array().into_iter().flatten() {
        out.push(Operation {
            start_ns: number(write, "start_ns")?,
            end_ns: number(write, "end_ns")?,
            usual_ns: 0,
            served: None,
            sentence: text(write)?,
        });
    }
    out.retain(|one| one.end_ns - one.start_ns >= least_ns);
    let beyond = json["over_limit"].as_u64().unwrap_or(0);
    Ok((out, beyond + json["writes"]["over_limit"].as_u64().unwrap_or(0)))
}

/// Sentences without their figures, and how often each was said.
pub(super) fn patterns<'a>(sentences: impl Iterator<Item = &'a str>) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for sentence in sentences {
        let mut text = String::new();
        for c in sentence.chars() {
            match c {
                '0'..='9' if text.ends_with('#') => {}
                '0'..='9' => text.push('#'),
                _ => text.push(c),
            }
        }
        *counts.entry(text).or_default() += 1;
    }
    let mut all: Vec<(String, u64)> = counts.into_iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all
}

/// A share in percent with its 95% interval (Wilson, 1927): "98.7 (97.1 to 99.4)".
pub(super) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let z = roundtrip_latency::Z_95;
    let (n, share) = (whole as f64, part as f64 / whole as f64);
    let middle = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let at = |value: f64| (100.0 * value / (1.0 + z * z / n)).clamp(0.0, 100.0);
    format!("{:.1} ({:.1} to {:.1})", share * 100.0, at(middle - half), at(middle + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(start_ns: u64, end_ns: u64, usual_ns: u64, sentence: &str) -> Operation {
        Operation { start_ns, end_ns, usual_ns, served: None, sentence: sentence.into() }
    }

    #[test]
    fn the_stretches_of_a_log_are_in_order_and_joined_where_they_overlap() {
        let log = "cause,tid,begin_ns,end_ns\nhog,7,50,60\nhog,8,10,20\nhog,7,15,30\n";
        assert_eq!(stretches(log).unwrap(), [(10, 30), (50, 60)]);
        assert!(stretches("hog,7,x,60\n").is_err() && stretches("hog,7,50\n").is_err());
    }

    #[test]
    fn an_operation_counts_if_half_of_its_delay_was_injected() {
        let stretches = [(100, 150), (160, 170)];
        let right = "waited 1 us for a CPU, behind inj-hog";
        let judged = |start_ns, end_ns, usual_ns| {
            operation(start_ns, end_ns, usual_ns, right).judge(&stretches, Victim::Any, &["inj-hog"])
        };
        // 60 of 120.
        assert_eq!(judged(90, 210, 0), Some(Verdict::Right));
        // 60 of 121.
        assert_eq!(judged(90, 211, 0), None);
        assert_eq!(judged(90, 211, 1), Some(Verdict::Right));
        assert_eq!(judged(90, 110, 20), None, "it took no longer than usual");
    }

    #[test]
    fn a_disturbance_counts_only_while_the_operation_is_with_its_victim() {
        let call = Operation { served: Some((20, 80)), ..operation(0, 100, 0, "slept") };
        let judged = |stretch, victim| call.judge(&[stretch], victim, &["slept"]).is_some();
        assert!(judged((20, 70), Victim::Server) && !judged((0, 69), Victim::Server));
        assert!(!judged((0, 80), Victim::Client) && judged((30, 100), Victim::Any));
        let mostly_client = Operation { served: Some((50, 52)), ..call.clone() };
        assert!(mostly_client.judge(&[(0, 60)], Victim::Client, &["slept"]).is_some());
    }

    #[test]
    fn a_sentence_is_right_if_it_names_the_cause_and_does_not_begin_with_its_doubts() {
        let judged = |sentence: &str| {
            operation(0, 10, 0, sentence).judge(&[(0, 10)], Victim::Any, &["inj-hog", "hogs"])
        };
        assert_eq!(judged("behind 3 processes, most of all inj-hog: 4 us"), Some(Verdict::Right));
        assert_eq!(judged("cannot tell: 6 of 10 ns unknown; known: inj-hog"), Some(Verdict::CannotTell));
        assert_eq!(judged("waited for a CPU, behind rustc"), Some(Verdict::Wrong));
    }

    #[test]
    fn calls_and_writes_are_read_from_explanations() {
        let json = serde_json::json!({
            "over_limit": 2,
            "slow_calls": [{"usual_ns": 5, "explanation": {
                "start_ns": 1, "request_ns": 3, "reply_ns": 7, "end_ns": 9, "verdict": "slept",
            }}],
            "writes": {
                "over_limit": 1,
                "slow_writes": [
                    {"start_ns": 2, "end_ns": 9, "verdict": "ran"},
                    {"start_ns": 2, "end_ns": 3, "verdict": "was quick"},
                ],
            },
        });
        let call = Operation { served: Some((3, 7)), ..operation(1, 9, 5, "slept") };
        let expected = vec![call, operation(2, 9, 0, "ran")];
        assert_eq!(operations(&json, 4).unwrap(), (expected, 3));
        assert!(operations(&serde_json::json!({"slow_calls": [{}]}), 0).is_err());
    }

    #[test]
    fn sentences_that_differ_in_figures_only_are_one_pattern() {
        let said = ["slept for 12.5 ms", "slept for 3.25 ms", "ran"];
        assert_eq!(patterns(said.into_iter()), [("slept for #.# ms".to_owned(), 2), ("ran".to_owned(), 1)]);
    }

    #[test]
    fn a_share_has_an_interval_that_is_not_empty_for_all_of_them() {
        assert_eq!(share(100, 100), "100.0 (96.3 to 100.0)");
        assert_eq!(share(15, 148), "10.1 (6.2 to 16.0)");
        assert_eq!(share(0, 0), "-");
    }
}
