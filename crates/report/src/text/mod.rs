//! What all reports are built from: tables, numbers with units, styles, CSV and Markdown. Must not
//! know what the text is about.

pub mod csv;
pub mod inert;
pub mod look;
pub(crate) mod markdown;
pub mod quantity;
pub(crate) mod style;
pub mod table;
