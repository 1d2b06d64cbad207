//! Packets, of which a trace file is a sequence of: each with the sequence that it belongs to,
//! since names are stored once for each sequence. Must not know what is in them.

use std::io::{self, Write};

use super::schema::{packet, packet_defaults, trace};
use super::wire::Message;

/// `BUILTIN_CLOCK_BOOTTIME` of the schema.
pub(super) const BOOTTIME: u32 = 6;

/// What a packet says about its sequence's names (`TracePacket.SequenceFlags`).
const NAMES_BEGIN: u32 = 1;
const NAMES_NEEDED: u32 = 2;

/// Who writes. Perfetto takes each for a thread of its own producer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequence {
    /// Kernel events, and what goes with them.
    Kernel = 1,
    /// Tracks of our own.
    Tracks = 2,
}

/// A trace file in the making.
pub(super) struct Packets<'o> {
    out: &'o mut dyn Write,
    message: Message,
    begun: [bool; 2],
}

impl<'o> Packets<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out, message: Message::default(), begun: [false; 2] }
    }

    /// Writes a packet with the content that the closure gives it.
    pub(super) fn write(&mut self, sequence: Sequence, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        let begun = std::mem::replace(&mut self.begun[sequence as usize - 1], true);
        self.message.clear();
        self.message.nested(trace::packet, |message| {
            message.uint(packet::trusted_packet_sequence_id, sequence as u32);
            match begun {
                true => message.uint(packet::sequence_flags, NAMES_NEEDED),
                false => message.uint(packet::sequence_flags, NAMES_BEGIN | NAMES_NEEDED).nested(
                    packet::trace_packet_defaults,
                    |defaults| {
                        defaults.uint(packet_defaults::timestamp_clock_id, BOOTTIME);
                    },
                ),
            };
            fill(message);
        });
        self.out.write_all(self.message.bytes())
    }
}
