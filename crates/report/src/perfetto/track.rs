//! Tracks of our own, as plain data: what a round trip's legs and an explanation's parts are turned
//! into before they are written. Must not know the format.

/// A row of slices.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// What it is called.
    pub name: String,
    /// Where it is shown.
    pub parent: Parent,
    /// In any order. Those that overlap without one lying in the other are shown in rows of their
    /// own.
    pub slices: Vec<Slice>,
}

/// Where a track is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// By itself.
    Top,
    /// With a process, by its id.
    Process(u32),
    /// With a thread.
    Thread {
        /// Its process.
        pid: u32,
        /// Its id.
        tid: u32,
    },
    /// Under another track, by its place in the list.
    Track(usize),
}

/// A span of time with a name. [`Slice::begin_ns`] to [`Slice::end_ns`] are shown to the
/// nanosecond.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slice {
    /// What it is called.
    pub name: String,
    /// CLOCK_BOOTTIME, in nanoseconds.
    pub begin_ns: u64,
    /// The same; not before the begin.
    pub end_ns: u64,
    /// What is shown when it is selected.
    pub annotations: Vec<Annotation>,
    /// Joined by an arrow with the slice that has the same number, in the order of time.
    pub flows: Vec<u64>,
}

/// A fact about a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// What it is about.
    pub name: &'static str,
    /// What it says.
    pub value: Value,
}

/// What an annotation says.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// In words.
    Text(String),
    /// A count, an identifier, a time in nanoseconds.
    Uint(u64),
    /// A number that may be negative.
    Int(i64),
}

impl Annotation {
    /// A fact in words.
    pub fn text(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, value: Value::Text(text.into()) }
    }

    /// A fact in numbers.
    pub fn uint(name: &'static str, number: impl Into<u64>) -> Self {
        Self { name, value: Value::Uint(number.into()) }
    }

    /// A fact in a number that may be negative.
    pub fn int(name: &'static str, number: impl Into<i64>) -> Self {
        Self { name, value: Value::Int(number.into()) }
    }
}
