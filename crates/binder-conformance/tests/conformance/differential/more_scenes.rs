//! Scenes with later features of the driver (freezing, oneway spam), with descriptors, with reads
//! that wait, and with real-time callers. As in `scenes`, no step depends on the result of another.

use proptest::prelude::*;

use super::generator::{descriptors, node_flags, policy};
use super::scenes::*;
use super::steps::*;
use crate::LaterFeatures;

/// Any of these scenes.
pub(super) fn scene(priorities: bool, features: LaterFeatures) -> BoxedStrategy<Vec<Step>> {
    prop_oneof![
        if features.freeze { 3 } else { 0 } => frozen().boxed(),
        if features.freeze_notification { 4 } else { 0 } => watched_freezing().boxed(),
        if features.oneway_spam_detection { 2 } else { 0 } => spam().boxed(),
        4 => passed_descriptors().boxed(),
        3 => sleeping().boxed(),
        2 => sleeping_in_a_nest().boxed(),
        if priorities { 2 } else { 0 } => real_time().boxed(),
    ]
    .boxed()
}

/// One exchange of any thread.
fn by(process: usize, thread: usize, orders: Vec<Order>, read: Reading) -> Step {
    Step::new(process, thread, Act::Exchange { orders, read })
}

/// A process with or without unfinished transactions is frozen. Others call it, it makes calls and
/// reads, and it is thawed or closes.
fn frozen() -> impl Strategy<Value = Vec<Step>> {
    let busy = prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(2), 1 => Just(3), 1 => Just(4)];
    let kept = prop::collection::vec((prop::bool::weighted(0.6), 0..400_usize), 0..5);
    (peers(), busy, kept, any::<[bool; 5]>()).prop_map(|((owner, other), busy, kept, choices)| {
        let [calls, tries_to_call, reads, ends, again] = choices;
        let mut steps = introduce(owner, other, 1, 0x100);
        let freeze = |frozen| Step::new(MANAGER, 1, Act::Freeze { process: owner, frozen });
        let info = || Step::new(MANAGER, 1, Act::FrozenInfo(owner));
        match busy {
            0 => {}
            1 => steps.push(Step::write(other, vec![call(LATEST, bytes(8))])),
            2 => steps.extend([Step::write(other, vec![call(LATEST, bytes(8))]), Step::read(owner)]),
            3 => steps.push(Step::write(owner, vec![call(MANAGERS, bytes(8))])),
            _ => steps.push(Step::write(other, vec![send(false, LATEST, 1, bytes(8))])),
        }
        steps.extend([freeze(true), info()]);
        if calls {
            steps.extend([by(other, 1, vec![call(LATEST, bytes(16))], Reading::AtOnce), info()]);
            steps.push(Step::new(other, 1, Act::ExtendedError));
        }
        for (updates, size) in kept {
            let flags = if updates { 0x41 } else { 1 };
            steps.push(by(other, 1, vec![send(false, LATEST, flags, bytes(size))], Reading::AtOnce));
        }
        steps.push(info());
        if tries_to_call {
            steps.push(Step::write(owner, vec![call(MANAGERS, bytes(24))]));
            steps.extend([Step::read(MANAGER), Step::write(MANAGER, vec![reply(bytes(32))])]);
            steps.push(info());
        }
        if reads {
            steps.extend([Step::read(owner), Step::read(owner)]);
            steps.push(Step::write(owner, vec![LAST, reply(bytes(40))]));
            steps.push(Step::read(other));
        }
        if again {
            steps.extend([freeze(true), info()]);
        }
        steps.push(if ends { Step::new(owner, 0, Act::Close) } else { freeze(false) });
        steps.push(info());
        for _ in 0..3 {
            steps.extend([Step::read(owner), Step::write(owner, vec![LAST])]);
        }
        steps
    })
}

/// A process is frozen and thawed, or closes. Another process requests, clears and acknowledges
/// freeze notifications for two of its nodes, in any order.
fn watched_freezing() -> impl Strategy<Value = Vec<Step>> {
    let acts = prop::collection::vec((0..16_u8, 0..2_usize), 3..18);
    (peers(), acts, any::<[bool; 2]>()).prop_map(|((owner, other), acts, [waits, knows_of_one])| {
        let mut steps = introduce(owner, other, 1, 0x100);
        if !knows_of_one {
            steps.extend(introduce(owner, other, 2, 0x100));
        }
        let watch = |node: usize| Order::RequestFreeze(Target::Held(node), 1 + node as u64);
        steps.push(Step::write(other, vec![watch(0)]));
        let read = if waits { Reading::Waiting } else { Reading::AtOnce };
        if waits {
            steps.extend([Step::read(other), Step::write(other, vec![Order::FreezeDone(1)])]);
            steps.push(Step::wait(other, Vec::new()));
            steps.push(Step::new(MANAGER, 1, Act::Freeze { process: owner, frozen: true }));
        }
        for (act, node) in acts {
            let cookie = 1 + node as u64;
            let freeze = |frozen| Step::new(MANAGER, 1, Act::Freeze { process: owner, frozen });
            steps.push(match act {
                0..=2 => freeze(true),
                3..=5 => freeze(false),
                6 => Step::write(other, vec![watch(node)]),
                7 => Step::write(other, vec![Order::ClearFreeze(Target::Held(node), cookie)]),
                8 => Step::write(other, vec![Order::ClearFreeze(Target::Held(node), 3 - cookie)]),
                9 => Step::write(other, vec![Order::FreezeDone(cookie)]),
                10 | 11 => by(other, 0, vec![Order::FreezeDone(cookie)], Reading::AtOnce),
                12 => Step::write(other, vec![Order::Count(Counting::Release, Target::Held(node))]),
                13 if node == 0 => Step::new(owner, 0, Act::Close),
                13 => by(other, 1, vec![Order::EnterLooper], read),
                _ => by(other, 0, Vec::new(), read),
            });
        }
        steps
    })
}

/// Oneway calls fill half of an area. Their sender has enabled spam detection.
fn spam() -> impl Strategy<Value = Vec<Step>> {
    let sizes = || prop::collection::vec(400..1400_usize, 4..12);
    (peers(), sizes(), sizes(), prop::bool::weighted(0.8), any::<[bool; 2]>()).prop_map(
        |((owner, other), first, then, detects, [frees, manager_too])| {
            let mut steps = introduce(owner, other, 1, 0x100);
            steps.push(Step::new(other, 0, Act::DetectSpam(detects)));
            let fill = |sizes: Vec<usize>| {
                sizes.into_iter().enumerate().map(move |(at, size)| {
                    let by = if manager_too && at % 3 == 0 { MANAGER } else { other };
                    self::by(by, 1, vec![send(false, LATEST, 1, bytes(size))], Reading::AtOnce)
                })
            };
            steps.extend(fill(first));
            if frees {
                for _ in 0..4 {
                    steps.extend([Step::read(owner), Step::write(owner, vec![LAST])]);
                }
            }
            steps.extend(fill(then));
            steps
        },
    )
}

/// Calls and replies with descriptors, single and in arrays. Their buffers are freed in any order.
fn passed_descriptors() -> impl Strategy<Value = Vec<Step>> {
    let flags = prop_oneof![1 => Just(0_u32), 2 => Just(1_u32), 4 => Just(0x10_u32)];
    let times = prop::collection::vec((flags, descriptors(), descriptors(), any::<[bool; 3]>()), 1..4);
    (peer(), times).prop_map(|(peer, times)| {
        let mut steps = leave_driver(&[peer, MANAGER]);
        for (flags, sent, answer, [frees, frees_first, caller_frees]) in times {
            steps.push(Step::write(peer, vec![send(false, MANAGERS, flags, sent)]));
            steps.push(Step::read(MANAGER));
            let answers = flags & 1 == 0;
            match (frees, answers) {
                (true, true) if frees_first => steps.push(Step::write(MANAGER, vec![LAST, reply(answer)])),
                (true, true) => {
                    steps.push(Step::write(MANAGER, vec![reply(answer)]));
                    steps.push(by(MANAGER, 0, vec![LAST], Reading::AtOnce));
                }
                (false, true) => steps.push(Step::write(MANAGER, vec![reply(answer)])),
                (true, false) => steps.push(by(MANAGER, 0, vec![LAST], Reading::AtOnce)),
                (false, false) => {}
            }
            steps.extend([Step::read(peer), Step::read(MANAGER)]);
            if caller_frees {
                steps.push(by(peer, 0, vec![LAST], Reading::AtOnce));
            }
        }
        steps
    })
}

/// Loopers of the manager sleep, and callers sleep until they get a reply. Each writes and reads in
/// one exchange, as libraries do.
fn sleeping() -> impl Strategy<Value = Vec<Step>> {
    let answers = prop::collection::vec((any::<bool>(), 0..300_usize), 2..6);
    (peers(), 0..3_u32, any::<[bool; 5]>(), answers).prop_map(|((one, other), most, choices, answers)| {
        let [second, registers, oneway, ends, ends_caller] = choices;
        let mut steps = leave_driver(&[one, other, MANAGER]);
        steps.push(Step::new(MANAGER, 0, Act::MaxThreads(most)));
        steps.push(Step::wait(MANAGER, vec![Order::EnterLooper]));
        if second {
            let enter = if registers { Order::RegisterLooper } else { Order::EnterLooper };
            steps.push(by(MANAGER, 1, vec![enter], Reading::Waiting));
        }
        steps.push(Step::wait(one, vec![send(false, MANAGERS, oneway.into(), bytes(200))]));
        steps.push(Step::wait(other, vec![call(MANAGERS, bytes(208))]));
        for (by_second, size) in answers {
            let by = usize::from(by_second);
            steps.push(self::by(MANAGER, by, vec![LAST, reply(bytes(size))], Reading::Waiting));
            if ends_caller {
                steps.push(Step::new(one, 0, Act::Close));
            }
            if oneway {
                let again = send(false, MANAGERS, 1, bytes(size));
                steps.push(self::by(one, 1, vec![again], Reading::AtOnce));
            }
        }
        if ends {
            steps.push(Step::new(MANAGER, 0, Act::Close));
        }
        steps
    })
}

/// A caller sleeps until the manager makes a nested call to it. One of them may die meanwhile.
fn sleeping_in_a_nest() -> impl Strategy<Value = Vec<Step>> {
    let dies = prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(2), 1 => Just(3)];
    (peer(), dies, any::<[bool; 3]>()).prop_map(|(peer, dies, [second, deeper, kept])| {
        let node = Object::Node { weak: false, ptr: 2, cookie: 7, flags: 0x100 };
        let payload = Payload { objects: vec![node], ..Payload::default() };
        let mut steps = leave_driver(&[peer, MANAGER]);
        steps.push(Step::wait(MANAGER, vec![Order::EnterLooper]));
        if second {
            steps.push(by(peer, 1, vec![Order::EnterLooper], Reading::Waiting));
        }
        steps.push(Step::wait(peer, vec![call(MANAGERS, payload)]));
        if kept {
            steps.push(Step::write(MANAGER, vec![Order::Count(Counting::Acquire, LATEST)]));
        }
        steps.push(Step::wait(MANAGER, vec![call(LATEST, bytes(216))]));
        if deeper {
            steps.push(Step::wait(peer, vec![call(MANAGERS, bytes(224))]));
            steps.push(Step::wait(MANAGER, vec![reply(bytes(232))]));
        }
        match dies {
            1 => steps.push(Step::new(peer, 0, Act::Close)),
            2 => steps.push(Step::new(MANAGER, 0, Act::Close)),
            3 => steps.push(Step::new(peer, 0, Act::LeaveThread)),
            _ => {}
        }
        steps.push(Step::wait(peer, vec![LAST, reply(bytes(240))]));
        steps.push(Step::wait(MANAGER, vec![LAST, LAST, reply(bytes(248))]));
        steps
    })
}

/// Callers and servers with real-time and other policies. Their nice values matter only without a
/// real-time policy.
fn real_time() -> impl Strategy<Value = Vec<Step>> {
    (peers(), policy(), policy(), -20..20_i32, node_flags(true), any::<[bool; 4]>()).prop_map(
        |((owner, other), caller, server, nice, flags, [sets_server, oneway, nests, back])| {
            let mut steps = introduce(owner, other, 3, flags);
            steps.extend([Act::Nice(nice), Act::Policy(caller)].map(|act| Step::new(other, 0, act)));
            if sets_server {
                steps.push(Step::new(owner, 0, Act::Policy(server)));
                steps.push(Step::write(owner, vec![Order::EnterLooper]));
            }
            steps.push(Step::write(other, vec![send(false, LATEST, oneway.into(), bytes(256))]));
            steps.extend([Step::read(owner), Step::read(owner)]);
            if nests {
                steps.push(Step::write(owner, vec![call(MANAGERS, bytes(264))]));
                steps.extend([Step::read(MANAGER), Step::write(MANAGER, vec![reply(bytes(272))])]);
                steps.extend([Step::read(MANAGER), Step::read(owner)]);
            }
            if back {
                steps.push(Step::new(owner, 0, Act::Policy(Policy::Other)));
            }
            steps.push(Step::write(owner, vec![LAST, reply(bytes(280))]));
            steps.extend([Step::read(owner), Step::read(owner), Step::read(other)]);
            steps
        },
    )
}
