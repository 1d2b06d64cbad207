//! Events that have no decoded form, but some of whose fields are kept, because the analysis of
//! calls and synchronous writes needs them. Their records are read like the kernel's own. Must not
//! know any file format, nor what the fields are used for.

use std::fmt::Write as _;

use roundtrip_tracefs::{Body, Formats, Others, Trace};

use crate::fields::Fields;

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Unsigned,
    Signed,
    /// A device number, encoded as in the kernel: major << 20 | minor.
    Device,
    /// A short text, cut to its size.
    Text,
    /// The path of a control group. It is not cut, because then two groups could be one.
    Path,
}

/// The size of a text with its terminating zero; `rwbs` is the only one.
const TEXT_BYTES: usize = 16;
const PATH_BYTES: usize = 256;
const NUMBER_BYTES: usize = 8;

type Field = (&'static str, Is);

const QUEUED: &[Field] =
    &[("dev", Is::Device), ("sector", Is::Unsigned), ("nr_sector", Is::Unsigned), ("rwbs", Is::Text)];
const FILE: Field = ("ino", Is::Unsigned);
const GROUP: &[Field] = &[("root", Is::Signed), ("path", Is::Path)];
const MOVED: &[Field] = &[("dst_root", Is::Signed), ("dst_path", Is::Path), ("pid", Is::Signed)];
const SUBMITTED: &[Field] = &[("req", Is::Unsigned), ("opcode", Is::Unsigned)];

/// Group, event, and the fields that are kept. A record's id is its index in this list, from 1.
const KEPT: [(&str, &str, &[Field]); 20] = [
    ("block", "block_bio_queue", QUEUED),
    ("block", "block_rq_issue", QUEUED),
    ("block", "block_rq_complete", QUEUED),
    (
        "ext4",
        "ext4_sync_file_enter",
        &[("dev", Is::Device), FILE, ("parent", Is::Unsigned), ("datasync", Is::Signed)],
    ),
    ("ext4", "ext4_sync_file_exit", &[("dev", Is::Device), FILE, ("ret", Is::Signed)]),
    ("f2fs", "f2fs_sync_file_enter", &[("dev", Is::Device), FILE, ("pino", Is::Unsigned)]),
    (
        "f2fs",
        "f2fs_sync_file_exit",
        &[("dev", Is::Device), FILE, ("datasync", Is::Signed), ("ret", Is::Signed)],
    ),
    ("xfs", "xfs_file_fsync", &[("dev", Is::Device), FILE]),
    ("btrfs", "btrfs_sync_file", &[FILE, ("parent", Is::Unsigned), ("datasync", Is::Signed)]),
    ("jbd2", "jbd2_start_commit", &[("dev", Is::Device)]),
    ("jbd2", "jbd2_end_commit", &[("dev", Is::Device)]),
    ("writeback", "balance_dirty_pages", &[("pause", Is::Signed)]),
    ("cgroup", "cgroup_attach_task", MOVED),
    ("cgroup", "cgroup_transfer_tasks", MOVED),
    ("cgroup", "cgroup_freeze", GROUP),
    ("cgroup", "cgroup_unfreeze", GROUP),
    ("cgroup", "cgroup_notify_frozen", &[("root", Is::Signed), ("path", Is::Path), ("val", Is::Signed)]),
    ("io_uring", "io_uring_submit_req", SUBMITTED),
    ("io_uring", "io_uring_file_get", &[("req", Is::Unsigned), ("fd", Is::Signed)]),
    ("io_uring", "io_uring_complete", &[("req", Is::Unsigned), ("res", Is::Signed)]),
];

/// The group of an event that is kept.
pub(crate) fn system(event: &str) -> Option<&'static str> {
    place(event).map(|place| KEPT[place].0)
}

fn place(event: &str) -> Option<usize> {
    // The event's older name.
    let event = if event == "io_uring_submit_sqe" { "io_uring_submit_req" } else { event };
    KEPT.iter().position(|kept| kept.1 == event)
}

/// An empty store for such records.
pub(crate) fn others() -> Others {
    let texts: Vec<String> = (1..).zip(&KEPT).map(|(number, kept)| format(number, kept.2)).collect();
    let events = KEPT.iter().zip(&texts).map(|(kept, text)| (kept.0, kept.1, text.as_str()));
    Others::new(Formats::of_events(events).expect("formats of our own"))
}

/// An event's format file, as the kernel would write it.
fn format(number: u16, fields: &[Field]) -> String {
    let mut text = format!("ID: {number}\nfield:unsigned short common_type; offset:0; size:2; signed:0;\n");
    let mut offset = NUMBER_BYTES;
    for &(name, is) in fields {
        let (kind, array, size) = match is {
            Is::Unsigned => ("u64", "", NUMBER_BYTES),
            Is::Signed => ("s64", "", NUMBER_BYTES),
            Is::Device => ("dev_t", "", NUMBER_BYTES),
            Is::Text => ("char", "[16]", TEXT_BYTES),
            Is::Path => ("char", "[256]", PATH_BYTES),
        };
        let signed = u8::from(is == Is::Signed);
        let _ = writeln!(text, "field:{kind} {name}{array}; offset:{offset}; size:{size}; signed:{signed};");
        offset += size;
    }
    text
}

/// Stores the record of an event, and returns the event's body. `None` if the event is not in the
/// list, if it lacks a field or the field is too long, or if the store is full.
pub(crate) fn body(event: &str, fields: &dyn Fields, trace: &mut Trace) -> Option<Body> {
    let place = place(event)?;
    let (system, name, kept) = KEPT[place];
    let number = u16::try_from(place + 1).ok()?;
    let mut record = Vec::with_capacity(64);
    record.extend(u64::from(number).to_le_bytes());
    for &(name, is) in kept {
        match is {
            Is::Unsigned | Is::Signed => record.extend(fields.int(name)?.to_le_bytes()),
            Is::Device => record.extend(u64::from(fields.device(name)?).to_le_bytes()),
            Is::Path => {
                // Older kernels name only the last part of the path.
                let path = fields.text(name).or_else(|| fields.text("cname"))?.as_bytes();
                let mut bytes = [0; PATH_BYTES];
                bytes.get_mut(..path.len()).filter(|_| path.len() < PATH_BYTES)?.copy_from_slice(path);
                record.extend(bytes);
            }
            Is::Text => {
                let text = fields.text(name)?.as_bytes();
                let mut bytes = [0; TEXT_BYTES];
                let length = text.len().min(TEXT_BYTES - 1);
                bytes[..length].copy_from_slice(&text[..length]);
                record.extend(bytes);
            }
        }
    }
    let (at, length) = trace.others.add(&record)?;
    Some(Body::Other { event: trace.names.intern(&format!("{system}/{name}")), at, length })
}

#[cfg(test)]
mod tests {
    use roundtrip_tracefs::{Event, EventContext, Name, Names, TaskState, Value};

    use super::*;

    /// A queued request, with or without its numbers.
    struct QueuedRequest(bool);

    impl Fields for QueuedRequest {
        fn int(&self, name: &str) -> Option<i64> {
            let value = match name {
                "sector" => -1,
                "nr_sector" => 8,
                _ => return None,
            };
            self.0.then_some(value)
        }

        fn text(&self, name: &str) -> Option<&str> {
            (name == "rwbs").then_some("WSFM and much more than there is room for")
        }

        fn device(&self, name: &str) -> Option<u32> {
            (name == "dev").then_some(8 << 20 | 1)
        }

        fn state(&self) -> Option<TaskState> {
            None
        }

        fn context(&self) -> EventContext {
            EventContext::Unknown
        }

        fn argument(&self, _: usize) -> Option<u64> {
            None
        }

        fn function(&self, _: &str, _: &mut Names) -> Name {
            Name(0)
        }
    }

    #[test]
    fn what_is_kept_is_read_like_a_record_of_the_kernel() {
        let mut trace = Trace { others: others(), ..Trace::default() };
        assert_eq!(body("block_bio_queue", &QueuedRequest(false), &mut trace), None);
        assert_eq!(body("mmc_request_start", &QueuedRequest(true), &mut trace), None);
        let body = body("block_bio_queue", &QueuedRequest(true), &mut trace).unwrap();
        let event = Event { time_ns: 5, cpu: 0, tid: 7, body };
        let number = |name| trace.number(&event, name);
        assert_eq!(
            (number("dev"), number("sector"), number("nr_sector")),
            (Some(8 << 20 | 1), Some(u64::MAX), Some(8))
        );
        let Some(Value::Text(text)) = trace.field(&event, "rwbs") else { panic!("{:?}", trace.others) };
        assert_eq!(text, "WSFM and much m");
        let Body::Other { event: kind, .. } = body else { panic!("{body:?}") };
        assert_eq!(trace.names.text(kind), "block/block_bio_queue");
        assert_eq!((system("io_uring_submit_sqe"), system("sched_switch")), (Some("io_uring"), None));
    }
}
