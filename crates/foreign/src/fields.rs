//! The fields of an event from any file format. Their names are those in the kernel's format files
//! or in its text.

use roundtrip_tracefs::{EventContext, Name, Names, TaskState};

/// The fields of one event.
pub(crate) trait Fields {
    /// A number.
    fn int(&self, name: &str) -> Option<i64>;
    /// A text.
    fn text(&self, name: &str) -> Option<&str>;
    /// A device number as the kernel encodes it: major << 20 | minor.
    fn device(&self, name: &str) -> Option<u32>;
    /// `prev_state`: what a thread that leaves its CPU does next.
    fn state(&self) -> Option<TaskState>;
    /// What the event's flags say of its context.
    fn context(&self) -> EventContext;
    /// An argument of a system call, counted from 0.
    fn argument(&self, place: usize) -> Option<u64>;
    /// A kernel function, by its name or address.
    fn function(&self, name: &str, names: &mut Names) -> Name {
        self.text(name).map_or(Name(0), |text| names.intern(text))
    }
}
