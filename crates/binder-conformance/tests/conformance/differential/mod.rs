//! Replays random sequences of commands on two drivers. Every step must have the same returns and
//! errors, leave the thread with the same policy and nice value, and let the same threads sleep and
//! wake. The state after it must be equal too: every count, reference, transaction, buffer and
//! pending work that the kernel shows in debugfs. States are compared only on Linux 6.1, because
//! other kernels write that log in another format.
//!
//! The kernel driver is compared with the emulated driver's mainline profile. No kernel with the
//! rules of the ACK profile runs here. That profile is compared with the mainline one in everything
//! except priorities. The cases in `priorities.rs` check its priorities against Android's sources.
//!
//! Each process has two threads. In most sequences no read waits. If one does, the next step starts
//! only when every thread has ended its step or sleeps, so that a sequence runs in one order on
//! both drivers (but see [`stage`]). Addresses, process ids and thread ids are left out. Drivers
//! may also choose different free buffers of the same size (the kernel's choice depends on the
//! shape of a tree), so hardly any two buffers here have the same size.

#![allow(clippy::print_stdout)] // Prints the sequences that differ, and what all of them reached.

mod describe;
mod exchange;
mod generator;
mod more_scenes;
mod orders;
mod payload;
mod reached;
mod recorded;
mod scenes;
mod sleepers;
mod stage;
mod state;
mod steps;
mod worker;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use rustix::thread::CpuSet;

use crate::priorities::{at_nice_0, denied};
use crate::{Device, LaterFeatures};
use reached::Reached;
use stage::{Looking, Stage, StepResult};
use steps::Step;

/// This driver has the same results as a recorded kernel.
pub(crate) fn has_the_recorded_results<D: Device>(priorities: bool) {
    if priorities && !rustix::process::geteuid().is_root() {
        return denied();
    }
    if at_nice_0(|| recorded::matches_recordings::<D>(priorities)).is_none() {
        denied();
    }
}

/// Returns true if results of this machine's kernel are recorded, or are to be recorded now.
pub(crate) fn is_recorded_kernel() -> bool {
    recorded::is_of_this_kernel()
}

/// The kernel still has its recorded results; or its results are recorded now.
pub(crate) fn the_kernel_has_its_recorded_results<D: Device>() {
    if at_nice_0(recorded::matches_or_records::<D>).is_none() {
        denied();
    }
}

/// From this many sequences on, everything that they should reach must have been reached.
const ENOUGH: u32 = 250;
/// How many differing sequences are shown; some have the same cause.
const MOST_DIFFERENCES: usize = 5;

/// Replays random sequences on both, and shows the shortest that differ. `PROPTEST_CASES` says how
/// many; the same ones each time unless `PROPTEST_RNG_SEED` is set. With `priorities`, threads
/// change their nice values.
///
/// All threads begin at nice 0, because the minimum priorities of the nodes assume it.
pub(crate) fn random_sequences_have_equal_results<A: Device, B: Device>(priorities: bool) {
    if at_nice_0(|| compare_random_sequences::<A, B>(priorities)).is_none() {
        denied();
    }
}

fn compare_random_sequences<A: Device, B: Device>(priorities: bool) {
    let setting = |name: &str, default: u32| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let cases = setting("PROPTEST_CASES", 300);
    let rng_seed = RngSeed::Fixed(setting("PROPTEST_RNG_SEED", 1).into());
    let mut runner = TestRunner::new(Config { rng_seed, failure_persistence: None, ..Config::default() });
    use_one_cpu();
    let pair = Pair { one: Stage::<A>::new(), other: Stage::<B>::new() };
    let features = common_features(&pair.one.device, &pair.other.device);
    let looks = A::shows_state() && B::shows_state();
    let mut reached = Reached::default();
    let mut differences = 0;
    let sequences = generator::steps(priorities, features);
    for case in 0..cases {
        let steps = sequences.new_tree(&mut runner).expect("no filters").current();
        // Reading the state changes what the owners of nodes read, so a quarter of the sequences
        // runs without it.
        let looking = if looks && case % 4 != 3 { Looking::Sometimes } else { Looking::Never };
        if let Err(difference) = pair.compare(&steps, looking, &mut reached) {
            println!("sequence {case}: {}", pair.shortest(steps, difference, looking));
            differences += 1;
            if differences == MOST_DIFFERENCES {
                break;
            }
        }
    }
    println!("{reached}");
    assert!(differences == 0, "{differences} differences, listed above");
    let missing = reached.missing(features, looks);
    assert!(cases < ENOUGH || missing.is_empty(), "never reached: {missing:#?}");
}

struct Pair<A, B> {
    one: Stage<A>,
    other: Stage<B>,
}

/// The first difference of two replays.
struct Difference {
    at: usize,
    text: String,
}

/// Runs this thread and its workers on one CPU: a step passes from thread to thread, which is
/// faster there.
fn use_one_cpu() {
    let mut one = CpuSet::new();
    one.set(0);
    let _ = rustix::thread::sched_setaffinity(None, &one);
}

/// The features of both drivers. Prints what is left out.
fn common_features<A: Device, B: Device>(one: &A, other: &B) -> LaterFeatures {
    let (one, other) = (one.later_features(), other.later_features());
    let common = LaterFeatures {
        freeze: one.freeze && other.freeze,
        oneway_spam_detection: one.oneway_spam_detection && other.oneway_spam_detection,
        extended_error: one.extended_error && other.extended_error,
        freeze_notification: one.freeze_notification && other.freeze_notification,
    };
    for (there, what) in [
        (common.freeze, "BINDER_FREEZE"),
        (common.oneway_spam_detection, "BINDER_ENABLE_ONEWAY_SPAM_DETECTION"),
        (common.extended_error, "BINDER_GET_EXTENDED_ERROR"),
        (common.freeze_notification, "BC_REQUEST_FREEZE_NOTIFICATION"),
        (A::reports_frozen_receivers(), "BR_TRANSACTION_PENDING_FROZEN"),
        (A::shows_state() && B::shows_state(), "the state, in the format of Linux 6.1"),
    ] {
        if !there {
            println!("not compared, since a driver does not have it: {what}");
        }
    }
    common
}

/// Whether two steps had the same result. A kernel without `BR_TRANSACTION_PENDING_FROZEN`
/// (`reports_frozen` is false) returns what it would have returned if the receiver were not frozen.
fn same(expected: &str, found: &str, reports_frozen: bool) -> bool {
    const PENDING: &str = "TransactionPendingFrozen";
    let mut found = found.to_owned();
    while let Some(at) = found.find(PENDING).filter(|_| !reports_frozen) {
        let instead = ["TransactionComplete", "OnewaySpamSuspect"];
        let Some(instead) =
            instead.iter().find(|word| expected.get(at..).is_some_and(|rest| rest.starts_with(**word)))
        else {
            return false;
        };
        found.replace_range(at..at + PENDING.len(), instead);
    }
    expected == found
}

/// The first step with a different result or state. `reports_frozen`: true if the reference driver
/// reports frozen receivers.
fn difference(expected: &[StepResult], found: &[StepResult], reports_frozen: bool) -> Option<Difference> {
    let determined =
        |results: &[StepResult]| results.iter().take_while(|result| !result.undetermined).count();
    let determined = determined(expected).min(determined(found));
    let at = expected.iter().zip(found).take(determined).position(|(expected, found)| {
        !same(&expected.text, &found.text, reports_frozen) || expected.state != found.state
    })?;
    let (expected, found) = (&expected[at], &found[at]);
    let mut text = format!("step {at}: expected\n{}\nfound\n{}\n", expected.text, found.text);
    if expected.state != found.state {
        text += "with the state\n";
        let missing = |line: &&str, from: &str| !from.lines().any(|other| other == *line);
        for line in expected.state.lines() {
            text += if missing(&line, &found.state) { "- " } else { "  " };
            text += &format!("{line}\n");
        }
        for line in found.state.lines().filter(|line| missing(line, &expected.state)) {
            text += &format!("+ {line}\n");
        }
    }
    Some(Difference { at, text })
}

impl<A: Device, B: Device> Pair<A, B> {
    fn compare(&self, steps: &[Step], looking: Looking, reached: &mut Reached) -> Result<(), Difference> {
        let (expected, found) = (self.one.replay(steps, looking), self.other.replay(steps, looking));
        match difference(&expected, &found, A::reports_frozen_receivers()) {
            Some(difference) => Err(difference),
            None => {
                reached.note(steps, &expected);
                Ok(())
            }
        }
    }

    /// Shortens a sequence: leaves out steps as long as a difference remains.
    fn shortest(&self, mut steps: Vec<Step>, mut difference: Difference, looking: Looking) -> String {
        let looking = match looking {
            Looking::Never => Looking::Never,
            Looking::Sometimes | Looking::Always => Looking::Always,
        };
        steps.truncate(difference.at + 1);
        let mut unused = Reached::default();
        let mut length = steps.len();
        while length > 0 {
            let mut at = steps.len();
            while at > 0 {
                at = at.saturating_sub(length);
                let mut fewer = steps.clone();
                fewer.drain(at..(at + length).min(steps.len()));
                if let Err(shorter) = self.compare(&fewer, looking, &mut unused) {
                    fewer.truncate(shorter.at + 1);
                    (steps, difference) = (fewer, shorter);
                    at = at.min(steps.len());
                }
            }
            length /= 2;
        }
        let listed: String = steps.iter().enumerate().map(|(at, step)| format!("{at}: {step:?}\n")).collect();
        format!("{}{listed}", difference.text)
    }
}
