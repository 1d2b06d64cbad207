#![allow(clippy::print_stdout, reason = "the long tests, which are ignored, report figures")]
//! Faults: the state of a context after processes were killed, overwrote shared memory, or used it
//! for a long time.
//!
//! Knows only what a participant or a context's owner can see. Victims and peers are this test
//! binary itself, started again.
//!
//! The long tests (`cargo xtask faults`) take their lengths from the environment: `KILLS` for each
//! scenario (`SCENARIO` selects some), `TRANSACTIONS`, and `ROUNDS` of overwriting memory, with the
//! random seed `SEED`.

mod alone;
mod descriptors;
mod desk;
#[cfg(target_arch = "x86_64")]
mod every_instruction;
mod garbage;
mod message;
mod peers;
mod random;
mod scenarios;
mod soak;
mod stepped;
mod stepping;
mod stuck;
mod supervisors;
mod traffic;
mod world;

#[test]
#[ignore = "a victim: started by other tests"]
fn victim() {
    let Ok(address) = std::env::var(stepping::ADDRESS) else { return };
    let scenario = std::env::var(stepping::SCENARIO).expect("a scenario");
    let played = scenarios::play(&scenario, &address)
        || peers::play(&scenario, &address)
        || supervisors::play(&scenario)
        || descriptors::play(&scenario, &address)
        || garbage::play(&scenario, &address);
    assert!(played, "{scenario} is nothing to play");
}
