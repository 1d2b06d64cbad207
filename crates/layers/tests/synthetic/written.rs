//! Synthetic recordings: events with few fields, written as pages in the kernel's format and read
//! back.

use std::collections::BTreeMap;

use roundtrip_tracefs::{CpuPages, Formats, Period, Trace};

/// A field's value, which determines its type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Is {
    Int(u32),
    Long(u64),
    Text(&'static str),
    Bytes(&'static [u8]),
}

use Is::{Bytes, Int, Long, Text};

/// The length of texts and arrays.
const ROOM: usize = 32;
const PAGE: usize = 4096;

impl Is {
    fn format(self) -> (&'static str, &'static str, usize) {
        match self {
            Int(_) => ("unsigned int", "", 4),
            Long(_) => ("u64", "", 8),
            Text(_) => ("char", "[32]", ROOM),
            Bytes(_) => ("u8", "[32]", ROOM),
        }
    }

    fn write(self, into: &mut Vec<u8>) {
        let padded = |bytes: &[u8]| {
            let mut room = [0; ROOM];
            room[..bytes.len()].copy_from_slice(bytes);
            room
        };
        match self {
            Int(value) => into.extend(value.to_le_bytes()),
            Long(value) => into.extend(value.to_le_bytes()),
            Text(text) => into.extend(padded(text.as_bytes())),
            Bytes(bytes) => into.extend(padded(bytes)),
        }
    }
}

/// A recording in progress. All events of one kind have the same fields.
#[derive(Default)]
pub(crate) struct Written {
    formats: BTreeMap<&'static str, (u16, String)>,
    /// By CPU: times and records.
    records: BTreeMap<u32, Vec<(u64, Vec<u8>)>>,
}

impl Written {
    /// Appends an event.
    pub(crate) fn event(
        &mut self,
        time_ns: u64,
        cpu: u32,
        tid: u32,
        name: &'static str,
        fields: &[(&str, Is)],
    ) -> &mut Self {
        let next = self.formats.len() as u16 + 1;
        let (id, _) = self.formats.entry(name).or_insert_with(|| (next, format_file(next, fields)));
        let mut record = id.to_le_bytes().to_vec();
        record.extend([0, 0]);
        record.extend(tid.to_le_bytes());
        fields.iter().for_each(|(_, value)| value.write(&mut record));
        self.records.entry(cpu).or_default().push((time_ns, record));
        self
    }

    /// A bio that a thread queues, or a request's issue or completion: `kind` is the event.
    pub(crate) fn block(
        &mut self,
        time_ns: u64,
        cpu: u32,
        tid: u32,
        kind: &'static str,
        dev: u32,
        (sector, sectors, rwbs): (u64, u32, &'static str),
    ) -> &mut Self {
        let fields =
            [("dev", Int(dev)), ("sector", Long(sector)), ("nr_sector", Int(sectors)), ("rwbs", Text(rwbs))];
        self.event(time_ns, cpu, tid, kind, &fields)
    }

    /// An interrupt that is handled from one instant to another.
    pub(crate) fn interrupt(
        &mut self,
        (from_ns, to_ns): (u64, u64),
        cpu: u32,
        name: &'static str,
    ) -> &mut Self {
        self.event(from_ns, cpu, 0, "irq/irq_handler_entry", &[("irq", Int(9)), ("name", Text(name))]);
        self.event(to_ns, cpu, 0, "irq/irq_handler_exit", &[("irq", Int(9)), ("ret", Int(1))])
    }

    /// Reads the recording.
    pub(crate) fn read(&mut self) -> Trace {
        let field = |kind: &str, name: &str, offset: u32, size: usize| {
            format!("\tfield: {kind} {name};\toffset:{offset};\tsize:{size};\tsigned:0;\n")
        };
        let header = field("u64", "timestamp", 0, 8)
            + &field("local_t", "commit", 8, 8)
            + &field("char", "data", 16, PAGE - 16);
        let header_event = "type_len : 5 bits\ntime_delta : 27 bits\narray : 32 bits\n\npadding : type == 29\n\
                            time_extend : type == 30\ntime_stamp : type == 31\ndata max type_len == 28\n";
        let formats = self.formats.iter().map(|(name, (_, text))| {
            let (system, name) = name.split_once('/').expect("a system and an event");
            (system, name, text.as_str())
        });
        let formats = Formats::parse(&header, header_event, formats, "").expect("formats");
        let pages: Vec<(u32, Vec<u8>)> = self
            .records
            .iter_mut()
            .map(|(cpu, records)| {
                records.sort_by_key(|record| record.0);
                (*cpu, pages(records))
            })
            .collect();
        let cpus: Vec<CpuPages<'_>> =
            pages.iter().map(|(cpu, bytes)| CpuPages { cpu: *cpu, bytes, dropped: 0 }).collect();
        let trace = roundtrip_tracefs::read(&formats, &cpus, Period::default()).expect("a recording");
        assert!(trace.losses.is_empty(), "{:?}", trace.losses);
        trace
    }
}

fn format_file(id: u16, fields: &[(&str, Is)]) -> String {
    let mut text = format!("ID: {id}\nformat:\n");
    let mut line = |kind: &str, name: &str, offset: usize, size: usize| {
        text += &format!("\tfield:{kind} {name};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
    };
    line("unsigned short", "common_type", 0, 2);
    line("int", "common_pid", 4, 4);
    let mut offset = 8;
    for (name, value) in fields {
        let (kind, array, size) = value.format();
        line(kind, &format!("{name}{array}"), offset, size);
        offset += size;
    }
    // The print format defines the bits of a state.
    if fields.iter().any(|(name, _)| *name == "prev_state") {
        text += "\nprint fmt: \"%s%s\", (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, \"|\", \
                 { 0x00000001, \"S\" }, { 0x00000002, \"D\" }) : \"R\", REC->prev_state & 0x100 ? \"+\" : \"\"\n";
    }
    text
}

/// Pages with all records: on each, the time of its first, and each one's time since the previous
/// one.
fn pages(records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut pages = Vec::new();
    let mut rest = records;
    while let Some((first_ns, _)) = rest.first() {
        let mut data = Vec::new();
        let mut last_ns = *first_ns;
        let mut count = 0;
        for (time_ns, record) in rest {
            if data.len() + record.len() + 8 > PAGE - 16 {
                break;
            }
            // The length is in a separate word, and includes it.
            data.extend((((time_ns - last_ns) as u32) << 5).to_le_bytes());
            data.extend((record.len() as u32 + 4).to_le_bytes());
            data.extend(record);
            last_ns = *time_ns;
            count += 1;
        }
        let begin = pages.len();
        pages.extend(first_ns.to_le_bytes());
        pages.extend((data.len() as u64).to_le_bytes());
        pages.extend(data);
        pages.resize(begin + PAGE, 0);
        rest = &rest[count..];
    }
    pages
}
