//! Processes killed in the middle of an operation: the others continue, and nothing is leaked.

use std::time::{Duration, Instant};

use roundtrip_binder_driver::Profile;

use crate::alone::alone;
use crate::desk::Answer;
use crate::random::Random;
use crate::scenarios::{SCENARIOS, Scenario};
use crate::stepping::{Stepped, Stopped};
use crate::world::World;

/// A scenario, and the survivors of its victims.
pub(crate) struct Stage<'s> {
    scenario: &'s Scenario,
    pub(crate) world: World,
    /// How long the scenario takes without stepping.
    duration: Duration,
    /// The time from each kill until all survivors are served and the state is as before.
    pub(crate) times: Vec<Duration>,
}

impl<'s> Stage<'s> {
    /// Runs a few victims to the end, so that everything that is created only once exists.
    pub(crate) fn rehearsed(scenario: &'s Scenario, profile: Profile) -> Self {
        let world = World::new(profile, !scenario.manages, scenario.inherits);
        let mut stage = Self { scenario, world, duration: Duration::ZERO, times: Vec::new() };
        for _ in 0..3 {
            let mut victim = stage.start();
            let begin = Instant::now();
            assert_eq!(victim.run(), Stopped::Mark, "{:?} ends", scenario.name);
            stage.duration = begin.elapsed();
            victim.kill();
            if scenario.serves {
                stage.world.outcome();
            }
        }
        if !scenario.manages {
            stage.world.probe();
        }
        stage.world.remember();
        stage
    }

    pub(crate) fn start(&self) -> Stepped {
        Stepped::start(self.scenario.name, self.world.context.address())
    }

    /// Kills the victim at its current instruction, and checks that nothing is leaked.
    pub(crate) fn kill(&mut self, victim: Stepped, place: &str) {
        let begin = Instant::now();
        victim.kill();
        if self.scenario.manages {
            self.world.wait_for_answers();
        } else {
            assert!(self.world.probe(), "the manager lives");
        }
        if self.scenario.serves {
            let outcome = self.world.outcome();
            assert!(matches!(outcome, Some(Answer::Reply(_) | Answer::Dead)), "{outcome:?}");
        }
        self.world.settle(&format!("a kill in {:?} {place}", self.scenario.name));
        self.times.push(begin.elapsed());
    }
}

#[test]
fn a_process_killed_at_a_random_moment_leaks_nothing() {
    let _turn = alone();
    let mut random = Random::from(1);
    for scenario in &SCENARIOS {
        let mut stage = Stage::rehearsed(scenario, Profile::Ack);
        for _ in 0..10 {
            let mut victim = stage.start();
            let moment = random.below(stage.duration.as_micros() as u64 + 1);
            victim.let_run();
            std::thread::sleep(Duration::from_micros(moment));
            stage.kill(victim, &format!("after {moment} us"));
        }
        stage.world.end();
    }
}
