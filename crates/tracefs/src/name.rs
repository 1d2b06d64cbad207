//! Strings in events (names of threads, interrupts, functions), each stored once.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A string: an index into [`Names`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name(pub u32);

/// The strings of a trace. [`Name`]`(0)` is the empty one.
#[derive(Clone, Debug)]
pub struct Names {
    texts: Vec<Arc<str>>,
    places: HashMap<Arc<str>, Name>,
    /// The length of all texts.
    bytes: usize,
}

/// What a name costs besides its text: both entries, and what the text's allocation adds.
const BYTES_EACH: usize = 120;

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { texts: Vec::new(), places: HashMap::new(), bytes: 0 };
        names.intern("");
        names
    }
}

impl Names {
    /// The index of a string, which is added if it is new.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(&name) = self.places.get(text) {
            return name;
        }
        let name = Name(u32::try_from(self.texts.len()).expect("fewer names than a trace has bytes"));
        self.bytes += text.len();
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.places.insert(text, name);
        name
    }

    /// About how much memory they take, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes + self.texts.len() * BYTES_EACH
    }

    /// Replaces strings before they are shown. Lookups still use the original strings.
    pub fn change(&mut self, change: impl Fn(&str) -> Option<String>) {
        for text in &mut self.texts {
            if let Some(changed) = change(text) {
                *text = changed.into();
            }
        }
    }

    /// The string of a name; empty if it does not belong to this trace.
    #[must_use]
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_name_and_the_empty_one_is_zero() {
        let mut names = Names::default();
        let first = names.intern("kworker/0:1");
        assert_eq!(names.intern("kworker/0:1"), first);
        assert_ne!(names.intern("ksoftirqd/0"), first);
        assert_eq!((names.text(first), names.text(Name(0)), names.text(Name(99))), ("kworker/0:1", "", ""));
        assert_eq!(names.intern(""), Name(0));
    }
}
