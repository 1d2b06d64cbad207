//! Checks commands before the kernel sees them, so that the kernel reads only memory that the
//! caller passed. The kernel driver itself trusts the length of a command and every address in it.
//!
//! If a transaction refers to other memory, this file replaces the address with one that no process
//! has. The kernel then refuses the transaction, as for any unmapped memory. Truncated and unknown
//! commands do not reach the kernel: a later kernel might know the command and read addresses in
//! it.

use std::borrow::Cow;
use std::ops::Range;

use rustix::io::Errno;

use crate::uapi::{
    BC_REPLY, BC_REPLY_SG, BC_TRANSACTION, BC_TRANSACTION_SG, BINDER_TYPE_FDA, BINDER_TYPE_PTR, BufferObject,
    FdArrayObject, Field as _, TransactionData, TransactionDataSg, payload_size,
};
use crate::{Command, Commands, ReadableMemory};

/// An address above all user-space addresses: the kernel fails with EFAULT (`access_ok`).
const NOWHERE: u64 = 0xffff_ffff_ffff_f000;

/// Replaces a refused command. No kernel has a command with this number, which encodes an empty
/// payload. The kernel fails with EINVAL if it reaches it.
const NO_COMMAND: u32 = 0xff;

/// The queued commands that may go to the kernel.
pub(super) struct Checked<'c> {
    /// Whole commands, and [`NO_COMMAND`] after them if the next one is refused.
    pub(super) commands: Cow<'c, [u8]>,
    /// The length in bytes of the whole commands.
    pub(super) whole: usize,
    /// The errno of the refused command, if there is one.
    pub(super) refused: Option<Errno>,
    /// Further memory that `commands` refer to. It must stay alive until the kernel has read the
    /// commands.
    _copies: Vec<Vec<u8>>,
}

/// Checks the commands in `pending`, which may refer only to `memory`.
#[inline]
pub(super) fn check<'c>(pending: &'c [u8], memory: &ReadableMemory<'_>) -> Checked<'c> {
    let mut at = 0;
    loop {
        let rest = &pending[at..];
        if rest.is_empty() {
            let commands = Cow::Borrowed(pending);
            return Checked { commands, whole: at, refused: None, _copies: Vec::new() };
        }
        let Some((word, command)) = rest.split_first_chunk() else { return check_each(pending, at, memory) };
        let word = u32::from_ne_bytes(*word);
        let length = payload_size(word);
        // The fast path handles only the simplest case. The slow path handles all others.
        let plain = Command::is_known(word)
            && command
                .get(..length)
                .is_some_and(|payload| !carries(word) || command_is_readable(word, payload, memory));
        if !plain {
            return check_each(pending, at, memory);
        }
        at += 4 + length;
    }
}

/// Like [`check`], if the commands before `start` are known to be valid.
#[cold]
fn check_each<'c>(pending: &'c [u8], start: usize, memory: &ReadableMemory<'_>) -> Checked<'c> {
    let mut copies = Vec::new();
    let mut changed: Option<Vec<u8>> = None;
    let mut at = start;
    let mut refused = None;
    while let Some(rest) = pending.get(at..).filter(|rest| !rest.is_empty()) {
        let word = rest.get(..4).map(u32::take).filter(|&word| Command::is_known(word));
        let length = word.map_or(4, |word| 4 + payload_size(word));
        let Some(command) = rest.get(..length).filter(|_| word.is_some()) else {
            refused = Some(Command::refusal(rest));
            break;
        };
        if let Some(elsewhere) = naming_nothing(command, memory, &mut copies) {
            let all = changed.get_or_insert_with(|| pending.to_vec());
            all[at..at + length].copy_from_slice(elsewhere.pending());
        }
        at += length;
    }
    let mut commands = changed.map_or(Cow::Borrowed(pending), Cow::Owned);
    if refused.is_some() {
        let commands = commands.to_mut();
        commands.truncate(at);
        commands.extend(NO_COMMAND.to_ne_bytes());
    }
    Checked { commands, whole: at, refused, _copies: copies }
}

/// Returns true if a command of this number refers to memory.
#[inline]
fn carries(word: u32) -> bool {
    matches!(word, BC_TRANSACTION | BC_REPLY | BC_TRANSACTION_SG | BC_REPLY_SG)
}

/// The offsets of the fields that refer to memory, in the payload of each command that
/// [`carries`] memory: `struct binder_transaction_data`.
const DATA_SIZE: usize = 32;
const OFFSETS_SIZE: usize = 40;
const BUFFER: usize = 48;
const OFFSETS: usize = 56;

/// Returns true if `memory` contains all memory that a command refers to. The command must be one
/// that [`carries`] memory.
// Inlined, and reads only single fields, because every call uses this function.
#[inline]
fn command_is_readable(word: u32, payload: &[u8], memory: &ReadableMemory<'_>) -> bool {
    let Some(payload) = payload.first_chunk::<{ TransactionData::SIZE }>() else { return false };
    let field = |at: usize| u64::take(&payload[at..]);
    let (buffer, data_size) = (field(BUFFER), field(DATA_SIZE));
    if field(OFFSETS_SIZE) == 0 {
        return memory.bytes(buffer, data_size).is_some();
    }
    let offsets = memory.slice(field(OFFSETS), field(OFFSETS_SIZE));
    let Some((data, offsets)) = memory.slice(buffer, data_size).zip(offsets) else { return false };
    let gathers = matches!(word, BC_TRANSACTION_SG | BC_REPLY_SG);
    !gathers || offsets.chunks_exact(8).all(|offset| object_is_readable(data, offset, memory))
}

/// Returns true if an object refers to no memory, or is a buffer inside `memory`.
#[inline]
fn object_is_readable(data: &[u8], offset: &[u8], memory: &ReadableMemory<'_>) -> bool {
    let object = usize::try_from(u64::take(offset)).ok().and_then(|at| data.get(at..)).unwrap_or_default();
    // An object that extends beyond the data passes this check, because the kernel refuses it.
    match object.first_chunk().map(|kind| u32::from_ne_bytes(*kind)) {
        Some(BINDER_TYPE_PTR) => object.first_chunk::<{ BufferObject::SIZE }>().is_none_or(|object| {
            memory.bytes(u64::take(&object[BUFFER_ADDRESS..]), u64::take(&object[BUFFER_LENGTH..])).is_some()
        }),
        kind => kind != Some(BINDER_TYPE_FDA),
    }
}

/// Offsets in a [`BufferObject`].
const BUFFER_ADDRESS: usize = 8;
const BUFFER_LENGTH: usize = 16;

/// Returns a replacement for a command that refers to anything outside `memory`; `None` for any
/// other command.
fn naming_nothing(
    command: &[u8],
    memory: &ReadableMemory<'_>,
    copies: &mut Vec<Vec<u8>>,
) -> Option<Commands> {
    let (command, _) = Command::parse(command)?;
    let (sent, gathers) = match command {
        Command::Transaction(data) | Command::Reply(data) => (data.gathered(0), false),
        Command::TransactionSg(data) | Command::ReplySg(data) => (data, true),
        _ => return None,
    };
    let offsets = memory.slice(sent.offsets, sent.offsets_size);
    let own = memory.slice(sent.buffer, sent.data_size);
    // The kernel reads objects in the data, so data with objects must be in the caller's own
    // memory, which no other process can change after this check.
    let passed_on = || sent.offsets_size == 0 && memory.bytes(sent.buffer, sent.data_size).is_some();
    let is_readable = own.is_some() || passed_on();
    let hidden = match (own, offsets) {
        (Some(data), Some(offsets)) if gathers => hide_buffers(data, offsets, memory),
        _ => Hidden::Nothing,
    };
    if is_readable && offsets.is_some() && matches!(hidden, Hidden::Nothing) {
        return None;
    }
    let offsets = if offsets.is_none() { NOWHERE } else { sent.offsets };
    let buffer = match hidden {
        Hidden::Buffers(data) => {
            copies.push(data);
            copies.last()?.as_ptr().expose_provenance() as u64
        }
        Hidden::Nothing if is_readable => sent.buffer,
        Hidden::Nothing | Hidden::All => NOWHERE,
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

/// What must be hidden in data with scatter-gather buffers.
enum Hidden {
    /// Nothing: all buffers are inside the passed memory.
    Nothing,
    /// Some addresses: this is a copy of the data without them.
    Buffers(Vec<u8>),
    /// All of the data. Objects overlap, so hiding the address of one object would change the
    /// address of another.
    All,
}

/// Hides the addresses in `data` of buffers outside `memory`. The driver itself refuses an object
/// that is outside the data.
fn hide_buffers(data: &[u8], offsets: &[u8], memory: &ReadableMemory<'_>) -> Hidden {
    let wrong = unreadable_buffers(data, offsets, memory);
    if wrong.is_empty() {
        return Hidden::Nothing;
    }
    let mut hidden = data.to_vec();
    for (place, object) in wrong {
        let nowhere = BufferObject { buffer: NOWHERE, ..object };
        hidden[place].copy_from_slice(&nowhere.to_bytes());
    }
    let all_hidden =
        unreadable_buffers(&hidden, offsets, memory).iter().all(|(_, object)| object.buffer == NOWHERE);
    if all_hidden { Hidden::Buffers(hidden) } else { Hidden::All }
}

/// Finds buffer objects outside `memory`, and their ranges in `data`. A buffer with an array of
/// descriptors must be the caller's own memory, because the kernel reads it.
fn unreadable_buffers(
    data: &[u8],
    offsets: &[u8],
    memory: &ReadableMemory<'_>,
) -> Vec<(Range<usize>, BufferObject)> {
    let mut wrong = Vec::new();
    for offset in offsets.chunks_exact(8) {
        if let Some((place, object)) = buffer_at(data, offset) {
            if memory.bytes(object.buffer, object.length).is_none() {
                wrong.push((place, object));
            }
        } else if let Some((_, array)) =
            object_at(data, offset, FdArrayObject::SIZE, FdArrayObject::from_bytes)
            && array.kind == BINDER_TYPE_FDA
        {
            // The kernel reads the descriptor numbers in an array's buffer, so the buffer must be
            // in the caller's own memory.
            let parent = usize::try_from(array.parent).ok().and_then(|index| index.checked_mul(8));
            let parent = parent.and_then(|at| offsets.get(at..at.checked_add(8)?));
            let parent = parent.and_then(|offset| buffer_at(data, offset));
            let is_own = |object: &BufferObject| memory.slice(object.buffer, object.length).is_some();
            wrong.extend(parent.filter(|(_, object)| !is_own(object)));
        }
    }
    wrong
}

/// The scatter-gather object at an offset, and its range.
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
mod tests;
