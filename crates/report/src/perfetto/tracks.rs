//! Tracks and their slices as Perfetto's track events. If two slices overlap without being nested,
//! the second gets a separate row, because Perfetto would truncate one of them. Must not know what
//! the slices show.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::io;

use roundtrip_perfetto::schema::{
    annotation, annotation_name, event_name, interned, packet, process_descriptor, thread_descriptor,
    track as descriptor, track_event,
};
use roundtrip_perfetto::write::Message;

use super::packets::{Packets, Sequence};
use super::track::{Parent, Slice, Track, Value};

/// `TrackEvent.Type`.
const SLICE_BEGIN: u32 = 1;
const SLICE_END: u32 = 2;

/// `TrackDescriptor.ChildTracksOrdering`: children in the order of their ranks.
const EXPLICIT: u32 = 3;

/// Writes all tracks.
pub(super) fn write(packets: &mut Packets<'_>, tracks: &[Track]) -> io::Result<()> {
    let mut writer = Writer::default();
    let mut owners = BTreeSet::new();
    for (index, track) in tracks.iter().enumerate() {
        match track.parent {
            Parent::Process(pid) if owners.insert(process_uuid(pid)) => process(packets, pid, None)?,
            Parent::Thread { pid, tid } => {
                if owners.insert(process_uuid(pid)) {
                    process(packets, pid, None)?;
                }
                if owners.insert(thread_uuid(tid)) {
                    thread(packets, pid, tid)?;
                }
            }
            Parent::Process(_) | Parent::Top | Parent::Track(_) => {}
        }
        writer.track(packets, index, track)?;
    }
    Ok(())
}

/// The id of a track, unique in the file. Ids of different kinds cannot collide, because a pid has
/// at most 22 bits (`PID_MAX_LIMIT`).
fn uuid(kind: u64, number: u64) -> u64 {
    0x726f_0000_0000_0000 | kind << 40 | number
}

fn process_uuid(pid: u32) -> u64 {
    uuid(1, u64::from(pid))
}

fn thread_uuid(tid: u32) -> u64 {
    uuid(2, u64::from(tid))
}

fn row_uuid(track: usize, row: usize) -> u64 {
    uuid(3 + row as u64, track as u64)
}

/// Declares a process, with its name if known, so that tracks can be shown below it.
pub(super) fn process(packets: &mut Packets<'_>, pid: u32, name: Option<&str>) -> io::Result<()> {
    packets.write(Sequence::Tracks, |message| {
        message.nested(packet::track_descriptor, |track| {
            track.uint(descriptor::uuid, process_uuid(pid)).nested(descriptor::process, |one| {
                one.int(process_descriptor::pid, pid);
                if let Some(name) = name {
                    one.text(process_descriptor::process_name, name);
                }
            });
        });
    })
}

fn thread(packets: &mut Packets<'_>, pid: u32, tid: u32) -> io::Result<()> {
    packets.write(Sequence::Tracks, |message| {
        message.nested(packet::track_descriptor, |track| {
            track
                .uint(descriptor::uuid, thread_uuid(tid))
                .uint(descriptor::parent_uuid, process_uuid(pid))
                .nested(descriptor::thread, |one| {
                    one.int(thread_descriptor::pid, pid).int(thread_descriptor::tid, tid);
                });
        });
    })
}

/// Names that have already been written, with their numbers.
#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    /// A text's number, and whether it is new.
    fn number(&mut self, text: &str) -> (u64, bool) {
        match self.0.get(text) {
            Some(&number) => (number, false),
            None => {
                let number = self.0.len() as u64 + 1;
                self.0.insert(text.to_owned(), number);
                (number, true)
            }
        }
    }
}

#[derive(Default)]
struct Writer {
    events: Names,
    annotations: Names,
}

/// A row of a track: the ends of the open slices, innermost last.
#[derive(Default)]
struct Row {
    open: Vec<u64>,
}

impl Writer {
    fn track(&mut self, packets: &mut Packets<'_>, index: usize, track: &Track) -> io::Result<()> {
        if let Some(slice) = track.slices.iter().find(|slice| slice.end_ns < slice.begin_ns) {
            let problem = format!("slice '{}' of track '{}' ends before it begins", slice.name, track.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let mut slices: Vec<&Slice> = track.slices.iter().collect();
        // Of slices with the same start, outer ones come before inner ones.
        slices.sort_by_key(|slice| (slice.begin_ns, Reverse(slice.end_ns)));
        let mut rows = vec![Row::default()];
        row(packets, index, 0, track)?;
        for slice in slices {
            for (at, row) in rows.iter_mut().enumerate() {
                while row.open.last().is_some_and(|&end_ns| end_ns <= slice.begin_ns) {
                    end(packets, row_uuid(index, at), row.open.pop().unwrap_or_default())?;
                }
            }
            let fits = |row: &Row| row.open.last().is_none_or(|&end_ns| slice.end_ns <= end_ns);
            let at = rows.iter().position(fits).unwrap_or(rows.len());
            if at == rows.len() {
                rows.push(Row::default());
                row(packets, index, at, track)?;
            }
            self.begin(packets, row_uuid(index, at), slice)?;
            rows[at].open.push(slice.end_ns);
        }
        for (at, row) in rows.iter_mut().enumerate() {
            while let Some(end_ns) = row.open.pop() {
                end(packets, row_uuid(index, at), end_ns)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, packets: &mut Packets<'_>, track: u64, slice: &Slice) -> io::Result<()> {
        let (name, new) = self.events.number(&slice.name);
        let annotations: Vec<_> = slice
            .annotations
            .iter()
            .map(|annotation| (self.annotations.number(annotation.name), annotation))
            .collect();
        packets.write(Sequence::Tracks, |message| {
            if new || annotations.iter().any(|((_, new), _)| *new) {
                message.nested(packet::interned_data, |data| {
                    if new {
                        data.nested(interned::event_names, |one| {
                            one.uint(event_name::iid, name).text(event_name::name, &slice.name);
                        });
                    }
                    for ((number, _), annotation) in annotations.iter().filter(|((_, new), _)| *new) {
                        data.nested(interned::debug_annotation_names, |one| {
                            one.uint(annotation_name::iid, *number)
                                .text(annotation_name::name, annotation.name);
                        });
                    }
                });
            }
            message.uint(packet::timestamp, slice.begin_ns).nested(packet::track_event, |event| {
                event
                    .int(track_event::r#type, SLICE_BEGIN)
                    .uint(track_event::track_uuid, track)
                    .uint(track_event::name_iid, name);
                for &flow in &slice.flows {
                    event.fixed64(track_event::flow_ids, flow);
                }
                for ((number, _), annotation) in &annotations {
                    event
                        .nested(track_event::debug_annotations, |one| value(one, *number, &annotation.value));
                }
            });
        })
    }
}

fn value(message: &mut Message, name: u64, value: &Value) {
    message.uint(annotation::name_iid, name);
    match value {
        Value::Text(text) => message.text(annotation::string_value, text),
        Value::Uint(number) => message.uint(annotation::uint_value, *number),
        Value::Int(number) => message.int(annotation::int_value, *number),
    };
}

fn end(packets: &mut Packets<'_>, track: u64, end_ns: u64) -> io::Result<()> {
    packets.write(Sequence::Tracks, |message| {
        message.uint(packet::timestamp, end_ns).nested(packet::track_event, |event| {
            event.int(track_event::r#type, SLICE_END).uint(track_event::track_uuid, track);
        });
    })
}

/// Declares a row of a track. Perfetto shows rows of the same name and parent as one track.
fn row(packets: &mut Packets<'_>, index: usize, row: usize, track: &Track) -> io::Result<()> {
    packets.write(Sequence::Tracks, |message| {
        message.nested(packet::track_descriptor, |one| {
            one.uint(descriptor::uuid, row_uuid(index, row)).text(descriptor::name, &track.name);
            match track.parent {
                Parent::Top => {}
                Parent::Process(pid) => _ = one.uint(descriptor::parent_uuid, process_uuid(pid)),
                Parent::Thread { tid, .. } => _ = one.uint(descriptor::parent_uuid, thread_uuid(tid)),
                Parent::Track(parent) => _ = one.uint(descriptor::parent_uuid, row_uuid(parent, 0)),
            }
            one.int(descriptor::child_ordering, EXPLICIT).int(descriptor::sibling_order_rank, index as i64);
        });
    })
}
