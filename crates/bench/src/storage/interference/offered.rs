//! Which of the requested conditions this machine can produce. Must not know how they are measured.

use roundtrip_run::storage::interference::Condition;

use super::choose::is_of_now;
use super::recipe::{Machine, Recipe};
use crate::error::{NotHere, Result};
use crate::kernel::root::Root;

/// The control and every condition that this machine can produce, each with its recipe and
/// description, and why the machine cannot produce the others.
pub(super) fn conditions(
    machine: &Machine<'_>,
    not_possible: &mut Vec<String>,
) -> Result<Vec<(Condition, Recipe, String)>> {
    let mut all = vec![(Condition::Alone, Recipe::Nothing, "the control: alone against alone".to_owned())];
    let mut reasons: Vec<String> = Vec::new();
    let mut lacking = false;
    for condition in Condition::ALL.into_iter().filter(|one| machine.plan.conditions.contains(one)) {
        if condition == Condition::Alone {
            continue;
        }
        match machine.recipe(condition) {
            Ok((recipe, what)) => all.push((condition, recipe, what)),
            Err(reason) => {
                lacking |= !is_of_now(&reason);
                // If there are no governors at all, that is reported only once.
                let same = condition.is_governor() && reasons.iter().any(|text| text.ends_with(&reason));
                if !same {
                    reasons.push(format!("{condition}: {reason}"));
                }
            }
        }
    }
    // The control on its own measures nothing, unless it was requested.
    let nothing = all.len() == 1 && !machine.plan.conditions.contains(&Condition::Alone);
    if !reasons.is_empty() && (nothing || lacking && machine.plan.all_conditions) {
        let possible = Condition::ALL.into_iter().filter(|&one| machine.recipe(one).is_ok()).collect();
        return Err(NotHere::Conditions { reasons, possible }.into());
    }
    not_possible.append(&mut reasons);
    Ok(all)
}

/// Scheduler autogroups (sched(7)) divide CPU time among sessions first, and then among processes.
pub(super) fn autogroup(root: &Root) -> Option<String> {
    (root.number("proc/sys/kernel/sched_autogroup_enabled") == Some(1)).then(|| {
        "sched_autogroup_enabled is 1: this background load runs in the writer's session and shares its part \
         of the CPU; load from another terminal has a different effect"
            .to_owned()
    })
}
