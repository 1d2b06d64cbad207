//! What must hold of commands before the kernel sees them, so that it reads nothing but what its
//! caller lent: the kernel's driver takes a command's whole length and every address in it as they
//! are, and reads whatever lies there.
//!
//! A transaction that names other memory goes to the kernel with an address that no process has. So
//! the kernel refuses it, as it refuses any memory that is not there.

use std::borrow::Cow;
use std::ops::Range;

use rustix::io::Errno;

use crate::uapi::{
    BC_REPLY, BC_REPLY_SG, BC_TRANSACTION, BC_TRANSACTION_SG, BINDER_TYPE_FDA, BINDER_TYPE_PTR, BufferObject,
    FdArrayObject, Field as _, TransactionData, TransactionDataSg, payload_size,
};
use crate::{Command, Commands, Lent};

/// Above all that user space can have: the kernel answers EFAULT (`access_ok`).
const NOWHERE: u64 = 0xffff_ffff_ffff_f000;

/// What may be handed over of queued commands.
pub(super) struct Checked<'c> {
    pub(super) commands: Cow<'c, [u8]>,
    /// Why the rest may not, if there is one.
    pub(super) rest: Result<(), Errno>,
    /// Memory that `commands` name, besides what was lent: it has to stay until the kernel has seen
    /// them.
    _copies: Vec<Vec<u8>>,
}

/// Looks through the commands of `pending`, whose caller lends `lent`.
#[inline]
pub(super) fn check<'c>(pending: &'c [u8], lent: &Lent<'_>) -> Checked<'c> {
    let mut at = 0;
    loop {
        let rest = &pending[at..];
        let Some((word, command)) = rest.split_first_chunk() else {
            let rest = if rest.is_empty() { Ok(()) } else { Err(Errno::FAULT) };
            return Checked { commands: Cow::Borrowed(&pending[..at]), rest, _copies: Vec::new() };
        };
        let word = u32::from_ne_bytes(*word);
        let length = payload_size(word);
        // Any but the plainest case is looked at again.
        let plain =
            command.get(..length).is_some_and(|payload| !carries(word) || is_lent(word, payload, lent));
        if !plain {
            return check_each(pending, at, lent);
        }
        at += 4 + length;
    }
}

/// As [`check`], where the commands before `start` are known to be in order.
#[cold]
fn check_each<'c>(pending: &'c [u8], start: usize, lent: &Lent<'_>) -> Checked<'c> {
    let mut copies = Vec::new();
    let mut changed: Option<Vec<u8>> = None;
    let mut at = start;
    let mut result = Ok(());
    while let Some(rest) = pending.get(at..).filter(|rest| !rest.is_empty()) {
        let length = rest.get(..4).map_or(4, |word| 4 + payload_size(u32::take(word)));
        let Some(command) = rest.get(..length) else {
            result = Err(Command::refusal(rest));
            break;
        };
        if let Some(elsewhere) = naming_nothing(command, lent, &mut copies) {
            let all = changed.get_or_insert_with(|| pending.to_vec());
            all[at..at + length].copy_from_slice(elsewhere.pending());
        }
        at += length;
    }
    let commands = match changed {
        Some(mut all) => {
            all.truncate(at);
            Cow::Owned(all)
        }
        None => Cow::Borrowed(&pending[..at]),
    };
    Checked { commands, rest: result, _copies: copies }
}

/// Whether a command of this number names memory.
#[inline]
fn carries(word: u32) -> bool {
    matches!(word, BC_TRANSACTION | BC_REPLY | BC_TRANSACTION_SG | BC_REPLY_SG)
}

/// Where the fields lie that name memory, in the payload of each command that does: `struct
/// binder_transaction_data`.
const DATA_SIZE: usize = 32;
const OFFSETS_SIZE: usize = 40;
const BUFFER: usize = 48;
const OFFSETS: usize = 56;

/// Whether all that a command names was lent. The payload is that of one that [`carries`].
// In line, and by fields: every call comes through here.
#[inline]
fn is_lent(word: u32, payload: &[u8], lent: &Lent<'_>) -> bool {
    let Some(payload) = payload.first_chunk::<{ TransactionData::SIZE }>() else { return false };
    let field = |at: usize| u64::take(&payload[at..]);
    let (buffer, data_size) = (field(BUFFER), field(DATA_SIZE));
    if field(OFFSETS_SIZE) == 0 {
        return lent.bytes(buffer, data_size).is_some();
    }
    let offsets = lent.slice(field(OFFSETS), field(OFFSETS_SIZE));
    let Some((data, offsets)) = lent.slice(buffer, data_size).zip(offsets) else { return false };
    let gathers = matches!(word, BC_TRANSACTION_SG | BC_REPLY_SG);
    !gathers || offsets.chunks_exact(8).all(|offset| object_is_lent(data, offset, lent))
}

/// Whether the object that an offset names is a buffer that was lent, or names no memory.
#[inline]
fn object_is_lent(data: &[u8], offset: &[u8], lent: &Lent<'_>) -> bool {
    let object = usize::try_from(u64::take(offset)).ok().and_then(|at| data.get(at..)).unwrap_or_default();
    // The kernel refuses an object that the data ends in.
    match object.first_chunk().map(|kind| u32::from_ne_bytes(*kind)) {
        Some(BINDER_TYPE_PTR) => object.first_chunk::<{ BufferObject::SIZE }>().is_none_or(|object| {
            lent.bytes(u64::take(&object[BUFFER_ADDRESS..]), u64::take(&object[BUFFER_LENGTH..])).is_some()
        }),
        kind => kind != Some(BINDER_TYPE_FDA),
    }
}

/// Where a [`BufferObject`] has these.
const BUFFER_ADDRESS: usize = 8;
const BUFFER_LENGTH: usize = 16;

/// The command as the kernel may see it, where it names memory that was not lent. Commands that are
/// unknown here name none.
fn naming_nothing(command: &[u8], lent: &Lent<'_>, copies: &mut Vec<Vec<u8>>) -> Option<Commands> {
    let (command, _) = Command::parse(command)?;
    let (sent, gathers) = match command {
        Command::Transaction(data) | Command::Reply(data) => (data.gathered(0), false),
        Command::TransactionSg(data) | Command::ReplySg(data) => (data, true),
        _ => return None,
    };
    let offsets = lent.slice(sent.offsets, sent.offsets_size);
    let own = lent.slice(sent.buffer, sent.data_size);
    // The kernel looks for objects in the data: nobody may put any there after this check.
    let passed_on = || sent.offsets_size == 0 && lent.bytes(sent.buffer, sent.data_size).is_some();
    let is_lent = own.is_some() || passed_on();
    let hidden = match (own, offsets) {
        (Some(data), Some(offsets)) if gathers => hide_buffers(data, offsets, lent),
        _ => None,
    };
    if is_lent && offsets.is_some() && hidden.is_none() {
        return None;
    }
    let offsets = if offsets.is_none() { NOWHERE } else { sent.offsets };
    let buffer = match hidden {
        Some(hidden) => {
            copies.push(hidden);
            copies.last()?.as_ptr().expose_provenance() as u64
        }
        None if is_lent => sent.buffer,
        None => NOWHERE,
    };
    let plain = |data| TransactionData { buffer, offsets, ..data };
    let gathered = |data| TransactionDataSg { buffer, offsets, ..data };
    let mut commands = Commands::default();
    commands.push(match command {
        Command::Transaction(data) => Command::Transaction(plain(data)),
        Command::Reply(data) => Command::Reply(plain(data)),
        Command::TransactionSg(data) => Command::TransactionSg(gathered(data)),
        Command::ReplySg(data) => Command::ReplySg(gathered(data)),
        other => other,
    });
    Some(commands)
}

/// The data with the addresses of those buffers hidden that were not lent; `None` when all were. An
/// object that does not lie in the data, the driver refuses.
fn hide_buffers(data: &[u8], offsets: &[u8], lent: &Lent<'_>) -> Option<Vec<u8>> {
    let mut hidden: Option<Vec<u8>> = None;
    let mut hide = |(place, object): (Range<usize>, BufferObject)| {
        let nowhere = BufferObject { buffer: NOWHERE, ..object };
        hidden.get_or_insert_with(|| data.to_vec())[place].copy_from_slice(&nowhere.to_bytes());
    };
    for offset in offsets.chunks_exact(8) {
        if let Some((place, object)) = buffer_at(data, offset) {
            if lent.bytes(object.buffer, object.length).is_none() {
                hide((place, object));
            }
        } else if let Some((_, array)) =
            object_at(data, offset, FdArrayObject::SIZE, FdArrayObject::from_bytes)
            && array.kind == BINDER_TYPE_FDA
        {
            // The kernel looks at the numbers in an array's buffer, so that must be the caller's
            // own.
            let parent = usize::try_from(array.parent).ok().and_then(|index| index.checked_mul(8));
            let parent = parent.and_then(|at| offsets.get(at..at.checked_add(8)?));
            let parent = parent.and_then(|offset| buffer_at(data, offset));
            let is_own = |object: &BufferObject| lent.slice(object.buffer, object.length).is_some();
            if let Some(parent) = parent.filter(|(_, object)| !is_own(object)) {
                hide(parent);
            }
        }
    }
    hidden
}

/// The scatter-gather object that an offset names, and where it lies.
fn buffer_at(data: &[u8], offset: &[u8]) -> Option<(Range<usize>, BufferObject)> {
    object_at(data, offset, BufferObject::SIZE, BufferObject::from_bytes)
        .filter(|(_, object)| object.kind == BINDER_TYPE_PTR)
}

fn object_at<T>(
    data: &[u8],
    offset: &[u8],
    size: usize,
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Option<(Range<usize>, T)> {
    let at = usize::try_from(u64::take(offset)).ok()?;
    let place = at..at.checked_add(size)?;
    Some((place.clone(), read(data.get(place)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawBytes;

    fn queued(commands: &[Command]) -> Commands {
        let mut all = Commands::default();
        commands.iter().for_each(|command| all.push(*command));
        all
    }

    fn parts<'c>(checked: Checked<'c>) -> (Cow<'c, [u8]>, Result<(), Errno>) {
        (checked.commands, checked.rest)
    }

    /// What the kernel would see.
    fn seen(commands: &Commands, memory: &[&[u8]]) -> Vec<Command> {
        seen_of(commands, &Lent::own(memory))
    }

    fn seen_of(commands: &Commands, lent: &Lent<'_>) -> Vec<Command> {
        let checked = check(commands.pending(), lent);
        assert_eq!((checked.commands.len(), checked.rest), (commands.pending().len(), Ok(())));
        let mut rest = &*checked.commands;
        std::iter::from_fn(|| {
            let (command, length) = Command::parse(rest)?;
            rest = &rest[length..];
            Some(command)
        })
        .collect()
    }

    #[test]
    fn whole_commands_that_name_lent_memory_are_handed_over_as_they_are() {
        let data = [7; 16];
        let commands = queued(&[
            Command::FreeBuffer(0x1000),
            Command::Transaction(TransactionData::new(1, &data)),
            Command::EnterLooper,
        ]);
        assert_eq!(
            parts(check(commands.pending(), &Lent::own(&[&data]))),
            (Cow::Borrowed(commands.pending()), Ok(()))
        );
        assert_eq!(parts(check(&[], &Lent::own(&[]))), (Cow::Borrowed(&[][..]), Ok(())));
    }

    #[test]
    fn a_command_that_is_cut_off_stays_and_what_is_before_it_goes() {
        for cut in 1..12 {
            let commands = queued(&[Command::EnterLooper, Command::FreeBuffer(1)]);
            let bytes = &commands.pending()[..commands.pending().len() - cut];
            assert_eq!(
                parts(check(bytes, &Lent::own(&[]))),
                (Cow::Borrowed(&bytes[..4]), Err(Errno::FAULT)),
                "{cut} missing"
            );
        }
    }

    #[test]
    fn an_unknown_command_is_the_drivers_to_refuse_if_it_is_whole() {
        // Write, type 'c', number 200, 8 bytes.
        let word = 1_u32 << 30 | 8 << 16 | u32::from(b'c') << 8 | 200;
        let mut commands = Commands::default();
        commands.raw(&word.to_ne_bytes());
        assert_eq!(
            parts(check(commands.pending(), &Lent::own(&[]))),
            (Cow::Borrowed(&[][..]), Err(Errno::INVAL))
        );
        commands.raw(&[0; 8]);
        assert_eq!(
            parts(check(commands.pending(), &Lent::own(&[]))),
            (Cow::Borrowed(commands.pending()), Ok(()))
        );
    }

    #[test]
    fn the_kernel_is_not_told_of_data_and_offsets_outside_of_lent_memory() {
        let (data, other) = ([7; 16], [8; 16]);
        let told = TransactionData::new(1, &data);
        for (wrong, data_is_lent) in [
            (TransactionData { data_size: 17, ..told }, false),
            (TransactionData { data_size: u64::MAX, ..told }, false),
            (TransactionData { buffer: told.buffer - 1, ..told }, false),
            (TransactionData { offsets: other.as_ptr().addr() as u64, offsets_size: 8, ..told }, true),
        ] {
            let nowhere = match data_is_lent {
                true => TransactionData { offsets: NOWHERE, ..wrong },
                false => TransactionData { buffer: NOWHERE, ..wrong },
            };
            let commands = queued(&[
                Command::Transaction(wrong),
                Command::Reply(wrong),
                Command::TransactionSg(wrong.gathered(64)),
                Command::ReplySg(wrong.gathered(64)),
                Command::Transaction(told),
            ]);
            let expected = [
                Command::Transaction(nowhere),
                Command::Reply(nowhere),
                Command::TransactionSg(nowhere.gathered(64)),
                Command::ReplySg(nowhere.gathered(64)),
                Command::Transaction(told),
            ];
            assert_eq!(seen(&commands, &[&data]), expected);
        }
    }

    #[test]
    fn the_kernel_is_not_told_of_a_buffer_outside_of_lent_memory() {
        let payload = [1; 32];
        let lies_at = payload.as_ptr().addr() as u64;
        for (address, length, fine) in
            [(lies_at, 32, true), (lies_at, 33, false), (lies_at + 40, 1, false), (8, 0, true)]
        {
            let object =
                BufferObject { kind: BINDER_TYPE_PTR, buffer: address, length, ..Default::default() };
            let (data, offsets) = (object.to_bytes(), 0_u64.to_ne_bytes());
            let told = TransactionData {
                offsets: offsets.as_ptr().addr() as u64,
                offsets_size: 8,
                ..TransactionData::new(1, &data)
            };
            let command = Command::TransactionSg(told.gathered(64));
            let seen = seen(&queued(&[command]), &[&data, &offsets, &payload]);
            assert_eq!(seen == [command], fine, "{length} bytes at {address:#x}");
        }
    }

    #[test]
    fn what_others_may_change_is_passed_on_where_the_kernel_looks_at_none_of_it() {
        let (own, foreign) = ([7_u8; 16], [8_u8; 64]);
        let offsets = 0_u64.to_ne_bytes();
        let raw = [RawBytes::from(&foreign)];
        let memory = [&own[..], &offsets];
        let lent = Lent { own: &memory, raw: &raw };
        let plain = TransactionData::naming(1, raw[0]);
        let with_objects =
            TransactionData { offsets: offsets.as_ptr().addr() as u64, offsets_size: 8, ..plain };
        let hidden = TransactionData { buffer: NOWHERE, ..with_objects };
        let commands = queued(&[Command::Reply(plain), Command::Reply(with_objects)]);
        assert_eq!(seen_of(&commands, &lent), [Command::Reply(plain), Command::Reply(hidden)]);
    }

    #[test]
    fn a_buffer_that_others_may_change_is_passed_on_unless_descriptors_are_in_it() {
        let foreign = [8_u8; 64];
        let raw = [RawBytes::from(&foreign)];
        let buffer = BufferObject {
            kind: BINDER_TYPE_PTR,
            buffer: raw[0].address(),
            length: 64,
            ..Default::default()
        };
        let array = FdArrayObject { kind: BINDER_TYPE_FDA, count: 1, ..Default::default() };
        for with_descriptors in [false, true] {
            let data = [&buffer.to_bytes()[..], &array.to_bytes()].concat();
            let offsets: Vec<u8> = [0_u64, 40].map(u64::to_ne_bytes).concat();
            let count = if with_descriptors { 2 } else { 1 };
            let told = TransactionData {
                offsets: offsets.as_ptr().addr() as u64,
                offsets_size: count * 8,
                ..TransactionData::new(1, &data)
            };
            let command = Command::TransactionSg(told.gathered(64));
            let memory = [&data[..], &offsets];
            let seen = seen_of(&queued(&[command]), &Lent { own: &memory, raw: &raw });
            assert_eq!(seen == [command], !with_descriptors, "{seen:?}");
        }
    }
}
