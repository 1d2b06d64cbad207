//! Scenes: short sequences that random steps would rarely complete. No step depends on the result
//! of an earlier one, so any step of a scene may fail.

use proptest::prelude::*;

use super::generator::{flags, node_flags, payload};
use super::more_scenes;
use super::steps::*;
use crate::LaterFeatures;

/// Process 0 is the manager unless a scene changed that.
pub(super) const MANAGER: usize = 0;

/// Any scene.
pub(super) fn scene(priorities: bool, features: LaterFeatures) -> BoxedStrategy<Vec<Step>> {
    prop_oneof![
        6 => exchange().boxed(),
        5 => acquaintance(priorities).boxed(),
        3 => nested().boxed(),
        4 => death().boxed(),
        2 => new_manager(priorities).boxed(),
        3 => queued_oneways().boxed(),
        2 => full_area().boxed(),
        2 => loopers().boxed(),
        if priorities { 3 } else { 0 } => inherited_priority().boxed(),
        10 => more_scenes::scene(priorities, features),
    ]
    .boxed()
}

pub(super) fn peer() -> impl Strategy<Value = usize> {
    1..PROCESSES
}

/// Two peers that differ.
pub(super) fn peers() -> impl Strategy<Value = (usize, usize)> {
    (1..PROCESSES, 1..PROCESSES - 1).prop_map(|(one, step)| (one, 1 + (one - 1 + step) % (PROCESSES - 1)))
}

pub(super) fn send(reply: bool, target: Target, flags: u32, payload: Payload) -> Order {
    Order::Send(Send { reply, target, flags, payload })
}

pub(super) fn call(target: Target, payload: Payload) -> Order {
    send(false, target, 0, payload)
}

pub(super) fn reply(payload: Payload) -> Order {
    send(true, Target::Number(0), 0, payload)
}

pub(super) fn bytes(bytes: usize) -> Payload {
    Payload { bytes, ..Payload::default() }
}

fn with(object: Object) -> Payload {
    Payload { objects: vec![object], ..Payload::default() }
}

/// Makes the first thread of each process leave the driver, so that it is idle and waits for no
/// reply.
pub(super) fn leave_driver(processes: &[usize]) -> Vec<Step> {
    processes.iter().map(|&process| Step::new(process, 0, Act::LeaveThread)).collect()
}

pub(super) const MANAGERS: Target = Target::Number(0);
pub(super) const LATEST: Target = Target::Held(0);
pub(super) const LAST: Order = Order::FreeLast;

/// A call or a oneway call, its reply, and what both sides do with the buffers.
fn exchange() -> impl Strategy<Value = Vec<Step>> {
    let who = (peer(), prop::bool::weighted(0.3), any::<bool>());
    let choices = (flags(), any::<bool>(), prop::bool::weighted(0.8), any::<[usize; 2]>());
    (who, payload(), payload(), choices).prop_map(|((peer, back, fresh), sent, answer, choices)| {
        let (flags, keep, give_back, free) = choices;
        // `back`: the manager calls the node that it received last, which need not be this peer's.
        let (caller, server, target) = if back { (MANAGER, peer, LATEST) } else { (peer, MANAGER, MANAGERS) };
        let mut steps = if fresh { leave_driver(&[caller, server]) } else { Vec::new() };
        steps.push(Step::write(caller, vec![send(false, target, flags, sent)]));
        steps.extend([Step::read(server), Step::read(server)]);
        if keep {
            steps.push(Step::write(server, vec![Order::Count(Counting::Acquire, LATEST)]));
        }
        let mut orders = Vec::new();
        if give_back {
            orders.push(Order::Free(free[0]));
        }
        if flags & 1 == 0 {
            orders.push(reply(answer));
        }
        steps.push(Step::write(server, orders));
        steps.extend([Step::read(server), Step::read(caller), Step::read(caller)]);
        if give_back {
            steps.push(Step::write(caller, vec![Order::Free(free[1])]));
        }
        steps
    })
}

/// `owner` sends a node to the manager, and the manager sends it to `other`, which keeps it.
pub(super) fn introduce(owner: usize, other: usize, ptr: u64, flags: u32) -> Vec<Step> {
    let node = Object::Node { weak: false, ptr, cookie: 7, flags };
    let handle = Object::Handle { weak: false, target: LATEST };
    let acquire = || Order::Count(Counting::Acquire, LATEST);
    let mut steps = leave_driver(&[owner, other, MANAGER]);
    steps.push(Step::write(owner, vec![call(MANAGERS, with(node))]));
    steps.extend([Step::read(MANAGER), Step::read(MANAGER)]);
    steps.push(Step::write(MANAGER, vec![acquire(), LAST, reply(bytes(24))]));
    steps.extend([Step::read(MANAGER), Step::read(owner), Step::read(owner)]);
    let done = |strong| Order::Done { strong, ptr, cookie: 7 };
    steps.push(Step::write(owner, vec![done(false), done(true), LAST]));
    steps.push(Step::write(other, vec![call(MANAGERS, bytes(40))]));
    steps.push(Step::read(MANAGER));
    steps.push(Step::write(MANAGER, vec![LAST, reply(with(handle))]));
    steps.extend([Step::read(MANAGER), Step::read(other)]);
    steps.push(Step::write(other, vec![acquire(), LAST]));
    steps
}

/// A peer gets a handle to another peer's node, calls it, and may release the handle.
fn acquaintance(priorities: bool) -> impl Strategy<Value = Vec<Step>> {
    (peers(), 1..4_u64, node_flags(priorities), payload(), payload(), any::<[bool; 3]>()).prop_map(
        |((owner, other), ptr, flags, sent, answer, choices)| {
            let [calls, frees, forgets] = choices;
            let mut steps = introduce(owner, other, ptr, flags);
            steps.push(Step::new(MANAGER, 0, Act::NodeCounts(LATEST)));
            steps.push(Step::new(owner, 0, Act::ListNodes));
            if calls {
                steps.push(Step::write(other, vec![call(LATEST, sent)]));
                steps.extend([Step::read(owner), Step::read(owner)]);
                steps.push(Step::write(
                    owner,
                    if frees { vec![LAST, reply(answer)] } else { vec![reply(answer)] },
                ));
                steps.extend([Step::read(owner), Step::read(other), Step::read(other)]);
            }
            if forgets {
                let release = Order::Count(Counting::Release, LATEST);
                steps.push(Step::write(other, vec![LAST, release.clone(), release.clone()]));
                steps.push(Step::write(MANAGER, vec![release]));
                steps.extend([Step::read(owner), Step::read(owner)]);
            }
            steps
        },
    )
}

/// The manager makes a nested call to the thread that waits for it, once or twice. All reply.
fn nested() -> impl Strategy<Value = Vec<Step>> {
    let threads = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    (peer(), 1..4_u64, payload(), any::<bool>(), any::<bool>(), threads).prop_map(
        |(peer, ptr, sent, deeper, ends, (other_reads, other_waits))| {
            let node = Object::Node { weak: false, ptr, cookie: 7, flags: 0x100 };
            let mut steps = leave_driver(&[peer, MANAGER]);
            steps.push(Step::write(peer, vec![call(MANAGERS, with(node))]));
            steps.extend([Step::read(MANAGER), Step::write(MANAGER, vec![call(LATEST, sent)])]);
            if other_reads {
                steps.push(Step::new(
                    peer,
                    1,
                    Act::Exchange { orders: vec![Order::EnterLooper], read: Reading::AtOnce },
                ));
            }
            steps.extend([Step::read(peer), Step::read(peer)]);
            if deeper {
                steps.push(Step::write(peer, vec![call(MANAGERS, bytes(16))]));
                steps.extend([Step::read(MANAGER), Step::read(MANAGER)]);
                steps.push(Step::write(MANAGER, vec![reply(bytes(32))]));
                steps.push(Step::read(peer));
            }
            if other_waits {
                steps.push(Step::new(
                    MANAGER,
                    1,
                    Act::Exchange { orders: Vec::new(), read: Reading::AtOnce },
                ));
            }
            if ends {
                steps.extend([
                    Step::write(peer, vec![reply(bytes(56))]),
                    Step::read(MANAGER),
                    Step::read(MANAGER),
                ]);
                steps.extend([
                    Step::write(MANAGER, vec![reply(bytes(72))]),
                    Step::read(peer),
                    Step::read(peer),
                ]);
            }
            steps
        },
    )
}

/// A process dies while others hold handles to it and wait for it. Some have requested a death
/// notification, and some clear that request before or after the death.
fn death() -> impl Strategy<Value = Vec<Step>> {
    let clears = prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(2), 1 => Just(3), 1 => Just(4)];
    let meanwhile = prop_oneof![Just(0), Just(1), Just(2), Just(3), Just(4)];
    (peers(), 1..4_u64, clears, meanwhile, any::<[bool; 3]>(), payload()).prop_map(
        |((owner, other), ptr, clears, meanwhile, [asks, loops, thread_only], sent)| {
            let mut steps = introduce(owner, other, ptr, 0x100);
            let clear = |at| (clears == at).then(|| Step::write(other, vec![Order::ClearDeath(LATEST, 1)]));
            if loops {
                steps.push(Step::write(other, vec![Order::EnterLooper]));
            }
            if asks {
                steps.push(Step::write(other, vec![Order::RequestDeath(LATEST, 1)]));
            }
            steps.extend(clear(1));
            match meanwhile {
                0 => {}
                // Callers wait for it.
                1 => steps.push(Step::write(other, vec![call(LATEST, sent)])),
                2 => steps.extend([Step::write(other, vec![call(LATEST, sent)]), Step::read(owner)]),
                // It waits for a reply.
                3 => {
                    steps.extend([Step::write(owner, vec![call(MANAGERS, sent)]), Step::read(MANAGER)]);
                }
                _ => {
                    let oneway = || send(false, LATEST, 1, bytes(48));
                    steps.push(Step::write(other, vec![oneway(), oneway()]));
                    steps.push(Step::read(owner));
                }
            }
            let ends = if thread_only { Act::LeaveThread } else { Act::Close };
            steps.push(Step::new(owner, 0, ends));
            if meanwhile == 3 {
                steps.extend([Step::write(MANAGER, vec![reply(bytes(8))]), Step::read(MANAGER)]);
            }
            steps.extend(clear(2));
            if !asks {
                steps.push(Step::write(other, vec![Order::RequestDeath(LATEST, 1)]));
            }
            steps.extend([Step::read(other), Step::read(other), Step::read(other)]);
            steps.extend(clear(3));
            steps.push(Step::write(other, vec![Order::DeadBinderDone(1)]));
            steps.extend(clear(4));
            steps.push(Step::read(other));
            steps.push(Step::write(
                other,
                vec![call(LATEST, bytes(8)), Order::Count(Counting::Release, LATEST)],
            ));
            steps.extend([Step::read(other), Step::read(other)]);
            steps
        },
    )
}

/// The manager dies, a peer becomes the manager, and the old one tries to return.
fn new_manager(priorities: bool) -> impl Strategy<Value = Vec<Step>> {
    (peers(), node_flags(priorities), any::<[bool; 4]>()).prop_map(|((heir, other), flags, choices)| {
        let [knows, waits, tries, back] = choices;
        let mut steps = leave_driver(&[heir, other]);
        if knows {
            steps.push(Step::write(
                other,
                vec![Order::Count(Counting::Acquire, MANAGERS), Order::RequestDeath(MANAGERS, 2)],
            ));
        }
        if waits {
            steps.push(Step::write(other, vec![call(MANAGERS, bytes(64))]));
        }
        if tries {
            steps.push(Step::new(heir, 0, Act::BecomeManager(flags)));
        }
        steps.push(Step::new(MANAGER, 0, Act::Close));
        steps.extend([Step::read(other), Step::read(other)]);
        steps.push(Step::write(other, vec![call(MANAGERS, bytes(80))]));
        steps.extend([Step::read(other), Step::new(heir, 0, Act::BecomeManager(flags))]);
        steps.push(Step::write(
            other,
            vec![Order::Count(Counting::Acquire, MANAGERS), call(MANAGERS, bytes(88))],
        ));
        steps.extend([Step::read(heir), Step::write(heir, vec![reply(bytes(96))])]);
        steps.extend([Step::read(heir), Step::read(other), Step::read(other)]);
        if back {
            steps.push(Step::new(MANAGER, 0, Act::BecomeManager(flags)));
            steps.push(Step::new(heir, 0, Act::Close));
            steps.push(Step::new(MANAGER, 0, Act::BecomeManager(flags)));
        }
        steps
    })
}

/// Several oneway calls to one node or to two, read and freed in turn.
fn queued_oneways() -> impl Strategy<Value = Vec<Step>> {
    let sizes = prop::collection::vec(0..1500_usize, 2..6);
    let order = prop::collection::vec(0..4_u8, 3..9);
    (peers(), sizes, order, any::<bool>()).prop_map(|((owner, other), sizes, order, second)| {
        let mut steps = introduce(owner, other, 1, 0x100);
        if second {
            steps.extend(introduce(owner, other, 2, 0x100));
        }
        for (at, size) in sizes.into_iter().enumerate() {
            let target = Target::Held(if second { at % 2 } else { 0 });
            steps.push(Step::write(other, vec![send(false, target, 1, bytes(size))]));
        }
        steps.push(Step::read(other));
        for act in order {
            steps.push(match act {
                0 | 1 => Step::read(owner),
                2 => Step::write(owner, vec![Order::Free(0)]),
                _ => Step::write(owner, vec![LAST]),
            });
        }
        steps
    })
}

/// Senders fill the manager's area until a transaction is refused. Then the manager frees buffers,
/// and the next transaction fits again.
fn full_area() -> impl Strategy<Value = Vec<Step>> {
    let sizes = prop::collection::vec(2500..7000_usize, 3..7);
    (sizes, any::<bool>(), peer(), 0..6000_usize).prop_map(|(sizes, oneway, peer, last)| {
        let mut steps = leave_driver(&[MANAGER, 1, 2, 3]);
        for (at, size) in sizes.into_iter().enumerate() {
            let order = send(false, MANAGERS, u32::from(oneway || at > 2), bytes(size));
            steps.extend([Step::write(1 + at % 3, vec![order]), Step::read(1 + at % 3)]);
        }
        steps.extend([Step::read(MANAGER), Step::write(MANAGER, vec![LAST, LAST])]);
        steps.extend([Step::read(MANAGER), Step::write(MANAGER, vec![LAST])]);
        steps.push(Step::write(peer, vec![call(MANAGERS, bytes(last))]));
        steps.push(Step::read(peer));
        steps
    })
}

/// Threads become loopers, and the driver requests more of them up to a limit.
fn loopers() -> impl Strategy<Value = Vec<Step>> {
    (0..3_u32, peers(), any::<[bool; 4]>()).prop_map(|(most, (one, other), choices)| {
        let [registers, enters_too, exits, unasked] = choices;
        let second = |orders| Step::new(MANAGER, 1, Act::Exchange { orders, read: Reading::AtOnce });
        let mut steps = leave_driver(&[MANAGER, one, other]);
        steps.push(Step::new(MANAGER, 1, Act::LeaveThread));
        steps.push(Step::new(MANAGER, 0, Act::MaxThreads(most)));
        if unasked {
            steps.push(second(vec![Order::RegisterLooper]));
        }
        steps.extend([one, other].map(|caller| Step::write(caller, vec![call(MANAGERS, bytes(104))])));
        steps.push(Step::new(
            MANAGER,
            0,
            Act::Exchange { orders: vec![Order::EnterLooper], read: Reading::AtOnce },
        ));
        steps.push(second(if registers { vec![Order::RegisterLooper] } else { vec![Order::EnterLooper] }));
        if enters_too {
            steps.push(second(vec![Order::EnterLooper]));
        }
        steps.push(second(vec![reply(bytes(112))]));
        if exits {
            steps.push(second(vec![Order::ExitLooper]));
        }
        steps.push(Step::write(MANAGER, vec![reply(bytes(120))]));
        steps.extend([Step::read(one), Step::read(other), Step::read(MANAGER)]);
        steps
    })
}

/// A caller and a server with different nice values, and a nested call between them.
fn inherited_priority() -> impl Strategy<Value = Vec<Step>> {
    let nice = || -20..20_i32;
    (peers(), nice(), nice(), node_flags(true), any::<[bool; 3]>()).prop_map(
        |((owner, other), caller, server, flags, [oneway, nests, again])| {
            let mut steps = introduce(owner, other, 3, flags);
            steps.push(Step::new(other, 0, Act::Nice(caller)));
            if again {
                steps.push(Step::new(owner, 0, Act::Nice(server)));
                steps.push(Step::write(owner, vec![Order::EnterLooper]));
            }
            steps.push(Step::write(other, vec![send(false, LATEST, oneway.into(), bytes(128))]));
            steps.extend([Step::read(owner), Step::read(owner)]);
            if nests {
                steps.push(Step::write(owner, vec![call(MANAGERS, bytes(136))]));
                steps.extend([Step::read(MANAGER), Step::write(MANAGER, vec![reply(bytes(144))])]);
                steps.extend([Step::read(MANAGER), Step::read(owner), Step::read(owner)]);
            }
            steps.push(Step::write(owner, vec![LAST, reply(bytes(152))]));
            steps.extend([Step::read(owner), Step::read(owner), Step::read(other)]);
            steps
        },
    )
}
