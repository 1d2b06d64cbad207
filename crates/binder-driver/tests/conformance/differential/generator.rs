//! Random sequences: scenes, which lead somewhere, and between them single steps, which go anywhere.

use proptest::prelude::*;

use super::scenes;
use super::steps::*;

/// A sequence.
pub(super) fn steps(priorities: bool) -> impl Strategy<Value = Vec<Step>> {
    let part = prop_oneof![
        5 => scenes::scene(priorities),
        6 => single(priorities).prop_map(|step| vec![step]),
    ];
    prop::collection::vec(part, 1..14).prop_map(|parts| parts.concat())
}

fn single(priorities: bool) -> impl Strategy<Value = Step> {
    let thread = prop_oneof![4 => Just(0), 1 => 1..THREADS];
    (0..PROCESSES, thread, act(priorities)).prop_map(|(process, thread, act)| Step { process, thread, act })
}

fn act(priorities: bool) -> impl Strategy<Value = Act> {
    let orders = prop_oneof![
        8 => prop::collection::vec(order(), 1),
        1 => prop::collection::vec(order(), 2..4),
    ];
    let nice = prop_oneof![Just(0), -20..20];
    prop_oneof![
        24 => (orders, prop::bool::weighted(0.2)).prop_map(|(orders, read)| Act::Exchange { orders, read }),
        14 => Just(Act::Exchange { orders: Vec::new(), read: true }),
        1 => Just(Act::LeaveThread),
        1 => Just(Act::Close),
        1 => node_flags(priorities).prop_map(Act::BecomeManager),
        1 => (0..3_u32).prop_map(Act::MaxThreads),
        2 => target().prop_map(Act::NodeCounts),
        1 => Just(Act::ListNodes),
        if priorities { 1 } else { 0 } => nice.prop_map(Act::Nice),
    ]
}

/// The least priorities of nodes that do not lead to different priorities in the two profiles are those of nice 0.
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

fn order() -> impl Strategy<Value = Order> {
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
}

fn send() -> impl Strategy<Value = Send> {
    let reply = prop::bool::weighted(0.4);
    (reply, target(), flags(), payload()).prop_map(|(reply, target, flags, payload)| Send {
        reply,
        target,
        flags,
        payload,
    })
}

pub(super) fn flags() -> impl Strategy<Value = u32> {
    prop_oneof![5 => Just(0), 3 => Just(1), 1 => Just(0x10), 1 => Just(0x20), 1 => Just(0x8), 1 => Just(0x21)]
}

/// What is sent along, in most cases right.
pub(super) fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        3 => bytes().prop_map(|bytes| Payload { bytes, ..Payload::default() }),
        4 => (prop::collection::vec(flat(), 1..4), bytes(), flaw())
            .prop_map(|(objects, bytes, flaw)| Payload { lead: false, objects, bytes, flaw }),
        2 => right_tree(),
        3 => tree(),
    ]
}

/// Sizes that differ, so that free buffers do.
fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..600_usize, 1 => 0..7000_usize]
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
        2 => prop::bool::weighted(0.7).prop_map(|open| Object::Fd { open }),
        1 => Just(Object::Garbage),
    ]
}

/// A root with children in its order, some of them with a child of their own: the driver takes it, if nothing else is wrong.
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
                    // Near ones, since fix-ups must go forwards: a far one is mostly refused.
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

/// What is wrong with a parent.
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
