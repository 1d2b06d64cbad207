//! A recording as a Perfetto trace: the kernel's events, processes and threads by name, and tracks
//! of our own for round trips and what explains them. Opens at <https://ui.perfetto.dev> and in
//! Perfetto's trace processor. A pure function of plain data; must not know where a recording came
//! from, nor what a track is about.
//!
//! All times are CLOCK_BOOTTIME nanoseconds, Perfetto's own clock for kernel events, so nothing is
//! converted.

mod bundles;
mod ftrace;
mod packets;
mod processes;
mod schema;
mod state;
mod track;
mod tracks;
mod vectors;
mod wire;

#[cfg(test)]
mod processor_tests;

use std::collections::BTreeMap;
use std::io::{self, Write};

use tracefs::Trace;

pub use processes::names as thread_names;
pub use track::{Annotation, Parent, Slice, Track};

use packets::Packets;

/// What a trace file is made of.
#[derive(Clone, Copy)]
pub struct Contents<'a> {
    /// The kernel's side.
    pub trace: &'a Trace,
    /// The recording kernel's release ("6.1.0-44-amd64"), which tells Perfetto how to read a
    /// thread's state; empty when it is not known.
    pub release: &'a str,
    /// Names of threads that the trace itself may not say.
    pub comms: &'a BTreeMap<u32, String>,
    /// Our side, in the order in which it is to be shown.
    pub tracks: &'a [Track],
}

/// Writes a trace file. Memory does not grow with the number of events.
///
/// # Errors
/// The stream's, and [`io::ErrorKind::InvalidInput`] for a slice that ends before it begins.
pub fn write(contents: &Contents<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Contents { trace, release, tracks, .. } = *contents;
    let mut packets = Packets::new(out);
    let begin_ns = begin_ns(trace, tracks);
    processes::clock(&mut packets, begin_ns)?;
    processes::system(&mut packets, begin_ns, release, &trace.machine)?;
    processes::tree(&mut packets, begin_ns, contents)?;
    bundles::write(&mut packets, trace, state::Coding::of(release))?;
    let mut shown = tracks.to_vec();
    shown.extend(vectors::tracks(trace));
    shown.extend(vectors::losses(trace));
    tracks::write(&mut packets, &shown)
}

/// The first instant of anything in the file.
fn begin_ns(trace: &Trace, tracks: &[Track]) -> u64 {
    let slices = tracks.iter().flat_map(|track| &track.slices).map(|slice| slice.begin_ns);
    let event = trace.events.first().map(|event| event.time_ns);
    slices.chain(event).min().unwrap_or(trace.stopped_ns.unwrap_or(0))
}
