//! Tests which commands the kernel would see.

use super::*;
use crate::RawBytes;
use crate::uapi::{BR_TRANSACTION, HandleCookie, PtrCookie};

fn queued(commands: &[Command]) -> Commands {
    let mut all = Commands::default();
    commands.iter().for_each(|command| all.push(*command));
    all
}

/// The whole commands, and the errno of the refused command, which is replaced by [`NO_COMMAND`].
fn parts<'c>(checked: Checked<'c>) -> (Cow<'c, [u8]>, Result<(), Errno>) {
    let last = if checked.refused.is_some() { &NO_COMMAND.to_ne_bytes()[..] } else { &[] };
    assert_eq!(&checked.commands[checked.whole..], last);
    let whole = match checked.commands {
        Cow::Borrowed(commands) => Cow::Borrowed(&commands[..checked.whole]),
        Cow::Owned(commands) => Cow::Owned(commands[..checked.whole].to_vec()),
    };
    (whole, checked.refused.map_or(Ok(()), Err))
}

/// The commands that the kernel would see.
fn seen(commands: &Commands, own: &[&[u8]]) -> Vec<Command> {
    seen_of(commands, &ReadableMemory::own(own))
}

fn seen_of(commands: &Commands, memory: &ReadableMemory<'_>) -> Vec<Command> {
    let checked = check(commands.pending(), memory);
    assert_eq!((checked.commands.len(), checked.refused), (commands.pending().len(), None));
    let mut rest = &*checked.commands;
    std::iter::from_fn(|| {
        let (command, length) = Command::parse(rest)?;
        rest = &rest[length..];
        Some(command)
    })
    .collect()
}

#[test]
fn valid_commands_are_passed_on_unchanged() {
    let data = [7; 16];
    let commands = queued(&[
        Command::FreeBuffer(0x1000),
        Command::Transaction(TransactionData::new(1, &data)),
        Command::EnterLooper,
    ]);
    assert_eq!(
        parts(check(commands.pending(), &ReadableMemory::own(&[&data]))),
        (Cow::Borrowed(commands.pending()), Ok(()))
    );
    assert_eq!(parts(check(&[], &ReadableMemory::own(&[]))), (Cow::Borrowed(&[][..]), Ok(())));
}

#[test]
fn commands_before_a_truncated_one_are_passed_on() {
    for cut in 1..12 {
        let commands = queued(&[Command::EnterLooper, Command::FreeBuffer(1)]);
        let bytes = &commands.pending()[..commands.pending().len() - cut];
        assert_eq!(
            parts(check(bytes, &ReadableMemory::own(&[]))),
            (Cow::Borrowed(&bytes[..4]), Err(Errno::FAULT)),
            "{cut} missing"
        );
    }
}

#[test]
fn commands_before_an_unknown_one_are_passed_on() {
    // Number 200 with a payload of 8 and of 16,383 bytes; a return; 0; all ones.
    let number = |size: u32| 1_u32 << 30 | size << 16 | u32::from(b'c') << 8 | 200;
    for word in [number(8), number(0x3fff), BR_TRANSACTION, 0, u32::MAX] {
        for follows in [0, 7, 8, 64] {
            let mut commands = queued(&[Command::EnterLooper, Command::Acquire(1)]);
            let before = commands.pending().len();
            commands.raw(&word.to_ne_bytes());
            commands.raw(&vec![0; follows]);
            assert_eq!(
                parts(check(commands.pending(), &ReadableMemory::own(&[]))),
                (Cow::Borrowed(&commands.pending()[..before]), Err(Errno::INVAL)),
                "{word:#x} and {follows} bytes"
            );
        }
    }
}

#[test]
fn every_command_is_passed_on_whole_or_not_at_all() {
    let (node, handle) = (PtrCookie { ptr: 1, cookie: 2 }, HandleCookie { handle: 1, cookie: 2 });
    let data = TransactionData::new(1, b"");
    let all = [
        Command::Transaction(data),
        Command::Reply(data),
        Command::TransactionSg(data.gathered(u64::MAX)),
        Command::ReplySg(data.gathered(8)),
        Command::FreeBuffer(u64::MAX),
        Command::Increfs(u32::MAX),
        Command::Acquire(0),
        Command::Release(1),
        Command::Decrefs(1),
        Command::IncrefsDone(node),
        Command::AcquireDone(node),
        Command::RegisterLooper,
        Command::EnterLooper,
        Command::ExitLooper,
        Command::RequestDeathNotification(handle),
        Command::ClearDeathNotification(handle),
        Command::DeadBinderDone(1),
        Command::RequestFreezeNotification(handle),
        Command::ClearFreezeNotification(handle),
        Command::FreezeNotificationDone(1),
    ];
    let whole = queued(&all);
    let mut ends = vec![0];
    for command in all {
        ends.push(ends[ends.len() - 1] + queued(&[command]).pending().len());
    }
    for length in 0..=whole.pending().len() {
        let (handed, rest) = parts(check(&whole.pending()[..length], &ReadableMemory::own(&[])));
        let last = *ends.iter().rfind(|end| **end <= length).expect("the first");
        assert_eq!(handed, &whole.pending()[..last], "of {length} bytes");
        assert_eq!(rest, if last == length { Ok(()) } else { Err(Errno::FAULT) }, "of {length} bytes");
    }
}

#[test]
fn hiding_one_address_never_reveals_another() {
    let payload = [1; 32];
    let lies_at = payload.as_ptr().addr() as u64;
    // Two objects that share most of their bytes. The second one's kind follows the first one's
    // kind and flags, and the first one's address ends in the middle of the second one's address.
    for shift in [4, 8, 12, 16, 20, 36] {
        let first = BufferObject { kind: BINDER_TYPE_PTR, buffer: 8, length: 64, ..Default::default() };
        let second =
            BufferObject { kind: BINDER_TYPE_PTR, buffer: lies_at, length: 32, ..Default::default() };
        let mut data = [&first.to_bytes()[..], &[0; 40]].concat();
        data[shift..shift + BufferObject::SIZE].copy_from_slice(&second.to_bytes());
        for order in [[0, shift as u64], [shift as u64, 0]] {
            let offsets = order.map(u64::to_ne_bytes).concat();
            let transaction = TransactionData {
                offsets: offsets.as_ptr().addr() as u64,
                offsets_size: 16,
                ..TransactionData::new(1, &data)
            };
            let own = [&data[..], &offsets, &payload];
            let memory = ReadableMemory::own(&own);
            let commands = queued(&[Command::TransactionSg(transaction.gathered(128))]);
            let checked = check(commands.pending(), &memory);
            let Some((Command::TransactionSg(seen), _)) = Command::parse(&checked.commands) else {
                panic!("a transaction stays one");
            };
            // The kernel may read only passed memory or the address that no process has.
            let copies = checked._copies.iter().map(Vec::as_slice).chain(own).collect::<Vec<_>>();
            let Some(seen) = ReadableMemory::own(&copies).slice(seen.buffer, seen.data_size) else {
                assert_eq!(seen.buffer, NOWHERE);
                continue;
            };
            for offset in offsets.chunks_exact(8) {
                let Some((_, object)) = buffer_at(seen, offset) else { continue };
                let harmless =
                    object.buffer == NOWHERE || memory.bytes(object.buffer, object.length).is_some();
                assert!(harmless, "{object:x?} at {offset:?}, {shift} bytes apart");
            }
        }
    }
}

#[test]
fn the_kernel_sees_no_data_or_offsets_outside_the_passed_memory() {
    let (data, other) = ([7; 16], [8; 16]);
    let transaction = TransactionData::new(1, &data);
    for (wrong, data_is_readable) in [
        (TransactionData { data_size: 17, ..transaction }, false),
        (TransactionData { data_size: u64::MAX, ..transaction }, false),
        (TransactionData { buffer: transaction.buffer - 1, ..transaction }, false),
        (TransactionData { offsets: other.as_ptr().addr() as u64, offsets_size: 8, ..transaction }, true),
    ] {
        let nowhere = match data_is_readable {
            true => TransactionData { offsets: NOWHERE, ..wrong },
            false => TransactionData { buffer: NOWHERE, ..wrong },
        };
        let commands = queued(&[
            Command::Transaction(wrong),
            Command::Reply(wrong),
            Command::TransactionSg(wrong.gathered(64)),
            Command::ReplySg(wrong.gathered(64)),
            Command::Transaction(transaction),
        ]);
        let expected = [
            Command::Transaction(nowhere),
            Command::Reply(nowhere),
            Command::TransactionSg(nowhere.gathered(64)),
            Command::ReplySg(nowhere.gathered(64)),
            Command::Transaction(transaction),
        ];
        assert_eq!(seen(&commands, &[&data]), expected);
    }
}

#[test]
fn the_kernel_sees_no_buffer_outside_the_passed_memory() {
    let payload = [1; 32];
    let lies_at = payload.as_ptr().addr() as u64;
    for (address, length, fine) in
        [(lies_at, 32, true), (lies_at, 33, false), (lies_at + 40, 1, false), (8, 0, true)]
    {
        let object = BufferObject { kind: BINDER_TYPE_PTR, buffer: address, length, ..Default::default() };
        let (data, offsets) = (object.to_bytes(), 0_u64.to_ne_bytes());
        let transaction = TransactionData {
            offsets: offsets.as_ptr().addr() as u64,
            offsets_size: 8,
            ..TransactionData::new(1, &data)
        };
        let command = Command::TransactionSg(transaction.gathered(64));
        let seen = seen(&queued(&[command]), &[&data, &offsets, &payload]);
        assert_eq!(seen == [command], fine, "{length} bytes at {address:#x}");
    }
}

#[test]
fn shared_memory_is_passed_on_if_the_kernel_does_not_interpret_it() {
    let (data, foreign) = ([7_u8; 16], [8_u8; 64]);
    let offsets = 0_u64.to_ne_bytes();
    let raw = [RawBytes::from(&foreign)];
    let own = [&data[..], &offsets];
    let memory = ReadableMemory { own: &own, raw: &raw };
    let plain = TransactionData::naming(1, raw[0]);
    let with_objects = TransactionData { offsets: offsets.as_ptr().addr() as u64, offsets_size: 8, ..plain };
    let hidden = TransactionData { buffer: NOWHERE, ..with_objects };
    let commands = queued(&[Command::Reply(plain), Command::Reply(with_objects)]);
    assert_eq!(seen_of(&commands, &memory), [Command::Reply(plain), Command::Reply(hidden)]);
}

#[test]
fn a_shared_buffer_is_passed_on_unless_it_contains_descriptors() {
    let foreign = [8_u8; 64];
    let raw = [RawBytes::from(&foreign)];
    let buffer =
        BufferObject { kind: BINDER_TYPE_PTR, buffer: raw[0].address(), length: 64, ..Default::default() };
    let array = FdArrayObject { kind: BINDER_TYPE_FDA, count: 1, ..Default::default() };
    for with_descriptors in [false, true] {
        let data = [&buffer.to_bytes()[..], &array.to_bytes()].concat();
        let offsets: Vec<u8> = [0_u64, 40].map(u64::to_ne_bytes).concat();
        let count = if with_descriptors { 2 } else { 1 };
        let transaction = TransactionData {
            offsets: offsets.as_ptr().addr() as u64,
            offsets_size: count * 8,
            ..TransactionData::new(1, &data)
        };
        let command = Command::TransactionSg(transaction.gathered(64));
        let own = [&data[..], &offsets];
        let seen = seen_of(&queued(&[command]), &ReadableMemory { own: &own, raw: &raw });
        assert_eq!(seen == [command], !with_descriptors, "{seen:?}");
    }
}
