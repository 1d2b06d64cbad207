//! How a writer writes: the API, how writes are made durable, and where in the file. Must not know
//! files or processes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::plan_fault::Unknown;

/// The API with which an application writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// System calls without a runtime. This is the baseline.
    Native,
    /// Java's `RandomAccessFile` and a `byte[]`, which the runtime copies.
    JavaFile,
    /// Java's `FileChannel` and a heap buffer, which the runtime copies.
    JavaChannel,
    /// Java's `FileChannel` and a direct buffer, which is not copied.
    JavaChannelDirect,
    /// io_uring with direct I/O (`O_DIRECT`); an interrupt signals the completion.
    Uring,
    /// Like `Uring`, but the writer polls the device for the completion (`IORING_SETUP_IOPOLL`).
    UringPolled,
}

/// How a write is made durable before the application continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// `O_SYNC`, Java's "rws": data and all of the file's metadata.
    Sync,
    /// `O_DSYNC`, Java's "rwd": data, and the metadata needed to read it.
    Dsync,
    /// `write`, then `fsync`.
    Fsync,
    /// `write`, then `fdatasync`.
    Fdatasync,
}

/// Where in the file to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// One write after the other, over a file whose blocks are already allocated.
    Overwrite,
    /// At the end of a file that starts empty.
    Append,
}

impl Api {
    /// All APIs.
    pub const ALL: [Self; 6] = [
        Self::Native,
        Self::JavaFile,
        Self::JavaChannel,
        Self::JavaChannelDirect,
        Self::Uring,
        Self::UringPolled,
    ];

    /// The name in options and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::JavaFile => "java-file",
            Self::JavaChannel => "java-channel",
            Self::JavaChannelDirect => "java-channel-direct",
            Self::Uring => "uring",
            Self::UringPolled => "uring-polled",
        }
    }

    /// Whether it needs a Java virtual machine.
    #[must_use]
    pub fn is_java(self) -> bool {
        matches!(self, Self::JavaFile | Self::JavaChannel | Self::JavaChannelDirect)
    }
}

impl Durability {
    /// All ways to make a write durable.
    pub const ALL: [Self; 4] = [Self::Sync, Self::Dsync, Self::Fsync, Self::Fdatasync];

    /// The name in options and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Dsync => "dsync",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
        }
    }
}

impl Position {
    /// Both positions.
    pub const ALL: [Self; 2] = [Self::Overwrite, Self::Append];

    /// The name in options and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Overwrite => "overwrite",
            Self::Append => "append",
        }
    }
}

/// Parses one of a few names.
fn choose<T: Copy>(
    what: &'static str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
    text: &str,
) -> Result<T, Error> {
    all.iter().copied().find(|&one| name(one) == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|&one| name(one)).collect();
        Unknown::new(what, text, names).into()
    })
}

impl FromStr for Api {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        choose("way to write", &Self::ALL, Self::name, text)
    }
}

impl FromStr for Durability {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        choose("durability", &Self::ALL, Self::name, text)
    }
}

impl FromStr for Position {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        choose("position", &Self::ALL, Self::name, text)
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_stored() {
        for api in Api::ALL {
            assert_eq!(api.to_string().parse::<Api>().unwrap(), api);
            assert_eq!(serde_json::to_value(api).unwrap(), api.name());
        }
        for one in Durability::ALL {
            assert_eq!(one.to_string().parse::<Durability>().unwrap(), one);
            assert_eq!(serde_json::to_value(one).unwrap(), one.name());
        }
        for one in Position::ALL {
            assert_eq!(one.to_string().parse::<Position>().unwrap(), one);
            assert_eq!(serde_json::to_value(one).unwrap(), one.name());
        }
        let error = "rwd".parse::<Durability>().unwrap_err().to_string();
        assert_eq!(error, "unknown durability 'rwd': choose from sync, dsync, fsync, fdatasync");
    }
}
