//! What other programs do to the callers of a run: change how they are scheduled. Must not know
//! what is measured.

use roundtrip_run::Scheduling;

use crate::error::{Disturbance, Result};

/// What other programs did.
#[derive(Debug, Default)]
pub(super) struct Disturbed {
    /// Whether the calls of this turn were not scheduled as planned.
    spoiled: bool,
    /// Whether this is true of any turn.
    any_spoiled: bool,
    /// What a reader must know, once for each caller.
    pub(super) warnings: Vec<String>,
}

impl Disturbed {
    /// Notes that a caller was no longer scheduled as before, so that the turn does not count.
    pub(super) fn rescheduled(&mut self, pair: usize, before: Scheduling, after: Scheduling) {
        (self.spoiled, self.any_spoiled) = (true, true);
        let warning = format!(
            "another program changed the {before} caller of pair {} to {after}: the calls of such turns are in no \
             figure",
            pair + 1
        );
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Whether the turn that has just ended does not count.
    pub(super) fn spoils_turn(&mut self) -> bool {
        std::mem::take(&mut self.spoiled)
    }

    /// Called if no calls count.
    ///
    /// # Errors
    /// [`Disturbance::Rescheduled`] if this is the reason.
    pub(super) fn is_all(&self) -> Result<()> {
        if self.any_spoiled { Err(Disturbance::Rescheduled.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_with_a_rescheduled_caller_does_not_count() {
        let mut disturbed = Disturbed::default();
        assert!(!disturbed.spoils_turn() && disturbed.is_all().is_ok());
        for _ in 0..2 {
            disturbed.rescheduled(0, Scheduling::fifo(99), Scheduling::other(0));
            assert!(disturbed.spoils_turn() && !disturbed.spoils_turn());
        }
        assert!(disturbed.is_all().is_err());
        let expected = "another program changed the fifo:99 caller of pair 1 to other: the calls of such turns are in \
                        no figure";
        assert_eq!(disturbed.warnings, [expected]);
    }
}
