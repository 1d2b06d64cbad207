//! Processes killed at each instruction of an operation: the others continue within 100 ms, and
//! nothing is leaked.

use std::collections::HashMap;
use std::time::Duration;

use roundtrip_binder_driver::Profile;

use crate::alone::alone;
use crate::random::Random;
use crate::scenarios::SCENARIOS;
use crate::stepped::Stage;
use crate::stepping::Stopped;

/// The longest delay that a death may cause.
const LONGEST: Duration = Duration::from_millis(100);

/// The addresses of a scenario's instructions in their order, from a victim that is stepped, and
/// killed at the end.
fn instructions(stage: &mut Stage<'_>) -> Vec<u64> {
    let mut victim = stage.start();
    let mut addresses = Vec::new();
    while victim.step() == Stopped::Step {
        addresses.push(victim.address());
    }
    stage.kill(victim, "when it has been stepped");
    addresses
}

#[test]
#[ignore = "takes minutes: cargo xtask faults"]
fn a_process_killed_at_any_instruction_is_cleaned_up_within_100_ms() {
    let _turn = alone();
    let most = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(1000);
    let mut random = Random::from(2);
    let mut late = Vec::new();
    let only = std::env::var("SCENARIO").unwrap_or_default();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&only)) {
        let mut stage = Stage::rehearsed(scenario, Profile::Ack);
        let all = instructions(&mut stage);
        let mut counts: HashMap<u64, u64> = HashMap::new();
        all.iter().for_each(|&address| *counts.entry(address).or_default() += 1);
        let mut places: Vec<(u64, u64)> = counts.into_iter().collect();
        places.sort_unstable();
        random.shuffle(&mut places);
        let different = places.len();
        places.truncate(most);
        for (address, count) in places {
            let mut victim = stage.start();
            // Loops repeat instructions. Kill at one of the first few times, because more would
            // take long.
            let time = 1 + random.below(count.min(16));
            victim.run_to(address, time);
            stage.kill(victim, &format!("at {address:#x}, time {time}"));
        }
        stage.times.sort_unstable();
        let (median, longest) = (stage.times[stage.times.len() / 2], stage.times[stage.times.len() - 1]);
        println!(
            "{:22} {:6} instructions, {different:5} different ones; {:5} kills; all as before after {:5} us \
             (median), {:6} us (longest)",
            scenario.name,
            all.len(),
            stage.times.len(),
            median.as_micros(),
            longest.as_micros(),
        );
        if longest > LONGEST {
            late.push((scenario.name, longest));
        }
        stage.world.end();
    }
    assert!(late.is_empty(), "held up for longer than {LONGEST:?}: {late:?}");
}
