//! Everything needed to read a recording's pages: the events' formats, the layout of pages, and the
//! names of addresses. All of it comes from the recording kernel. No layout is assumed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::error::Error;
use crate::format::{Format, parse_field};

/// The layout of a ring-buffer page (`events/header_page`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// The offset of the page's time, which has 8 bytes.
    pub time_at: usize,
    /// The offset of the commit word: length and flags.
    pub commit_at: usize,
    /// The size of the commit word: the recording kernel's `long`, 4 or 8 bytes.
    pub commit_size: usize,
    /// The offset of the records.
    pub data_at: usize,
    /// The size of a whole page ("sub-buffer"), in bytes.
    pub size: usize,
}

/// The recording kernel's descriptions of events and pages. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Formats(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    page: PageLayout,
    by_id: HashMap<u16, Format>,
    /// Addresses of strings (`printk_formats`) and of the starts of functions (`kallsyms`).
    addresses: BTreeMap<u64, Box<str>>,
    functions: BTreeMap<u64, Box<str>>,
}

impl Default for Inner {
    fn default() -> Self {
        let page = PageLayout { time_at: 0, commit_at: 8, commit_size: 8, data_at: 16, size: 4096 };
        Self { page, by_id: HashMap::new(), addresses: BTreeMap::new(), functions: BTreeMap::new() }
    }
}

impl Inner {
    fn describe<'a>(
        &mut self,
        events: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> Result<(), Error> {
        for (system, name, text) in events {
            let format = Format::parse(system, name, text)?;
            if let Some(other) = self.by_id.get(&format.id) {
                let what = format!("it has the same ID {} as {}/{}", format.id, other.system, other.name);
                return Err(Error::Format { file: format!("events/{system}/{name}/format"), what });
            }
            self.by_id.insert(format.id, format);
        }
        Ok(())
    }
}

impl Formats {
    /// Parses the texts of `events/header_page`, of `events/header_event`, of
    /// `events/SYSTEM/EVENT/format` as (system, event, text), and of `printk_formats` (may be
    /// empty).
    ///
    /// # Errors
    ///
    /// [`Error::Format`] if one is not valid, or two events have the same id.
    pub fn parse<'a>(
        header_page: &str,
        header_event: &str,
        events: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
        printk_formats: &str,
    ) -> Result<Self, Error> {
        check_header_event(header_event)?;
        let mut inner = Inner { page: parse_header_page(header_page)?, ..Inner::default() };
        inner.describe(events)?;
        for line in printk_formats.lines() {
            // 0xffffffff82819000 : "Rescheduling interrupts"
            let Some((address, text)) = line.split_once(" : ") else { continue };
            let Ok(address) = u64::from_str_radix(address.trim().trim_start_matches("0x"), 16) else {
                continue;
            };
            inner.addresses.insert(address, text.trim().trim_matches('"').into());
        }
        Ok(Self(Arc::new(inner)))
    }

    /// Like [`Formats::parse`], but only with the formats of events, for records that are not in
    /// pages.
    ///
    /// # Errors
    ///
    /// As [`Formats::parse`].
    pub fn of_events<'a>(
        events: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> Result<Self, Error> {
        let mut inner = Inner::default();
        inner.describe(events)?;
        Ok(Self(Arc::new(inner)))
    }

    /// Adds the functions of `/proc/kallsyms` (lines `ADDRESS TYPE NAME …`, all or a subset), which
    /// name the addresses in events. Lines with hidden addresses (all zero) are skipped.
    #[must_use]
    pub fn with_kallsyms(self, text: &str) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if let (Ok(address @ 1..), "t" | "T" | "w" | "W") = (u64::from_str_radix(address, 16), kind) {
                inner.functions.entry(address).or_insert_with(|| name.into());
            }
        }
        Self(Arc::new(inner))
    }

    /// An event's format by the id in its records.
    #[must_use]
    pub fn by_id(&self, id: u16) -> Option<&Format> {
        self.0.by_id.get(&id)
    }

    /// An event's format by name.
    #[must_use]
    pub fn event(&self, system: &str, name: &str) -> Option<&Format> {
        self.iter().find(|format| format.system == system && format.name == name)
    }

    /// All formats, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Format> {
        self.0.by_id.values()
    }

    /// The layout of pages.
    #[must_use]
    pub fn page(&self) -> PageLayout {
        self.0.page
    }

    /// The kernel string at an address, or the name of the function that contains it (without an
    /// offset). `None` if the recording does not have it.
    #[must_use]
    pub fn symbol(&self, address: u64) -> Option<&str> {
        /// No function is longer than this. An address further from a function's start belongs to
        /// something that is not listed.
        const LONGEST_FUNCTION: u64 = 1 << 16;
        if let Some(text) = self.0.addresses.get(&address) {
            return Some(text);
        }
        let (begin, name) = self.0.functions.range(..=address).next_back()?;
        (address - begin < LONGEST_FUNCTION).then_some(name)
    }
}

fn parse_header_page(text: &str) -> Result<PageLayout, Error> {
    let wrong = |what: &str| Error::Format { file: "events/header_page".to_owned(), what: what.to_owned() };
    let fields: Vec<_> = text.lines().filter_map(parse_field).collect();
    let find = |name: &str| {
        fields
            .iter()
            .find(|field| field.name == name)
            .ok_or_else(|| wrong(&format!("it has no field `{name}`")))
    };
    let (time, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
    let layout = PageLayout {
        time_at: time.offset,
        commit_at: commit.offset,
        commit_size: commit.size,
        data_at: data.offset,
        size: data.offset + data.size,
    };
    if time.size != 8 || !matches!(commit.size, 4 | 8) {
        return Err(wrong("its time or length has an unknown size"));
    }
    // The longest record without data is a time extend, and length bits above 27 are flags.
    if layout.data_at < layout.time_at + 8
        || layout.data_at < layout.commit_at + layout.commit_size
        || data.size < 8
        || layout.size > 1 << 27
    {
        return Err(wrong("its fields overlap, or leave no room for records"));
    }
    Ok(layout)
}

/// Checks that the record header is the one that kernels have had since Linux 2.6.30. Any other
/// description is rejected rather than misread.
fn check_header_event(text: &str) -> Result<(), Error> {
    let expected = [
        ("type_len", ':', 5),
        ("time_delta", ':', 27),
        ("padding", '=', 29),
        ("time_extend", '=', 30),
        ("time_stamp", '=', 31),
        ("data max type_len", '=', 28),
    ];
    for line in text.lines() {
        for (name, separator, value) in expected {
            let Some(rest) = line.trim_start().strip_prefix(name) else { continue };
            let said = rest
                .rsplit(separator)
                .next()
                .and_then(|said| said.split_whitespace().next())
                .and_then(|said| said.parse::<u32>().ok());
            if said != Some(value) {
                let what = format!("`{}`, but all known kernels have {value}", line.trim());
                return Err(Error::Format { file: "events/header_event".to_owned(), what });
            }
        }
    }
    if !text.contains("type_len") {
        return Err(Error::Format {
            file: "events/header_event".to_owned(),
            what: "it does not describe a record's header".to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
    pub(crate) const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    #[test]
    fn layouts_of_32_and_64_bit_kernels_are_read() {
        let wide = Formats::parse(HEADER_PAGE, HEADER_EVENT, [], "").unwrap().page();
        assert_eq!(wide, PageLayout { time_at: 0, commit_at: 8, commit_size: 8, data_at: 16, size: 4096 });
        let text = HEADER_PAGE
            .replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4")
            .replace("offset:16;\tsize:4080", "offset:12;\tsize:16372");
        let narrow = Formats::parse(&text, HEADER_EVENT, [], "").unwrap().page();
        assert_eq!(narrow, PageLayout { time_at: 0, commit_at: 8, commit_size: 4, data_at: 12, size: 16384 });
    }

    #[test]
    fn unknown_headers_are_refused() {
        let refused = |page: &str, event: &str| Formats::parse(page, event, [], "").unwrap_err().to_string();
        assert!(refused(HEADER_PAGE, &HEADER_EVENT.replace("27 bits", "26 bits")).contains("time_delta"));
        assert!(refused(HEADER_PAGE, "").contains("header_event"));
        assert!(refused("", HEADER_EVENT).contains("no field `timestamp`"));
        assert!(refused(&HEADER_PAGE.replace("size:4080", "size:4"), HEADER_EVENT).contains("no room"));
        assert!(refused(&HEADER_PAGE.replace("offset:16", "offset:8"), HEADER_EVENT).contains("overlap"));
    }

    #[test]
    fn two_events_cannot_have_the_same_id() {
        let error =
            Formats::parse(HEADER_PAGE, HEADER_EVENT, [("a", "b", "ID: 7\n"), ("c", "d", "ID: 7\n")], "")
                .unwrap_err();
        assert_eq!(
            error.to_string(),
            "events/c/d/format: it has the same ID 7 as a/b; is it a copy of the recording kernel's file of that name?"
        );
    }

    #[test]
    fn addresses_are_resolved_to_strings_or_functions() {
        let formats = Formats::parse(
            HEADER_PAGE,
            HEADER_EVENT,
            [],
            "0xffffffff828195af : \"Rescheduling interrupts\"\nnonsense\n",
        )
        .unwrap();
        let formats = formats.with_kallsyms("ffffffff81000000 T vmstat_update\nffffffff81000100 d a_variable\n0000000000000000 T hidden\nffffffff81002000 t wb_workfn\t[ext4]\n");
        assert_eq!(formats.symbol(0xffff_ffff_8281_95af), Some("Rescheduling interrupts"));
        assert_eq!(formats.symbol(0xffff_ffff_8100_0000), Some("vmstat_update"));
        assert_eq!(formats.symbol(0xffff_ffff_8100_2010), Some("wb_workfn"));
        assert_eq!((formats.symbol(0), formats.symbol(0xffff_ffff_9000_0000)), (None, None));
    }
}
