//! The kernel's tracing file system: records in private instances, and reads recordings as
//! [`Event`]s and [`Loss`]es.
//!
//! Recording and reading are separate. A recording is a folder of raw ring-buffer pages and the
//! formats that describe them, and any machine can read it. Must not know what a round trip is, nor
//! what an event is used for.
//!
//! Recording needs the feature `live`: `Tracefs` finds or mounts the file system, and `Instance`
//! records the events of a `Selection` in a private instance.
//!
//! # Example
//!
//! Counts context switches, and checks that the recording is complete.
//!
//! ```
//! use std::path::Path;
//!
//! use roundtrip_tracefs::{Body, Recording};
//!
//! let recording = Recording::open(Path::new("../../fixtures/runs/x86_64-6.1-binder/recording"))?;
//! assert!(recording.header().kernel_release.starts_with("6.1"));
//! let trace = recording.read(1)?;
//! let switches = trace.events.iter().filter(|event| matches!(event.body, Body::Switch { .. })).count();
//! assert!(switches > 0);
//! assert!(trace.losses.is_empty());
//! # Ok::<(), roundtrip_tracefs::Error>(())
//! ```

#[cfg(feature = "live")]
mod abandoned;
#[cfg(feature = "live")]
mod buffers;
mod context;
mod cursor;
mod decode;
mod error;
mod event;
mod expression;
mod fields;
mod format;
mod formats;
#[cfg(feature = "live")]
mod global;
#[cfg(feature = "live")]
mod global_settings;
#[cfg(feature = "live")]
mod global_state;
#[cfg(feature = "live")]
mod instance;
#[cfg(feature = "live")]
mod lockdown;
mod merge;
#[cfg(feature = "live")]
mod mount;
mod name;
#[cfg(feature = "live")]
mod namespace;
mod numbers;
mod packed;
mod page;
mod pages;
#[cfg(feature = "live")]
mod readers;
mod recording;
#[cfg(feature = "live")]
mod selection;
mod snapshot;
mod status;
mod stream;
mod threads;
mod trace;
#[cfg(feature = "live")]
mod who;

#[cfg(feature = "live")]
pub use abandoned::{abandoned, remove_abandoned};
pub use context::EventContext;
pub use error::{Error, Result};
pub use event::{Body, Event, OffCpu, TaskState, ThreadRef};
pub use fields::{Others, Value};
pub use format::{Field, Format, Kind, Place};
pub use formats::{Formats, PageLayout};
#[cfg(feature = "live")]
pub use global::{Chosen, GlobalTrace};
#[cfg(feature = "live")]
pub use global_settings::Settings;
#[cfg(feature = "live")]
pub use instance::Instance;
#[cfg(feature = "live")]
pub use lockdown::{forbids_tracing, locked_down};
pub use merge::{CpuPages, CpuReader, Period, read, read_packed, read_packed_in_turn};
#[cfg(feature = "live")]
pub use mount::{PLACES, Tracefs};
pub use name::{Name, Names};
#[cfg(feature = "live")]
pub use namespace::foreign_clock;
pub use numbers::Numbers;
pub use packed::Packed;
pub use recording::{ByteOrder, Header, Recording, SnapshotHeader};
#[cfg(feature = "live")]
pub use selection::Selection;
pub use snapshot::{CpuSnapshot, CpuStats, Snapshot};
pub use status::Status;
pub use stream::Stream;
pub use threads::Threads;
pub use trace::{Loss, Trace};
