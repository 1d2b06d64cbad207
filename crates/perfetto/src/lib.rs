//! Perfetto's trace format, for its reader and its writer: [`read`] splits a message into fields,
//! [`write`](mod@write) appends fields to a message, and [`schema`] has the numbers of messages,
//! fields and kernel events. Must not know what an event means.

pub mod read;
pub mod schema;
pub mod write;
