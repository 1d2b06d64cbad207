//! Writes ring-buffer pages as the kernel does, from a list of their contents. It is the opposite
//! of the reader, and is based on the kernel's description of the pages rather than on the reader.

use roundtrip_tracefs::Formats;

/// A machine's page layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The size of `long`: 4 or 8 bytes.
    pub(crate) long: usize,
    /// The size of a page, in bytes.
    pub(crate) page: usize,
}

/// The id of the only event that writers write, and one that no format describes.
pub(crate) const KNOWN: u16 = 300;
pub(crate) const UNKNOWN: u16 = 301;

impl Machine {
    pub(crate) fn formats(self) -> Formats {
        let Self { long, page } = self;
        let data = 8 + long;
        let header_page = format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:{data};\tsize:{};\tsigned:0;\n",
            page - data
        );
        let event = format!(
            "name: thing\nID: {KNOWN}\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:char what[];\toffset:8;\tsize:0;\tsigned:0;\n"
        );
        let header_event = "\ttype_len : 5 bits\n\ttime_delta : 27 bits\n";
        Formats::parse(&header_page, header_event, [("test", "thing", event.as_str())], "").expect("formats")
    }
}

/// An entry in a page.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// An event, `after_ns` after the previous one, with `what` after its id and thread.
    Event { after_ns: u64, id: u16, what: Vec<u8>, clock: Clock },
    /// A discarded event.
    Discarded { after_ns: u64, words: u8 },
}

/// How to write a time that does not fit into 27 bits. Some kernels use long forms for short times,
/// too.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    Shortest,
    Extend,
    Absolute,
}

/// What the reader must return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) time_ns: u64,
    pub(crate) tid: u32,
    pub(crate) record: Vec<u8>,
    pub(crate) page: usize,
}

/// What was lost before a page: nothing, or events, counted or not.
pub(crate) type Lost = Option<Option<u32>>;

/// One CPU's pages.
pub(crate) struct Writer {
    machine: Machine,
    pub(crate) bytes: Vec<u8>,
    pub(crate) expected: Vec<Expected>,
    /// (page, lost)
    pub(crate) losses: Vec<(usize, Option<u64>)>,
    page: Option<Open>,
    now_ns: u64,
    pages: usize,
}

struct Open {
    began_ns: u64,
    data: Vec<u8>,
    lost: Lost,
}

fn word(data: &mut Vec<u8>, word: u32) {
    data.extend(word.to_le_bytes());
}

/// Writes the time as a separate entry, if the clock requires it or the event's header has no room
/// for it. Returns the rest for the header.
fn stamp(data: &mut Vec<u8>, clock: Clock, delta_ns: u64, now_ns: u64) -> u64 {
    let mut long = |kind: u32, time: u64| {
        word(data, kind | ((time & 0x7ff_ffff) as u32) << 5);
        word(data, (time >> 27) as u32);
        0
    };
    match clock {
        Clock::Absolute => long(31, now_ns & ((1 << 59) - 1)),
        Clock::Extend => long(30, delta_ns),
        Clock::Shortest if delta_ns >= 1 << 27 => long(30, delta_ns),
        Clock::Shortest => delta_ns,
    }
}

impl Writer {
    pub(crate) fn new(machine: Machine, start_ns: u64) -> Self {
        Self {
            machine,
            bytes: Vec::new(),
            expected: Vec::new(),
            losses: Vec::new(),
            page: None,
            now_ns: start_ns,
            pages: 0,
        }
    }

    /// Adds an entry. Starts a new page if it does not fit, or if `lost` says that something is
    /// missing before it.
    pub(crate) fn push(&mut self, entry: &Entry, lost: Lost) {
        let (Entry::Event { after_ns, .. } | Entry::Discarded { after_ns, .. }) = entry;
        let previous_ns = self.now_ns;
        self.now_ns += after_ns;
        if lost.is_some() {
            self.finish_page();
        }
        let room = self.machine.page - 8 - self.machine.long;
        // Room for a long time and an event's header.
        let needed = 24
            + match entry {
                Entry::Event { what, .. } => what.len(),
                Entry::Discarded { words, .. } => usize::from(*words) * 4,
            };
        if self.page.as_ref().is_some_and(|page| page.data.len() + needed > room) {
            self.finish_page();
        }
        let fresh = self.page.is_none();
        let page = self.page.get_or_insert_with(|| Open { began_ns: self.now_ns, data: Vec::new(), lost });
        let delta = if fresh { 0 } else { self.now_ns - previous_ns };
        let clock = match entry {
            Entry::Event { clock, .. } => *clock,
            Entry::Discarded { .. } => Clock::Shortest,
        };
        let delta = (stamp(&mut page.data, clock, delta, self.now_ns) as u32) << 5;
        match entry {
            Entry::Event { id, what, .. } => {
                let tid = self.expected.len() as u32;
                let mut record = id.to_le_bytes().to_vec();
                record.extend([0, 0]);
                record.extend(tid.to_le_bytes());
                record.extend(what);
                record.resize(record.len().next_multiple_of(4), 0);
                if record.len() <= 28 * 4 {
                    word(&mut page.data, (record.len() / 4) as u32 | delta);
                } else {
                    word(&mut page.data, delta);
                    word(&mut page.data, record.len() as u32 + 4);
                }
                page.data.extend(&record);
                self.expected.push(Expected { time_ns: self.now_ns, tid, record, page: self.pages });
            }
            Entry::Discarded { words, .. } => {
                // The kernel writes a zero delta as one, because zero would end the page.
                if delta == 0 {
                    self.now_ns += 1;
                }
                word(&mut page.data, 29 | delta.max(1 << 5));
                word(&mut page.data, u32::from(*words) * 4);
                page.data.extend(std::iter::repeat_n(0xee, usize::from(words.saturating_sub(1)) * 4));
            }
        }
    }

    /// Ends the page, whether full or read early.
    pub(crate) fn finish_page(&mut self) {
        let Some(Open { began_ns, mut data, lost }) = self.page.take() else { return };
        let room = self.machine.page - 8 - self.machine.long;
        let mut commit = data.len() as u64;
        if let Some(lost) = lost {
            // If there is no room for the count, the kernel omits it.
            let stored = lost.filter(|_| data.len() + self.machine.long <= room);
            // Added as negative 32-bit numbers, so the upper half of a 64-bit word is all ones.
            commit = commit.wrapping_add(i64::from(i32::MIN).cast_unsigned());
            if let Some(count) = stored {
                commit = commit.wrapping_add(1 << 30);
                data.extend(&u64::from(count).to_le_bytes()[..self.machine.long]);
            }
            self.losses.push((self.pages, stored.map(u64::from)));
        }
        self.bytes.extend(began_ns.to_le_bytes());
        self.bytes.extend(&commit.to_le_bytes()[..self.machine.long]);
        data.resize(room, 0);
        self.bytes.extend(data);
        self.pages += 1;
    }
}
