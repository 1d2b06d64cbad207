//! The kernel's tracing file system: recording in private instances, and turning what was recorded into [`Event`]s with
//! their [`Loss`]es.
//!
//! Recording and reading are apart: a recording is a folder of raw ring-buffer pages with the formats that describe them,
//! and is read on any machine. Must not know what a round trip is, nor what an event is used for.

mod cursor;
mod decode;
mod error;
mod event;
mod expression;
mod fields;
mod format;
mod formats;
mod merge;
mod name;
mod page;
mod trace;

pub use error::Error;
pub use event::{Body, Event, TaskState, ThreadRef};
pub use fields::{Others, Value};
pub use format::{Field, Format, Kind, Place};
pub use formats::{Formats, PageLayout};
pub use merge::{CpuPages, Period, read};
pub use name::{Name, Names};
pub use trace::{Loss, Trace};
