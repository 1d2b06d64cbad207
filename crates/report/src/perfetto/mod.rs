//! A recording as a Perfetto trace: kernel events, names of processes and threads, and our own
//! tracks for round trips and their explanations. Users can open it at <https://ui.perfetto.dev>
//! and in Perfetto's trace processor. A pure function of plain data. Must not know where a
//! recording comes from, nor what a track shows.
//!
//! All times are CLOCK_BOOTTIME nanoseconds. Perfetto uses the same for kernel events, so no times
//! are converted.

mod bundles;
mod ftrace;
mod packets;
mod processes;
mod state;
mod track;
mod tracks;
mod vectors;

#[cfg(test)]
mod processor_tests;

use std::io::{self, Write};

use roundtrip_tracefs::Trace;

pub use track::{Annotation, Parent, Slice, Track};

use packets::Packets;

/// The contents of a trace file.
#[derive(Clone, Copy)]
pub struct Contents<'a> {
    /// The kernel's events.
    pub trace: &'a Trace,
    /// The recording kernel's release ("6.1.0-44-amd64"); empty if unknown. Perfetto interprets
    /// thread states by it.
    pub release: &'a str,
    /// Our tracks, in the order of display.
    pub tracks: &'a [Track],
}

/// Writes a trace file. Memory use does not depend on the number of events.
///
/// # Errors
/// The errors of `out`, and [`io::ErrorKind::InvalidInput`] for a slice that ends before it starts.
pub fn write(contents: &Contents<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Contents { trace, release, tracks } = *contents;
    let mut packets = Packets::new(out);
    let begin_ns = begin_ns(trace, tracks);
    processes::clock(&mut packets, begin_ns)?;
    processes::system(&mut packets, begin_ns, release, &trace.machine)?;
    processes::tree(&mut packets, begin_ns, trace)?;
    bundles::write(&mut packets, trace, state::Coding::of(release))?;
    let mut shown = tracks.to_vec();
    shown.extend(vectors::tracks(trace));
    shown.extend(vectors::losses(trace));
    tracks::write(&mut packets, &shown)
}

/// The earliest time in the file.
fn begin_ns(trace: &Trace, tracks: &[Track]) -> u64 {
    let slices = tracks.iter().flat_map(|track| &track.slices).map(|slice| slice.begin_ns);
    let event = trace.all().next().map(|event| event.time_ns);
    slices.chain(event).min().unwrap_or(trace.stopped_ns.unwrap_or(0))
}
