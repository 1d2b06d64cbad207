//! Packets, the units of a trace file, each with its sequence. Names are stored once per sequence.
//! Must not know what packets contain.

use roundtrip_perfetto::schema::{packet, packet_defaults, trace};
use roundtrip_perfetto::write::Message;

use std::io::{self, Write};

/// `BUILTIN_CLOCK_BOOTTIME` of the schema.
pub(super) const BOOTTIME: u32 = 6;

/// What a packet says about the names in its sequence (`TracePacket.SequenceFlags`).
const NAMES_BEGIN: u32 = 1;
const NAMES_NEEDED: u32 = 2;

/// The writer of a sequence. Perfetto sees each as a thread of a separate producer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequence {
    /// Kernel events and related packets.
    Kernel = 1,
    /// Our own tracks.
    Tracks = 2,
}

/// A trace file being written.
pub(super) struct Packets<'o> {
    out: &'o mut dyn Write,
    message: Message,
    begun: [bool; 2],
}

impl<'o> Packets<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out, message: Message::default(), begun: [false; 2] }
    }

    /// Writes a packet with content from the closure.
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
