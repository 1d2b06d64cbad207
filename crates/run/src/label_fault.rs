//! Limits of labels, and the errors in labels. Must not know how they are stored.

/// The maximum number of labels in a run.
pub const MOST_LABELS: usize = 32;

/// The maximum length of a key, in bytes.
pub const LONGEST_KEY: usize = 64;

/// The maximum length of a value, in bytes.
pub const LONGEST_VALUE: usize = 256;

/// Why a label cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelFault {
    /// There is no equals sign.
    #[error("'{text}' is not KEY=VALUE, as in build=1234")]
    NotKeyValue {
        /// The given text.
        text: String,
    },
    /// A key that is empty, is too long, or contains characters that are not allowed.
    #[error("the key '{key}' is not 1 to {LONGEST_KEY} letters, digits, '.', '_' and '-'")]
    Key {
        /// The key.
        key: String,
    },
    /// A value that is too long.
    #[error("the value of '{key}' has {bytes} bytes; at most {LONGEST_VALUE} are allowed")]
    Long {
        /// Its key.
        key: String,
        /// Its length, in bytes.
        bytes: usize,
    },
    /// A value with characters that control a terminal.
    #[error("the value of '{key}' has control characters in it")]
    Control {
        /// Its key.
        key: String,
    },
    /// Too many labels.
    #[error("a run has at most {MOST_LABELS} labels")]
    TooMany,
}
