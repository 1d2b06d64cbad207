//! The kernel's tracing file system: recording in private instances, and turning what was recorded into [`Event`]s with
//! their [`Loss`]es.
//!
//! Recording and reading are apart: a recording is a folder of raw ring-buffer pages with the formats that describe them,
//! and is read on any machine. Must not know what a round trip is, nor what an event is used for.

mod atrace;
mod buffers;
mod cursor;
mod decode;
mod error;
mod event;
mod expression;
mod fields;
mod format;
mod formats;
mod global;
mod global_state;
mod instance;
mod merge;
mod mount;
mod name;
mod namespace;
mod page;
mod recording;
mod selection;
mod trace;

pub use atrace::Category;
pub use buffers::{CpuSnapshot, CpuStats, Snapshot};
pub use error::{Error, Result};
pub use event::{Body, Event, TaskState, ThreadRef};
pub use fields::{Others, Value};
pub use format::{Field, Format, Kind, Place};
pub use formats::{Formats, PageLayout};
pub use global::{GlobalTrace, Status};
pub use instance::{Instance, remove_abandoned};
pub use merge::{CpuPages, Period, read};
pub use mount::{PLACES, Tracefs};
pub use name::{Name, Names};
pub use namespace::foreign_clock;
pub use recording::{ByteOrder, Header, Recording, SnapshotHeader};
pub use selection::Selection;
pub use trace::{Loss, Trace};
