//! Conditions that end while others go on, because a CPU that they need is gone. Must not know how
//! a condition is produced.

use roundtrip_run::cpus::ranges;
use roundtrip_run::storage::interference::Condition;

use super::recipe::Recipe;
use crate::error::{Disturbance, Error, Result};
use crate::sched;

/// The conditions that have ended.
#[derive(Debug, Default)]
pub(super) struct Ended(Vec<(usize, String)>);

impl Ended {
    /// Whether a condition, given by its recipe's index, has ended.
    pub(super) fn contains(&self, recipe: usize) -> bool {
        self.0.iter().any(|(ended, _)| *ended == recipe)
    }

    /// Ends a condition if one of its CPUs is gone.
    ///
    /// # Errors
    /// `error`, which occurred while it was produced, if that is not the reason.
    pub(super) fn end(
        &mut self,
        index: usize,
        (condition, recipe): (Condition, &Recipe),
        error: Error,
    ) -> Result<()> {
        let cpus = recipe.cpus();
        let usable = sched::allowed_cpus(0)?;
        let gone: Vec<u32> = cpus.iter().copied().filter(|cpu| !usable.contains(cpu)).collect();
        let why = match &error {
            _ if !gone.is_empty() => format!(
                "this program may no longer use CPU {}: another program has forbidden it, or it has gone offline",
                ranges(&gone)
            ),
            Error::Disturbed(Disturbance::Moved { .. }) if !cpus.is_empty() => error.to_string(),
            _ => return Err(error),
        };
        self.0.push((index, format!("{condition} ended early, and later pairs of it are missing: {why}")));
        Ok(())
    }

    /// A line for each condition that has ended.
    pub(super) fn lines(self) -> Vec<String> {
        self.0.into_iter().map(|(_, line)| line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved() -> Error {
        Disturbance::Moved { role: "hog 1".into(), before: "1".into(), now: "0".into() }.into()
    }

    #[test]
    fn a_condition_ends_with_its_cpu_and_other_errors_end_the_run() {
        let mut ended = Ended::default();
        let gone = Recipe::Hogs(vec![1 << 20]);
        ended.end(3, (Condition::HogOther, &gone), Error::Orphaned).unwrap();
        assert!(ended.contains(3) && !ended.contains(2));
        let own = Recipe::Hogs(sched::allowed_cpus(0).unwrap());
        ended.end(2, (Condition::HogAll, &own), moved()).unwrap();
        assert!(ended.end(1, (Condition::HogAll, &own), Error::Orphaned).is_err());
        assert!(ended.end(1, (Condition::Files, &Recipe::Nothing), moved()).is_err());
        let lines = ended.lines();
        assert!(
            lines[0].starts_with("hog-other ended early") && lines[0].contains("CPU 1048576: "),
            "{lines:?}"
        );
        assert!(lines[1].contains("hog 1 may use CPUs 0 instead of 1"), "{lines:?}");
        let offline = Disturbance::Moved { role: "hog 1".into(), before: "1".into(), now: String::new() };
        assert!(offline.to_string().starts_with("hog 1 may use no online CPU instead of 1"));
    }
}
