//! Binders in parcels: `flat_binder_object`. The offsets list them, so the driver translates them.

use roundtrip_binder_driver::uapi::{BINDER_TYPE_BINDER, BINDER_TYPE_HANDLE, FlatBinderObject};

use super::{Parcel, ParcelReader};
use crate::{Binder, Error, Local, Stability};

impl Parcel {
    /// Writes a strong binder: the 24 bytes of a `flat_binder_object`, and its stability word
    /// (since Android 11). The parcel keeps the binder alive until it is cleared.
    pub fn write_binder(&mut self, binder: &Binder) {
        let object = binder.to_object();
        // Handle 0 means the same in every process. As on Android, the offsets do not list it,
        // because it needs no translation and no reference.
        if object.binder != 0 || object.kind == BINDER_TYPE_BINDER {
            self.list_object();
        }
        self.data.extend_from_slice(&object.to_bytes());
        self.write_stability(binder.stability());
        self.objects.push(binder.kept());
    }

    fn write_stability(&mut self, stability: Stability) {
        if let Some(word) = self.dialect.and_then(|dialect| dialect.stability_word(stability)) {
            self.write_i32(word);
        }
    }

    /// Writes a strong binder, or null. Null is a zeroed object that the offsets do not list, as on
    /// Android.
    pub fn write_nullable_binder(&mut self, binder: Option<&Binder>) {
        match binder {
            Some(binder) => self.write_binder(binder),
            None => {
                let null = FlatBinderObject { kind: BINDER_TYPE_BINDER, ..Default::default() };
                self.data.extend_from_slice(&null.to_bytes());
                self.write_stability(Stability::Undeclared);
            }
        }
    }

    /// Adds the offset of the object that is written next.
    pub(crate) fn list_object(&mut self) {
        self.offsets.extend_from_slice(&(self.data.len() as u64).to_ne_bytes());
    }

    /// Appends an object and adds its offset, which is returned.
    pub(crate) fn put_object(&mut self, bytes: &[u8]) -> usize {
        self.list_object();
        self.data.extend_from_slice(bytes);
        self.data.len() - bytes.len()
    }

    /// Overwrites bytes at an offset.
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        self.data[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl ParcelReader<'_> {
    /// Returns true if an offset lists an object at the current position.
    pub(crate) fn at_object(&mut self) -> bool {
        while let Some(offset) = self.offset(self.next_offset) {
            if offset >= self.at as u64 {
                return offset == self.at as u64;
            }
            self.next_offset += 1;
        }
        false
    }

    /// The offset of the object with this index.
    pub(crate) fn offset(&self, index: usize) -> Option<u64> {
        self.offsets.array(index.checked_mul(8)?).map(u64::from_ne_bytes)
    }

    /// Returns a copy of the listed object at the current position without consuming it.
    pub(crate) fn peek_object<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        if !self.at_object() {
            return Err(self.malformed(what, "there is no object here"));
        }
        self.peek_array().ok_or_else(|| self.too_short(what))
    }

    /// Reads a strong binder.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no offset lists an object at this position, for null, for another
    /// type of object, for a local node that this process does not have, and for a reader without a
    /// process.
    pub fn read_binder(&mut self) -> Result<Binder, Error> {
        let binder = self.read_nullable_binder()?;
        binder.ok_or_else(|| self.malformed("a binder", "it is null"))
    }

    /// Reads a strong binder, or null.
    ///
    /// # Errors
    /// See [`ParcelReader::read_binder`].
    pub fn read_nullable_binder(&mut self) -> Result<Option<Binder>, Error> {
        const WHAT: &str = "a binder";
        let listed = self.at_object();
        let object = self.peek_array::<{ FlatBinderObject::SIZE }>();
        let object = object.and_then(|object| FlatBinderObject::from_bytes(&object));
        let object = object.ok_or_else(|| self.too_short(WHAT))?;
        let zero = object.binder == 0 && object.cookie == 0;
        let null = object.kind == BINDER_TYPE_BINDER && zero && !listed;
        if !listed && !zero {
            return Err(self.malformed(WHAT, "there is no object here"));
        }
        if !null && self.process.is_none() {
            return Err(self.malformed(WHAT, "the bytes belong to no process"));
        }
        let length = FlatBinderObject::SIZE;
        let stability = self.peek_stability(length)?;
        let binder = match (object.kind, self.process) {
            _ if null => None,
            (BINDER_TYPE_HANDLE, Some(process)) => {
                let handle = u32::try_from(object.binder)
                    .map_err(|_| self.malformed(WHAT, "its handle has more than 32 bits"))?;
                Some(Binder::Remote(process.proxy_for(handle, stability)))
            }
            (BINDER_TYPE_BINDER, Some(process)) => {
                let local = process.nodes().find(object.binder, object.cookie).map(Local);
                Some(Binder::Local(
                    local.ok_or_else(|| self.malformed(WHAT, "this process has no such node"))?,
                ))
            }
            _ => return Err(self.malformed(WHAT, "it is an object of another type")),
        };
        self.take(WHAT, length)?;
        if self.has_stability() {
            self.read_i32()?;
        }
        Ok(binder)
    }

    fn has_stability(&self) -> bool {
        self.dialect.is_some_and(|dialect| dialect.stability_word(Stability::Undeclared).is_some())
    }

    /// Reads the stability word `after` bytes after the current position, without consuming it.
    /// Without a word, Android assumes `System`.
    fn peek_stability(&self, after: usize) -> Result<Stability, Error> {
        const WHAT: &str = "a binder's stability";
        if !self.has_stability() {
            return Ok(Stability::System);
        }
        let word = self.peek(after + 4).and_then(|bytes| bytes.array(after)).map(i32::from_le_bytes);
        let word = word.ok_or_else(|| {
            self.malformed(WHAT, "the parcel ends too early (does the sender use another dialect?)")
        })?;
        Stability::from_word(word).ok_or_else(|| self.malformed(WHAT, "there is no such level"))
    }
}
