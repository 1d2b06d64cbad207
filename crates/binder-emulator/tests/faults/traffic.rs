//! Processes of a busy context killed at random moments: all others continue, and nothing is
//! leaked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use roundtrip_binder_driver::{Driver, Errno, Profile};
use roundtrip_binder_emulator::{Context, Emulated, Usage};

use crate::alone::alone;
use crate::desk::{Answer, Desk, GIVE, MOST_KEPT, WHO};
use crate::message::Message;
use crate::peers::Peer;
use crate::random::Random;

/// The longest wait before a test fails: far longer than any step takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The peers, of which the first is the manager, and a participant of this process that checks
/// them.
struct Crowd {
    context: Context,
    probe: Desk,
    peers: Vec<Peer>,
}

impl Crowd {
    fn new(profile: Profile) -> Self {
        let context = Context::create_unlisted(profile).expect("a context");
        let probe = Desk::at(Arc::new(Emulated::join(context.address(), 128 << 10).expect("a survivor")));
        Self { context, probe, peers: Vec::new() }
    }

    fn fill(&mut self, count: usize) {
        while self.peers.len() < count {
            self.peers.push(Peer::start(self.context.address(), self.peers.is_empty()));
        }
    }

    fn replace(&mut self, at: usize) {
        self.peers[at] = Peer::start(self.context.address(), at == 0);
    }

    /// Calls the manager, which may have just started.
    fn ask_manager(&mut self, message: &Message, code: u32) -> Vec<u32> {
        let begin = Instant::now();
        loop {
            match self.probe.call(0, code, message).expect("a context") {
                Answer::Reply(arrived) => return arrived.handles,
                answer => assert!(begin.elapsed() < PATIENCE, "no manager answers: {answer:?}"),
            }
        }
    }

    /// The processes that reply, among those whose handles the manager keeps.
    fn answering(&mut self) -> BTreeSet<u32> {
        let mut numbers = BTreeSet::new();
        for index in 0..MOST_KEPT as u32 {
            for handle in self.ask_manager(&Message::plain(&index.to_ne_bytes()), GIVE) {
                let answer = self.probe.call(handle, WHO, &Message::default()).expect("a context");
                if let Answer::Reply(arrived) = answer {
                    numbers.extend(arrived.data.first_chunk().map(|&bytes| u32::from_ne_bytes(bytes)));
                }
                self.probe.queue(roundtrip_binder_driver::Command::Release(handle));
            }
        }
        self.probe.flush().expect("a context");
        numbers
    }

    /// Waits until all peers reply, and no reply comes from a killed peer.
    fn wait_for_all(&mut self, dead: Option<u32>) {
        let begin = Instant::now();
        // The manager is asked by its handle.
        let expected: BTreeSet<u32> = self.peers[1..].iter().map(|peer| peer.number).collect();
        loop {
            let answering = self.answering();
            let state = self.context.state();
            let gone = dead.is_none_or(|dead| !state.lines().any(|line| line == format!("proc {dead}")));
            if gone && expected.is_subset(&answering) {
                return;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{dead:?} was killed; {expected:?} are there, {answering:?} answer\n{state}"
            );
        }
    }

    fn usage(&self) -> Usage {
        Usage { memory_bytes: 0, ..self.context.usage().expect("its size") }
    }

    /// Waits until the context is as it was with only the probe.
    fn wait_for(&self, before: Usage) {
        let begin = Instant::now();
        while self.usage() != before {
            let (usage, state) = (self.usage(), self.context.state());
            assert!(begin.elapsed() < PATIENCE, "{usage:?} is left, not {before:?}\n{state}");
            std::thread::yield_now();
        }
    }
}

/// Kills processes at random moments. Returns how long the next call of another participant took
/// after each kill.
fn kill_at_random(profile: Profile, kills: u64) -> Vec<Duration> {
    /// The number of processes at a time.
    const PEERS: usize = 5;
    /// After as many kills, all are killed at once.
    const ROUND: u64 = 25;
    let mut random = Random::from(kills);
    let mut crowd = Crowd::new(profile);
    assert!(matches!(crowd.probe.call(0, WHO, &Message::default()), Ok(Answer::Dead)));
    let before = crowd.usage();
    let mut waits = Vec::new();
    for kill in 0..kills {
        if kill % ROUND == 0 {
            crowd.fill(PEERS);
            crowd.wait_for_all(None);
        }
        let at = random.below(PEERS as u64) as usize;
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        crowd.peers[at].kill();
        let begin = Instant::now();
        let answer = crowd.probe.call(0, WHO, &Message::default()).expect("a context");
        waits.push(begin.elapsed());
        assert!(at == 0 || matches!(answer, Answer::Reply(_)), "{answer:?}");
        if at == 0 {
            // The others have found the new manager, and it has their handles.
            crowd.replace(0);
            crowd.wait_for_all(None);
        } else {
            let dead = crowd.peers.remove(at);
            crowd.wait_for_all(Some(dead.number));
            crowd.fill(PEERS);
        }
        if kill % ROUND == ROUND - 1 || kill == kills - 1 {
            crowd.peers.iter_mut().for_each(|peer| peer.child.kill().expect("a child"));
            crowd.peers.drain(..).for_each(|mut peer| drop(peer.child.wait()));
            crowd.wait_for(before);
        }
    }
    waits
}

#[test]
fn peers_killed_at_random_moments_affect_no_other_and_leak_nothing() {
    let _turn = alone();
    kill_at_random(Profile::Mainline, 20);
}

#[test]
#[ignore = "takes minutes: cargo xtask faults"]
fn thousands_of_peers_killed_at_random_moments_affect_no_other_and_leak_nothing() {
    let _turn = alone();
    for profile in [Profile::Ack, Profile::Mainline] {
        let mut waits = kill_at_random(profile, 1000);
        waits.sort_unstable();
        println!(
            "{profile}: {} kills; the next call of another was answered after {} us (median), {} us (99 %), {} us (longest)",
            waits.len(),
            waits[waits.len() / 2].as_micros(),
            waits[waits.len() * 99 / 100].as_micros(),
            waits[waits.len() - 1].as_micros(),
        );
    }
}

#[test]
fn a_supervisor_killed_at_a_random_moment_ends_every_call() {
    let _turn = alone();
    supervisors_killed(10);
}

#[test]
#[ignore = "takes minutes: cargo xtask faults"]
fn thousands_of_supervisors_killed_at_random_moments_end_every_call() {
    let _turn = alone();
    supervisors_killed(2000);
}

/// Kills supervisors of contexts in which this process's threads call each other, join and leave.
fn supervisors_killed(kills: u64) {
    let mut random = Random::from(kills);
    for kill in 0..=kills {
        let (mut supervisor, address) = crate::supervisors::start();
        let manager = Arc::new(Emulated::join(&address, 128 << 10).expect("a manager"));
        manager.become_context_manager(0x100).expect("no context manager yet");
        let serving = std::thread::spawn(move || Desk::at(manager).serve());
        let calling: Vec<_> = (0..2)
            .map(|_| {
                let address = address.clone();
                std::thread::spawn(move || call_until_gone(&address))
            })
            .collect();
        std::thread::sleep(Duration::from_micros(random.below(5000)));
        supervisor.kill().expect("a child");
        supervisor.wait().expect("its end");
        let begin = Instant::now();
        let all = || serving.is_finished() && calling.iter().all(std::thread::JoinHandle::is_finished);
        while !all() {
            assert!(begin.elapsed() < PATIENCE, "after kill {kill}, a process waits forever");
            std::thread::sleep(Duration::from_micros(100));
        }
        assert_eq!(serving.join().expect("no panic"), Errno::NODEV);
        calling.into_iter().for_each(|calling| calling.join().expect("no panic"));
    }
}

/// Joins again and again, which keeps the supervisor busy, and calls the manager.
fn call_until_gone(address: &str) {
    while let Ok(driver) = Emulated::join(address, 128 << 10) {
        let mut desk = Desk::at(Arc::new(driver));
        for _ in 0..10 {
            let (reader, _writer) = std::io::pipe().expect("a pipe");
            let message = Message::default().node(1).descriptor(std::os::fd::AsFd::as_fd(&reader));
            if desk.call(0, crate::desk::EXCHANGE, &message).is_err() {
                return;
            }
        }
    }
}
