//! One round trip: its instants, the CPU and policy of both threads, and its fixed binary form.
//! This file knows no transports or clocks.

use serde::{Deserialize, Serialize};

use crate::{Error, Policy};

/// The CPU and the scheduling of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Placement {
    /// CPU number.
    pub cpu: u32,
    /// Effective scheduling policy.
    pub policy: Policy,
    /// Real-time priority 1–99; 0 under a fair policy.
    pub priority: u8,
    /// Nice value −20–19; has no effect under a real-time policy.
    pub nice: i8,
}

/// One round trip. All instants are CLOCK_BOOTTIME nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Sample {
    /// When the call was scheduled to begin. Equal to `start_ns` unless calls have a fixed rate.
    pub intended_ns: u64,
    /// When the client began the call.
    pub start_ns: u64,
    /// When the server's handler began, by the server's timestamp; 0 if unknown.
    pub received_ns: u64,
    /// When the server's handler ended, by the server's timestamp; 0 if unknown.
    pub replied_ns: u64,
    /// When the client had the reply.
    pub end_ns: u64,
    /// The calling thread.
    pub caller: Placement,
    /// The thread that served the call.
    pub server: Placement,
}

/// The three legs of a round trip, in nanoseconds. They add up to its latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Legs {
    /// From the start of the call until the handler begins.
    pub request_ns: u64,
    /// In the handler.
    pub handling_ns: u64,
    /// From the handler's end until the caller runs again.
    pub reply_ns: u64,
}

impl Placement {
    const ENCODED_LEN: usize = 10;

    fn encode(&self, out: &mut [u8]) {
        out[0..4].copy_from_slice(&self.cpu.to_le_bytes());
        out[4..8].copy_from_slice(&self.policy.to_kernel().to_le_bytes());
        out[8] = self.priority;
        out[9] = self.nice.to_le_bytes()[0];
    }

    fn decode(bytes: &[u8]) -> Self {
        Self {
            cpu: u32_at(bytes, 0),
            policy: Policy::from_kernel(u32_at(bytes, 4)),
            priority: bytes[8],
            nice: i8::from_le_bytes([bytes[9]]),
        }
    }
}

impl Sample {
    /// Length of one encoded sample in bytes.
    pub const ENCODED_LEN: usize = 5 * 8 + 2 * Placement::ENCODED_LEN;

    /// From the start of the call to its reply, in nanoseconds; 0 if the clock went backwards.
    #[must_use]
    pub const fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// From the *scheduled* start to the reply, in nanoseconds. Includes the wait behind an earlier
    /// slow call, which [`Self::latency_ns`] does not (coordinated omission).
    #[must_use]
    pub const fn response_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.intended_ns)
    }

    /// The legs of the round trip. `None` if the server's timestamps are missing or outside the
    /// call.
    #[must_use]
    pub fn legs(&self) -> Option<Legs> {
        let stamps = [self.start_ns, self.received_ns, self.replied_ns, self.end_ns];
        if self.received_ns == 0 || self.replied_ns == 0 || !stamps.is_sorted() {
            return None;
        }
        Some(Legs {
            request_ns: self.received_ns - self.start_ns,
            handling_ns: self.replied_ns - self.received_ns,
            reply_ns: self.end_ns - self.replied_ns,
        })
    }

    /// Whether the server thread ran on the caller's CPU.
    #[must_use]
    pub const fn same_cpu(&self) -> bool {
        self.caller.cpu == self.server.cpu
    }

    /// Whether the server thread ran with the caller's policy class and real-time priority.
    #[must_use]
    pub fn inherited(&self) -> bool {
        self.caller.policy.class() == self.server.policy.class()
            && self.caller.priority == self.server.priority
    }

    /// The fixed little-endian form: five instants, then the caller and the server as CPU (u32),
    /// policy (u32, the kernel's number), priority (u8) and nice (i8).
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::ENCODED_LEN] {
        let mut out = [0; Self::ENCODED_LEN];
        let instants = [self.intended_ns, self.start_ns, self.received_ns, self.replied_ns, self.end_ns];
        for (slot, instant) in out.chunks_exact_mut(8).zip(instants) {
            slot.copy_from_slice(&instant.to_le_bytes());
        }
        self.caller.encode(&mut out[40..50]);
        self.server.encode(&mut out[50..60]);
        out
    }

    /// The inverse of [`Self::to_bytes`]. All bytes are valid.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::ENCODED_LEN]) -> Self {
        Self {
            intended_ns: u64_at(bytes, 0),
            start_ns: u64_at(bytes, 8),
            received_ns: u64_at(bytes, 16),
            replied_ns: u64_at(bytes, 24),
            end_ns: u64_at(bytes, 32),
            caller: Placement::decode(&bytes[40..50]),
            server: Placement::decode(&bytes[50..60]),
        }
    }

    /// Encodes samples one after the other.
    pub fn encode_all(samples: &[Self]) -> Vec<u8> {
        samples.iter().flat_map(Self::to_bytes).collect()
    }

    /// Decodes what [`Self::encode_all`] wrote.
    ///
    /// # Errors
    /// [`Error::SampleFrame`] if the length is not a multiple of [`Self::ENCODED_LEN`].
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, Error> {
        let (samples, rest) = bytes.as_chunks::<{ Self::ENCODED_LEN }>();
        if !rest.is_empty() {
            return Err(Error::SampleFrame { bytes: bytes.len(), sample: Self::ENCODED_LEN });
        }
        Ok(samples.iter().map(Self::from_bytes).collect())
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Sample {
        Sample {
            intended_ns: 50,
            start_ns: 100,
            received_ns: 130,
            replied_ns: 170,
            end_ns: 200,
            caller: Placement { cpu: 1, policy: Policy::Fifo, priority: 99, nice: 0 },
            server: Placement { cpu: 1, policy: Policy::RoundRobin, priority: 99, nice: 0 },
        }
    }

    #[test]
    fn legs_add_up_to_the_latency() {
        let legs = sample().legs().expect("the stamps are in order");
        assert_eq!(legs, Legs { request_ns: 30, handling_ns: 40, reply_ns: 30 });
        assert_eq!(legs.request_ns + legs.handling_ns + legs.reply_ns, sample().latency_ns());
    }

    #[test]
    fn the_response_counts_the_wait_before_the_call() {
        assert_eq!((sample().latency_ns(), sample().response_ns()), (100, 150));
    }

    #[test]
    fn missing_or_disordered_timestamps_give_no_legs() {
        assert_eq!(Sample { received_ns: 0, ..sample() }.legs(), None);
        assert_eq!(Sample { replied_ns: 0, ..sample() }.legs(), None);
        assert_eq!(Sample { replied_ns: 120, ..sample() }.legs(), None);
        assert_eq!(Sample { replied_ns: 201, ..sample() }.legs(), None);
    }

    #[test]
    fn inheritance_compares_class_and_priority_but_not_nice_or_cpu() {
        assert!(sample().inherited());
        let mut other = sample();
        (other.server.nice, other.server.cpu) = (10, 0);
        assert!(other.inherited() && !other.same_cpu());
        other.server.priority = 98;
        assert!(!other.inherited());
        other.server = Placement { policy: Policy::Other, priority: 99, ..other.server };
        assert!(!other.inherited());
    }

    #[test]
    fn a_truncated_frame_is_rejected() {
        let bytes = Sample::encode_all(&[sample(), sample()]);
        let error = Sample::decode_all(&bytes[..bytes.len() - 1]).expect_err("one byte is missing");
        assert_eq!(error, Error::SampleFrame { bytes: 119, sample: 60 });
    }

    prop_compose! {
        fn any_placement()(cpu: u32, policy: u32, priority: u8, nice: i8) -> Placement {
            Placement { cpu, policy: Policy::from_kernel(policy), priority, nice }
        }
    }

    prop_compose! {
        fn any_sample()(
            t in any::<[u64; 5]>(), caller in any_placement(), server in any_placement(),
        ) -> Sample {
            Sample {
                intended_ns: t[0], start_ns: t[1], received_ns: t[2], replied_ns: t[3], end_ns: t[4],
                caller, server,
            }
        }
    }

    proptest! {
        #[test]
        fn samples_round_trip_through_bytes_and_json(samples in proptest::collection::vec(any_sample(), 0..20)) {
            let decoded = Sample::decode_all(&Sample::encode_all(&samples));
            prop_assert_eq!(decoded.as_ref(), Ok(&samples));
            let json = serde_json::to_string(&samples).expect("samples serialise");
            prop_assert_eq!(serde_json::from_str::<Vec<Sample>>(&json).expect("and come back"), samples);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Sample::decode_all(&bytes).is_ok(), bytes.len() % Sample::ENCODED_LEN == 0);
        }
    }
}
