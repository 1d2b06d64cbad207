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

/// The commands of `pending` that may be handed over, and why the rest may not, if there is one.
pub(super) fn check<'c>(pending: &'c [u8], memory: &[&[u8]]) -> (Cow<'c, [u8]>, Result<(), Errno>) {
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
            && let Some(elsewhere) = naming_nothing(command, memory)
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
    (commands, result)
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
fn naming_nothing(command: &[u8], memory: &[&[u8]]) -> Option<Commands> {
    let nowhere = |data: TransactionData| TransactionData { buffer: NOWHERE, offsets: NOWHERE, ..data };
    let gathered = |data: TransactionDataSg| TransactionDataSg { buffer: NOWHERE, offsets: NOWHERE, ..data };
    let changed = match Command::parse(command)?.0 {
        Command::Transaction(data) if !plain_is_lent(&data, memory) => Command::Transaction(nowhere(data)),
        Command::Reply(data) if !plain_is_lent(&data, memory) => Command::Reply(nowhere(data)),
        Command::TransactionSg(data) if !is_lent(&data, memory) => Command::TransactionSg(gathered(data)),
        Command::ReplySg(data) if !is_lent(&data, memory) => Command::ReplySg(gathered(data)),
        _ => return None,
    };
    let mut commands = Commands::default();
    commands.push(changed);
    Some(commands)
}

/// Whether data and offsets lie in `memory`.
#[inline]
fn plain_is_lent(sent: &TransactionData, memory: &[&[u8]]) -> bool {
    lent(memory, sent.buffer, sent.data_size).is_some()
        && lent(memory, sent.offsets, sent.offsets_size).is_some()
}

/// Whether data, offsets and all buffers lie in `memory`.
fn is_lent(sent: &TransactionDataSg, memory: &[&[u8]]) -> bool {
    let data = lent(memory, sent.buffer, sent.data_size);
    let (Some(data), Some(offsets)) = (data, lent(memory, sent.offsets, sent.offsets_size)) else {
        return false;
    };
    // An object that does not lie in the data, the driver refuses.
    let object = |offset: u64| BufferObject::from_bytes(data.get(usize::try_from(offset).ok()?..)?);
    offsets
        .chunks_exact(8)
        .map(u64::take)
        .filter_map(object)
        .all(|object| object.kind != BINDER_TYPE_PTR || lent(memory, object.buffer, object.length).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(commands: &[Command]) -> Commands {
        let mut all = Commands::default();
        commands.iter().for_each(|command| all.push(*command));
        all
    }

    /// What the kernel would see.
    fn seen(commands: &Commands, memory: &[&[u8]]) -> Vec<Command> {
        let (handed, result) = check(commands.pending(), memory);
        assert_eq!((handed.len(), result), (commands.pending().len(), Ok(())));
        let mut rest = &*handed;
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
        assert_eq!(check(commands.pending(), &[&data]), (Cow::Borrowed(commands.pending()), Ok(())));
        assert_eq!(check(&[], &[]), (Cow::Borrowed(&[][..]), Ok(())));
    }

    #[test]
    fn a_command_that_is_cut_off_stays_and_what_is_before_it_goes() {
        for cut in 1..12 {
            let commands = queued(&[Command::EnterLooper, Command::FreeBuffer(1)]);
            let bytes = &commands.pending()[..commands.pending().len() - cut];
            assert_eq!(check(bytes, &[]), (Cow::Borrowed(&bytes[..4]), Err(Errno::FAULT)), "{cut} missing");
        }
    }

    #[test]
    fn an_unknown_command_is_the_drivers_to_refuse_if_it_is_whole() {
        // Write, type 'c', number 200, 8 bytes.
        let word = 1_u32 << 30 | 8 << 16 | u32::from(b'c') << 8 | 200;
        let mut commands = Commands::default();
        commands.raw(&word.to_ne_bytes());
        assert_eq!(check(commands.pending(), &[]), (Cow::Borrowed(&[][..]), Err(Errno::INVAL)));
        commands.raw(&[0; 8]);
        assert_eq!(check(commands.pending(), &[]), (Cow::Borrowed(commands.pending()), Ok(())));
    }

    #[test]
    fn the_kernel_is_not_told_of_data_and_offsets_outside_of_lent_memory() {
        let (data, other) = ([7; 16], [8; 16]);
        let told = TransactionData::new(1, &data);
        for wrong in [
            TransactionData { data_size: 17, ..told },
            TransactionData { data_size: u64::MAX, ..told },
            TransactionData { buffer: told.buffer - 1, ..told },
            TransactionData { offsets: other.as_ptr().addr() as u64, offsets_size: 8, ..told },
        ] {
            let nowhere = TransactionData { buffer: NOWHERE, offsets: NOWHERE, ..wrong };
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
