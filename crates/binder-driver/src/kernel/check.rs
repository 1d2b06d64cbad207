//! What must hold of commands before the kernel sees them, so that it reads nothing but what its caller lent: the kernel's
//! driver takes a command's whole length and every address in it as they are, and reads whatever lies there.
//!
//! A transaction that names other memory goes to the kernel with an address that no process has. So the kernel refuses it, as it
//! refuses any memory that is not there.

use std::borrow::Cow;

use rustix::io::Errno;

use crate::memory::lent;
use crate::uapi::{
    BC_REPLY, BC_REPLY_SG, BC_TRANSACTION, BC_TRANSACTION_SG, BINDER_TYPE_PTR, BufferObject, Field as _,
    TransactionData, TransactionDataSg, payload_size,
};
use crate::{Command, Commands};

/// Above all that user space can have: the kernel answers EFAULT (`access_ok`).
const NOWHERE: u64 = 0xffff_ffff_ffff_f000;

/// What may be handed over of queued commands.
pub(super) struct Checked<'c> {
    pub(super) commands: Cow<'c, [u8]>,
    /// Why the rest may not, if there is one.
    pub(super) rest: Result<(), Errno>,
    /// Memory that `commands` name, besides what was lent: it has to stay until the kernel has seen them.
    _copies: Vec<Vec<u8>>,
}

/// Looks through the commands of `pending`, whose caller lends `memory`.
pub(super) fn check<'c>(pending: &'c [u8], memory: &[&[u8]]) -> Checked<'c> {
    let mut copies = Vec::new();
    let mut changed: Option<Vec<u8>> = None;
    let mut at = 0;
    let mut result = Ok(());
    while let Some(rest) = pending.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(word) = rest.get(..4).map(u32::take) else {
            result = Err(Errno::FAULT);
            break;
        };
        let length = 4 + payload_size(word);
        let Some(command) = rest.get(..length) else {
            result = Err(if is_known(word) { Errno::FAULT } else { Errno::INVAL });
            break;
        };
        if carries(word)
            && let Some(elsewhere) = naming_nothing(command, memory, &mut copies)
        {
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

/// Whether this is the number of a command that is known here.
fn is_known(word: u32) -> bool {
    let mut whole = vec![0; 4 + payload_size(word)];
    whole[..4].copy_from_slice(&word.to_ne_bytes());
    Command::parse(&whole).is_some()
}

/// The command as the kernel may see it, where it names memory that was not lent. Commands that are unknown here name none.
fn naming_nothing(command: &[u8], memory: &[&[u8]], copies: &mut Vec<Vec<u8>>) -> Option<Commands> {
    let (sent, gathers) = match Command::parse(command)?.0 {
        Command::Transaction(data) | Command::Reply(data) => (data.gathered(0), false),
        Command::TransactionSg(data) | Command::ReplySg(data) => (data, true),
        _ => return None,
    };
    let data = lent(memory, sent.buffer, sent.data_size);
    let offsets = lent(memory, sent.offsets, sent.offsets_size);
    let hidden = match (data, offsets) {
        (Some(data), Some(offsets)) if gathers => hide_buffers(data, offsets, memory),
        _ => None,
    };
    if data.is_some() && offsets.is_some() && hidden.is_none() {
        return None;
    }
    let offsets = if offsets.is_none() { NOWHERE } else { sent.offsets };
    let buffer = match hidden {
        Some(hidden) => {
            copies.push(hidden);
            copies.last()?.as_ptr().expose_provenance() as u64
        }
        None if data.is_none() => NOWHERE,
        None => sent.buffer,
    };
    let plain = |data| TransactionData { buffer, offsets, ..data };
    let gathered = |data| TransactionDataSg { buffer, offsets, ..data };
    let mut commands = Commands::default();
    commands.push(match Command::parse(command)?.0 {
        Command::Transaction(data) => Command::Transaction(plain(data)),
        Command::Reply(data) => Command::Reply(plain(data)),
        Command::TransactionSg(data) => Command::TransactionSg(gathered(data)),
        Command::ReplySg(data) => Command::ReplySg(gathered(data)),
        other => other,
    });
    Some(commands)
}

/// The data with the addresses of those buffers hidden that do not lie in `memory`; `None` when all do. An object that does not
/// lie in the data, the driver refuses.
fn hide_buffers(data: &[u8], offsets: &[u8], memory: &[&[u8]]) -> Option<Vec<u8>> {
    let mut hidden: Option<Vec<u8>> = None;
    for offset in offsets.chunks_exact(8).map(u64::take) {
        let place = usize::try_from(offset).ok().and_then(|at| Some(at..at.checked_add(BufferObject::SIZE)?));
        let Some(place) = place else { continue };
        let Some(object) = data.get(place.clone()).and_then(BufferObject::from_bytes) else { continue };
        if object.kind == BINDER_TYPE_PTR && lent(memory, object.buffer, object.length).is_none() {
            let nowhere = BufferObject { buffer: NOWHERE, ..object };
            hidden.get_or_insert_with(|| data.to_vec())[place].copy_from_slice(&nowhere.to_bytes());
        }
    }
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let checked = check(commands.pending(), memory);
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
        assert_eq!(parts(check(commands.pending(), &[&data])), (Cow::Borrowed(commands.pending()), Ok(())));
        assert_eq!(parts(check(&[], &[])), (Cow::Borrowed(&[][..]), Ok(())));
    }

    #[test]
    fn a_command_that_is_cut_off_stays_and_what_is_before_it_goes() {
        for cut in 1..12 {
            let commands = queued(&[Command::EnterLooper, Command::FreeBuffer(1)]);
            let bytes = &commands.pending()[..commands.pending().len() - cut];
            assert_eq!(
                parts(check(bytes, &[])),
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
        assert_eq!(parts(check(commands.pending(), &[])), (Cow::Borrowed(&[][..]), Err(Errno::INVAL)));
        commands.raw(&[0; 8]);
        assert_eq!(parts(check(commands.pending(), &[])), (Cow::Borrowed(commands.pending()), Ok(())));
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
}
