//! What must hold of commands before the kernel sees them, so that it reads nothing but what its caller lent: the kernel's
//! driver takes a command's whole length and every address in it as they are, and reads whatever lies there.

use rustix::io::Errno;

use crate::Command;
use crate::memory::lent;
use crate::uapi::{BINDER_TYPE_PTR, BufferObject, Field as _, TransactionData, payload_size};

/// How many bytes of `pending` are whole commands that name only `memory`, and why the rest is not handed over, if there is one.
pub(super) fn check(pending: &[u8], memory: &[&[u8]]) -> (usize, Result<(), Errno>) {
    let mut at = 0;
    while let Some(rest) = pending.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(word) = rest.get(..4).map(u32::take) else { return (at, Err(Errno::FAULT)) };
        let length = 4 + payload_size(word);
        if rest.len() < length || !is_lent(rest, memory) {
            return (at, Err(Errno::FAULT));
        }
        at += length;
    }
    (at, Ok(()))
}

/// Whether all that the first command names lies in `memory`. Commands that are unknown here name none.
fn is_lent(command: &[u8], memory: &[&[u8]]) -> bool {
    match Command::parse(command) {
        Some((Command::Transaction(data) | Command::Reply(data), _)) => are_lent(&data, false, memory),
        Some((Command::TransactionSg(data) | Command::ReplySg(data), _)) => {
            let plain = TransactionData {
                data_size: data.data_size,
                offsets_size: data.offsets_size,
                buffer: data.buffer,
                offsets: data.offsets,
                ..Default::default()
            };
            are_lent(&plain, true, memory)
        }
        _ => true,
    }
}

fn are_lent(sent: &TransactionData, gathered: bool, memory: &[&[u8]]) -> bool {
    let data = lent(memory, sent.buffer, sent.data_size);
    let (Some(data), Some(offsets)) = (data, lent(memory, sent.offsets, sent.offsets_size)) else {
        return false;
    };
    // An object that does not lie in the data, the driver refuses.
    let object = |offset: u64| BufferObject::from_bytes(data.get(usize::try_from(offset).ok()?..)?);
    !gathered
        || offsets.chunks_exact(8).map(u64::take).filter_map(object).all(|object| {
            object.kind != BINDER_TYPE_PTR || lent(memory, object.buffer, object.length).is_some()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Commands;

    fn queued(commands: &[Command]) -> Commands {
        let mut all = Commands::default();
        commands.iter().for_each(|command| all.push(*command));
        all
    }

    #[test]
    fn whole_commands_that_name_lent_memory_are_handed_over() {
        let data = [7; 16];
        let commands = queued(&[
            Command::FreeBuffer(0x1000),
            Command::Transaction(TransactionData::new(1, &data)),
            Command::EnterLooper,
        ]);
        assert_eq!(check(commands.pending(), &[&data]), (commands.pending().len(), Ok(())));
        assert_eq!(check(&[], &[]), (0, Ok(())));
    }

    #[test]
    fn a_command_that_is_cut_off_stays_and_what_is_before_it_goes() {
        for cut in 1..12 {
            let mut commands = queued(&[Command::EnterLooper, Command::FreeBuffer(1)]);
            let bytes = commands.pending()[..commands.pending().len() - cut].to_vec();
            commands.clear();
            commands.raw(&bytes);
            assert_eq!(check(commands.pending(), &[]), (4, Err(Errno::FAULT)), "{cut} bytes are missing");
        }
    }

    #[test]
    fn an_unknown_command_is_the_drivers_to_refuse_if_it_is_whole() {
        // Write, type 'c', number 200, 8 bytes.
        let word = 1_u32 << 30 | 8 << 16 | u32::from(b'c') << 8 | 200;
        let mut commands = Commands::default();
        commands.raw(&word.to_ne_bytes());
        assert_eq!(check(commands.pending(), &[]), (0, Err(Errno::FAULT)));
        commands.raw(&[0; 8]);
        assert_eq!(check(commands.pending(), &[]), (12, Ok(())));
    }

    #[test]
    fn data_and_offsets_outside_of_lent_memory_are_refused() {
        let (data, other) = ([7; 16], [8; 16]);
        let told = TransactionData::new(1, &data);
        for wrong in [
            TransactionData { data_size: 17, ..told },
            TransactionData { data_size: u64::MAX, ..told },
            TransactionData { buffer: told.buffer - 1, ..told },
            TransactionData { offsets: other.as_ptr().addr() as u64, offsets_size: 8, ..told },
        ] {
            for command in [Command::Transaction(wrong), Command::ReplySg(wrong.gathered(64))] {
                let commands = queued(&[Command::EnterLooper, command]);
                assert_eq!(check(commands.pending(), &[&data]), (4, Err(Errno::FAULT)), "{command:?}");
            }
        }
    }

    #[test]
    fn a_buffer_outside_of_lent_memory_is_refused() {
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
            let commands = queued(&[Command::TransactionSg(told.gathered(64))]);
            let (_, result) = check(commands.pending(), &[&data, &offsets, &payload]);
            assert_eq!(result.is_ok(), fine, "{length} bytes at {address:#x}");
        }
    }
}
