//! Names of what is read: interning is the dearest part of reading a switch, so the threads' names
//! go through a table first.

use std::collections::HashMap;

use crate::formats::Formats;
use crate::name::{Name, Names};

/// A power of two of entries; a machine has far fewer threads that run within one recording.
const COMMS: usize = 1024;

/// Where readers get names from.
pub(crate) struct Texts<'a> {
    pub(crate) names: &'a mut Names,
    formats: &'a Formats,
    /// Threads' names seen, by their 16 bytes. All zero is the empty name, so the table needs no
    /// mark for "free".
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

    /// Characters up to the first zero.
    pub(crate) fn text(&mut self, bytes: &[u8]) -> Name {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        self.names.intern(&String::from_utf8_lossy(&bytes[..end]))
    }

    /// What is at an address: its symbol, or itself in hexadecimal. Nothing for 0.
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
