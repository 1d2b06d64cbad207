//! Our own tracks as plain data: the legs of round trips and the parts of explanations, before they
//! are written. Must not know the format.

/// A track of slices.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Its name.
    pub name: String,
    /// Where it is shown.
    pub parent: Parent,
    /// In any order. Slices that overlap without being nested are shown in separate rows.
    pub slices: Vec<Slice>,
}

/// Where a track is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// At the top level.
    Top,
    /// Below a process, given by its id.
    Process(u32),
    /// Below a thread.
    Thread {
        /// Its process id.
        pid: u32,
        /// Its thread id.
        tid: u32,
    },
    /// Below another track, given by its index.
    Track(usize),
}

/// A period with a name, from [`Slice::begin_ns`] to [`Slice::end_ns`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slice {
    /// Its name.
    pub name: String,
    /// CLOCK_BOOTTIME, in nanoseconds.
    pub begin_ns: u64,
    /// CLOCK_BOOTTIME, in nanoseconds; not before the start.
    pub end_ns: u64,
    /// What is shown when the slice is selected.
    pub annotations: Vec<Annotation>,
    /// Slices with the same number are connected by an arrow, in chronological order.
    pub flows: Vec<u64>,
}

/// A fact about a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
}

/// The value of an annotation.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A count, an identifier, a time in nanoseconds.
    Uint(u64),
    /// A number that may be negative.
    Int(i64),
}

impl Annotation {
    /// A fact as text.
    pub fn text(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, value: Value::Text(text.into()) }
    }

    /// A fact as a number.
    pub fn uint(name: &'static str, number: impl Into<u64>) -> Self {
        Self { name, value: Value::Uint(number.into()) }
    }

    /// A fact as a number that may be negative.
    pub fn int(name: &'static str, number: impl Into<i64>) -> Self {
        Self { name, value: Value::Int(number.into()) }
    }
}
