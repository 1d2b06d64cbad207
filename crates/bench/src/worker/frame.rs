//! The bytes between parent and worker: a little-endian length, one byte for the kind, a payload.
//! Pure: bytes in, frames out, however the bytes are split. Must not know what a frame means.

use roundtrip_stored::Json;
use serde::{Deserialize, Serialize};

/// The largest payload, in bytes. Senders split bulk data, so a longer payload is invalid, and the
/// reader must not wait for it.
pub const MAX_PAYLOAD: usize = 16 << 20;

/// Length and kind.
const HEADER: usize = 5;

/// How to read a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One JSON value.
    Json = 0,
    /// Samples in their binary encoding.
    Samples = 1,
}

/// A message from the parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToWorker {
    /// The first frame.
    Start {
        /// The expected parent process.
        parent_pid: u32,
        /// The job's name ([`super::Work::NAME`]).
        name: String,
        job: Json,
    },
    /// All workers are ready.
    Go,
    /// A message for the job, with the number of descriptors sent beside it.
    Message { value: Json, descriptors: usize },
}

/// A message from a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromWorker {
    Ready,
    Message(Json),
    /// The last frame of a failed job.
    Failed(String),
    /// The last frame of a completed job.
    Done,
}

/// Encodes one frame.
pub(super) fn encode(kind: Kind, payload: &[u8]) -> Vec<u8> {
    debug_assert!(payload.len() <= MAX_PAYLOAD);
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.push(kind as u8);
    bytes.extend(payload);
    bytes
}

/// Assembles frames from pieces.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    /// How many of these bytes were already returned.
    used: usize,
}

impl Decoder {
    /// Adds what arrived.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.used);
        self.used = 0;
        self.bytes.extend(piece);
    }

    /// The next complete frame, if there is one, or why the bytes are not valid.
    pub(super) fn next(&mut self) -> Result<Option<(Kind, &[u8])>, String> {
        let bytes = &self.bytes[self.used..];
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
        let [a, b, c, d, kind] = *header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let kind = match kind {
            0 => Kind::Json,
            1 => Kind::Samples,
            other => return Err(format!("unknown kind {other}")),
        };
        if length > MAX_PAYLOAD {
            return Err(format!("{length} bytes long, at most {MAX_PAYLOAD} are allowed"));
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        self.used += HEADER + length;
        Ok(Some((kind, payload)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_reassembled_from_pieces_of_any_size() {
        let mut wire = encode(Kind::Json, b"{\"a\":1}");
        wire.extend(encode(Kind::Samples, &[7; 300]));
        wire.extend(encode(Kind::Json, b""));
        for cut in 1..wire.len() {
            let mut decoder = Decoder::default();
            let mut frames = Vec::new();
            for piece in wire.chunks(cut) {
                decoder.push(piece);
                while let Some((kind, payload)) = decoder.next().unwrap() {
                    frames.push((kind, payload.to_vec()));
                }
            }
            let expected =
                [(Kind::Json, b"{\"a\":1}".to_vec()), (Kind::Samples, vec![7; 300]), (Kind::Json, vec![])];
            assert_eq!(frames, expected, "cut every {cut} bytes");
        }
    }

    #[test]
    fn an_oversized_frame_is_refused_before_it_arrives() {
        let mut decoder = Decoder::default();
        decoder.push(&[0xff, 0xff, 0xff, 0xff, 0]);
        assert!(decoder.next().unwrap_err().contains("4294967295 bytes"));
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        let mut decoder = Decoder::default();
        decoder.push(b"thread 'main' panicked");
        assert!(decoder.next().unwrap_err().contains("unknown kind"));
    }
}
