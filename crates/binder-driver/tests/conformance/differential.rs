//! Random sequences of commands, replayed on the emulated driver and on the kernel's: every step must bring the same.
//!
//! Three processes with two threads each. No read waits, so a sequence runs in one order on both drivers. What differs by
//! nature is left out of the comparison: addresses, and the callers' process ids.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use binder_driver::uapi::*;
use binder_driver::{Command, Commands, Driver, Error, Return};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::Device;
use crate::actor::{Actor, Desk};

const PROCESSES: usize = 3;
const THREADS: usize = 2;
/// Small, so that areas run full.
const AREA_BYTES: u64 = 16 << 10;

/// What is sent along.
#[derive(Clone, Copy, Debug)]
enum Object {
    Nothing,
    Node { kind: u32, ptr: u64, cookie: u64 },
    Handle { kind: u32, handle: u32 },
    Garbage,
}

/// What one thread does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Call {
        handle: u32,
        oneway: bool,
        bytes: usize,
        object: Object,
    },
    Reply {
        bytes: usize,
        object: Object,
    },
    Read,
    /// Gives back one of the buffers that the process has received, or, without any, one that it has not.
    Free(usize),
    Write(Command),
    LeaveThread,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    process: usize,
    thread: usize,
    act: Act,
}

fn object() -> impl Strategy<Value = Object> {
    let node_kind = prop_oneof![4 => Just(BINDER_TYPE_BINDER), 1 => Just(BINDER_TYPE_WEAK_BINDER)];
    let handle_kind = prop_oneof![4 => Just(BINDER_TYPE_HANDLE), 1 => Just(BINDER_TYPE_WEAK_HANDLE)];
    prop_oneof![
        4 => Just(Object::Nothing),
        4 => (node_kind, 1..4_u64, prop_oneof![9 => Just(7_u64), 1 => Just(8)])
            .prop_map(|(kind, ptr, cookie)| Object::Node { kind, ptr, cookie }),
        3 => (handle_kind, 0..4_u32).prop_map(|(kind, handle)| Object::Handle { kind, handle }),
        1 => Just(Object::Garbage),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let bytes = || prop_oneof![4 => 0..100_usize, 1 => 0..7000_usize];
    let handle = || prop_oneof![2 => Just(0_u32), 3 => 0..4_u32];
    prop_oneof![
        8 => (handle(), any::<bool>(), bytes(), object())
            .prop_map(|(handle, oneway, bytes, object)| Act::Call { handle, oneway, bytes, object }),
        6 => (bytes(), object()).prop_map(|(bytes, object)| Act::Reply { bytes, object }),
        14 => Just(Act::Read),
        6 => any::<usize>().prop_map(Act::Free),
        4 => (0..4_usize, handle()).prop_map(|(which, handle)| {
            let all = [Command::Increfs, Command::Acquire, Command::Release, Command::Decrefs];
            Act::Write(all[which](handle))
        }),
        3 => (any::<bool>(), 1..4_u64).prop_map(|(strong, ptr)| {
            let done = if strong { Command::AcquireDone } else { Command::IncrefsDone };
            Act::Write(done(PtrCookie { ptr, cookie: 7 }))
        }),
        2 => (any::<bool>(), 0..4_u32, 1..3_u64).prop_map(|(ask, handle, cookie)| {
            let command =
                if ask { Command::RequestDeathNotification } else { Command::ClearDeathNotification };
            Act::Write(command(HandleCookie { handle, cookie }))
        }),
        1 => (1..3_u64).prop_map(|cookie| Act::Write(Command::DeadBinderDone(cookie))),
        2 => prop_oneof![
            4 => Just(Command::EnterLooper),
            1 => Just(Command::RegisterLooper),
            1 => Just(Command::ExitLooper),
        ]
        .prop_map(Act::Write),
        1 => Just(Act::LeaveThread),
    ]
}

/// A call between a process and the manager, its answer, and what the two do with them: random steps alone rarely get
/// that far. The threads begin anew now and then, since one that waits for a reply cannot do much else.
fn exchange() -> impl Strategy<Value = Vec<Step>> {
    let bytes = || 0..200_usize;
    let call = (1..PROCESSES, 1..4_u32, prop::bool::weighted(0.3), bytes(), object());
    let answer = (bytes(), object(), 1..4_u32, any::<[usize; 2]>());
    let choices = (any::<bool>(), prop::bool::weighted(0.3), any::<bool>(), prop::bool::weighted(0.8));
    (call, answer, choices).prop_map(|(call, answer, (anew, back, keep, give_back))| {
        let (peer, held, oneway, bytes, object) = call;
        let (reply_bytes, reply_object, kept, free) = answer;
        // Back from the manager to whoever's node the handle is, which need not be this peer.
        let (caller, server, handle) = if back { (0, peer, held) } else { (peer, 0, 0) };
        let own = |process, act| Step { process, thread: 0, act };
        let mut steps = Vec::new();
        if anew {
            steps.extend([own(caller, Act::LeaveThread), own(server, Act::LeaveThread)]);
        }
        steps.push(own(caller, Act::Call { handle, oneway, bytes, object }));
        steps.extend([own(server, Act::Read), own(server, Act::Read)]);
        if keep {
            steps.push(own(server, Act::Write(Command::Acquire(kept))));
        }
        if give_back {
            steps.push(own(server, Act::Free(free[0])));
        }
        if !oneway {
            steps.push(own(server, Act::Reply { bytes: reply_bytes, object: reply_object }));
        }
        steps.extend([own(server, Act::Read), own(caller, Act::Read), own(caller, Act::Read)]);
        if give_back {
            steps.push(own(caller, Act::Free(free[1])));
        }
        steps
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let thread = prop_oneof![4 => Just(0), 1 => 1..THREADS];
    let single =
        (0..PROCESSES, thread, act()).prop_map(|(process, thread, act)| vec![Step { process, thread, act }]);
    let part = prop_oneof![3 => exchange(), 7 => single];
    prop::collection::vec(part, 1..40).prop_map(|parts| parts.concat())
}

/// One process: its threads, and the buffers that it has not given back.
struct Process {
    threads: Vec<Actor>,
    buffers: Vec<u64>,
}

/// Replays a sequence on a device that nobody uses, and tells what each step brought.
fn replay<D: Device>(device: &D, steps: &[Step]) -> Vec<String> {
    let mut processes: Vec<Process> = (0..PROCESSES)
        .map(|_| {
            let driver = device.open_without_waiting(AREA_BYTES);
            let threads = (0..THREADS).map(|_| Actor::unknown(&driver)).collect();
            Process { threads, buffers: Vec::new() }
        })
        .collect();
    become_context_manager(&processes[0].threads[0].driver);
    let told = steps.iter().map(|step| carry_out(&mut processes[step.process], *step)).collect();
    for process in processes {
        process.threads.into_iter().for_each(Actor::leave);
    }
    told
}

/// The manager of the sequence before may still be about to go.
fn become_context_manager(driver: &Arc<dyn Driver>) {
    for _ in 0..5000 {
        match driver.become_context_manager(0x100) {
            Err(Error::ContextManagerTaken) => std::thread::sleep(Duration::from_millis(1)),
            other => return other.expect("a device for this test alone"),
        }
    }
    panic!("the last sequence's context manager does not go");
}

fn carry_out(process: &mut Process, step: Step) -> String {
    let actor = &process.threads[step.thread];
    match step.act {
        Act::Read => {
            let driver = Arc::clone(&actor.driver);
            let returns = actor.read();
            let empty = [Return::Error(binder_driver::Errno::AGAIN.raw_os_error())];
            let items = if returns == empty { &[][..] } else { &returns[..] };
            items.iter().map(|item| tell(&*driver, item, &mut process.buffers)).collect()
        }
        Act::Call { handle, oneway, bytes, object } => {
            let flags = if oneway { TF_ONE_WAY } else { 0 };
            actor.run(move |desk| send(desk, false, handle, flags, bytes, object))
        }
        Act::Reply { bytes, object } => actor.run(move |desk| send(desk, true, 0, 0, bytes, object)),
        Act::Free(which) => {
            let address = match process.buffers.len() {
                0 => 0x1000,
                some => process.buffers.swap_remove(which % some),
            };
            written(actor, Command::FreeBuffer(address))
        }
        Act::Write(command) => written(actor, command),
        Act::LeaveThread => {
            actor.run(|desk| desk.driver.exit_thread());
            String::new()
        }
    }
}

fn written(actor: &Actor, command: Command) -> String {
    format!("{:?}", actor.write(&[command]))
}

fn send(desk: &mut Desk, reply: bool, handle: u32, flags: u32, bytes: usize, object: Object) -> String {
    let mut data: Vec<u8> = match object {
        Object::Nothing => Vec::new(),
        Object::Node { kind, ptr, cookie } => {
            FlatBinderObject { kind, flags: 0x100, binder: ptr, cookie }.to_bytes().into()
        }
        Object::Handle { kind, handle } => {
            FlatBinderObject { kind, flags: 0, binder: handle.into(), cookie: 0 }.to_bytes().into()
        }
        Object::Garbage => vec![0x5a; 24],
    };
    let offsets: &[u8] = if data.is_empty() { &[] } else { &[0; 8] };
    data.extend((0..bytes).map(|at| at as u8));
    let mut description = crate::actor::data(handle, 1, flags, &data);
    (description.offsets, description.offsets_size) = (offsets.as_ptr() as u64, offsets.len() as u64);
    let command = if reply { Command::Reply(description) } else { Command::Transaction(description) };
    let mut commands = Commands::default();
    commands.push(command);
    let result = desk.send(&mut commands, &[&data, offsets]);
    format!("{result:?}, {} bytes left", commands.pending().len())
}

/// A return without what differs by nature. Notes the buffer that it brings.
fn tell(driver: &dyn Driver, item: &Return, buffers: &mut Vec<u64>) -> String {
    let (name, data) = match item {
        Return::Transaction(data) => ("Transaction", data),
        Return::Reply(data) => ("Reply", data),
        other => return format!("{other:?}; "),
    };
    buffers.push(data.buffer);
    let bytes = driver.received(data.buffer, data.data_size).expect("inside the area");
    let named = data.sender_pid != 0;
    let mut text = format!("{name} to {:#x}/{:#x} flags {:#x}", data.target, data.cookie, data.flags);
    let _ = write!(text, " named {named} by {} with {} bytes:", data.sender_euid, data.data_size);
    if data.offsets_size > 0 {
        let _ = write!(text, " {:x?}", FlatBinderObject::from_bytes(bytes));
    }
    let sum = bytes.iter().fold(0_u32, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let _ = write!(text, " sum {sum:x}; ");
    text
}

/// Replays random sequences on both, and shows the shortest that differs. `PROPTEST_CASES` says how many; the same ones each
/// time unless `PROPTEST_RNG_SEED` is set.
pub(crate) fn random_sequences_bring_the_same_on_both<A: Device, B: Device>() {
    let (one, other) = (A::new(), B::new());
    let setting = |name: &str, default: u32| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let cases = setting("PROPTEST_CASES", 300);
    let rng_seed = RngSeed::Fixed(setting("PROPTEST_RNG_SEED", 1).into());
    let mut runner = TestRunner::new(Config {
        cases,
        rng_seed,
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..Config::default()
    });
    let result = runner.run(&steps(), |steps| {
        let (expected, found) = (replay(&one, &steps), replay(&other, &steps));
        for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
            prop_assert_eq!(found, expected, "at step {}, {:?}", at, &steps[at]);
        }
        Ok(())
    });
    if let Err(difference) = result {
        panic!("{difference}");
    }
}
