//! Labels of a run: keys and values from `--label`, to distinguish runs. Must not know who shows
//! them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::label_fault::{LONGEST_KEY, LONGEST_VALUE, LabelFault, MOST_LABELS};

/// A run's labels, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Adds a label from `KEY=VALUE`. An existing key gets the new value.
    ///
    /// # Errors
    /// [`crate::Error::Label`] for text without a `=`, for a key that is not 1 to 64 letters,
    /// digits, `.`, `_` and `-`, for a value of more than 256 bytes or with control characters, and
    /// for the 33rd label.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(LabelFault::NotKeyValue { text: text.to_owned() }.into());
        };
        let key_of = || key.to_owned();
        let legal = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
        if key.is_empty() || key.len() > LONGEST_KEY || !key.chars().all(legal) {
            return Err(LabelFault::Key { key: key_of() }.into());
        }
        if value.len() > LONGEST_VALUE {
            return Err(LabelFault::Long { key: key_of(), bytes: value.len() }.into());
        }
        if value.contains(char::is_control) {
            return Err(LabelFault::Control { key: key_of() }.into());
        }
        if self.0.len() >= MOST_LABELS && !self.0.contains_key(key) {
            return Err(LabelFault::TooMany.into());
        }
        self.0.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// Whether there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Keeps only the labels that the other run also has.
    pub(crate) fn keep_common(&mut self, other: &Self) {
        self.0.retain(|key, value| other.0.get(key) == Some(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(texts: &[&str]) -> Labels {
        let mut labels = Labels::default();
        texts.iter().for_each(|text| labels.add(text).unwrap());
        labels
    }

    #[test]
    fn a_label_is_a_key_and_any_line_of_text() {
        let labels = labels(&["build=1234", "board=a=b, c", "empty=", "build=5"]);
        let all: Vec<_> = labels.iter().collect();
        assert_eq!(all, [("board", "a=b, c"), ("build", "5"), ("empty", "")]);
    }

    #[test]
    fn an_invalid_label_is_refused_with_the_limit() {
        let refusal = |text: &str| Labels::default().add(text).unwrap_err().to_string();
        assert!(refusal("build").contains("as in build=1234"));
        assert!(refusal("=1").contains("1 to 64 letters"));
        assert!(refusal("a b=1").contains("1 to 64 letters"));
        assert!(refusal(&format!("{}=1", "k".repeat(65))).contains("1 to 64 letters"));
        assert!(
            refusal(&format!("k={}", "v".repeat(257))).contains("has 257 bytes; at most 256 are allowed")
        );
        assert!(refusal("k=\x1b[2J").contains("control characters"));
        let mut full = Labels::default();
        (0..MOST_LABELS).for_each(|number| full.add(&format!("k{number}=1")).unwrap());
        full.add("k0=2").unwrap();
        assert!(full.add("one-more=1").unwrap_err().to_string().contains("at most 32 labels"));
    }

    #[test]
    fn runs_that_are_merged_keep_the_labels_that_both_have() {
        let mut ours = labels(&["board=x", "build=1", "own=1"]);
        ours.keep_common(&labels(&["board=x", "build=2"]));
        assert_eq!(ours, labels(&["board=x"]));
    }
}
