//! What the tests share.

pub(crate) mod capture;
pub(crate) mod fixture;
pub(crate) mod text;
pub(crate) mod writer;
