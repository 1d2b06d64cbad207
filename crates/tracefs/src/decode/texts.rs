//! Interns the names in events. Interning is the most expensive part of decoding a switch, so
//! thread names go through a cache first.

use std::collections::HashMap;

use crate::formats::Formats;
use crate::name::{Name, Names};

/// Number of entries, a power of two. Far fewer threads run during a recording.
const COMMS: usize = 1024;

/// Interns names for readers.
pub(crate) struct Texts<'a> {
    pub(crate) names: &'a mut Names,
    formats: &'a Formats,
    /// The thread names seen so far, by their 16 bytes. All zeros is the empty name, so unused
    /// entries need no mark.
    comms: Vec<(u128, Name)>,
    addresses: HashMap<u64, Name>,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(names: &'a mut Names, formats: &'a Formats) -> Self {
        Self { names, formats, comms: vec![(0, Name(0)); COMMS], addresses: HashMap::new() }
    }

    /// A thread's name.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a hash of both halves")]
    pub(crate) fn comm(&mut self, comm: &[u8; 16]) -> Name {
        let key = u128::from_le_bytes(*comm);
        let hash = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let entry = (hash >> 54) as usize % COMMS;
        if self.comms[entry].0 != key {
            self.comms[entry] = (key, self.text(comm));
        }
        self.comms[entry].1
    }

    /// Text up to the first zero.
    pub(crate) fn text(&mut self, bytes: &[u8]) -> Name {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        self.names.intern(&String::from_utf8_lossy(&bytes[..end]))
    }

    /// The symbol at an address, or the address in hexadecimal. Empty for 0.
    pub(crate) fn address(&mut self, address: u64) -> Name {
        if address == 0 {
            return Name(0);
        }
        if let Some(&name) = self.addresses.get(&address) {
            return name;
        }
        let name = match self.formats.symbol(address) {
            Some(symbol) => self.names.intern(symbol),
            None => self.names.intern(&format!("{address:#x}")),
        };
        self.addresses.insert(address, name);
        name
    }
}
