//! Generates random sequences: scenes with a purpose, and arbitrary single steps between them.

use proptest::prelude::*;

use super::scenes;
use super::steps::*;
use crate::LaterFeatures;

/// A sequence.
pub(super) fn steps(priorities: bool, features: LaterFeatures) -> impl Strategy<Value = Vec<Step>> {
    let part = prop_oneof![
        5 => scenes::scene(priorities, features),
        6 => single(priorities, features).prop_map(|step| vec![step]),
    ];
    // In most sequences no read waits. In the others, half of the reads do.
    let dice = (prop::bool::weighted(0.3), any::<u64>());
    (prop::collection::vec(part, 1..14), dice)
        .prop_map(move |(parts, (waits, seed))| with_waits(parts.concat(), waits, seed, features))
}

/// Makes some reads wait, if `waits`. Adds queries of the extended error after some transactions.
fn with_waits(steps: Vec<Step>, waits: bool, seed: u64, features: LaterFeatures) -> Vec<Step> {
    let mut dice = seed;
    let mut roll = |sides: u64| {
        // Knuth's MMIX generator, whose high bits are more random than the low ones.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33).is_multiple_of(sides)
    };
    let mut out = Vec::new();
    for mut step in steps {
        let mut sends = false;
        if let Act::Exchange { orders, read } = &mut step.act {
            sends = matches!(orders.last(), Some(Order::Send(_)));
            if waits && (*read == Reading::AtOnce || sends) && roll(2) {
                *read = Reading::Waiting;
            }
        }
        let (process, thread) = (step.process, step.thread);
        out.push(step);
        if features.extended_error && sends && roll(4) {
            out.push(Step::new(process, thread, Act::ExtendedError));
        }
    }
    out
}

fn single(priorities: bool, features: LaterFeatures) -> BoxedStrategy<Step> {
    let thread = prop_oneof![4 => Just(0), 1 => 1..THREADS];
    (0..PROCESSES, thread, act(priorities, features))
        .prop_map(|(process, thread, act)| Step { process, thread, act })
        .boxed()
}

fn act(priorities: bool, features: LaterFeatures) -> BoxedStrategy<Act> {
    let orders = prop_oneof![
        8 => prop::collection::vec(order(features), 1),
        1 => prop::collection::vec(order(features), 2..4),
    ];
    prop_oneof![
        24 => (orders, prop::bool::weighted(0.2)).prop_map(|(orders, reads)| {
            Act::Exchange { orders, read: if reads { Reading::AtOnce } else { Reading::Nothing } }
        }),
        14 => Just(Act::Exchange { orders: Vec::new(), read: Reading::AtOnce }),
        1 => Just(Act::LeaveThread),
        1 => Just(Act::Close),
        1 => node_flags(priorities).prop_map(Act::BecomeManager),
        1 => (0..3_u32).prop_map(Act::MaxThreads),
        2 => target().prop_map(Act::NodeCounts),
        8 => later_act(priorities, features),
    ]
    .boxed()
}

pub(super) fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        2 => (1..100_u32).prop_map(Policy::Fifo),
        2 => (1..100_u32).prop_map(Policy::RoundRobin),
        1 => Just(Policy::Batch),
        1 => Just(Policy::Other),
    ]
}

/// Acts that depend on permissions and features.
fn later_act(priorities: bool, features: LaterFeatures) -> BoxedStrategy<Act> {
    let nice = prop_oneof![Just(0), -20..20];
    prop_oneof![
        1 => Just(Act::ListNodes),
        3 => Just(Act::Poll),
        if priorities { 1 } else { 0 } => nice.prop_map(Act::Nice),
        if priorities { 1 } else { 0 } => policy().prop_map(Act::Policy),
        if features.freeze { 1 } else { 0 } => (0..PROCESSES, prop::bool::weighted(0.3))
            .prop_map(|(process, frozen)| Act::Freeze { process, frozen }),
        if features.freeze { 1 } else { 0 } => (0..PROCESSES).prop_map(Act::FrozenInfo),
        if features.oneway_spam_detection { 1 } else { 0 } => any::<bool>().prop_map(Act::DetectSpam),
        if features.extended_error { 2 } else { 0 } => Just(Act::ExtendedError),
    ]
    .boxed()
}

/// Flags of a node. Without `priorities`, its minimum priority is nice 0, because any other leads
/// to different priorities in the two profiles.
pub(super) fn node_flags(priorities: bool) -> BoxedStrategy<u32> {
    let accepts_fds = prop_oneof![3 => Just(0x100_u32), 1 => Just(0)];
    if !priorities {
        return accepts_fds.boxed();
    }
    let least = prop_oneof![3 => Just(0), 2 => 1..20_u32, 1 => Just(0x7f), 1 => 0xec..0x100_u32];
    (accepts_fds, least, prop_oneof![3 => Just(0), 1 => Just(0x800)])
        .prop_map(|(accepts, least, inherits)| accepts | least | inherits)
        .boxed()
}

pub(super) fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        3 => Just(Target::Number(0)),
        5 => (0..3_usize).prop_map(Target::Held),
        2 => (0..5_u32).prop_map(Target::Number),
    ]
}

fn order(features: LaterFeatures) -> BoxedStrategy<Order> {
    if !features.freeze_notification {
        return known_order();
    }
    let watching = prop_oneof![
        (target(), 1..3_u64).prop_map(|(target, cookie)| Order::RequestFreeze(target, cookie)),
        (target(), 1..3_u64).prop_map(|(target, cookie)| Order::ClearFreeze(target, cookie)),
        (1..3_u64).prop_map(Order::FreezeDone),
    ];
    prop_oneof![12 => known_order(), 1 => watching].boxed()
}

/// Acts that all kernels support.
fn known_order() -> BoxedStrategy<Order> {
    let counting = prop_oneof![
        Just(Counting::Increfs),
        Just(Counting::Acquire),
        Just(Counting::Release),
        Just(Counting::Decrefs),
    ];
    let cookie = || prop_oneof![9 => Just(7_u64), 1 => Just(8)];
    prop_oneof![
        14 => send().prop_map(Order::Send),
        6 => any::<usize>().prop_map(Order::Free),
        4 => (counting, target()).prop_map(|(counting, target)| Order::Count(counting, target)),
        3 => (any::<bool>(), 0..5_u64, cookie())
            .prop_map(|(strong, ptr, cookie)| Order::Done { strong, ptr, cookie }),
        2 => (target(), 1..3_u64).prop_map(|(target, cookie)| Order::RequestDeath(target, cookie)),
        1 => (target(), 1..3_u64).prop_map(|(target, cookie)| Order::ClearDeath(target, cookie)),
        1 => (1..3_u64).prop_map(Order::DeadBinderDone),
        2 => Just(Order::EnterLooper),
        1 => Just(Order::RegisterLooper),
        1 => Just(Order::ExitLooper),
        1 => Just(Order::Nonsense),
    ]
    .boxed()
}

fn send() -> BoxedStrategy<Send> {
    let reply = prop::bool::weighted(0.4);
    (reply, target(), flags(), payload())
        .prop_map(|(reply, target, flags, payload)| Send { reply, target, flags, payload })
        .boxed()
}

pub(super) fn flags() -> impl Strategy<Value = u32> {
    prop_oneof![
        5 => Just(0),
        3 => Just(1),
        2 => Just(0x10),
        1 => Just(0x20),
        1 => Just(0x8),
        1 => Just(0x21),
        1 => Just(0x41),
    ]
}

/// A payload, usually a valid one.
pub(super) fn payload() -> BoxedStrategy<Payload> {
    prop_oneof![
        3 => bytes().prop_map(|bytes| Payload { bytes, ..Payload::default() }),
        4 => (prop::collection::vec(flat(), 1..4), bytes(), flaw())
            .prop_map(|(objects, bytes, flaw)| Payload { lead: false, objects, bytes, flaw }),
        2 => (bytes(), right_object())
            .prop_map(|(bytes, object)| Payload { objects: vec![object], bytes, ..Payload::default() }),
        2 => right_tree(),
        3 => tree(),
        3 => descriptors(),
    ]
    .boxed()
}

/// Different sizes, so that free buffers differ too.
fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..600_usize, 1 => 0..7000_usize]
}

/// A valid payload. Random ones are accepted too rarely.
fn right_object() -> impl Strategy<Value = Object> {
    prop_oneof![
        Just(Object::Handle { weak: false, target: Target::Held(0) }),
        (1..4_u64).prop_map(|ptr| Object::Node { weak: true, ptr, cookie: 7, flags: 0x100 }),
    ]
}

fn flat() -> impl Strategy<Value = Object> {
    let weak = || prop::bool::weighted(0.2);
    let ptr = prop_oneof![1 => Just(0_u64), 9 => 1..4_u64];
    let cookie = prop_oneof![9 => Just(7_u64), 1 => Just(8)];
    let flags = prop_oneof![Just(0x100_u32), Just(0)];
    prop_oneof![
        5 => (weak(), ptr, cookie, flags)
            .prop_map(|(weak, ptr, cookie, flags)| Object::Node { weak, ptr, cookie, flags }),
        4 => (weak(), target()).prop_map(|(weak, target)| Object::Handle { weak, target }),
        4 => prop::bool::weighted(0.8).prop_map(|open| Object::Fd { open }),
        1 => Just(Object::Garbage),
    ]
}

/// A root with children in order, some of which have a child. The driver accepts such a tree,
/// unless the payload has another flaw.
fn right_tree() -> impl Strategy<Value = Payload> {
    let child = (0..100_usize, prop::option::weighted(0.4, 0..50_usize));
    let flaw = prop::option::weighted(0.3, prop::sample::select(vec![Flaw::MuchRoom, Flaw::LittleRoom]));
    (0..9_usize, prop::collection::vec(child, 1..4), bytes(), flaw).prop_map(
        |(more, children, bytes, flaw)| {
            let mut objects = vec![Object::Buffer { bytes: 8 * children.len() + more, parent: None }];
            for (at, (bytes, grandchild)) in children.into_iter().enumerate() {
                let parent = Some(Parent { index: 0, offset: 8 * at as u64 });
                objects.push(Object::Buffer { bytes: bytes.max(8), parent });
                if let Some(bytes) = grandchild {
                    let parent = Some(Parent { index: objects.len() as u64 - 1, offset: 0 });
                    objects.push(Object::Buffer { bytes, parent });
                }
            }
            Payload { lead: true, objects, bytes, flaw }
        },
    )
}

/// Arrays of descriptors, in separate buffers or in one, and single descriptors.
pub(super) fn descriptors() -> impl Strategy<Value = Payload> {
    let open = || prop::bool::weighted(0.97);
    let array =
        (0..4_usize, prop::collection::vec(open(), 0..6), any::<bool>(), slip(), prop::bool::weighted(0.05));
    let lead = prop::bool::weighted(0.95);
    let single = prop::option::weighted(0.4, open().prop_map(|open| Object::Fd { open }));
    let flaw = prop::option::weighted(0.1, flaw().prop_filter_map("a flaw", |flaw| flaw));
    (lead, single, prop::collection::vec(array, 0..4), bytes(), flaw).prop_map(
        |(lead, single, arrays, bytes, flaw)| {
            let mut objects: Vec<Object> = single.into_iter().collect();
            for (words, open, splits, slip, more) in arrays {
                let parent =
                    |offset: usize| Parent { index: objects.len() as u64, offset: 4 * offset as u64 };
                let count = open.len() as u64;
                let first = if splits { count / 2 } else { count };
                let arrays = [
                    Object::FdArray { count: first + u64::from(more), parent: slip.apply(parent(words)) },
                    Object::FdArray { count: count - first, parent: parent(words + first as usize) },
                ];
                objects.push(Object::Numbers { words, open });
                objects.extend(arrays.into_iter().take(1 + usize::from(splits)));
            }
            Payload { lead, objects, bytes, flaw }
        },
    )
}

/// Scatter-gather buffers, most of them with a parent, some beside other objects.
fn tree() -> impl Strategy<Value = Payload> {
    let buffer = (0..70_usize, prop::bool::weighted(0.8), 0..8_usize, any::<usize>(), slip());
    let lead = prop::bool::weighted(0.9);
    (lead, prop::collection::vec(buffer, 1..6), prop::option::weighted(0.3, flat()), bytes(), flaw())
        .prop_map(|(lead, buffers, other, bytes, flaw)| {
            let mut objects: Vec<Object> = Vec::new();
            let mut sizes = Vec::new();
            for (bytes, child, back, slot, slip) in buffers {
                let parent = (child && !sizes.is_empty()).then(|| {
                    // A near parent, because fix-ups must go forwards: the driver refuses most far
                    // parents.
                    let index = sizes.len() - 1 - (back / 3).min(sizes.len() - 1);
                    let slots: usize = sizes[index] / 8;
                    let offset = 8 * (slot % slots.max(1)) as u64;
                    slip.apply(Parent { index: index as u64, offset })
                });
                sizes.push(bytes);
                objects.push(Object::Buffer { bytes, parent });
            }
            objects.extend(other);
            Payload { lead, objects, bytes, flaw }
        })
}

/// A flaw of a parent.
#[derive(Clone, Copy, Debug)]
enum Slip {
    Nothing,
    LaterParent,
    OutsideParent,
    OddPlace,
    HugePlace,
}

impl Slip {
    fn apply(self, right: Parent) -> Parent {
        match self {
            Self::Nothing => right,
            Self::LaterParent => Parent { index: right.index + 1, ..right },
            Self::OutsideParent => Parent { offset: right.offset + 64, ..right },
            Self::OddPlace => Parent { offset: right.offset + 4, ..right },
            Self::HugePlace => Parent { offset: u64::MAX - 3, ..right },
        }
    }
}

fn slip() -> impl Strategy<Value = Slip> {
    prop_oneof![
        30 => Just(Slip::Nothing),
        1 => Just(Slip::LaterParent),
        1 => Just(Slip::OutsideParent),
        1 => Just(Slip::OddPlace),
        1 => Just(Slip::HugePlace),
    ]
}

fn flaw() -> impl Strategy<Value = Option<Flaw>> {
    let all = prop::sample::select(vec![
        Flaw::OddOffset,
        Flaw::OverlappingOffsets,
        Flaw::BackwardOffsets,
        Flaw::OffsetOutside,
        Flaw::HugeOffset,
        Flaw::OddOffsets,
        Flaw::LittleRoom,
        Flaw::OddRoom,
        Flaw::MuchRoom,
        Flaw::NoData,
        Flaw::NoOffsets,
        Flaw::NoBuffer,
        Flaw::HugeSize,
        Flaw::HugeBuffer,
    ]);
    prop::option::weighted(0.3, all)
}
